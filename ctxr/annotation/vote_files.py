"""Anybody's votes: rows of item, worker and value, a table with a column for each worker, or an export of Label Studio."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec

from ctxr.errors import DataError, UsageError, plural, some
from ctxr.metrics.votes import Votes, gather

NAMES = {
    "item": ("item", "unit", "question", "task", "item_id", "task_id", "unit_id", "inner_id", "id"),
    "worker": (
        "worker", "annotator", "rater", "coder", "participant", "worker_id", "annotator_id", "participant_id", "participant id",
        "workerid", "completed_by", "user",
    ),
    "value": ("value", "label", "vote", "answer", "rating", "choice", "category", "response", "annotation", "sentiment"),
}  # fmt: skip
"""What columns are called, in order of preference; capitals do not matter."""

MISSING = frozenset(("", "na", "n/a", "nan", "nat", "<na>", "null", "none", "*", "."))
"""Cells without a vote, in lower case."""

_SHAPES = "rows with item, worker and value, or a column for each worker"

Rows = Mapping[str, Sequence[object]]


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
    try:
        content = path.read_bytes()
        if path.suffix == ".jsonl":
            columns = _columns([msgspec.json.decode(line) for line in content.splitlines() if line.strip()], names)
        elif path.suffix == ".json":
            columns = _columns(msgspec.json.decode(content), names)
        else:
            columns = _cells(content.decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", _SHAPES) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error.reason} at byte {error.start}", "save it as UTF-8") from error
    except (msgspec.DecodeError, csv.Error, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"{path} holds no table of votes: {error}", _SHAPES) from error
    return votes_in(columns, names, str(path))


def votes_in(columns: Rows, names: Mapping[str, str], where: str = "votes") -> VoteTable:
    """The votes in a table, given by columns [N]: one row a vote, or a row for each item and a column for each worker, or the other way
    round where the first column holds workers.

    Raises UsageError for columns that are not there or cannot be told; DataError where there are no votes, or two of one worker on an item.
    """
    if not columns or len({*map(len, columns.values())}) > 1:
        what = "has columns of different lengths" if columns else "holds no votes"
        raise DataError(f"{where} {what}", hint=_SHAPES)
    found = {part: _find(columns, part, names.get(part, ""), where) for part in NAMES}
    if found["worker"] and found["value"]:
        if not found["item"]:
            raise UsageError(f"{where}: no column holds the items", hint=f"--item, one of {some(columns, 9)}")
        long = [_plain(columns[name]) for name in found.values()]
    elif found["worker"] and found["item"]:
        rest = [name for name in columns if name not in found.values()]
        raise UsageError(f"{where}: no column is called value", hint=f"--value, one of {some(rest, 9)}")
    else:
        long = _unpivoted(columns, found)
    blanks = [{cell for cell in set(column) if _is_missing(cell)} for column in long]
    kept = [True] * len(long[0])
    for column, blank in zip(long, blanks, strict=True):
        if blank:  # few columns have any
            kept = [keep and cell not in blank for keep, cell in zip(kept, column, strict=True)]
    items, workers, given = (list(compress(column, kept)) for column in long)
    if not given:
        raise DataError(f"{where} holds no votes", hint=_SHAPES)
    values, notes = _values(given)
    votes = gather(_as_text(items), _as_text(workers), values)
    if len(votes.worker_names) < 2:
        raise DataError(
            f"{where} holds the votes of one worker, {votes.worker_names[0]!r}, and agreement takes two",
            hint="--worker names the column of workers",
        )
    return VoteTable(votes, notes, len(kept) - len(given))


def _plain(column: Sequence[object]) -> Sequence[object]:
    """A column whose cells are single values: several choices are one."""
    if {*map(type, column)}.isdisjoint((list, tuple, dict)):
        return column
    inner = [cell.get("choices", str(cell)) if isinstance(cell, dict) else cell for cell in column]
    return [" + ".join(map(str, cell)) if isinstance(cell, list | tuple) else cell for cell in inner]


def _is_missing(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or str(cell).strip().lower() in MISSING


def _as_text(column: Sequence[object]) -> list[str]:
    text = {cell: str(cell).strip() for cell in set(column)}
    return [text[cell] for cell in column]


def _values(given: Sequence[object]) -> tuple[Sequence[object], tuple[str, ...]]:
    """Values as numbers where all are, else as words, with a note where only some are."""
    numbers = dict[object, float]()
    for cell in set(given):
        with suppress(ValueError, TypeError):
            if math.isfinite(number := float(cell)):  # type: ignore[arg-type]
                numbers[cell] = number
    count = sum(cell in numbers for cell in given)
    if count == len(given):
        return [numbers[cell] for cell in given], ()
    note = f"{plural(count, 'value')} of {len(given):,} could be read as numbers; all are taken as names"
    return _as_text(given), (note,) if count else ()


def _find(columns: Rows, part: str, wanted: str, where: str) -> str:
    """The name of the column that holds a part; empty where there is none."""
    if wanted:
        if wanted not in columns:
            raise UsageError(f"{where} has no column {wanted!r}", hint=f"--{part}, one of {some(columns, 9)}")
        return wanted
    lower = {name.strip().lower(): name for name in reversed([*columns])}
    return next((lower[name] for name in NAMES[part] if name in lower), "")


def _unpivoted(columns: Rows, found: Mapping[str, str]) -> list[Sequence[object]]:
    """Items, workers and values of a wide table."""
    first, by_worker = found["worker"] or found["item"] or next(iter(columns)), bool(found["worker"])
    across = [name for name in columns if name != first]
    down = list(columns[first])
    names = [list(down) * len(across), [name for name in across for _ in down]]
    values = [cell for name in across for cell in _plain(columns[name])]
    return [*(reversed(names) if by_worker else names), values]


def _cells(text: str) -> dict[str, list[object]]:
    """The columns of a table whose cells are separated by commas, semicolons or tabs."""
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    heads, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = [row for row in rows if row]
    if odd := next((number for number, row in enumerate(rows, 2) if len(row) != len(heads)), 0):
        raise ValueError(f"row {odd} has {len(rows[odd - 2])} cells, and the first row {len(heads)}")
    if len({*heads}) < len(heads):
        raise ValueError("two columns have one name")
    return {name: [row[place] for row in rows] for place, name in enumerate(heads)}


def _columns(rows: list[dict[str, Any]], names: Mapping[str, str]) -> dict[str, list[object]]:
    """The columns of rows in JSON, or of an export of Label Studio in JSON."""
    if rows and "annotations" in rows[0]:
        rows = [vote for task in rows for vote in _labelled(task)]
        controls = {name for row in rows for name in row if name not in ("item", "worker")}
        if len(controls) == 1:
            rows = [{"value" if name in controls else name: cell for name, cell in row.items()} for row in rows]
    heads = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in heads}


def _labelled(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What each annotation of a task in Label Studio says, by control."""
    votes = []
    for one in task["annotations"]:
        if one.get("was_cancelled"):
            continue
        who = one.get("completed_by")
        vote = {"item": task["id"], "worker": who.get("email", who.get("id")) if isinstance(who, dict) else who}
        for result in one["result"]:
            said = result["value"].get(result["type"], next(iter(result["value"].values()), None))
            vote[result["from_name"]] = said
        votes.append(vote)
    return votes
