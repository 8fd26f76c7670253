"""Tables of records as JSON Lines: strict to read, canonical to write.

Two equal tables are byte-equal: rows sorted by key, fields in their declared order, shortest float notation, one final
newline. An error names file:line and, where the line can be parsed that far, the row's key.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ctxr.errors import DataError
from ctxr.store.atomic import write_bytes
from ctxr.store.records import Record

R = TypeVar("R", bound=Record)

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for what is no JSON of its type; the last where JSON is nested thousands of levels deep."""


def encode_other(value: object) -> object:
    """JSON form of the types JSON has not: an exact time becomes "numerator/denominator"."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode_other(kind: type, value: object) -> object:
    """Inverse of `encode_other`."""
    if kind is Fraction and isinstance(value, str):
        try:
            if "e" in value.lower():
                raise ValueError(value)  # "1e999999999" would keep the machine busy for hours
            return Fraction(value)
        except (ValueError, ZeroDivisionError) as error:
            raise ValueError(f"{value!r} is not a fraction of seconds such as 1001/30000") from error
    raise ValueError(f"expected {kind.__name__}, got {value!r}")


_ENCODER = msgspec.json.Encoder(enc_hook=encode_other)


def pretty_json(value: Any) -> bytes:
    """A value as indented JSON that ends with a line break."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=encode_other), indent=1) + b"\n"


def encode_row(row: object) -> bytes:
    """One record as one JSON line, newline included."""
    return _ENCODER.encode(row) + b"\n"


def write_table(path: Path, rows: Iterable[R]) -> int:
    """Write rows sorted by key, atomically; returns how many. Raises DataError when two rows share a key."""
    ordered = sorted(rows, key=lambda row: row.key())
    for before, after in pairwise(ordered):
        if before.key() == after.key():
            raise DataError(f"{path.name}: two rows have the same key {_spell(after.KEY, after.key())}")
    write_bytes(path, b"".join(map(encode_row, ordered)))
    return len(ordered)


def write_tables(folder: Path, tables: Mapping[str, Iterable[Any]]) -> dict[str, int]:
    """Write each table to `NAME.jsonl`; how many rows each has."""
    return {name: write_table(folder / f"{name}.jsonl", rows) for name, rows in tables.items()}


def iterate_table(path: Path, record: type[R]) -> Iterator[R]:
    """Rows in file order. Raises DataError naming file:line for anything that is not a row of this kind."""
    decoder = msgspec.json.Decoder(record, dec_hook=decode_other)
    try:
        for number, text in numbered_lines(path):
            try:
                yield decoder.decode(text)
            except UNREADABLE as error:
                where = f"{path}:{number}{_identify(text, record)}"
                raise DataError(f"{where}: {str(error).rstrip('.')}", hint=_restored(path)) from error
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing", hint="run the command that makes this artifact again") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder, not a table") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that hold something, with their numbers from 1; a byte order mark is forgiven."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield number, text


def read_table(path: Path, record: type[R]) -> list[R]:
    """All rows. Raises DataError as `iterate_table` does, and for a key that occurs twice."""
    rows: list[R] = []
    seen: dict[tuple[str | int, ...], int] = {}
    for position, row in enumerate(iterate_table(path, record), 1):
        first = seen.setdefault(row.key(), position)
        if first != position:
            key = _spell(record.KEY, row.key())
            raise DataError(f"{path}: rows {first} and {position} have the same key {key}", hint="delete one of them")
        rows.append(row)
    return rows


def _restored(path: Path) -> str:
    """What can be done about a damaged table without losing anything; `Artifact.cure` knows the command."""
    if (path.parent / "manifest.json").is_file():
        return f"restore it from a copy, or run the command that made {path.parent} again as before"
    return "restore the line, or the file from a copy"


def _spell(names: tuple[str, ...], values: tuple[str | int, ...]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))


def _identify(line: bytes, record: type[Record]) -> str:
    """The key of a row that does not decode as a record, if it is JSON at all."""
    try:
        loose: Any = msgspec.json.decode(line)
    except UNREADABLE:
        return ""
    if not isinstance(loose, dict):
        return ""
    keys = [f"{name}={loose[name]!r}" for name in record.KEY if name in loose]
    return f" ({', '.join(keys)})" if keys else ""
