"""A running server: its journal and pictures, and who may sign in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ctxr.annotation.journal.identities import Identities
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.web.signing import Signer
from ctxr.web.guard import Buckets

ADDRESS_SHARE = 20
"""An address may ask as often as so many workers: a team sits behind one."""


@dataclass(frozen=True)
class Study:
    """A Prolific study.

    Attributes:
        codes: gives its completion codes by type; a study may be launched while the server runs.
        bundle: answers that a submission is paid for. tasks: what its people are given. lasts: how long a submission may take.
    """

    codes: Callable[[], Mapping[str, str]]
    bundle: int
    tasks: tuple[str, ...]
    lasts: timedelta = timedelta(hours=1)


@dataclass(frozen=True)
class Site:
    """Everything that a page needs.

    Attributes:
        identities: who is behind a pseudonym; the only place that keeps platform ids. pseudonym: of a platform and an id there.
        pictures: files by image id. sizes: width and height by image id, pixels.
        base_url: address for the workers' browsers, without a trailing slash.
        anybody: anyone with the address may enrol with a name. studies: on Prolific, by the name in their address.
        tasks: what is served; None for everything in the journal. bundle: answers in a round.
        rate: requests a second of one worker; 0 = no limit.
    """

    journal: Journal
    identities: Identities
    pseudonym: Callable[[str, str], str]
    signer: Signer
    pictures: Mapping[str, Path]
    sizes: Mapping[str, tuple[int, int]]
    base_url: str
    anybody: bool = False
    studies: Mapping[str, Study] = field(default_factory=dict)
    tasks: tuple[str, ...] | None = None
    bundle: int = 20
    rate: float = 10.0
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    workers: Buckets = field(init=False)
    addresses: Buckets = field(init=False)
    newcomers: Buckets = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", Buckets(self.rate, self.rate * 10))
        object.__setattr__(self, "addresses", Buckets(self.rate * ADDRESS_SHARE, self.rate * ADDRESS_SHARE * 5))
        object.__setattr__(self, "newcomers", Buckets(0.5 if self.rate > 0 else 0, 40))
