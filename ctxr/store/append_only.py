"""Files that grow by a line at a time and survive being killed in the middle of one."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from ctxr.errors import DataError
from ctxr.store.atomic import disk_errors
from ctxr.store.records import Record
from ctxr.store.tables import UNREADABLE, encode_row

R = TypeVar("R", bound=Record)


def append(path: Path, row: Record) -> None:
    """Write a row below the last whole line; on the medium before this returns."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - 1))
            if stream.read(1) not in (b"", b"\n"):
                stream.seek(0)
                stream.truncate(stream.seek(stream.read().rfind(b"\n") + 1))
            stream.write(encode_row(row))
            stream.flush()
            os.fsync(stream.fileno())


def read_appended(path: Path, record: type[R]) -> list[R]:
    """Rows in the order they were written; empty without a file. A last line without its end was never acknowledged.

    Raises DataError naming file:line for a line that is no row.
    """
    if not path.is_file():
        return []
    rows = []
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            rows.append(msgspec.json.decode(line, type=record))
        except UNREADABLE as error:
            raise DataError(f"{path}:{number}: {error}", hint="restore the line from a backup") from error
    return rows
