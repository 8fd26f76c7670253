"""What a study has come to while it runs, for `ctxr status` and the page of the researcher."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.confirmation import leaving_notes, unconfirmed_note
from ctxr.annotation.cost import FORECAST
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import Overview
from ctxr.annotation.journal.worker_state import pool_of
from ctxr.annotation.launch import study_offer
from ctxr.annotation.owed import OFFERS, owed_by
from ctxr.annotation.votes import by_kind, picks_of, votes_on
from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.agreement import by_units
from ctxr.metrics.workers import human_accuracy
from ctxr.store.artifacts import MANIFEST
from ctxr.store.kinds import PLAN, TASKS

RESAMPLES = 200
"""Of each interval; `ctxr aggregate` draws more."""


def overview(
    workdir: Path, journal: Journal, answered: AggregatedAnswers, now: datetime, names: Mapping[str, str] = {}
) -> Overview:
    """What the answers in the journal of a project, `Journal.answered`, come to so far; `names` by pseudonym, where they may be shown."""
    stuck = (*leaving_notes(journal, workdir, names), *_stuck(journal, now))
    return Overview(
        _progress(journal, answered), _agreement(answered), _money(workdir, journal, answered), journal.paused(), stuck
    )


def _progress(journal: Journal, answered: AggregatedAnswers) -> Table:
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for answer in answered.answers:
        if answer.seconds is not None and (unit := answered.units[answer.unit]).purpose == "work":
            times[unit.task, pool_of(unit)].append(answer.seconds)
    rows = tuple(
        (
            *key,
            part.units,
            part.decided,
            part.open,
            part.leases,
            part.answered,
            round(median(times[key]), 1) if times[key] else None,
        )
        for key, part in journal.parts().items()
    )
    heads = ("task", "side", "units", "decided", "open", "in hands", "answers", "median s")
    return Table(
        "Progress", heads, rows, "side: also the pool of the workers who are given these units; any: of all", digits=1
    )


def _agreement(answered: AggregatedAnswers) -> Table:
    """As `ctxr aggregate` reports them: the share of right first votes, with workers drawn again, and alpha of all votes on image ids."""
    rows, rng = [], np.random.default_rng(0)
    for kind, picks in by_kind(picks_of(answered)).items():
        first = [pick for pick in picks if pick.first]
        right = human_accuracy(votes_on("picked", first), np.array([one.right for one in first]), rng, RESAMPLES)
        alpha = by_units(votes_on("picked", picks), "nominal", rng, RESAMPLES, workers=True)
        for name, value, low, high, votes in (
            ("accuracy", right.value, right.crowd_low, right.crowd_high, len(first)),
            ("Krippendorff's alpha", alpha.value, alpha.low, alpha.high, alpha.votes),
        ):
            rows.append((f"{name}, {kind}", value, low, high, votes))
    note = "retrievals; accuracy: of first votes, with a 95 % interval over workers; alpha: of all votes, over units and workers"
    return Table("Agreement", ("figure", "value", "low", "high", "votes"), tuple(rows), note)


def _money(workdir: Path, journal: Journal, answered: AggregatedAnswers) -> Table:
    """By currency: what `ctxr workers` says is owed, and what the studies on Prolific and `ctxr plan` say that all of it takes."""
    owed, offered = defaultdict[str, float](float), defaultdict[str, float](float)
    for *_, amount, currency in owed_by(workdir, answered, journal).rows:
        owed[currency] += amount
    for file in (workdir / TASKS).glob(OFFERS):
        offer = study_offer(file.parent.parent)
        offered[offer.currency] += offer.total / 100
    if not offered and (workdir / PLAN / MANIFEST).is_file():
        plan = msgspec.json.decode((workdir / PLAN / FORECAST).read_bytes())
        offered[plan["currency"]] += plan["cost"] / 100
    rows = tuple((name, owed[name], offered.get(name)) for name in sorted({*owed, *offered}))
    note = "offered: the rewards of all submissions on Prolific without fees, or what ctxr plan forecasts"
    return Table("Money", ("currency", "owed", "offered in all"), rows, note, digits=2)


def unreachable_note(pool: str, units: Sequence[str]) -> str:
    """What is said of open units of a pool that no enrolled worker may take."""
    count = plural(len(units), "open unit")
    return f"no enrolled worker may take {count} of pool {pool}, such as {units[0]}: invite more people with ctxr serve --invite"


def _stuck(journal: Journal, now: datetime) -> Iterator[str]:
    """What cannot go on by itself."""
    for pool, units in journal.unreachable().items():
        yield unreachable_note(pool, units)
    if note := unconfirmed_note(journal):
        yield note
    if overdue := journal.overdue(now):
        yield f"{plural(overdue, 'unit')} held for longer than allowed: others get them as soon as anybody asks for work"
    if given_up := journal.given_up():
        yield f"{plural(given_up, 'unit')} given up: two people found a picture broken, or could not tell"
