"""`ctxr plan`: forecast the units, votes, cost with fees, hours and pay per hour of a study."""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from ctxr.annotation import cost
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.confirmation import unconfirmed_note
from ctxr.annotation.journal.worker_state import deal_bundles, people_needed
from ctxr.annotation.project_journal import project_journal
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.describe import FIELD
from ctxr.annotation.unit_factory import derive_units, describe_units
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.splits import alert_of_leaks
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import SETS, chosen
from ctxr.engine.stage import SourceInputs, Stage, execute
from ctxr.errors import UnfinishedError, UsageError, plural
from ctxr.pipelines.crowd.config import Plan, PlanReport, StudyForecast, StudySize
from ctxr.pipelines.crowd.frontier import Frontier, Price, chart_of, model_of, sentences
from ctxr.problems.drawing import drawn
from ctxr.store.artifacts import MANIFEST, Content, Parent, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import IMAGE_SETS, JUDGMENTS, PLAN
from ctxr.store.tables import grouped, pretty_json


class PlanStage(Stage[SourceInputs[Path | None]]):
    """The forecast of a study."""

    KIND = PLAN
    options: Plan

    def inputs(self, progress: Progress) -> SourceInputs[Path | None]:
        """The image sets, and the answers so far: a pilot that gives times and accuracy. Sizes are found without sets, too."""
        config, sets, parents = self.options, None, []
        try:
            sets = chosen(config.input, config.workdir, SETS, progress)
            parents.append(Parent("image_sets", IMAGE_SETS, open_artifact(sets).sha256))
        except UnfinishedError:
            if config.input is not None or not config.seeks_sizes:
                raise
        judgments = config.workdir / JUDGMENTS
        if (judgments / MANIFEST).is_file():
            parents.append(Parent("judgments", JUDGMENTS, open_artifact(judgments, JUDGMENTS).content))
        note = ""
        with suppress(UsageError), project_journal(config.workdir) as journal:  # elsewhere it needs a password
            note = unconfirmed_note(journal)
        return SourceInputs(parents, config.key() | ({"unconfirmed": note} if note else {}), sets)

    def write(self, inputs: SourceInputs[Path | None], out: Path, progress: Progress) -> Content:
        """Forecast. Raises UsageError where a task would pay less than the floor, and for sizes that no study reaches."""
        config = self.options
        dataset = open_sets(inputs.source) if inputs.source else Dataset("no sets", None, (), {})
        alert_of_leaks(dataset, progress)
        terms = terms_of(config)
        if note := inputs.key.get("unconfirmed"):
            terms.notes.append(str(note))
        sizes, figures = tuple[StudySize, ...](), dict[str, bytes]()
        if config.seeks_sizes:
            model = model_of(config, terms.right, terms.pilot, terms.notes)
            sizes = tuple(Frontier(config, model, terms.price).sizes(progress))
            figures = drawn({"frontier": chart_of(sizes)})
        study = replace(forecast_study(terms, dataset), sizes=sizes, sentences=tuple(sentences(config, sizes)))
        votes = round(sum(row.votes for row in study.forecasts))
        counts = {"sets": study.sets, "units": study.forecasts[0].units, "votes": votes, "cost": study.cost}
        price = f"{cost.money(study.cost)} {study.currency}"
        self.announce(progress, **counts | {"sets": len(dataset.sets), "cost": price})
        for name, content in {cost.FORECAST: pretty_json(study), **figures}.items():
            write_bytes(out / name, content)
        return Content([cost.FORECAST, *figures], counts, {})


def run(config: Plan, progress: Progress = SILENT) -> PlanReport:
    """Forecast, and write it as an artifact. Raises UsageError where a task would pay less than the floor, UnfinishedError without
    finished sets."""
    up_to_date, out = execute(PlanStage(config), progress).up_to_date, config.folder()
    study = msgspec.json.decode((out / cost.FORECAST).read_bytes(), type=StudyForecast)
    return PlanReport(**vars(study), plan=out, up_to_date=up_to_date)


class Timing(NamedTuple):
    """Seconds of an answer, and the number of answers that they are measured on."""

    seconds: float
    measured: int


class Effort(NamedTuple):
    """Answers that a task takes, checks of the workers included, and what a study on Prolific offers for them."""

    answers: float
    offer: cost.Offer | None = None


class SplitVotes(NamedTuple):
    """Descriptions of a split, the right votes that each needs, and the most votes it gets."""

    units: int
    needed: int
    most: int


@dataclass(frozen=True)
class Terms:
    """What answers take and earn: the answers so far; by task their time and their export; the accuracy of retrievals; and `notes` on
    what was assumed."""

    config: Plan
    pilot: list[tuple[Unit, Answer]]
    times: Mapping[str, Timing]
    tasks: Mapping[str, ExportTasks]
    right: float
    notes: list[str]

    def forecast(self, task: str, units: int, effort: Effort) -> cost.Forecast:
        """Of one task; whole cents, rounded up."""
        config, offer, pay = self.config, effort.offer, self.tasks[task].pay()
        rewards = float(offer.total) if offer else effort.answers * pay
        fee = cost.platform_fee(config.platform, offer.total if offer else pay, config.fee_percent)
        fees = math.ceil(round(fee if offer else effort.answers * fee, 6))
        total = math.ceil(round(rewards, 6))
        return cost.Forecast(task, units, effort.answers, *self.times[task], pay, fees, total + fees, offer)

    def price(self, answers: Mapping[str, float]) -> Price:
        """Of so many answers by task, in submissions that are all full."""
        rows = []
        for task, count in answers.items():
            size, places = self.config.per_submission, math.ceil(count / self.config.per_submission)
            offer = self.tasks[task].offer([size] * places, size) if self.config.platform == "prolific" else None
            rows.append(self.forecast(task, round(count), Effort(count, offer)))
        return Price(sum(row.cost for row in rows), sum(row.hours for row in rows))


def terms_of(config: Plan) -> Terms:
    """Times, pay and accuracy as given, measured or assumed. Raises UsageError where a task pays less than the floor."""
    notes: list[str] = []
    cost.platform_fee(config.platform, 0, config.fee_percent)  # refused before anything is simulated
    pilot = cost.answered_work(config.workdir)
    times = _times(config, pilot, notes)
    tasks = {task: config.tasks(task, timing.seconds) for task, timing in times.items()}
    for task, export in tasks.items():
        seconds, currency = times[task].seconds, "USD"
        if config.platform == "prolific":
            seconds, currency = export.bundle_minutes() * 60, config.currency
        cost.require_floor(task, export.pay(), seconds, config.least_pay(), f"--{task}-reward", currency=currency)
    return Terms(
        config, pilot, times, tasks, config.right if config.right is not None else _accuracy(pilot, notes), notes
    )


def forecast_study(terms: Terms, dataset: Dataset) -> StudyForecast:
    """Votes, hours and cost of both tasks, and the expected number of kept descriptions."""
    config, notes, served = terms.config, [*terms.notes], terms.config.platform == "prolific"
    sets = dict(sorted(Counter(str(dataset.split_of(row) or "none") for row in dataset.sets).items()))
    splits = [
        SplitVotes(count * config.targets, *config.votes(split if split != "none" else None))  # type: ignore[arg-type]
        for split, count in sets.items()
    ]
    kept = sum(split.units * cost.chance_kept(terms.right, split.needed, split.most) for split in splits)
    contents = {name: image.sha256 for name, image in dataset.images.items()}
    if served:
        efforts = _offers(config, dataset, terms.tasks, contents)
        notes += [f"{task}: {offer.shortage}" for task, (_, offer) in efforts.items() if offer and offer.short]
    else:
        efforts = _votes(config, splits, terms.right)
    sets_of = grouped((contents[name] or name, row.id) for row in dataset.sets for name in row.images)
    if overlapping := {name for names in sets_of.values() if len(names) > 1 for name in names}:
        count = f"{len(overlapping)} of {plural(len(dataset.sets), 'set')}"
        notes.append(f"{count} share pictures: each needs people who have seen none of the others")
    units = sum(split.units for split in splits)
    forecasts = tuple(terms.forecast(task, units, efforts[task]) for task in terms.tasks)
    if config.qualification and not served:
        notes.append(
            f"each new worker also answers {config.qualification} qualification questions first; they are not counted here"
        )
    total = sum(row.cost for row in forecasts)
    return StudyForecast(
        platform=config.platform,
        forecasts=forecasts,
        sets=sets,
        kept=kept,
        cost=total,
        per_kept=total / kept if kept else 0.0,
        hours=sum(row.hours for row in forecasts),
        people=people_needed(describe_units(dataset, config), config, contents),
        right=terms.right,
        floor=config.least_pay(),
        currency=config.currency if served else "USD",
        notes=tuple(notes),
        sizes=(),
        sentences=(),
    )


def _times(config: Plan, pilot: list[tuple[Unit, Answer]], notes: list[str]) -> dict[str, Timing]:
    """By task, the time of an answer: as given, of the pilot, or assumed; what is uncertain is added to `notes`."""
    options = {"describe": config.describe_seconds, "retrieve": config.retrieve_seconds}
    times: dict[str, Timing] = {}
    for task, option in options.items():
        measured, count = cost.median_seconds(task, pilot)
        if option is not None:
            times[task] = Timing(option, 0)
        elif measured is None:
            times[task] = Timing(cost.ASSUMED_SECONDS[task], 0)
            assumed = f"{times[task].seconds:g} s are assumed; run a pilot of {cost.PILOT} answers"
            notes.append(f"no {task} has been timed yet: {assumed}")
        else:
            times[task] = Timing(measured, count)
            if count < cost.PILOT:
                timed = f"the time of a {task} is the median of only {plural(count, 'answer')}"
                notes.append(f"{timed}; a pilot of {cost.PILOT} is more reliable")
    return times


def _votes(config: Plan, splits: list[SplitVotes], accuracy: float) -> dict[str, Effort]:
    """By task, where each answer is paid: counting stops once a description is decided; retrievals include the checks."""
    checks = sum(1 / (every - 1) for every in (config.gold_every, config.attention_every) if every)
    votes = 0.0
    for split in splits:
        full = config.full_share if split.most > split.needed else 0.0
        votes += split.units * cost.expected_votes(accuracy, split.needed, split.most, full) * (1 + checks)
    return {"describe": Effort(sum(split.units for split in splits)), "retrieve": Effort(votes)}


def _offers(
    config: Plan, dataset: Dataset, tasks: Mapping[str, ExportTasks], contents: Mapping[str, str]
) -> dict[str, Effort]:
    """By task, the study on Prolific as `export-tasks` offers it; who has described may come again to retrieve."""
    sets = {image_set.id: image_set for image_set in dataset.sets}
    units, efforts = describe_units(dataset, config), dict[str, Effort]()
    for task, export in tasks.items():
        size = config.work_in(config.per_submission, task)
        bundles = deal_bundles(units, config, size, contents)
        found = [len(bundle) for bundle in bundles]
        efforts[task] = Effort(sum(found) * config.per_submission / size, export.offer(found, size))
        written = [
            (unit, Answer(unit.id, f"w-{number}", {FIELD: ("text",)}, (), 0, "", None, "prolific"))
            for number, bundle in enumerate(bundles)
            for unit in bundle
            if task == "describe"
        ]
        units = [one for unit, row in written for one in derive_units(unit, row, sets[unit.image_set], config)]
    return efforts


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
