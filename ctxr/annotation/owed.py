"""What each worker has earned, by one calculation for `ctxr workers`, the page of a running study and `ctxr status`."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.config import PROLIFIC_ADVISED, ExportTasks
from ctxr.annotation.confirmation import unconfirmed
from ctxr.annotation.cost import ASSUMED_SECONDS, FLOOR
from ctxr.annotation.journal.identities import read_visits
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import Earned, UnpaidWait
from ctxr.annotation.launch import private_folder, study_offer
from ctxr.annotation.records import Answer, Unit
from ctxr.engine.report import Table
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.kinds import PLAN, TASKS

OFFERS = "*/prolific/offer.json"
"""The offers of studies on Prolific, below a project's tasks."""


def owed_by(workdir: Path, answered: AggregatedAnswers, journal: Journal | None) -> Table:
    """`owed_table` of answers in a project; None for its journal where nothing was served."""
    if journal is None:
        return owed_table(workdir, answered.units, answered.answers, (), {})
    platforms = {state.worker: state.platform for state in journal.workers()}
    given = answered.units, answered.answers, journal.waited(), platforms
    unpaid = [state.worker for state in unconfirmed(journal)]
    return owed_table(workdir, *given, unpaid=unpaid, deleted=journal.earned())


def owed_table(
    workdir: Path,
    units: Mapping[str, Unit],
    answers: Sequence[Answer],
    waited: Iterable[UnpaidWait],
    platforms: Mapping[str, str],
    *,
    unpaid: Collection[str] = (),
    deleted: Collection[Earned] = (),
) -> Table:
    """What each worker has earned: answers at the pay of their tasks, on Prolific each submission in full, and waiting by the hour.

    `platforms`: of workers who have only waited. `unpaid`: whom Prolific does not confirm. `deleted`: answers that are owed, too.
    """
    plan = open_artifact(workdir / PLAN).manifest.config if (workdir / PLAN / MANIFEST).is_file() else {}
    planned = {} if plan.get("platform") == "prolific" else plan
    floor = planned.get("floor", FLOOR)
    rates: dict[str, float] = {}
    given = [*(Earned(one.worker, units[one.unit].task, one.backend, one.seconds) for one in answers), *deleted]
    for task in {one.task for one in given}:
        # without a plan, the paper's pay, but at least the minimum for the time of the answers
        times = [one.seconds for one in given if one.task == task and one.seconds is not None]
        seconds = (median(times) if times else 0) or ASSUMED_SECONDS.get(task, 0)
        least = max(ExportTasks(task=task).pay(), math.ceil(floor * seconds / 3600))
        rates[task] = planned.get(f"{task}_reward", least)
    offers = {file.parent.parent.name: study_offer(file.parent.parent) for file in (workdir / TASKS).glob(OFFERS)}
    studied = next((offer.currency for _, offer in sorted(offers.items())), "USD")
    earned: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for one in given:
        is_paid = one.backend != "prolific"
        row = earned[one.worker, one.backend, "USD" if is_paid else studied]
        row[0], row[2] = row[0] + 1, row[2] + is_paid * rates[one.task]
    for visit in read_visits(private_folder(workdir)):
        if visit.ending in ("complete", "stopped") and visit.worker not in unpaid and visit.door in offers:
            offer = offers[visit.door]
            earned[visit.worker, "prolific", offer.currency][2] += offer.pay
    for wait in waited:
        platform = platforms.get(wait.worker, "local")
        currency = studied if platform == "prolific" else "USD"
        row = earned[wait.worker, platform, currency]
        hourly = PROLIFIC_ADVISED[currency] if platform == "prolific" else floor
        row[1], row[2] = row[1] + wait.seconds / 60, row[2] + hourly * wait.seconds / 3600
    rows = tuple(
        (worker, platform, count, round(minutes, 1), math.ceil(round(cents, 6)) / 100, currency)
        for (worker, platform, currency), (count, minutes, cents) in sorted(earned.items())
    )
    note = (
        "on Prolific the reward of each submission that got its code, if you approve it; waiting is paid as a bonus; refused answers "
        "are not counted; without a plan, an answer is counted at the paper's pay, or at the minimum for its time if that is more"
    )
    return Table("Owed", ("worker", "platform", "answers", "minutes waited", "owed", "currency"), rows, note, digits=2)
