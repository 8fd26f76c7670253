"""`ctxr plan`: forecast the units, votes, cost with fees, hours and pay per hour of a study."""

from collections import Counter
from pathlib import Path
from typing import Any

from ctxr.annotation import cost
from ctxr.annotation.journal.worker_state import people_needed
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.annotation.unit_factory import describe_units
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.splits import alert_of_leaks
from ctxr.engine.progress import Progress
from ctxr.engine.project import SETS, chosen
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import plural
from ctxr.pipelines.crowd.config import Plan, PlanReport
from ctxr.store.artifacts import Artifact, Content, Parent
from ctxr.store.kinds import IMAGE_SETS, PLAN


class PlanStage(Stage):
    """The forecast of a study, as the options and counts of an artifact."""

    KIND = PLAN
    options: Plan
    report: PlanReport

    def out(self) -> Path:
        """`--out`, or the project's plan."""
        return self.options.folder()

    def inputs(self, progress: Progress) -> Inputs:
        """The image sets. Raises UsageError where a task would pay less than the floor."""
        source = chosen(self.options.input, self.options.workdir, SETS, progress)
        artifact, dataset = open_sets(source)
        alert_of_leaks(dataset, progress)
        self.report = forecast_study(self.options, dataset)
        return Inputs([Parent("image_sets", IMAGE_SETS, artifact.sha256)])

    def key(self, inputs: Inputs) -> dict[str, Any]:
        """The options but for paths."""
        options = super().key(inputs)
        return {name: value for name, value in options.items() if name not in ("input", "out", "workdir")}

    def current(self, out: Path, inputs: Inputs) -> Artifact | None:
        """Never: answers since then may have changed what is measured."""
        return None

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """Write the counts."""
        forecasts = self.report.forecasts
        votes = round(sum(row.votes for row in forecasts))
        counts = {"sets": self.report.sets, "units": forecasts[0].units, "votes": votes, "cost": self.report.cost}
        return Content([], counts, {})


def run(config: Plan, progress: Progress | None = None) -> PlanReport:
    """Forecast, and write it as an artifact.

    Raises UsageError where a task would pay less than the floor, or for numbers that cannot be meant; UnfinishedError
    without finished sets.
    """
    stage = PlanStage(config)
    execute(stage, progress)
    return stage.report


def forecast_study(config: Plan, dataset: Dataset) -> PlanReport:
    """Votes, hours and cost of describing and retrieving, and the expected number of kept descriptions."""
    splits = Counter(str(dataset.split_of(image_set) or "none") for image_set in dataset.sets)
    sets = dict(sorted(splits.items()))
    pilot = cost.answered_work(config.workdir)
    notes: list[str] = []
    describe_time = _seconds("describe", config.describe_seconds, pilot, notes)
    retrieve_time = _seconds("retrieve", config.retrieve_seconds, pilot, notes)
    cost.require_floor("describe", config.describe_reward, describe_time[0], config.floor, "--describe-reward")
    cost.require_floor("retrieve", config.retrieve_reward, retrieve_time[0], config.floor, "--retrieve-reward")
    accuracy = config.right if config.right is not None else _accuracy(pilot, notes)
    described = sum(sets.values()) * config.targets
    votes, kept, most = 0.0, 0.0, 1
    for split, count in sets.items():
        needed, at_most = config.votes(split if split != "none" else None)  # type: ignore[arg-type]
        full = config.full_share if at_most > needed else 0.0
        votes += count * config.targets * cost.expected_votes(accuracy, needed, at_most, full)
        kept += count * config.targets * cost.chance_kept(accuracy, needed, at_most)
        most = max(most, at_most)
    votes *= 1 + sum(1 / (every - 1) for every in (config.gold_every, config.attention_every) if every)
    describe_fee = cost.platform_fee(config.platform, config.describe_reward, 1, config.fee_percent)
    retrieve_fee = cost.platform_fee(config.platform, config.retrieve_reward, most, config.fee_percent)
    forecasts = (
        cost.forecast(
            "describe", described, described, *describe_time, reward=config.describe_reward, fee_each=describe_fee
        ),
        cost.forecast(
            "retrieve", described, votes, *retrieve_time, reward=config.retrieve_reward, fee_each=retrieve_fee
        ),
    )
    if config.qualification:
        notes.append(
            f"each new worker also answers {config.qualification} qualification questions first; they are not counted here"
        )
    total = sum(row.cost for row in forecasts)
    return PlanReport(
        plan=config.folder(),
        platform=config.platform,
        forecasts=forecasts,
        sets=sets,
        kept=kept,
        cost=total,
        per_kept=total / kept if kept else 0.0,
        hours=sum(row.hours for row in forecasts),
        people=people_needed(describe_units(dataset, config), config),
        right=accuracy,
        floor=config.floor,
        notes=tuple(notes),
    )


def _seconds(task: str, option: float | None, pilot: list[tuple[Unit, Answer]], notes: list[str]) -> tuple[float, int]:
    """Seconds of an answer, and the number of answers that they are measured on."""
    if option is not None:
        return option, 0
    measured, count = cost.median_seconds(task, pilot)
    if measured is not None:
        if count < cost.PILOT:
            notes.append(
                f"the time of a {task} is the median of only {plural(count, 'answer')}; a pilot of {cost.PILOT} is more reliable"
            )
        return measured, count
    notes.append(
        f"no {task} has been timed yet: {cost.ASSUMED_SECONDS[task]:g} s are assumed; run a pilot of {cost.PILOT} answers"
    )
    return cost.ASSUMED_SECONDS[task], 0


def _accuracy(pilot: list[tuple[Unit, Answer]], notes: list[str]) -> float:
    """The share of right first votes, assumed where none was answered yet: a second is asked for where the first was wrong."""
    oldest_last = sorted(pilot, key=lambda vote: (vote[1].at, vote[1].worker), reverse=True)
    first = {unit.id: (unit, answer) for unit, answer in oldest_last if unit.task == "retrieve"}
    outcomes = [task_of(unit).score(unit, answer).right for unit, answer in first.values()]
    marks = [mark for mark in outcomes if mark is not None]
    if marks:
        return float(sum(marks) / len(marks))
    notes.append(f"no retrieval has been answered yet: an accuracy of {cost.KEPT} is assumed (ImageCoDe, section 3.3)")
    return cost.KEPT
