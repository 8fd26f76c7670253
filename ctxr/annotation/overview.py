"""What a study has come to while it runs, for `ctxr status` and the page of the researcher."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.confirmation import leaving, leaving_notes, unconfirmed_note
from ctxr.annotation.cost import FORECAST
from ctxr.annotation.forms import PROBLEM, Choice, Mark, Order
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import Overview, SeenWorker
from ctxr.annotation.journal.worker_state import pool_of
from ctxr.annotation.launch import study_offer
from ctxr.annotation.owed import OFFERS, owed_by
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import dialogue, task_of
from ctxr.annotation.votes import by_kind, picks_of, votes_on
from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.agreement import by_units
from ctxr.metrics.workers import human_accuracy
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.kinds import PLAN, TASKS

RESAMPLES = 200
"""Of each interval; `ctxr aggregate` draws more."""

LATEST = 12
"""Answers, and people, that are shown as the last ones."""


def overview(
    workdir: Path, journal: Journal, answered: AggregatedAnswers, now: datetime, names: Mapping[str, str] = {}
) -> Overview:
    """What the answers in the journal of a project, `Journal.answered`, come to so far; `names` by pseudonym, where they may be shown."""
    seen = seen_workers(journal, answered, names)
    return Overview(
        progress=_progress(journal, answered),
        agreement=_agreement(answered),
        money=_money(workdir, journal, answered),
        people=_people(seen, now),
        seen=seen,
        latest=_latest(answered, names, now),
        paused=journal.paused(),
        stuck=(*leaving_notes(journal, workdir, names), *_stuck(journal, now)),
    )


def seen_workers(journal: Journal, answered: AggregatedAnswers, names: Mapping[str, str]) -> list[SeenWorker]:
    """Everybody who enrolled, by when they last took or sent something, latest first."""
    activity, sent = journal.activity(), {answer.worker: answer.at for answer in answered.answers}
    reports = Counter(answer.worker for answer in answered.answers if answer.values.get(PROBLEM))
    seen, declined, asked = [], journal.declined(), {state.worker for state in leaving(journal)}
    for state in journal.workers():
        given, holds = activity.get(state.worker, ("", False))
        name = names.get(state.worker, state.worker)
        standing = "allowed" if state.allowed else state.state.replace("_", " ")
        if state.worker in asked or (state.state == "active" and state.worker in declined):
            standing = "asked to withdraw" if state.worker in asked else "declined the changed consent"
        holds = holds and state.worker not in declined  # they keep what they were given until its time is over
        last = max(given, sent.get(state.worker, ""))
        seen.append(SeenWorker(state, name, reports[state.worker], holds, last, standing))
    return sorted(seen, key=lambda one: one.last, reverse=True)


def said(unit: Unit, answer: Answer) -> Iterator[str]:
    """What was chosen and written, as the worker's page calls it, without images and places on them; of a talk, its messages."""
    asked = task_of(unit).render(unit, answer.order).asked
    marks = {field.name for field in asked if isinstance(field, Mark)}
    fields = [field for field in asked if isinstance(field, Choice | Order)]
    labels = {(field.name, option.value): option.label for field in fields for option in field.options}
    for name, values in answer.values.items():
        if name == dialogue.FIELD:
            yield from (turn.text for turn in dialogue.turns_of(answer.values) if turn.text)
        elif name != dialogue.PAIR and name not in marks:
            yield from (labels.get((name, value), value) for value in values if value not in unit.images)


def ago(at: str, now: datetime) -> str:
    """How long ago a time was (ISO 8601), in the largest whole unit; empty for no time."""
    seconds = (now - datetime.fromisoformat(at)).total_seconds() if at else 0.0
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now" if at else ""


def _people(seen: Sequence[SeenWorker], now: datetime) -> Table:
    rows = tuple(
        (
            one.name,
            one.standing,
            one.state.pool,
            one.state.answers,
            f"{one.state.right} of {checks}" if (checks := one.state.right + one.state.wrong) else None,
            one.reports,
            "at work" if one.holds else ago(one.last, now) or None,
        )
        for one in seen[:LATEST]
    )
    note = f"the {LATEST} of {len(seen)} who were here last; ctxr workers lists all" if len(seen) > LATEST else ""
    return Table("People", ("worker", "state", "pool", "answers", "checks right", "reported", "last here"), rows, note)


def _latest(answered: AggregatedAnswers, names: Mapping[str, str], now: datetime) -> Table:
    rows = []
    for answer in answered.answers[: -LATEST - 1 : -1]:
        unit = answered.units[answer.unit]
        right = {None: None, True: "right", False: "wrong"}[task_of(unit).score(unit, answer).right]
        rows.append(
            (
                names.get(answer.worker, answer.worker),
                unit.task,
                right,
                ago(answer.at, now),
                answer.seconds,
                " / ".join(said(unit, answer)),
            )
        )
    return Table("Last answers", ("worker", "task", "right", "when", "s", "text"), tuple(rows), digits=0)


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
    note = (
        "retrievals; accuracy: of first votes, with a 95 % interval over workers; alpha: of all votes, over units and workers; "
        "votes of blocked people are among them, as in ctxr aggregate"
    )
    return Table("Agreement", ("figure", "value", "low", "high", "votes"), tuple(rows), note)


def _money(workdir: Path, journal: Journal, answered: AggregatedAnswers) -> Table:
    """By currency: what `ctxr workers` says is owed, and what the studies on Prolific and `ctxr plan` say that all of it takes."""
    owed, offered = defaultdict[str, float](float), defaultdict[str, float](float)
    for *_, amount, currency in owed_by(workdir, answered, journal).rows:
        owed[currency] += amount
    for file in (workdir / TASKS).glob(OFFERS):
        offer = study_offer(file.parent.parent)
        offered[offer.currency] += offer.total / 100
    exported = {
        open_artifact(file.parent).manifest.config.get("task") for file in (workdir / TASKS).glob(f"*/{MANIFEST}")
    }
    known = not exported or {"describe", "retrieve"} & exported  # a plan knows no other tasks
    if known and not offered and (workdir / PLAN / MANIFEST).is_file():
        plan = msgspec.json.decode((workdir / PLAN / FORECAST).read_bytes())
        offered[plan["currency"]] += plan["cost"] / 100
    rows = tuple((name, owed[name], offered.get(name)) for name in sorted({*owed, *offered}))
    note = "offered: the rewards of all submissions on Prolific without fees, or what ctxr plan forecasts"
    return Table("Money", ("currency", "owed", "offered in all"), rows, note, digits=2)


def unreachable_note(pool: str, units: Sequence[str]) -> str:
    """What is said of open units of a pool that no enrolled worker may take."""
    return (
        f"no enrolled worker may take {plural(len(units), 'open unit')} of pool {pool}, such as {units[0]}: invite more people, "
        f"with a larger ctxr serve --invite or more places on Prolific"
    )


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
