"""Anybody's votes: rows of item, worker and value, a table with a column for each worker, or an export of Label Studio."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, cycle
from numbers import Real
from pathlib import Path

import msgspec
import numpy as np

from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import DataError, UsageError, plural, some
from ctxr.metrics.votes import Doubles, Votes, gather

NAMES = {
    "item": ("item", "unit", "task", "item_id", "task_id", "unit_id", "inner_id", "question", "id"),
    "worker": (
        "worker", "annotator", "rater", "coder", "participant", "worker_id", "annotator_id", "participant_id", "participant id",
        "workerid", "completed_by", "user",
    ),
    "value": ("value", "label", "vote", "answer", "rating", "choice", "category", "response", "annotation"),
}  # fmt: skip
"""What columns are called, in order of preference; capitals do not matter."""

# values that are no vote, in lower case; items and workers are missing only where they are blank
MISSING = frozenset(("", "na", "n/a", "nan", "nat", "<na>", "*", "."))
# text that is a number and no code, such as 007
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# the least share of the cells of a wide table whose value is in another column too, unless all are numbers
LEAST_SHARED = 1 / 3

_SHAPES = "rows with item, worker and value, or a column for each worker"

Columns = Mapping[str, Sequence[object]]


class _Result(msgspec.Struct):
    """What an annotator says with one control in Label Studio; a relation of two regions has no `from_name`."""

    type: str = ""
    from_name: str = ""
    value: dict[str, object] = {}


class _Annotation(msgspec.Struct):
    completed_by: dict[str, object] | int | str | None = None
    was_cancelled: bool | None = False
    result: list[_Result] | None = None


class _Task(msgspec.Struct):
    id: int | str
    annotations: list[_Annotation]


@dataclass(frozen=True)
class VoteTable:
    """Votes; notes on what was read otherwise than it may seem, the first on the columns; and how many cells held no vote."""

    votes: Votes
    notes: tuple[str, ...]
    missing: int

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.votes.labels.dtype.kind in "if"


def read_votes(path: Path, names: Mapping[str, str]) -> VoteTable:
    """The votes in a file; `names` of columns, by what they hold (`item`, `worker`, `value`), empty where they are to be found.

    Raises UsageError or DataError for a file that cannot be read, and what `votes_in` raises.
    """
    text, kind, decimal = read_utf8(path, _SHAPES), path.suffix.lower(), "."
    try:
        if not text.strip():
            raise DataError(f"{path} is empty", _SHAPES)
        if kind in (".jsonl", ".ndjson"):
            columns = _of_json([msgspec.json.decode(line) for line in text.split("\n") if line.strip()], names)
        elif kind == ".json":
            columns = _of_json(msgspec.json.decode(text), names)
        else:
            head = re.sub(r'"[^"]*"', "", re.match(r'(?:"[^"]*"|[^"\r\n])*', text.lstrip())[0])  # type: ignore[index]
            delimiter = max(",;\t", key=head.count)
            columns, decimal = _of_csv(text, delimiter), "," if delimiter == ";" else "."
    except (msgspec.MsgspecError, csv.Error, RecursionError, ValueError) as error:
        raise DataError(f"{path} holds no table of votes: {error}", _SHAPES) from error
    return votes_in(columns, names, str(path), decimal)


def votes_in(columns: Columns, names: Mapping[str, str], where: str = "votes", decimal: str = ".") -> VoteTable:
    """The votes in a table, given by columns [N]: one row a vote, or a row for each item and a column for each worker, or the other way
    round where the first column holds workers. `decimal` separates the decimals of numbers in text.

    Raises UsageError for columns that are not there or cannot be told; DataError where there are no votes, or two of one worker on an item.
    """
    if not columns or len({*map(len, columns.values())}) > 1:
        raise DataError(f"{where} {'has columns of different lengths' if columns else 'holds no votes'}", hint=_SHAPES)
    notes = list[str]()
    long = _long(columns, names, where, notes)
    items, workers, given = (_texts(long[part], MISSING if part == "value" else frozenset()) for part in NAMES)
    kept = [*map(all, zip(items, workers, given, strict=True))]
    items, workers, given = ([*compress(column, kept)] for column in (items, workers, given))
    if not given:
        raise DataError(f"{where} holds no votes", hint=_SHAPES)
    numbers = _numbers(given, decimal)
    count = int(np.isfinite(numbers).sum())
    if 0 < count < len(given):
        notes.append(f"{plural(count, 'value')} of {len(given):,} could be read as numbers; all are taken as names")
    if long["column"] and count < len(given):
        columns_with = Counter(value for value, _ in {*zip(given, compress(long["column"], kept), strict=True)})
        if sum(columns_with[value] > 1 for value in given) < LEAST_SHARED * len(given):
            apart = some(dict.fromkeys(map(str, long["column"])), 9)
            hint = "--item, --worker and --value name the columns of rows that hold one vote each"
            raise UsageError(f"{where}: the columns {apart} have hardly a value in common, so they hold no votes", hint)
    try:
        votes = gather(items, workers, numbers if count == len(given) else given)
    except DataError as error:
        pairs, size = [*zip(items, workers, strict=True)], len(next(iter(columns.values())))
        item, worker = twice = Counter(pairs).most_common(1)[0][0]
        numbered = zip(compress(cycle(range(1, size + 1)), kept), pairs, strict=True)
        rows = some(str(row) for row, pair in numbered if pair == twice)
        what = f"worker {worker!r} judged item {item!r} more than once, in data rows {rows}"
        raise DataError(f"{where}: {what} ({notes[0]})", "keep one vote of each worker on an item") from error
    if len(votes.worker_names) < 2:
        what = f"{where} holds the votes of one worker, {votes.worker_names[0]!r}, and agreement takes two"
        raise DataError(what, hint="--worker names the column of workers")
    return VoteTable(votes, (*notes,), len(kept) - len(given))


def _long(columns: Columns, names: Mapping[str, str], where: str, notes: list[str]) -> Columns:
    """The votes of a table in columns `item`, `worker` and `value`, a row a vote, with a note on which ones they were; of a table with
    several workers or items across, `column` is the one that each vote stood in."""
    item, worker, value = taken = [_find(columns, part, names.get(part, ""), where) for part in NAMES]
    rest, first = [name for name in columns if name not in taken and name.strip()], next(iter(columns))
    if any(name and taken.count(name) > 1 for name in taken):
        raise UsageError(f"{where}: one column cannot hold two of item, worker and value", "--item, --worker, --value")
    lacking = "worker" if names.get("value") and not worker else ""
    if worker and value:
        lacking = "" if item else "item"
    elif worker and (item or worker not in (first, names.get("worker"))):
        lacking = "value"
    if lacking:
        raise UsageError(f"{where}: no column holds the {lacking}s", hint=f"--{lacking}, one of {some(rest, 9)}")
    if worker and value:
        also = f"; also there: {some(rest, 9)}" if rest else ""
        notes.append(f"items: {item}; people: {worker}; values: {value}{also}")
        return {"item": columns[item], "worker": columns[worker], "value": columns[value], "column": ()}
    first, kind, each = worker or item or first, "people" if worker else "items", "an item" if worker else "a person"
    wide = [name for name in columns if name != first]
    notes.append(f"{kind}: {first or 'the first column'}; {each} each: {some(wide, 9)}")
    down, across = [*columns[first]] * len(wide), [name for name in wide for _ in columns[first]]
    items, workers = (across, down) if worker else (down, across)
    cells = [cell for name in wide for cell in columns[name]]
    return {"item": items, "worker": workers, "value": cells, "column": across if len(wide) > 1 else ()}


def _find(columns: Columns, part: str, wanted: str, where: str) -> str:
    """The name of the column that holds a part; empty where there is none."""
    if wanted and wanted not in columns:
        raise UsageError(f"{where} has no column {wanted!r}", hint=f"--{part}, one of {some(columns, 9)}")
    known = [name for like in NAMES[part] for name in columns if name.strip().lower() == like]
    if part == "value" and len(known) > 1 and not wanted:
        raise UsageError(f"{where}: several columns may hold the values", hint=f"--value, one of {some(known, 9)}")
    return wanted or next(iter(known), "")


def to_columns(rows: Sequence[Mapping[str, object]]) -> Columns:
    """The columns of rows; cells that a row lacks are None."""
    return {str(name): [row.get(name) for row in rows] for name in dict.fromkeys(chain.from_iterable(rows))}


def _texts(column: Sequence[object], missing: frozenset[str] = frozenset()) -> list[str]:
    """Cells as text, empty where they are missing; several choices are one value."""
    if not {*map(type, column)} <= {str, int}:
        column = [_plain(cell) for cell in column]
    texts = ["" if cell is None else str(cell).strip() for cell in column]
    if missing and (gone := {text for text in {*texts} if text.lower() in missing}):
        texts = ["" if text in gone else text for text in texts]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:  # JSON may hold halves of surrogate pairs, which no file and no terminal takes
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
    return texts


def _plain(cell: object) -> object:
    """A cell as text, number or None."""
    if isinstance(cell, dict):
        cell = cell.get("choices", cell)
    if isinstance(cell, list | tuple | set | frozenset):
        return " + ".join(sorted(map(str, cell)))
    return cell if isinstance(cell, str | Real | None) and not isinstance(cell, bool) else str(cell)


def _numbers(given: Sequence[str], decimal: str) -> Doubles:
    """Text as numbers [N], infinite where it is none, such as 007, or a whole number that a double may not hold, from 2^53 on."""
    if decimal == ",":
        given = [cell if "." in cell else cell.replace(",", ".", 1) for cell in given]
    numbers = np.array([float(cell) if NUMBER.fullmatch(cell) else math.inf for cell in given])
    for row in np.flatnonzero(np.abs(numbers) >= 2**53).tolist():
        numbers[row] = math.inf if given[row].lstrip("+-").isdecimal() else numbers[row]
    return numbers


def _of_csv(text: str, delimiter: str) -> Columns:
    """The columns of a table whose first row names them."""
    if text.lstrip()[0] in "{[":
        raise ValueError("it is JSON; name it .json, or .jsonl with a row on each line")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    heads = next(filter(None, reader))
    while heads and not heads[-1].strip():
        heads.pop()
    if len(heads) < 2:
        raise ValueError("it has one column; cells are separated by commas, semicolons or tabs")
    if twice := [name for name in heads if heads.count(name) > 1]:
        raise ValueError(f"two columns are called {twice[0]!r}")
    cells, wide = list[str](), len(heads)
    for row in reader:
        if len(row) != wide and row and (len(row) < wide or any(row[wide:])):
            raise ValueError(f"line {reader.line_num} has {plural(len(row), 'cell')}, and the first row {wide}")
        cells += row[:wide]
    return {name: cells[place::wide] for place, name in enumerate(heads)}


def _of_json(rows: object, names: Mapping[str, str]) -> Columns:
    """The columns of rows in JSON, or of an export of Label Studio in JSON, each control a column; a lone one is the value."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it holds no list of rows")
    if not rows or "annotations" not in rows[0]:
        return to_columns(rows)
    columns = to_columns([row for task in msgspec.convert(rows, list[_Task]) for row in _labelled(task)])
    if len(columns) < 3:
        raise ValueError("no annotation says anything")
    return columns if names.get("value") or len(columns) > 3 else dict(zip(NAMES, columns.values(), strict=True))


def _labelled(task: _Task) -> Iterator[dict[str, object]]:
    """Item, worker, and what each annotation of a task says, by control."""
    for one in (one for one in task.annotations if not one.was_cancelled):
        who, said = one.completed_by, dict[str, object]()
        for result in one.result or ():
            if result.from_name in said:
                what = f"an annotation of task {task.id} uses {result.from_name!r} twice, as for regions"
                raise ValueError(f"{what}, which are no votes on a task")
            if result.from_name:
                said[result.from_name] = result.value.get(result.type, next(iter(result.value.values()), None))
        worker = (who.get("email") or who.get("id")) if isinstance(who, dict) else who
        yield {"item": task.id, "worker": worker} | said
