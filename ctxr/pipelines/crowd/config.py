"""Options and reports of the crowdsourcing verbs."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ctxr.annotation.config import PROLIFIC_FLOOR, ExportTasks, listed
from ctxr.annotation.cost import FLOOR, PLATFORMS, Forecast, money
from ctxr.annotation.protocol import COUNT, DISJOINT, POSITIVE, SHARE, Protocol
from ctxr.annotation.tasks import NAMES
from ctxr.engine.options import Choices, FreeText, Options, Range, Switch, Workdir
from ctxr.engine.report import Table, VerbReport
from ctxr.errors import FindingsError, plural
from ctxr.store.kinds import DATASET, PLAN

if TYPE_CHECKING:
    from ctxr.annotation.journal.results import Change, UnpaidWait
    from ctxr.pipelines.crowd.people import Worker

SECONDS = Range(0, math.inf, "a number of seconds above 0", above=True)
POINTS = Range(0, 100, "points of a percentage, above 0", above=True)


def accuracy_rules(good: float, poor: float) -> Iterator[tuple[str, str]]:
    """The rule that `--good` and `--poor` follow wherever they are options."""
    if poor > good:
        yield f"--poor {poor:g} is above --good {good:g}", f"--poor {good:g} or less"


@dataclass(frozen=True)
class Plan(Protocol):
    """Options of `ctxr plan`."""

    COMMAND: ClassVar[str] = "plan"
    FOLDER: ClassVar[str] = PLAN
    PANELS = (
        "Pay: fee_percent describe_reward retrieve_reward per_submission currency floor; Pilot: describe_seconds retrieve_seconds; "
        "Study size: target_ci resolve agreement model_accuracy"
    )

    input: Path | None = None
    """Artifact of image sets to describe; default: `filtered` in the workdir, or else `sets`."""
    out: Path | None = None
    """Folder to write; default: `plan` in the workdir."""
    workdir: Workdir = Path("work")
    platform: Annotated[str, Choices(PLATFORMS)] = "local"
    """Platform of the workers: local, prolific."""
    fee_percent: Annotated[float | None, Range(0, math.inf, "a percentage of the reward, 0 or more")] = None
    """The platform's fee in percent of the reward; required for Prolific."""
    describe_reward: Annotated[int | None, COUNT] = None
    """Pay per description in cents, on Prolific per submission; default: that of `ctxr export-tasks`."""
    retrieve_reward: Annotated[int | None, COUNT] = None
    """Pay per retrieval in cents, on Prolific per submission; default: that of `ctxr export-tasks`."""
    per_submission: Annotated[int, POSITIVE] = ExportTasks.per_submission
    """Units per submission (prolific)."""
    currency: Annotated[str, Choices(tuple(PROLIFIC_FLOOR))] = ExportTasks.currency
    """Currency of the account: GBP or USD (prolific)."""
    floor: Annotated[int | None, Range(0, math.inf, "cents per hour, such as 800 for 8 dollars")] = None
    """Minimum pay per hour in cents; default: 800, on Prolific its minimum. A plan that pays less is refused."""
    describe_seconds: Annotated[float | None, SECONDS] = None
    """Seconds per description; default: the median of the answers so far, else an assumption."""
    retrieve_seconds: Annotated[float | None, SECONDS] = None
    """Seconds per retrieval; default: the median of the answers so far, else an assumption."""
    right: Annotated[float | None, SHARE] = None
    """Accuracy of retrievals; default: that of the answers so far, else the paper's 0.735."""
    target_ci: Annotated[float | None, POINTS] = None
    """Find the sizes of a study whose 95 % interval of human accuracy is this many points wide."""
    resolve: Annotated[float | None, POINTS] = None
    """Find the sizes of a study that tells models apart that differ by this many points, with a power of 0.8."""
    agreement: Annotated[float | None, SHARE] = None
    """Share of pairs of votes on a description that are both right or both wrong; default: that of the answers so far, else about 0.8."""
    model_accuracy: Annotated[float, SHARE] = 0.3
    """Accuracy of the weaker model (--resolve); the best of ImageCoDe reach about 0.3."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """The better model is right on 100 % at most."""
        yield from super().rules()
        if self.resolve is not None and self.model_accuracy + self.resolve / 100 > 1:
            most = 1 - self.resolve / 100
            yield (
                f"no model is {self.resolve:g} points better than one at {self.model_accuracy:g}",
                f"--model-accuracy {most:.3g} or less",
            )

    @property
    def seeks_sizes(self) -> bool:
        """Whether it is asked how large a study must be."""
        return self.target_ci is not None or self.resolve is not None

    def tasks(self, task: str, seconds: float = 0.0) -> ExportTasks:
        """The export of a task that takes `seconds`, at the pay that is planned."""
        reward = {"describe": self.describe_reward, "retrieve": self.retrieve_reward}[task]
        sizes = {"seconds": seconds, "per_submission": self.per_submission, "currency": self.currency}
        return ExportTasks(task=task, backend=self.platform, reward=reward, **sizes)  # type: ignore[arg-type]

    def key(self) -> dict[str, object]:
        """With the pay and the floor that are the defaults."""
        pay = {f"{task}_reward": self.tasks(task).pay() for task in ("describe", "retrieve")}
        return super().key() | pay | {"floor": self.least_pay()}

    def least_pay(self) -> int:
        """Minimum pay per hour in minor units of the currency."""
        if self.floor is not None:
            return self.floor
        return PROLIFIC_FLOOR[self.currency] if self.platform == "prolific" else FLOOR


@dataclass(frozen=True)
class StudySize:
    """A study that is as large as its targets ask for.

    Attributes:
        targets: descriptions of a set. sets, descriptions: that are judged. kept: descriptions expected to be kept.
        votes: retrievals, checks of the workers included. people: who retrieve. hours, cost: in all, in minor units.
        width: of the 95 % interval of human accuracy, in points. resolves: least difference of two models that is found, in points.
    """

    targets: int
    sets: int
    descriptions: int
    kept: int
    votes: int
    people: int
    hours: float
    cost: int
    width: float
    resolves: float


@dataclass(frozen=True)
class StudyForecast:
    """The forecast of a study.

    Attributes:
        forecasts: by task. sets: by split. kept: descriptions expected to be kept.
        cost: in all, in minor units of `currency`. per_kept: per kept description. right: assumed accuracy of retrievals.
        people: enough to finish it, by pool and in all. notes: assumptions that were not measured, one sentence each.
        sizes: that reach `--target-ci` and `--resolve`. sentences: about one of them, for the paper.
    """

    platform: str
    forecasts: tuple[Forecast, ...]
    sets: dict[str, int]
    kept: float
    cost: int
    per_kept: float
    hours: float
    people: dict[str, int]
    right: float
    floor: int
    currency: str
    notes: tuple[str, ...]
    sizes: tuple[StudySize, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class PlanReport(StudyForecast, VerbReport):
    """The forecast of a study, and where it was written."""

    plan: Path
    up_to_date: bool

    @property
    def cost_table(self) -> Table:
        """What each task takes."""
        rows = tuple(
            (
                one.task,
                one.units,
                round(one.votes),
                f"{one.seconds:.0f} s" + ("" if one.measured else " assumed"),
                *((one.offer.places,) if one.offer else ()),
                money(one.reward),
                money(one.per_hour),
                round(one.hours, 1),
                money(one.fee),
                money(one.cost),
            )
            for one in self.forecasts
        )
        note = (
            f"about {self.kept:,.0f} descriptions kept, {money(self.per_kept)} each; {self.hours:,.1f} hours of work, "
            f"{money(self.cost)} in all; pay is at least {money(self.floor)} an hour at the median time; amounts in "
            f"{self.currency}"
        )
        submissions = ("submissions",) if self.platform == "prolific" else ()
        heads = ("task", "units", "answers", "median", *submissions, "pay", "an hour", "hours", "fees", "cost")
        return Table(f"What it takes on {self.platform}", heads, rows, note, digits=1)

    @property
    def size_table(self) -> Table:
        """The sizes."""
        heads = ("per set", "sets", "kept", "votes", "people", "cost", "CI", "resolves")
        rows = tuple(
            (one.targets, one.sets, one.kept, one.votes, one.people, money(one.cost), one.width, one.resolves)
            for one in self.sizes
        )
        note = (
            "per set: descriptions; votes: retrievals; CI: width of the 95 % interval of human accuracy; resolves: difference of "
            f"two models; both in points; amounts in {self.currency}; {self.plan}/figures/frontier.svg draws it"
        )
        return Table("Studies that are large enough", heads, rows, note, digits=1)


@dataclass(frozen=True)
class Serve(Options):
    """Options of `ctxr serve`."""

    COMMAND: ClassVar[str] = "serve"
    PANELS = "Address: host port base_url open; Review: review input scores; Expert: database tasks languages per_round lease_minutes rate"

    workdir: Workdir = Path("work")
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 = every address of this machine."""
    port: Annotated[int, Range(0, 65535, "a port from 0 to 65535; 0 = any free one")] = 8321
    """Port to listen on; 0 = any free one."""
    database: str = ""
    """Database for the answers instead of a file in the project: postgresql://user@host/name."""
    tasks: str = ""
    """Tasks to serve, separated by commas; default: all exported tasks, and those that follow from answers."""
    languages: str = ""
    """Languages of the pages, separated by commas, the first for browsers that ask for none of them; default: all that there are."""
    study: Path | None = None
    """Folder with what people read: `consent.md` and `instructions-TASK.md` before they work, `exit.md` when they are done; default:
    `study` in the workdir, if it is there."""
    open: bool = False
    """Let anyone with the address sign in with a name."""
    invite: Annotated[int, COUNT] = 0
    """Number of personal links to print for a team."""
    workers_file: Path | None = None
    """Print a personal link for each name in this file, one per line."""
    base_url: str = ""
    """Public address of the server behind a proxy; https makes cookies secure."""
    per_round: Annotated[int, POSITIVE] = 20
    """Answers per round, after which workers are offered a break."""
    lease_minutes: Annotated[float, Range(0, math.inf, "a number of minutes above 0", above=True)] = 30.0
    """Minutes after which an unanswered unit is offered to another worker."""
    rate: Annotated[float, Range(0, math.inf, "a number of requests a second; 0 = no limit")] = 10.0
    """Requests per second allowed for a worker, and twenty times as many for an address; 0 = no limit."""
    review: bool = False
    """Let people keep or reject sets and images before others see them; decisions go to `decisions.jsonl` in the workdir."""
    input: Path | None = None
    """Artifact of image sets to review; default: `filtered` in the workdir, or else `sets`."""
    scores: Path | None = None
    """Scores of images by any detector, with id and value (JSON Lines or .csv): the highest are reviewed first."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """Tasks that exist, and an address that a browser can open."""
        for name in listed(self.tasks):
            if name not in NAMES:
                yield f"--tasks names {name!r}, which is not a task", f"tasks are {', '.join(NAMES)}"
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            yield f"--base-url {self.base_url!r} is not an address", "it begins with https://"
        if self.study is not None and not self.study.is_dir():
            yield f"--study {self.study} is no folder", "name the folder with consent.md"
        if self.review and (self.open or self.study or self.tasks or self.database):
            yield "--review goes without --open, --study, --tasks and --database", "ctxr serve --review --invite 2"
        if not self.review and (self.input or self.scores):
            yield "--input and --scores need --review", "ctxr serve --review --scores FILE"


@dataclass(frozen=True)
class RunningServer:
    """A running server: its address, open units by task, how many people suffice by pool and in all, sign-in links by name, the
    worker ids of those who are invited, by the same names, and the link of the researcher, who must not share it."""

    address: str
    waiting: Mapping[str, int]
    people: Mapping[str, int]
    links: Mapping[str, str]
    workers: Mapping[str, str]
    run: str = ""


@dataclass(frozen=True)
class ServeReport(VerbReport):
    """New answers collected while the server ran, all in the journal by task, everyone with an answer there, units that still need
    answers by task."""

    answers: int
    total: Mapping[str, int]
    workers: int
    open: Mapping[str, int]


@dataclass(frozen=True)
class ReviewReport(ServeReport):
    """The decisions about the sets that were `read`: in `total` how many are kept and rejected, and how many single images are rejected;
    and the command that applies them, empty before anybody decided."""

    decisions: Path
    read: Path
    apply: str


@dataclass(frozen=True)
class Workers(Options):
    """Options of `ctxr workers`."""

    COMMAND: ClassVar[str] = "workers"

    workdir: Workdir = Path("work")
    database: str = ""
    """Database of `ctxr serve`, if it is not the file in the workdir."""
    block: tuple[str, ...] = ()
    """Give this worker no more units and do not count their votes: pseudonym, unique prefix, or invited name; repeatable."""
    allow: tuple[str, ...] = ()
    """Exempt this worker from all rules that would block them."""
    undo: tuple[str, ...] = ()
    """Undo the last change of this worker's state."""
    reason: str = ""
    """Reason of the change; required by --block, --allow and --undo."""
    decided_by: str = "requester"
    """Name of the person who decides."""
    withdraw: str = ""
    """Delete the data of this worker, who withdraws from the study: answers, consents, messages and identity; with --dry-run first, nothing
    is deleted."""
    paid: Switch = False
    """With --withdraw: they were paid, so delete what is owed and their submissions on Prolific, too."""
    data_protection: Switch = False
    """Print what is kept about people in this project, in Markdown, for an ethics application."""
    settle: Switch = False
    """Prolific: approve submissions that got a completion code, ask back those without answers, pay waiting, and write a pay sheet; with
    --dry-run first, nothing is sent."""
    good: Annotated[float, SHARE] = 0.8
    """Suggest allowing workers who are confidently above this accuracy."""
    poor: Annotated[float, SHARE] = 0.5
    """Suggest blocking workers who are confidently below this accuracy."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A change has a reason and is the only one of its worker."""
        yield from accuracy_rules(self.good, self.poor)
        changes = (*set(self.block), *set(self.allow), *set(self.undo))
        if changes and not self.reason.strip():
            yield "--block, --allow and --undo need a reason", '--reason "picks the first image every time"'
        if self.paid and not self.withdraw:
            yield "--paid goes with --withdraw alone", "ctxr workers --withdraw NAME --paid"
        if self.withdraw and (changes or self.settle):
            yield "--withdraw goes without --block, --allow, --undo and --settle", "one command for each"
        if twice := sorted({name for name in changes if changes.count(name) > 1}):
            yield f"{twice[0]!r} cannot be changed in two ways at once", "one command for each change"


AGREED = Table("Consent", ("version", "language", "agreed"), ())


@dataclass(frozen=True)
class WorkersReport(VerbReport):
    """The workers and their quality; `changed` are the changes made by this command, `changes` all of them, oldest first, `waited` the
    time spent on dialogues that did not take place, which must be paid; `settled` what was done on Prolific; `consents` how many agreed
    to which version of the consent; `leaving` who asked to withdraw, `withdrawn` what was deleted; `exit` how many answered the questions
    at the end; `data_protection` what is kept about people, in Markdown; `page_use` how often they pasted text and left the page."""

    workers: "tuple[Worker, ...]"
    table: Table
    changed: tuple[str, ...]
    owed: Table
    refused: Mapping[str, int]
    settled: Table | None = None
    withdrawn: tuple[str, ...] = ()
    changes: "tuple[Change, ...]" = ()
    waited: "tuple[UnpaidWait, ...]" = ()
    consents: Table = AGREED
    leaving: tuple[str, ...] = ()
    exit: Table | None = None
    data_protection: str = ""
    page_use: Table | None = None


@dataclass(frozen=True)
class Aggregate(Options):
    """Options of `ctxr aggregate`."""

    COMMAND: ClassVar[str] = "aggregate"
    FOLDER: ClassVar[str] = DATASET
    PANELS = "Decisions: rule labels keep_blocked disjoint; Suggestions: good poor; Expert: database resamples seed"

    input: Path | None = None
    """Artifact of judgments; default: `judgments` in the workdir, after importing what the local server has collected."""
    out: Path | None = None
    """Folder to write; default: `dataset` in the workdir."""
    workdir: Workdir = Path("work")
    database: FreeText = ""
    """Database of `ctxr serve`, if it is not the file in the workdir."""
    rule: Annotated[str, Choices(("paper", "majority"))] = "paper"
    """Rule that keeps a description: paper (1 of 1 votes on train, 2 of 3 elsewhere, or as the tasks say), majority."""
    labels: Annotated[str, Choices(("majority", "dawid-skene"))] = "majority"
    """Aggregation of tags and verdicts: majority (no label on ties), dawid-skene."""
    keep_blocked: bool = False
    """Count the votes of blocked workers and keep their descriptions."""
    disjoint: Annotated[str, Choices(("", *DISJOINT))] = ""
    """Worker separation to certify: wholly, partly or none; default: that of the tasks."""
    good: Annotated[float, SHARE] = 0.8
    """Suggest allowing workers who are confidently above this accuracy."""
    poor: Annotated[float, SHARE] = 0.5
    """Suggest blocking workers who are confidently below this accuracy."""
    resamples: Annotated[int, POSITIVE] = 1000
    """Bootstrap resamples of each interval."""
    seed: Annotated[int, COUNT] = 0
    """Seed of the intervals."""
    full: Switch = False
    """Print every table instead of the summary; files and --json always have them all."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """The wanted accuracy is not below the one that suggests a block."""
        yield from accuracy_rules(self.good, self.poor)


@dataclass(frozen=True)
class AggregateReport(VerbReport):
    """The result of aggregation: rows of each table, and what was dropped by reason; answers that break the rules of assignment; those
    that were not imported, by reason; and units of each pool that want more answers, which no enrolled worker may take."""

    dataset: Path
    read: Path
    up_to_date: bool
    counts: dict[str, Any]
    tables: dict[str, Table]
    holds: bool
    violations: tuple[str, ...]
    refused: Mapping[str, int]
    unreachable: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]
    full: bool = False

    @property
    def finding(self) -> FindingsError | None:
        """The answers that break the rules of assignment."""
        if not self.violations:
            return None
        return FindingsError(
            f"{plural(len(self.violations), 'violation')} of the rules of assignment: {self.violations[0]}",
            hint=f"{self.dataset / 'certificate.json'} names each; publish it with the figures",
        )
