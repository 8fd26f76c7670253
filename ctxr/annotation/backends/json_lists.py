"""Lists of JSON objects as platforms export them; where one breaks off, the row is named."""

import json
from pathlib import Path
from typing import TypeVar

import msgspec

from ctxr.errors import DataError, UsageError

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What JSON may fail with that somebody else wrote."""


class _Page(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw]


def read_list(path: Path, record: type[T], hint: str) -> list[T]:
    """Rows of a list, or of the `results` of a page; `hint` says where such a file comes from.

    Raises UsageError for a file that is not there, DataError naming file:row for one that is cut short or a row of another kind.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    try:
        whole = msgspec.json.decode(content, type=_Page | list[msgspec.Raw])
    except UNREADABLE as error:
        raise DataError(f"{path}:{_whole_rows(content) + 1}: {error}", hint=f"it was cut short: {hint}") from error
    rows = []
    for number, raw in enumerate(whole.results if isinstance(whole, _Page) else whole, 1):
        try:
            rows.append(msgspec.json.decode(raw, type=record))
        except UNREADABLE as error:
            raise DataError(f"{path}:{number}: {error}", hint=hint) from error
    return rows


def _whole_rows(content: bytes) -> int:
    """Rows that are whole before a list breaks off."""
    text, decoder = content.decode(errors="replace"), json.JSONDecoder()
    place, count = text.find("[") + 1, 0
    while place:
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        try:
            _, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        count += 1
    return count
