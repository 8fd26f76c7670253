"""`ctxr plan`: forecast the units, votes, cost with fees, hours and pay per hour of a study."""

from typing import Any

from ctxr.annotation.cost import (
    ASSUMED_SECONDS,
    KEPT,
    PILOT,
    Forecast,
    answered_work,
    chance_kept,
    expected_votes,
    forecast,
    median_seconds,
    platform_fee,
    refuse_below_floor,
)
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import SETS, chosen
from ctxr.errors import plural
from ctxr.pipelines.crowd.config import Plan, PlanReport
from ctxr.store.artifacts import Content, Parent, finish, locked, open_artifact, require_ours, take_manifest
from ctxr.store.kinds import PLAN


def run(config: Plan, progress: Progress | None = None) -> PlanReport:
    """Forecast, and write it as an artifact.

    Raises UsageError where a task would pay less than the floor, or for numbers that cannot be meant; UnfinishedError
    without finished sets.
    """
    progress = progress or Silent()
    config.check()
    source = chosen(config.input, config.workdir, SETS, progress)
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
        notes.append(
            f"each new worker also answers {config.qualification} qualification questions first; they are not counted here"
        )
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
    require_ours(out)
    with locked(out):
        take_manifest(out)
        settings = {name: value for name, value in config.key().items() if name not in ("input", "out", "workdir")}
        votes = round(sum(one.votes for one in forecasts))
        counts = {"sets": sides, "units": forecasts[0].units, "votes": votes, "cost": cost}
        parent = Parent("image_sets", "image_sets", open_artifact(source).sha256)
        finish(out, kind=PLAN, verb="plan", config=settings, parents=[parent], content=Content([], counts, {}))
    return report


def _forecasts(
    config: Plan,
    sides: dict[str, int],
    right: float,
    describe_time: tuple[float, int],
    retrieve_time: tuple[float, int],
) -> "tuple[tuple[Forecast, ...], float]":
    """The forecasts of describing and retrieving, and the expected number of kept descriptions. Times are seconds with their
    number of answers."""
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


def _sides(dataset: "Dataset") -> dict[str, int]:
    sides: dict[str, int] = {}
    for image_set in dataset.sets:
        side = dataset.split_of(image_set) or "none"
        sides[side] = sides.get(side, 0) + 1
    return dict(sorted(sides.items()))


def _seconds(task: str, given: float | None, pilot: "list[tuple[Unit, Answer]]", notes: list[str]) -> tuple[float, int]:
    if given is not None:
        return given, 0
    measured, count = median_seconds(task, pilot)
    if measured is not None:
        if count < PILOT:
            notes.append(
                f"the time of a {task} is the median of only {plural(count, 'answer')}; a pilot of {PILOT} is more reliable"
            )
        return measured, count
    notes.append(
        f"no {task} has been timed yet: {ASSUMED_SECONDS[task]:g} s are assumed; run a pilot of {PILOT} answers"
    )
    return ASSUMED_SECONDS[task], 0


def _right(pilot: "list[tuple[Unit, Answer]]", notes: list[str]) -> float:
    """The share of right retrievals, assumed where none was answered yet."""
    marks: list[Any] = [task_of(unit).score(unit, one).right for unit, one in pilot if unit.task == "retrieve"]
    known = [mark for mark in marks if mark is not None]
    if known:
        return float(sum(known) / len(known))
    notes.append(f"no retrieval has been answered yet: an accuracy of {KEPT} is assumed (ImageCoDe, section 3.3)")
    return KEPT
