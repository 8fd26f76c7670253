"""A running server: its journal and pictures, who may sign in, its signed links and sessions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ctxr.annotation.journal.identities import Identities
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.study import StudyTexts
from ctxr.web.guard import Buckets
from ctxr.web.language import ENGLISH, PageLanguage
from ctxr.web.signing import Signer

ADDRESS_SHARE = 20
"""An address may ask as often as so many workers: a team sits behind one."""


SHIPPED = Path(__file__).parent / "languages"
"""Folder with our translations."""


class LeaseLink(NamedTuple):
    """The part of an address that stands for one unit and one worker."""

    lease: str
    worker: str


class Session(NamedTuple):
    """A cookie: what forms are bound to, who it is or "", the paid `submission`, tasks of instructions shown."""

    nonce: str
    worker: str = ""
    platform: str = "local"
    submission: str = ""
    shown: str = ""


class Invitation(NamedTuple):
    """An invitation for a member of a local team; the same name has the same token."""

    name: str


class Shown(NamedTuple):
    """A picture on the page of the researcher."""

    image: str


RUNNER = Invitation("requester")
"""The researcher; `ctxr workers` calls them so too."""

_PURPOSES = {LeaseLink: "link", Session: "session", Invitation: "invitation"}

run_signer = partial(
    Signer, pages="ctxr run page", purposes={Invitation: "invitation", Session: "session", Shown: "picture"}
)
"""Signs what the researcher is given; what workers were given is refused."""

crowd_signer = partial(Signer, pages="ctxr crowd pages", purposes=_PURPOSES)
"""Signs what workers are given, with the key of the project."""


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
        rate: requests a second of one worker; 0 = no limit. language: tag of that of the descriptions. languages: of the pages.
        texts: what people read before they work. workdir: the project. attention: some texts only name the image to choose.
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
    language: str = ENGLISH.tag
    languages: Sequence[PageLanguage] = (ENGLISH,)
    texts: StudyTexts = field(default_factory=StudyTexts)
    workdir: Path = Path("work")
    attention: bool = False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    workers: Buckets = field(init=False)
    addresses: Buckets = field(init=False)
    newcomers: Buckets = field(init=False)

    @property
    def run_signer(self) -> Signer:
        """What signs for the researcher."""
        return run_signer(self.signer.digest("run").encode())

    @property
    def run_link(self) -> str:
        """The address at which the study is run."""
        return f"{self.base_url}/run/{self.run_signer.sign(RUNNER)}"

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", Buckets(self.rate, self.rate * 10))
        object.__setattr__(self, "addresses", Buckets(self.rate * ADDRESS_SHARE, self.rate * ADDRESS_SHARE * 5))
        object.__setattr__(self, "newcomers", Buckets(0.5 if self.rate > 0 else 0, 40))
