"""Tables of records as JSON Lines, and logs, which grow by a line at a time; errors name file:line.

Equal tables are byte-equal: rows sorted by key, fields in their declared order, the shortest notation of numbers.
"""

import os
import re
from array import array
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_type_hints

import msgspec

from ctxr.errors import DataError
from ctxr.store.atomic import disk_errors, write_bytes
from ctxr.store.records import Dialogue, FieldAnswer, ObjectLabels, Record, Trace

R = TypeVar("R", bound=Record)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Owner = Literal["query", "text", "image", "image_set"]


@dataclass(frozen=True)
class PayloadTable:
    """A table beside those of every dataset, which an artifact has only where it has rows.

    Attributes:
        of: what each row belongs to. owner: the field that names that.
        answers: whether a row reveals which image is right.
    """

    record: type[Record]
    of: Owner
    owner: str = "id"
    answers: bool = False

    def owner_of(self, row: Record) -> str:
        """The id of what a row belongs to."""
        return str(getattr(row, self.owner))


PAYLOADS: dict[str, PayloadTable] = {
    "dialogues": PayloadTable(Dialogue, of="query", answers=True),
    "traces": PayloadTable(Trace, of="query"),
    "objects": PayloadTable(ObjectLabels, of="image"),
    "own": PayloadTable(FieldAnswer, of="image_set", owner="image_set", answers=True),
}
"""Payload tables by name, which is that of the file without `.jsonl`: all that reads, copies or writes a dataset keeps them."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of msgspec for JSON of another type; the last for JSON nested too deep."""


def encode_other(value: object) -> object:
    """The JSON form of a `Fraction`, "numerator/denominator", and of an array of float32, to five decimals."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, array):
        return [round(number, 5) for number in value]
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
    if kind is array and isinstance(value, list) and all(type(one) in (int, float) and abs(one) < 1e6 for one in value):
        return array("f", value)
    raise ValueError(f"expected {kind.__name__}, got {value!r}")


def pretty_json(value: object) -> bytes:
    """A value as indented JSON that ends with a line break."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=encode_other), indent=1) + b"\n"


def fault(error: Exception, kind: type) -> str:
    """What msgspec finds wrong with JSON of a class: the field first, and beside a value that the field does not take those it takes."""
    if not (found := re.fullmatch(r"(.*) - at `\$\.(.+)`", said := str(error).rstrip("."))):
        return said
    what, field = found.groups()
    hint = get_type_hints(kind).get(field)
    taken = [repr(one) for part in (hint, *get_args(hint)) for one in get_args(part) if isinstance(one, str | int)]
    what = re.sub("^Invalid enum value (.*)", rf"\1 is not one of {', '.join(taken) or 'its values'}", what)
    return f"field `{field}`: {what[0].lower()}{what[1:]}"


def read_value(path: Path, kind: type[V], hint: str) -> V:
    """The value in a JSON file. Raises DataError with the hint for a file that cannot be read, or holds something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind, dec_hook=decode_other)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except UNREADABLE as error:
        raise DataError(f"{path} is damaged: {fault(error, kind)}", hint=hint) from error


def encode_row(row: object) -> bytes:
    """One record as one JSON line, newline included."""
    return msgspec.json.encode(row, enc_hook=encode_other) + b"\n"


def write_table(path: Path, rows: Iterable[R]) -> int:
    """Write rows sorted by key, atomically; returns how many. Raises DataError for a key twice."""
    ordered = sorted(rows, key=lambda row: row.key())
    for before, after in pairwise(ordered):
        if before.key() == after.key():
            raise DataError(f"{path.name}: two rows have the same key {_spell(after.KEY, after.key())}")
    write_bytes(path, b"".join(map(encode_row, ordered)))
    return len(ordered)


def write_tables(folder: Path, tables: Mapping[str, Iterable[Record]]) -> dict[str, int]:
    """Write each table to `NAME.jsonl`; how many rows each has."""
    return {name: write_table(folder / f"{name}.jsonl", rows) for name, rows in tables.items()}


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, without a byte order mark, with their numbers from 1."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield number, text


def read_table(path: Path, record: type[R]) -> list[R]:
    """All rows. Raises DataError naming file:line for anything that is not a row of this kind, and for a key that occurs twice."""
    decoder = msgspec.json.Decoder(record, dec_hook=decode_other)
    rows: list[R] = []
    seen: dict[tuple[str | int, ...], int] = {}
    try:
        for number, text in numbered_lines(path):
            try:
                rows.append(row := decoder.decode(text))
            except UNREADABLE as error:
                cure = "restore the line, or the file from a copy"
                if (path.parent / "manifest.json").is_file():  # `Artifact.cure` knows the command
                    cure = f"restore it from a copy, or run the command that made {path.parent} again as before"
                raise DataError(f"{path}:{number}: {fault(error, record)}", hint=cure) from error
            if (first := seen.setdefault(row.key(), len(rows))) != len(rows):
                sentence = f"rows {first} and {len(rows)} have the same key {_spell(record.KEY, row.key())}"
                raise DataError(f"{path}: {sentence}", hint="delete one of them")
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing", hint="run the command that makes this artifact again") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder, not a table") from error
    return rows


def append(path: Path, *rows: Record) -> None:
    """Write rows below the last whole line of a log, on the medium before this returns; a killed process may have left half a line."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 1))
            if stream.read(1) not in (b"", b"\n"):
                stream.seek(0)
                stream.truncate(stream.seek(stream.read().rfind(b"\n") + 1))
            stream.write(b"".join(map(encode_row, rows)))
            stream.flush()
            os.fsync(stream.fileno())


def read_appended(path: Path, record: type[R]) -> list[R]:
    """Rows of a log in their order, without a half-written last line; empty without a file.

    Raises DataError naming file:line for an invalid line.
    """
    if not path.is_file():
        return []
    rows = []
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            rows.append(msgspec.json.decode(line, type=record))
        except UNREADABLE as error:
            raise DataError(f"{path}:{number}: {fault(error, record)}", hint="restore the line from a copy") from error
    return rows


def read_payloads(folder: Path, files: Collection[str]) -> dict[str, tuple[Record, ...]]:
    """The payload tables that are among the files of a folder. Raises what `read_table` raises."""
    tables = {name: table.record for name, table in PAYLOADS.items() if f"{name}.jsonl" in files}
    return {name: tuple(read_table(folder / f"{name}.jsonl", record)) for name, record in tables.items()}


def payload_rows(
    payloads: Mapping[str, Iterable[Record]], kept: Mapping[str, Collection[str]]
) -> dict[str, tuple[Record, ...]]:
    """The rows of owners that are `kept`, ids by `PayloadTable.of`; without empty tables."""
    tables = {}
    for name, rows in payloads.items():
        table = PAYLOADS[name]
        if left := tuple(row for row in rows if table.owner_of(row) in kept[table.of]):
            tables[name] = left
    return tables


def grouped(pairs: Iterable[tuple[K, V]]) -> defaultdict[K, list[V]]:
    """The values of each key in their order, keys in that of their first value; an empty list for any other.

    >>> dict(grouped((len(word), word) for word in ("a", "bc", "d")))
    {1: ['a', 'd'], 2: ['bc']}
    """
    groups = defaultdict[K, list[V]](list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _spell(names: tuple[str, ...], values: tuple[str | int, ...]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))
