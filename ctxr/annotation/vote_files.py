"""Anybody's votes: rows of item, worker and value, a table with a column for each worker, or an export of Label Studio."""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from numbers import Real
from pathlib import Path
from typing import Any

import msgspec

from ctxr.errors import DataError, UsageError, plural, some
from ctxr.metrics.votes import Votes, gather

NAMES = {
    "item": ("item", "unit", "task", "item_id", "task_id", "unit_id", "inner_id", "question", "id"),
    "worker": (
        "worker", "annotator", "rater", "coder", "participant", "worker_id", "annotator_id", "participant_id", "participant id",
        "workerid", "completed_by", "user",
    ),
    "value": ("value", "label", "vote", "answer", "rating", "choice", "category", "response", "annotation"),
}  # fmt: skip
"""What columns are called, in order of preference; capitals do not matter."""

MISSING = frozenset(("", "na", "n/a", "nan", "nat", "<na>", "*", "."))
"""Values that are no vote, in lower case; items and workers are missing only where they are blank."""

NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""Text that is a number and no code, such as 007."""

_SHAPES = "rows with item, worker and value, or a column for each worker"

Rows = Mapping[str, Sequence[object]]


class _Result(msgspec.Struct):
    """What an annotator says with one control in Label Studio; a relation of two regions has no `from_name`."""

    type: str = ""
    from_name: str = ""
    value: dict[str, Any] = {}


class _Annotation(msgspec.Struct):
    completed_by: dict[str, Any] | int | str | None = None
    was_cancelled: bool | None = False
    result: list[_Result] | None = None


class _Task(msgspec.Struct):
    id: int | str
    annotations: list[_Annotation]


@dataclass(frozen=True)
class VoteTable:
    """Votes, and sentences on what was read otherwise than it may seem; `missing` cells held no vote."""

    votes: Votes
    notes: tuple[str, ...]
    missing: int

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.votes.labels.dtype.kind in "if"


def read_votes(path: Path, names: Mapping[str, str]) -> VoteTable:
    """The votes in a file; `names` of columns, by what they hold (`item`, `worker`, `value`), empty where they are to be found.

    Raises DataError for a file that cannot be read, and what `votes_in` raises.
    """
    kind, decimal = path.suffix.lower(), "."
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if not text.strip():
            raise DataError(f"{path} is empty", _SHAPES)
        if kind in (".jsonl", ".ndjson"):
            columns = _columns([msgspec.json.decode(line) for line in text.split("\n") if line.strip()], names)
        elif kind == ".json":
            columns = _columns(msgspec.json.decode(text), names)
        else:
            columns, decimal = _cells(text)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", _SHAPES) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error.reason} at byte {error.start}", "save it as UTF-8") from error
    except (msgspec.MsgspecError, csv.Error, RecursionError, ValueError) as error:
        raise DataError(f"{path} holds no table of votes: {error}", _SHAPES) from error
    return votes_in(columns, names, str(path), decimal)


def votes_in(columns: Rows, names: Mapping[str, str], where: str = "votes", decimal: str = ".") -> VoteTable:
    """The votes in a table, given by columns [N]: one row a vote, or a row for each item and a column for each worker, or the other way
    round where the first column holds workers. `decimal` separates the decimals of numbers in text.

    Raises UsageError for columns that are not there or cannot be told; DataError where there are no votes, or two of one worker on an item.
    """
    if not columns or len({*map(len, columns.values())}) > 1:
        what = "has columns of different lengths" if columns else "holds no votes"
        raise DataError(f"{where} {what}", hint=_SHAPES)
    long, said = _long(columns, names, where)
    kept = [True] * len(long[0])
    for column, words in zip(long, ({""}, {""}, MISSING), strict=True):
        if blank := {cell for cell in set(column) if cell is None or str(cell).strip().lower() in words}:
            kept = [keep and cell not in blank for keep, cell in zip(kept, column, strict=True)]
    items, workers, given = (list(compress(column, kept)) for column in long)
    if not given:
        raise DataError(f"{where} holds no votes", hint=_SHAPES)
    values, notes = _values(given, decimal)
    try:
        votes = gather(_as_text(items), _as_text(workers), values)
    except DataError as error:
        raise DataError(f"{where}: {str(error).partition(': ')[2]}", error.hint) from error
    if len(votes.worker_names) < 2:
        raise DataError(
            f"{where} holds the votes of one worker, {votes.worker_names[0]!r}, and agreement takes two",
            hint="--worker names the column of workers",
        )
    return VoteTable(votes, (said, *notes), len(kept) - len(given))


def _long(columns: Rows, names: Mapping[str, str], where: str) -> tuple[list[Sequence[object]], str]:
    """Items, workers and values, a row a vote, and which columns they are."""
    found = {part: _find(columns, part, names.get(part, ""), where) for part in NAMES}
    taken = [name for name in found.values() if name]
    rest = [name for name in columns if name not in taken and name.strip()]
    first = next(iter(columns))
    if len({*taken}) < len(taken):
        raise UsageError(
            f"{where}: one column cannot hold two of item, worker and value", hint="--item, --worker, --value"
        )
    if names.get("value") and not found["worker"]:
        raise UsageError(f"{where}: no column holds the workers", hint=f"--worker, one of {some(rest, 9)}")
    if found["worker"] and found["value"]:
        if not found["item"]:
            raise UsageError(f"{where}: no column holds the items", hint=f"--item, one of {some(rest, 9)}")
        long = [columns[name] for name in found.values()]
        said = "items: {item}; people: {worker}; values: {value}".format(**found)
        said += f"; also there: {some(rest, 9)}" if rest else ""
    elif found["worker"] and (found["item"] or found["worker"] not in (first, names.get("worker"))):
        raise UsageError(f"{where}: no column holds the values", hint=f"--value, one of {some(rest, 9)}")
    else:
        kind, each = ("people", "an item") if found["worker"] else ("items", "a person")
        first = found["worker"] or found["item"] or first
        across = [name for name in columns if name != first]
        down = list(columns[first]) * len(across)
        spread = [name for name in across for _ in columns[first]]
        long = [spread, down] if found["worker"] else [down, spread]
        long.append([cell for name in across for cell in columns[name]])
        said = f"{kind}: {first or 'the first column'}; {each} each: {some(across, 9)}"
    return [_plain(column) for column in long], said


def from_rows(rows: Sequence[Mapping[Any, Any]]) -> dict[str, list[object]]:
    """The columns of rows; names that a row lacks are None."""
    return {str(name): [row.get(name) for row in rows] for name in dict.fromkeys(key for row in rows for key in row)}


def _plain(column: Sequence[object]) -> Sequence[object]:
    """A column of strings, numbers and None: several choices are one value."""
    return column if {*map(type, column)} <= {str, int} else [_cell(cell) for cell in column]


def _cell(cell: object) -> object:
    if isinstance(cell, dict):
        cell = cell.get("choices", cell)
    if isinstance(cell, list | tuple | set | frozenset):
        return " + ".join(sorted(map(str, cell)))
    if type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, Real) and math.isnan(cell)):
        return None
    return cell if isinstance(cell, str | Real | None) and not isinstance(cell, bool) else str(cell)


def _as_text(column: Sequence[object]) -> list[str]:
    # JSON may hold halves of surrogate pairs, which no file and no terminal takes
    text = {cell: str(cell).strip().encode("utf-8", "replace").decode() for cell in set(column)}
    return [text[cell] for cell in column]


def _values(given: Sequence[object], decimal: str) -> tuple[Sequence[object], tuple[str, ...]]:
    """Values as numbers where all are, else as words, with a note where only some are."""
    numbers = {cell: _number(cell, decimal) for cell in set(given)}
    read = [numbers[cell] for cell in given]
    count = len(read) - read.count(None)
    if count == len(given):
        return read, ()
    note = f"{plural(count, 'value')} of {len(given):,} could be read as numbers; all are taken as names"
    return _as_text(given), (note,) if count else ()


def _number(cell: object, decimal: str) -> float | None:
    """A cell as a number; None for a code that only looks like one, such as 007, or that a number does not hold exactly."""
    text = str(cell).strip()
    if decimal == "," and isinstance(cell, str) and "." not in text:
        text = text.replace(",", ".", 1)
    number = float(text) if NUMBER.fullmatch(text) else math.inf
    exact = abs(number) < 2**53 or not text.lstrip("+-").isdecimal()
    return number if math.isfinite(number) and exact else None


def _find(columns: Rows, part: str, wanted: str, where: str) -> str:
    """The name of the column that holds a part; empty where there is none."""
    if wanted:
        if wanted not in columns:
            raise UsageError(f"{where} has no column {wanted!r}", hint=f"--{part}, one of {some(columns, 9)}")
        return wanted
    lower = {name: name.strip().lower() for name in columns}
    known = sorted(
        (name for name in columns if lower[name] in NAMES[part]), key=lambda name: NAMES[part].index(lower[name])
    )
    if part == "value" and len(known) > 1:
        raise UsageError(f"{where}: several columns may hold the values", hint=f"--value, one of {some(known, 9)}")
    return known[0] if known else ""


def _cells(text: str) -> tuple[dict[str, list[object]], str]:
    """The columns of a table whose cells are separated by commas, semicolons or tabs, and what separates decimals."""
    if text.lstrip()[0] in "{[":
        raise ValueError("it is JSON; name it .json, or .jsonl with a row on each line")

    head = re.match(r'(?:"[^"]*"|[^"\r\n])*', text.lstrip())
    delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", head[0] if head else "").count)
    rows, reader = list[list[str]](), csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    heads = next(filter(None, reader))
    while heads and not heads[-1].strip():
        heads.pop()
    if len(heads) < 2:
        raise ValueError("it has one column; cells are separated by commas, semicolons or tabs")
    if twice := [name for name in heads if heads.count(name) > 1]:
        raise ValueError(f"two columns are called {twice[0]!r}")
    for row in filter(None, reader):
        if len(row) != len(heads) and (len(row) < len(heads) or any(row[len(heads) :])):
            raise ValueError(f"line {reader.line_num} has {plural(len(row), 'cell')}, and the first row {len(heads)}")
        rows.append(row)
    return {name: [row[place] for row in rows] for place, name in enumerate(heads)}, "," if delimiter == ";" else "."


def _columns(rows: Any, names: Mapping[str, str]) -> dict[str, list[object]]:
    """The columns of rows in JSON, or of an export of Label Studio in JSON."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it holds no list of rows")
    if not rows or "annotations" not in rows[0]:
        return from_rows(rows)
    votes = [vote for task in msgspec.convert(rows, list[_Task]) for vote in _labelled(task)]
    controls = sorted({name for *_, said in votes for name in said})
    if not controls:
        raise ValueError("no annotation says anything")
    if len(controls) > 1 and not names.get("value"):
        raise UsageError("annotations have several controls", hint=f"--value, one of {some(controls, 9)}")
    value = names.get("value") or controls[0]
    if value not in controls:
        raise UsageError(f"annotations have no control {value!r}", hint=f"--value, one of {some(controls, 9)}")
    columns = zip(*((item, worker, said.get(value)) for item, worker, said in votes), strict=True)
    return dict(zip(("item", "worker", names.get("value") or "value"), map(list, columns), strict=True))


def _labelled(task: _Task) -> Iterator[tuple[object, object, dict[str, object]]]:
    """Item, worker, and what each annotation of a task says, by control."""
    for one in task.annotations:
        if one.was_cancelled:
            continue
        who, said = one.completed_by, dict[str, object]()
        for result in one.result or ():
            if result.from_name in said:
                raise ValueError(
                    f"an annotation of task {task.id} uses {result.from_name!r} twice, as for regions, which are no votes on a task"
                )
            if result.from_name:
                said[result.from_name] = result.value.get(result.type, next(iter(result.value.values()), None))
        yield task.id, (who.get("email") or who.get("id")) if isinstance(who, dict) else who, said
