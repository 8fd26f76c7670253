"""Options and reports of the verbs that ask people."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ctxr.annotation.config import listed
from ctxr.annotation.cost import FLOOR, PLATFORMS
from ctxr.annotation.protocol import COUNT, DISJOINT, POSITIVE, SHARE, Protocol
from ctxr.annotation.tasks import NAMES
from ctxr.engine.options import Choices, NotDecisive, Options, Range
from ctxr.engine.report import Table

if TYPE_CHECKING:
    from ctxr.annotation.cost import Forecast
    from ctxr.annotation.journal.results import Change, Waited
    from ctxr.pipelines.crowd.people import Worker

RULES = ("paper", "majority")

LABEL_RULES = ("majority", "dawid-skene")

SECONDS = Range(0, math.inf, "a number of seconds above 0", above=True)


def accuracy_rules(good: float, poor: float) -> Iterator[tuple[str, str]]:
    """The rule that `--good` and `--poor` follow wherever they are options."""
    if poor > good:
        yield f"--poor {poor:g} is above --good {good:g}", f"--poor {good:g} or less"


@dataclass(frozen=True)
class Plan(Protocol):
    """Options of `ctxr plan`."""

    COMMAND: ClassVar[str] = "plan"

    input: Path | None = None
    """Artifact of image sets to be described; default: `filtered` in the workdir, or else `sets`."""
    out: Path | None = None
    """Folder to write; default: `plan` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    platform: Annotated[str, Choices(PLATFORMS)] = "local"
    """Who brings the workers: local, mturk, prolific."""
    fee_percent: Annotated[float | None, Range(0, math.inf, "a percentage of the reward, 0 or more")] = None
    """The platform's fee in percent of the reward; known for Mechanical Turk, to be given for Prolific."""
    describe_reward: Annotated[int, COUNT] = 25
    """Cents for a description (ImageCoDe: 25)."""
    retrieve_reward: Annotated[int, COUNT] = 10
    """Cents for a retrieval (ImageCoDe: 10)."""
    floor: Annotated[int, COUNT] = FLOOR
    """Cents an hour below which nothing is launched."""
    describe_seconds: Annotated[float | None, SECONDS] = None
    """Time of a description; default: the median of the answers so far, else an assumption."""
    retrieve_seconds: Annotated[float | None, SECONDS] = None
    """Time of a retrieval; default: the median of the answers so far, else an assumption."""
    right: Annotated[float | None, SHARE] = None
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
class Serve(Options):
    """Options of `ctxr serve`."""

    COMMAND: ClassVar[str] = "serve"

    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 = every address of this machine."""
    port: Annotated[int, Range(0, 65535, "a port from 0 to 65535; 0 = any free one")] = 8321
    """Port to listen at; 0 = any free one."""
    database: str = ""
    """Keep the answers there instead of in a file of the project: postgresql://user@host/name."""
    tasks: str = ""
    """Tasks to serve, with commas between them; default: all that were exported, and what follows from them."""
    open: bool = False
    """Let anybody who has the address come in with a name."""
    invite: Annotated[int, COUNT] = 0
    """Print so many personal links for a team."""
    workers_file: Path | None = None
    """Print a personal link for each name in this file, one a line."""
    base_url: str = ""
    """Address that workers' browsers see, where a proxy stands before this server; https makes cookies secure."""
    bundle: Annotated[int, POSITIVE] = 20
    """Answers in a round, after which a worker may rest."""
    lease_minutes: Annotated[float, Range(0, math.inf, "a number of minutes above 0", above=True)] = 30.0
    """Minutes after which a page that was not sent goes to somebody else."""
    rate: Annotated[float, Range(0, math.inf, "a number of requests a second; 0 = no limit")] = 10.0
    """Requests a second that one worker may make, an address twenty times as many; 0 = no limit."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """Tasks that exist, and an address that a browser can open."""
        for name in listed(self.tasks):
            if name not in NAMES:
                yield f"--tasks names {name!r}, which is not a task", f"tasks are {', '.join(NAMES)}"
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            yield f"--base-url {self.base_url!r} is not an address", "it begins with https://"


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
class Workers(Options):
    """Options of `ctxr workers`."""

    COMMAND: ClassVar[str] = "workers"

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
    good: Annotated[float, SHARE] = 0.8
    """Accuracy that is wanted of a worker."""
    poor: Annotated[float, SHARE] = 0.5
    """Accuracy that is not borne."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A change has a reason and is the only one of its worker."""
        yield from accuracy_rules(self.good, self.poor)
        changes = (*set(self.block), *set(self.allow), *set(self.undo))
        if changes and not self.reason.strip():
            yield "--block, --allow and --undo need a reason", '--reason "picks the first image every time"'
        if twice := sorted({name for name in changes if changes.count(name) > 1}):
            yield f"{twice[0]!r} cannot be changed in two ways at once", "one command for each change"


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


@dataclass(frozen=True)
class Aggregate(Options):
    """Options of `ctxr aggregate`."""

    COMMAND: ClassVar[str] = "aggregate"

    input: Annotated[Path | None, NotDecisive] = None
    """Artifact of judgments; default: `judgments` in the workdir, after importing what the local server has collected."""
    out: Annotated[Path | None, NotDecisive] = None
    """Folder to write; default: `dataset` in the workdir."""
    workdir: Annotated[Path, NotDecisive] = Path("work")
    """Project folder, where each command finds what the one before it made."""
    database: Annotated[str, NotDecisive] = ""
    """Database of `ctxr serve`, when it is not the file in the workdir."""
    rule: Annotated[str, Choices(RULES)] = "paper"
    """What keeps a description: paper (1 of 1 right on train, 2 of 3 elsewhere, or as the tasks say), majority."""
    labels: Annotated[str, Choices(LABEL_RULES)] = "majority"
    """What decides tags and verdicts: majority (ties decide nothing), dawid-skene."""
    keep_blocked: bool = False
    """Count votes of blocked workers, and keep what they wrote."""
    disjoint: Annotated[str, Choices(("", *DISJOINT))] = ""
    """What is certified: wholly, partly or none; default: what the tasks declared."""
    good: Annotated[float, SHARE] = 0.8
    """Accuracy that is wanted of a worker."""
    poor: Annotated[float, SHARE] = 0.5
    """Accuracy that is not borne."""
    resamples: Annotated[int, POSITIVE] = 1000
    """Resamples of each interval."""
    seed: Annotated[int, COUNT] = 0
    """Seed of the intervals."""

    def folder(self) -> Path:
        """Where the dataset is written."""
        return self.out or self.workdir / "dataset"

    def rules(self) -> Iterator[tuple[str, str]]:
        """The wanted accuracy is not below the one that suggests a block."""
        yield from accuracy_rules(self.good, self.poor)


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
