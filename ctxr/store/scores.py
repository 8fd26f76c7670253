"""Files of scores of any model: a line for each query and candidate, in any order.

A line is `{"query": …, "candidate": …, "value": …}`, higher is better; `"scorer"` may name one of several models of a file. A
`.csv` has these columns. Errors name the line.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from ctxr.errors import DataError
from ctxr.store.records import Score
from ctxr.store.tables import UNREADABLE, fault, numbered_lines, write_table

T = TypeVar("T")


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    candidate: str
    value: float
    scorer: str = ""


_HINT = 'a line is {"query": …, "candidate": …, "value": 0.5}, and may name its "scorer"; a CSV has these columns'


@dataclass
class ScoresFile:
    """The scores of one scorer in one file.

    Attributes:
        values: by query, by candidate. lines: the first line of each query, from 1.
    """

    path: Path
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def locate(self, query: str, candidate: str | None = None) -> str:
        """`file:line` of a query's first row, or of its row for a candidate; reads the file."""
        if candidate is not None:
            for number, line in typed_lines(self.path, _Line, _HINT):
                if line.query == query and line.candidate == candidate:
                    return f"{self.path}:{number}"
        return f"{self.path}:{self.lines[query]}" if query in self.lines else str(self.path)


def read_scores(path: Path) -> dict[str, ScoresFile]:
    """The scores of a file by scorer, "" where none is named, in the order of their first lines.

    Raises DataError naming file:line for an invalid row, a value that is not a number, and a row that occurs twice.
    """
    files: dict[str, ScoresFile] = {}
    for number, line in typed_lines(path, _Line, _HINT):
        file = files.setdefault(line.scorer, ScoresFile(path))
        values = file.values.setdefault(line.query, {})
        file.lines.setdefault(line.query, number)
        if line.candidate in values:
            first = file.locate(line.query, line.candidate).rpartition(":")[2]
            pair = f"query {line.query!r} and candidate {line.candidate!r}"
            raise DataError(f"{path}:{number}: {pair} stand in line {first} already", hint="keep one of the two lines")
        values[line.candidate] = line.value
    if not files:
        raise DataError(f"{path} holds no score", hint='write a line {"query": …, "candidate": …, "value": …} for each')
    return files


def write_scores(path: Path, scores: Iterable[Score]) -> int:
    """Write scores as a table; returns how many. Raises DataError for one that is not a number, and as `write_table` does."""
    rows = list(scores)
    for row in rows:
        if not math.isfinite(row.value):
            raise DataError(f"{row.scorer!r} gives {row.candidate!r} of query {row.query!r} the score {row.value}")
    return write_table(path, rows)


class _Value(msgspec.Struct):
    id: str
    value: float


def read_values(path: Path) -> dict[str, float]:
    """The highest value of each id in a file of detections, JSON Lines or a CSV with `id` and `value`; other columns are passed over.

    Raises DataError naming file:line.
    """
    hint = 'a line is {"id": …, "value": 0.5}, the id that of an image or a set; a CSV has these columns'
    values: dict[str, float] = {}
    for _, line in typed_lines(path, _Value, hint):
        values[line.id] = max(line.value, values.get(line.id, line.value))
    return values


def typed_lines(path: Path, kind: type[T], hint: str) -> Iterator[tuple[int, T]]:
    """Rows of JSON Lines or CSV, with lines. Raises DataError naming file:line for any other row or value."""
    table = path.suffix.lower() == ".csv"
    decode = msgspec.json.Decoder(kind, strict=not table).decode
    head = ",".join(one.name for one in msgspec.structs.fields(kind) if one.required)  # type: ignore[arg-type]
    hint = f"a CSV has the line {head} first, and these cells in every other line" if table else hint
    try:
        for number, text in _csv_rows(path, head) if table else numbered_lines(path):
            try:
                line = decode(text)
                if not math.isfinite(value := getattr(line, "value", 0.0)):
                    raise msgspec.ValidationError(f"{value} is not a finite number")
                yield number, line
            except UNREADABLE as error:
                raise DataError(f"{path}:{number}: {fault(error, kind)}", hint=hint) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", hint=hint) from error


def _csv_rows(path: Path, head: str) -> Iterator[tuple[int, str]]:
    """Rows of a CSV as JSON, with their lines; cells that are not there are left out. Raises DataError without any of `head`."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.DictReader(stream, restkey="a cell without a column")
        try:
            if rows.fieldnames and not {*head.split(",")} & {*rows.fieldnames}:
                raise DataError(f"{path}:1: the first line must be {head}", hint=f"put {head} above the first row")
            for row in rows:
                yield rows.line_num, json.dumps({name: cell for name, cell in row.items() if cell is not None})
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}:{rows.line_num + 1}: {error}", hint="save it as CSV in UTF-8") from error
