"""Lists of JSON objects as platforms export them; where one breaks off, the row is named."""

import json
from pathlib import Path
from typing import TypeVar

import msgspec

from ctxr.data.readers.text_files import read_utf8
from ctxr.errors import DataError

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What JSON may fail with that somebody else wrote."""


class _Page(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw]


def read_list(path: Path, record: type[T], hint: str) -> list[T]:
    """Rows of a list, or of the `results` of a page; `hint` says where such a file comes from.

    Raises UsageError for a file that is not there, DataError naming file:row for one that is cut short or a row of another kind.
    """
    text = read_utf8(path, hint)
    if text.strip() and not text.lstrip().startswith(("[", "{")):
        raise DataError(f"{path} is no JSON: it begins with {text.strip()[:20]!r}", hint=hint)
    try:
        whole = msgspec.json.decode(text, type=_Page | list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise DataError(f"{path} is no list, and no page with a list of results", hint=hint) from error
    except UNREADABLE as error:
        cut = "it was cut short: " if "truncated" in str(error) else ""
        raise DataError(f"{path}:{_whole_rows(text) + 1}: {error}", hint=cut + hint) from error
    rows = []
    for number, raw in enumerate(whole.results if isinstance(whole, _Page) else whole, 1):
        try:
            rows.append(msgspec.json.decode(raw, type=record))
        except UNREADABLE as error:
            raise DataError(f"{path}:{number}: {error}", hint=hint) from error
    return rows


def _whole_rows(text: str) -> int:
    """Rows that are whole before a list breaks off."""
    decoder = json.JSONDecoder()
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
