"""What a backend hands in: answers with the place they were read from, and who is behind the pseudonyms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from ctxr.annotation.pseudonyms import pseudonym
from ctxr.annotation.records import Answer
from ctxr.data.records import Record
from ctxr.errors import DataError


class Refusal(Record, frozen=True):
    """An answer that is not taken.

    Attributes:
        where: file:line on which it begins; of a JSON list file:row; of the journal journal:unit/worker.
        code: of the problem. sentence: what a person reads.
    """

    KEY: ClassVar[tuple[str, ...]] = ("where",)

    where: str
    unit: str
    worker: str
    code: str
    sentence: str


@dataclass(frozen=True)
class Arrival:
    """One answer as it came back, and where it stands."""

    where: str
    answer: Answer


@dataclass(frozen=True)
class Arrivals:
    """Everything that one import read.

    Attributes:
        rows: in the order of the file. refused: what the backend itself could not take.
        people: platform and platform id of each pseudonym; goes to the private folder and nowhere else.
        labels: what each file or page is called in `where`, so that a later import of the same replaces what it said.
    """

    rows: tuple[Arrival, ...] = ()
    refused: tuple[Refusal, ...] = ()
    people: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()


class Pseudonyms:
    """Gives pseudonyms and remembers for whom."""

    def __init__(self, key: bytes, platform: str) -> None:
        self.known: dict[str, tuple[str, str]] = {}
        self._key, self._platform = key, platform

    def named(self, identity: str) -> str:
        """The pseudonym of a platform's id; empty where there is none, because an empty id would be one person."""
        if not (identity := identity.strip()):
            return ""
        name = pseudonym(self._key, self._platform, identity)
        self.known[name] = (self._platform, identity)
        return name


def stamp(moment: datetime) -> str:
    """A moment as it is stored, like those of the journal: UTC, ISO 8601 with milliseconds and "Z".

    >>> stamp(datetime(2026, 11, 20, 10, 1, 31, tzinfo=UTC))
    '2026-11-20T10:01:31.000Z'
    """
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def moment(text: str, where: str) -> datetime:
    """An ISO 8601 moment of a platform in UTC; one without a zone is UTC. Raises DataError naming `where` for anything else."""
    try:
        read = datetime.fromisoformat(text)
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{where}: {text!r} is no time", hint="import the file as the platform wrote it") from error
