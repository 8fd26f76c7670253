"""Options and reports of the verbs that ask people."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.annotation.cost import FLOOR
from ctxr.annotation.protocol import Protocol
from ctxr.engine.report import Table

if TYPE_CHECKING:
    from ctxr.annotation.cost import Forecast
    from ctxr.annotation.journal.results import Change, Waited
    from ctxr.pipelines.crowd.people import Worker


@dataclass(frozen=True)
class Plan(Protocol):
    """Configuration of `ctxr plan`; a field's text is its help."""

    input: Path | None = None
    """Artifact of image sets to be described; default: `filtered` in the workdir, or else `sets`."""
    out: Path | None = None
    """Folder to write; default: `plan` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    platform: str = "local"
    """Who brings the workers: local, mturk, prolific."""
    fee_percent: float | None = None
    """The platform's fee in percent of the reward; known for Mechanical Turk, to be given for Prolific."""
    describe_reward: int = 25
    """Cents for a description (ImageCoDe: 25)."""
    retrieve_reward: int = 10
    """Cents for a retrieval (ImageCoDe: 10)."""
    floor: int = FLOOR
    """Cents an hour below which nothing is launched."""
    describe_seconds: float | None = None
    """Time of a description; default: the median of the answers so far, else an assumption."""
    retrieve_seconds: float | None = None
    """Time of a retrieval; default: the median of the answers so far, else an assumption."""
    right: float | None = None
    """Share of retrievals that find the target; default: that of the answers so far, else the paper's 0.735."""

    def folder(self) -> Path:
        """Where the plan is written."""
        return self.out or self.workdir / "plan"


@dataclass(frozen=True)
class PlanReport:
    """What a study will take.

    Attributes:
        forecasts: by task. sets: by side of the benchmark. kept: descriptions expected to be kept.
        cost: cents in all. per_kept: cents for each kept description. right: share of right retrievals counted with.
        notes: what is assumed and not measured, one sentence each.
    """

    plan: Path
    platform: str
    forecasts: "tuple[Forecast, ...]"
    sets: dict[str, int]
    kept: float
    cost: int
    per_kept: float
    hours: float
    right: float
    floor: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Serve:
    """Configuration of `ctxr serve`; a field's text is its help."""

    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 = every address of this machine."""
    port: int = 8321
    """Port to listen at; 0 = any free one."""
    database: str = ""
    """Keep the answers there instead of in a file of the project: postgresql://user@host/name."""
    tasks: str = ""
    """Tasks to serve, with commas between them; default: all that were exported, and what follows from them."""
    open: bool = False
    """Let anybody who has the address come in with a name."""
    invite: int = 0
    """Print so many personal links for a team."""
    workers_file: Path | None = None
    """Print a personal link for each name in this file, one a line."""
    base_url: str = ""
    """Address that workers' browsers see, where a proxy stands before this server; https makes cookies secure."""
    bundle: int = 20
    """Answers in a round, after which a worker may rest."""
    lease_minutes: float = 30.0
    """Minutes after which a page that was not sent goes to somebody else."""
    rate: float = 10.0
    """Requests a second that one worker may make, an address twenty times as many; 0 = no limit."""


@dataclass(frozen=True)
class Opened:
    """A server that listens: its address, units that wait by task, and the way in for each, by name."""

    address: str
    waiting: Mapping[str, int]
    links: Mapping[str, str]


@dataclass(frozen=True)
class Collected:
    """What came in while the server ran.

    Attributes:
        answers: new ones. total: all in the journal, by task. workers: who gave an answer, ever.
        open: units that still want answers, by task. after: the next command.
    """

    answers: int
    total: Mapping[str, int]
    workers: int
    open: Mapping[str, int]
    after: str


@dataclass(frozen=True)
class Workers:
    """Configuration of `ctxr workers`; a field's text is its help."""

    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    database: str = ""
    """Database of `ctxr serve`, when it is not the file in the workdir."""
    block: tuple[str, ...] = ()
    """Give this worker no more work and do not count their votes: pseudonym, its beginning, or the name of an invitation; once for each."""
    allow: tuple[str, ...] = ()
    """Vouch for this worker: no rule stops them."""
    undo: tuple[str, ...] = ()
    """Take back the last change of this worker's standing."""
    reason: str = ""
    """Why; needed with --block, --allow and --undo."""
    by: str = "requester"
    """Who decides."""
    good: float = 0.8
    """Accuracy that is wanted of a worker."""
    poor: float = 0.5
    """Accuracy that is not borne."""


@dataclass(frozen=True)
class WorkersReport:
    """What is known of the workers.

    Attributes:
        workers: everybody who answered. changed: what was changed now. changes: all of them so far, oldest first.
        waited: time given to talks that could not be; it is to be paid.
    """

    workers: "tuple[Worker, ...]"
    table: Table
    changed: tuple[str, ...]
    changes: "tuple[Change, ...]"
    waited: "tuple[Waited, ...]"


LABEL_RULES = ("majority", "dawid-skene")


@dataclass(frozen=True)
class Aggregate:
    """Configuration of `ctxr aggregate`; a field's text is its help."""

    input: Path | None = None
    """Artifact of judgments; default: `judgments` in the workdir, after importing what the local server has collected."""
    out: Path | None = None
    """Folder to write; default: `dataset` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    database: str = ""
    """Database of `ctxr serve`, when it is not the file in the workdir."""
    rule: str = "paper"
    """What keeps a description: paper (1 of 1 right on train, 2 of 3 elsewhere, or as the tasks say), majority."""
    labels: str = "majority"
    """What decides tags and verdicts: majority (ties decide nothing), dawid-skene."""
    keep_blocked: bool = False
    """Count votes of blocked workers, and keep what they wrote."""
    disjoint: str = ""
    """What is certified: wholly, partly or none; default: what the tasks declared."""
    good: float = 0.8
    """Accuracy that is wanted of a worker."""
    poor: float = 0.5
    """Accuracy that is not borne."""
    resamples: int = 1000
    """Resamples of each interval."""
    seed: int = 0
    """Seed of the intervals."""

    def folder(self) -> Path:
        """Where the dataset is written."""
        return self.out or self.workdir / "dataset"

    def result_config(self) -> dict[str, Any]:
        """The part that decides the result."""
        names = ("rule", "labels", "keep_blocked", "disjoint", "good", "poor", "resamples", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class AggregateReport:
    """What the answers came to.

    Attributes:
        counts: rows of each table, and what was dropped by reason. violations: answers that break the rules of assignment.
    """

    dataset: Path
    read: Path
    up_to_date: bool
    counts: dict[str, Any]
    tables: dict[str, Table]
    holds: bool
    violations: tuple[str, ...]
    notes: tuple[str, ...]
