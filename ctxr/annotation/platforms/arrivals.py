"""Answers from a platform, each with its file and row, and the JSON lists of platforms."""

import json
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec

from ctxr.annotation.pseudonyms import pseudonym
from ctxr.annotation.records import Answer
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import DataError
from ctxr.store.records import Record
from ctxr.store.tables import UNREADABLE


class Refusal(Record, frozen=True):
    """A refused answer, and why; `where` is file:row, for the journal journal:unit/worker."""

    KEY: ClassVar[tuple[str, ...]] = ("where",)

    where: str
    unit: str
    worker: str
    code: str
    sentence: str


@dataclass(frozen=True)
class Arrival:
    """One answer, and the file and row it was read from."""

    where: str
    answer: Answer


@dataclass
class Arrivals:
    """Everything that an import read from a file of a platform, or from the journal.

    Attributes:
        path: its name begins each `where`; a later import of the same file replaces its refusals.
        platform, key: what the pseudonyms of workers are made from.
        rows: in the order of the file. refused: rows that the backend rejected.
        identities: platform id of each pseudonym; goes to the private folder and nowhere else.
    """

    path: Path
    platform: str = ""
    key: bytes = b""
    rows: list[Arrival] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    identities: dict[str, str] = field(default_factory=dict)

    def without(self, workers: Collection[str]) -> "Arrivals":
        """The same but for what came from `workers`."""
        rows = [row for row in self.rows if row.answer.worker not in workers]
        refused = [row for row in self.refused if row.worker not in workers]
        identities = {name: identity for name, identity in self.identities.items() if name not in workers}
        return replace(self, rows=rows, refused=refused, identities=identities)

    def pseudonym_of(self, identity: str) -> str:
        """The pseudonym of a platform's id; empty for an empty id, which would merge all such workers into one."""
        if not (identity := identity.strip()):
            return ""
        name = pseudonym(self.key, self.platform, identity)
        self.identities[name] = identity
        return name

    def take(self, position: object, answer: Answer) -> None:
        """Add an answer."""
        self.rows.append(Arrival(f"{self.path.name}:{position}", answer))

    def refuse(self, position: object, unit: str, worker: str, code: str, sentence: str) -> None:
        """Add an answer that cannot be taken."""
        self.refused.append(Refusal(f"{self.path.name}:{position}", unit, worker, code, sentence))


T = TypeVar("T")


_BETWEEN_ROWS = re.compile(r"[ \t\r\n,]*")


class _Page(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw]


def read_list(path: Path, record: type[T], hint: str) -> list[T]:
    """Rows of a list, or of the `results` of a page. Raises DataError naming file:row; `hint` says where such a file is from."""
    text = read_utf8(path, hint)
    if text.strip() and not text.lstrip().startswith(("[", "{")):
        raise DataError(f"{path} is not JSON: it begins with {text.strip()[:20]!r}", hint=hint)
    try:
        whole = msgspec.json.decode(text, type=_Page | list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise DataError(f"{path} is neither a list nor a page with a list of results", hint=hint) from error
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
    decoder, position, count = json.JSONDecoder(), text.find("[") + 1, 0
    with suppress(ValueError, RecursionError):
        while position:
            position += len(_BETWEEN_ROWS.match(text, position)[0])  # type: ignore[index]
            _, position = decoder.raw_decode(text, position)
            count += 1
    return count
