"""Rows of a published table or of JSON Lines, whatever state they are in.

Tables are read line by line: a quote that is never closed costs its own row, not the rest of the file.
"""

import csv
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.data.readers.entailment.oddities import Code, Oddity
from ctxr.errors import DataError, UsageError

MOST_LINES = 40
"""Lines that one quoted record may span before its quote counts as never closed."""

_MARKS = ("\ufeff", "\u00ef\u00bb\u00bf")
"""The byte order mark, and what it becomes when a file is saved twice."""


@dataclass(frozen=True)
class Row:
    """A record: its line, from 1, and its cells by column."""

    line: int
    cells: dict[str, str]


class Rows:
    """The records of a file; iterate once.

    Attributes:
        columns: the names in the header; of JSON Lines, those of the first record.
        oddities: grows while rows are read. read: records so far, those left out included.
    """

    def __init__(self, path: Path, headless: tuple[str, ...] = ()) -> None:
        """Open a file and read its header; `headless` names the columns where the first line is a record already.

        Raises UsageError where it cannot be opened, DataError for UTF-16 and for an empty file.
        """
        self.path = path
        self.oddities: list[Oddity] = []
        self.read = 0
        self._lines = numbered(path, self.oddities)
        self._ahead: deque[tuple[int, str]] = deque()
        first = self._next()
        if first is None:
            raise DataError(f"{path} is empty", hint="fetch it again")
        header = self._without_mark(first[1])
        self._json = header.lstrip().startswith("{")
        self._delimiter = "\t" if "\t" in header else ","
        if self._json:
            self.columns = tuple(json_object(header) or ())
            self._ahead.append((first[0], header))
        else:
            self.columns = _names(header, self._delimiter, path)
            cells = header.split("\t")
            if headless and len(cells) >= len(headless) and not set(headless) & set(self.columns):
                self.columns = headless
                self._ahead.append((first[0], header))
        # Quora's questions are quoted where they hold tabs or line ends; in the other tab-separated files a quote is a letter
        self._quoted = self._delimiter == "," or "question1" in self.columns
        self._headless = bool(headless) and self.columns == headless

    def __iter__(self) -> Iterator[Row]:
        while (found := self._next()) is not None:
            line, text = found
            if not text.strip():
                continue
            self.read += 1
            cells = self._json_cells(line, text) if self._json else self._table_cells(line, text)
            if cells is not None:
                yield Row(line, cells)

    def note(self, line: int, code: Code, what: str, kept: bool = False) -> None:
        """Remember an oddity of a line."""
        self.oddities.append(Oddity(f"{self.path}:{line}", code, what, kept))

    def _next(self) -> tuple[int, str] | None:
        return self._ahead.popleft() if self._ahead else next(self._lines, None)

    def _without_mark(self, header: str) -> str:
        for mark in _MARKS:
            if header.startswith(mark):
                twice = " that was saved twice" if mark == _MARKS[1] else ""
                self.note(1, "byte_order_mark", f"the header begins with a byte order mark{twice}", kept=True)
                return header.removeprefix(mark)
        return header

    def _json_cells(self, line: int, text: str) -> dict[str, str] | None:
        value = json_object(text)
        if value is None:
            self.note(line, "not_json", "the line is no JSON object")
            return None
        return {name: _as_text(cell) for name, cell in value.items()}

    def _table_cells(self, line: int, text: str) -> dict[str, str] | None:
        quoted = self._quoted and '"' in text
        cells = self._fitting(self._quoted_cells(line, text) if quoted else text.split(self._delimiter))
        if cells is None:
            width = len(text.split(self._delimiter))
            self.note(line, "columns", f"{width} columns where the header names {len(self.columns)}")
            return None
        return dict(zip(self.columns, cells, strict=True))

    def _quoted_cells(self, line: int, text: str) -> list[str]:
        """Cells of a record that may span several lines; its first line alone, taken literally, if its quotes are astray."""
        parts, taken = [text], []
        literal = text.split(self._delimiter)
        while True:
            try:
                cells = next(csv.reader([f"{part}\n" for part in parts], delimiter=self._delimiter, strict=True))
            except csv.Error as error:
                # a tab-separated line that is whole as it stands needs no other to close its quote
                astray = "end of data" not in str(error) or (
                    self._delimiter == "\t" and self._fitting(literal) is not None
                )
                more = None if astray or len(parts) >= MOST_LINES else self._next()
                if more is None:
                    break
                taken.append(more)
                parts.append(more[1])
                continue
            if self._fitting(cells) is not None:
                cells[-1] = cells[-1].removesuffix("\n")
                return cells
            break
        self._ahead.extendleft(reversed(taken))
        if self._fitting(literal) is not None:
            self.note(line, "quotes", "a quote is not closed, and is taken as a letter", kept=True)
        return literal

    def _fitting(self, cells: list[str]) -> list[str] | None:
        """The cells if there is one for each column; empty ones too many do not count."""
        width = len(self.columns)
        if len(cells) < width:
            return None
        return cells[:width] if self._headless or not any(cells[width:]) else None


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object in a line; None if it holds none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _as_text(cell: object) -> str:
    return cell if isinstance(cell, str) else "" if cell is None else json.dumps(cell)


def numbered(path: Path, oddities: list[Oddity]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that is not UTF-8 is taken as Windows-1252, and noted."""
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise DataError(f"{path}:1 is not UTF-8 text but UTF-16", hint=f"save {path.name} as UTF-8")
                line = raw.rstrip(b"\r\n")
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    odd = f"byte 0x{line[error.start]:02x} is not UTF-8, and the line is taken as Windows-1252"
                    oddities.append(Oddity(f"{path}:{number}", "encoding", odd, kept=True))
                    text = _windows(line)
                yield number, text
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="name a file that is there") from error


def _windows(line: bytes) -> str:
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _names(header: str, delimiter: str, path: Path) -> tuple[str, ...]:
    """The names of the columns. Raises DataError for a first line that no program wrote as one."""
    try:
        # a return within the line would end the header
        cells = next(csv.reader([header.replace("\r", " ")], delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"{path}:1: no header can be read: {error}", hint="fetch it again") from error
    return tuple(name.strip() for name in cells)
