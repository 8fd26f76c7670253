"""`ctxr plan`: what asking the crowd will take: units, votes, cost with fees, hours, pay per hour."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.annotation.cost import FLOOR
from ctxr.annotation.protocol import Protocol
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.annotation.cost import Forecast
    from ctxr.annotation.records import Answer, Unit
    from ctxr.data.dataset import Dataset

KIND = "plan"


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


def run(config: Plan, talk: Talk | None = None) -> PlanReport:
    """Forecast, and write it as an artifact.

    Raises UsageError where a task would pay less than the floor, or for numbers that cannot be meant; UnfinishedError
    without finished sets.
    """
    from ctxr.annotation.cost import refuse_below_floor
    from ctxr.data.artifacts import Parent, finish, locked, open_artifact, refuse_strangers, take_manifest
    from ctxr.data.readers.artifact import read_artifact
    from ctxr.pipelines.inputs import SETS, chosen
    from ctxr.pipelines.pilot import answered_work

    talk = talk or Silent()
    _check(config)
    source = chosen(config.input, config.workdir, SETS, talk)
    sides = _sides(read_artifact(source))
    pilot = answered_work(config.workdir)
    notes: list[str] = []
    describe_time = _seconds("describe", config.describe_seconds, pilot, notes)
    retrieve_time = _seconds("retrieve", config.retrieve_seconds, pilot, notes)
    refuse_below_floor("describe", config.describe_reward, describe_time[0], config.floor)
    refuse_below_floor("retrieve", config.retrieve_reward, retrieve_time[0], config.floor)
    right = config.right if config.right is not None else _right(pilot, notes)
    forecasts, kept = _forecasts(config, sides, right, describe_time, retrieve_time)
    if config.qualification:
        notes.append(f"each new worker also answers {config.qualification} questions first; they are not counted here")
    cost = sum(one.cost for one in forecasts)
    report = PlanReport(
        plan=config.folder(),
        platform=config.platform,
        forecasts=forecasts,
        sets=sides,
        kept=kept,
        cost=cost,
        per_kept=cost / kept if kept else 0.0,
        hours=sum(one.hours for one in forecasts),
        right=right,
        floor=config.floor,
        notes=tuple(notes),
    )
    out = config.folder()
    refuse_strangers(out)
    with locked(out):
        take_manifest(out)
        settings = {name: value for name, value in asdict(config).items() if name not in ("input", "out", "workdir")}
        votes = round(sum(one.votes for one in forecasts))
        counts = {"sets": sides, "units": forecasts[0].units, "votes": votes, "cost": cost}
        parent = Parent("image_sets", "image_sets", open_artifact(source).sha256)
        finish(out, kind=KIND, verb="plan", config=settings, parents=[parent], counts=counts, models={}, files=[])
    return report


def _forecasts(
    config: Plan,
    sides: dict[str, int],
    right: float,
    describe_time: tuple[float, int],
    retrieve_time: tuple[float, int],
) -> "tuple[tuple[Forecast, ...], float]":
    """What describing and retrieving will take, and how many descriptions will be kept. Times are seconds, and of how many."""
    from ctxr.annotation.cost import chance_kept, expected_votes, forecast, platform_fee

    described = sum(sides.values()) * config.targets
    votes, kept, most = 0.0, 0.0, 1
    for side, count in sides.items():
        needed, at_most = config.votes(side if side != "none" else None)  # type: ignore[arg-type]
        full = config.full_share if at_most > needed else 0.0
        votes += count * config.targets * expected_votes(right, needed, at_most, full)
        kept += count * config.targets * chance_kept(right, needed, at_most)
        most = max(most, at_most)
    votes *= 1 + sum(1 / (every - 1) for every in (config.gold_every, config.attention_every) if every)
    describe_fee = platform_fee(config.platform, config.describe_reward, 1, config.fee_percent)
    retrieve_fee = platform_fee(config.platform, config.retrieve_reward, most, config.fee_percent)
    return (
        forecast("describe", described, described, *describe_time, config.describe_reward, describe_fee),
        forecast("retrieve", described, votes, *retrieve_time, config.retrieve_reward, retrieve_fee),
    ), kept


def as_table(report: PlanReport) -> Table:
    """The forecast as a table for people."""
    from ctxr.annotation.cost import money

    rows = tuple(
        (
            one.task,
            one.units,
            round(one.votes),
            f"{one.seconds:.0f} s" + ("" if one.measured else " assumed"),
            money(one.reward),
            money(one.per_hour),
            round(one.hours, 1),
            money(one.fee),
            money(one.cost),
        )
        for one in report.forecasts
    )
    note = (
        f"about {report.kept:,.0f} descriptions kept, {money(report.per_kept)} each; {report.hours:,.0f} hours of work, "
        f"{money(report.cost)} in all; pay is at least {money(report.floor)} an hour at the median time"
    )
    heads = ("task", "units", "answers", "median", "pay", "an hour", "hours", "fees", "cost")
    return Table(f"What it takes on {report.platform}", heads, rows, note)


def _check(config: Plan) -> None:
    from ctxr.errors import UsageError

    config.check()
    refuse_seed(config.seed)
    if config.right is not None and not 0 <= config.right <= 1:
        raise UsageError(f"--right is {config.right:g}, it must be a share from 0 to 1")
    if config.fee_percent is not None and config.fee_percent < 0:
        raise UsageError(f"--fee-percent is {config.fee_percent:g}, it cannot be negative")
    for name in ("describe_seconds", "retrieve_seconds"):
        if (seconds := getattr(config, name)) is not None and seconds <= 0:
            raise UsageError(f"--{name.replace('_', '-')} is {seconds:g}, it must be above 0")
    if min(config.describe_reward, config.retrieve_reward, config.floor) < 0:
        raise UsageError("rewards and the floor cannot be negative")


def _sides(dataset: "Dataset") -> dict[str, int]:
    sides: dict[str, int] = {}
    for image_set in dataset.sets:
        side = dataset.split_of(image_set) or "none"
        sides[side] = sides.get(side, 0) + 1
    return dict(sorted(sides.items()))


def _seconds(task: str, given: float | None, pilot: "list[tuple[Unit, Answer]]", notes: list[str]) -> tuple[float, int]:
    from ctxr.annotation.cost import ASSUMED_SECONDS
    from ctxr.pipelines.pilot import PILOT, median_seconds

    if given is not None:
        return given, 0
    measured, count = median_seconds(task, pilot)
    if measured is not None:
        if count < PILOT:
            notes.append(f"the time of a {task} rests on {count} answers; a pilot of {PILOT} says more")
        return measured, count
    notes.append(f"no {task} has been timed yet: {ASSUMED_SECONDS[task]:g} s are assumed; a pilot of {PILOT} says more")
    return ASSUMED_SECONDS[task], 0


def _right(pilot: "list[tuple[Unit, Answer]]", notes: list[str]) -> float:
    """The share of right retrievals, assumed where none was answered yet."""
    from ctxr.annotation.cost import KEPT
    from ctxr.annotation.tasks import task_of

    marks: list[Any] = [task_of(unit).score(unit, one).right for unit, one in pilot if unit.task == "retrieve"]
    known = [mark for mark in marks if mark is not None]
    if known:
        return float(sum(known) / len(known))
    notes.append(f"no retrieval has been answered yet: {KEPT} of them are taken to be right (ImageCoDe, section 3.3)")
    return KEPT
