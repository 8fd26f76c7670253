"""Which unit a worker gets next, or why there is none; and the places that are freed for others."""

from collections.abc import Collection

from sqlalchemy import RowMapping, and_, bindparam, func, or_, select

from ctxr.annotation.journal import leasing, rooms, tables, worker_state
from ctxr.annotation.journal.database import Transaction
from ctxr.annotation.journal.leasing import candidate, unit
from ctxr.annotation.journal.results import NoWork
from ctxr.annotation.journal.worker_state import LEADS_TO
from ctxr.annotation.protocol import digest
from ctxr.annotation.records import Purpose
from ctxr.web.language import N_

CHECKED = "retrieve"
"""The task in which hidden questions are mixed."""

_IN_HANDS = (
    select(unit.id)
    .where(unit.decided.is_(None), unit.live > 0, leasing.SUITS)
    # of what makes retrievals alone, what shows a picture that the worker knows makes none for them
    .where(or_(unit.task.not_in(bindparam("sources", expanding=True)), leasing.UNSEEN))
    .limit(1)
)
_WANTING = select(unit.id, unit.side, unit.seats).where(leasing.FREE, unit.purpose == "work", leasing.WELL_MADE)
_SUITING = select(unit.id).where(leasing.FREE, leasing.SUITS)
OVERDUE = and_(leasing.LIVE, leasing.lease.expires <= bindparam("now"))
_EXPIRED = select(tables.lease).where(OVERDUE).order_by(leasing.lease.expires, leasing.lease.token).limit(1)
PAUSED = select(tables.about.c.value).where(tables.about.c.name == "paused")
ASKING = select(tables.worker, PAUSED.scalar_subquery().label("paused")).where(tables.worker.c.id == bindparam("asker"))
_RETRIEVALS = (
    select(unit.purpose, func.count())
    .select_from(tables.answer.join(tables.unit, unit.id == tables.answer.c.unit))
    .where(
        tables.answer.c.worker == bindparam("asker"),
        tables.answer.c.task == CHECKED,
        unit.purpose != "qualification",
    )
    .group_by(unit.purpose)
)

WITHDRAWN = NoWork(
    "withdrawn",
    N_(
        "Your answers no longer count, and the people who run this study delete them. What you have earned stays owed to you."
    ),
)

STOPPED = {
    "blocked": NoWork("blocked", N_("We have no more work for you. Your answers are stored and will be reviewed.")),
    "screened_out": NoWork(
        "screened_out", N_("Thank you for trying. These tasks turned out not to be a good match for you.")
    ),
    "withdrawn": WITHDRAWN,
}
"""Why workers get no work, by their state."""

_PAUSE = NoWork(
    "paused",
    N_(
        "The study is having a short break. What you sent is stored, and this page continues by itself when it is over."
    ),
)


def lease_next(tx: Transaction, worker: str, tasks: Collection[str] | None) -> str | NoWork:
    """The token of the lease that the worker holds or now gets, or why there is none."""
    reclaim(tx)
    lease = leasing.held(tx, worker)
    if lease is not None:
        work = tx.get(tables.unit, id=lease["unit"])
        # a check of the worker belongs to every task
        if tasks is None or work["task"] in tasks or work["purpose"] != "work":
            return str(lease["token"])
        free(tx, lease, "returned")
    row = tx.row(ASKING, asker=worker) or worker_state.require(tx, worker)
    if row["state"] in STOPPED:
        return STOPPED[worker_state.standing(tx, row)]
    if row["paused"]:
        return _PAUSE
    best = next_unit(tx, row, tasks)
    if best is None and not examined(row):
        # fewer questions than planned suit this worker: those that were answered decide
        worker_state.end_qualification(tx, row)
        return lease_next(tx, worker, tasks)
    if examined(row) and (token := rooms.join(tx, row, tasks)) is not None:
        return token
    if best is None:
        return nothing(tx, row, tasks)
    if best["seats"] > 1:
        return rooms.open_room(tx, best, worker)
    slot, expires = leasing.free_slot(tx, best["id"]), tx.after(tx.rules.lease_for)
    leasing.count_live(tx, best["id"])
    leasing.expose(tx, worker, best)
    return leasing.add_lease(tx, best, worker, slot, 0, expires=expires)


def examined(row: RowMapping) -> bool:
    """Whether the qualification round is behind a worker, or a person vouched for them."""
    return bool(row["qualified"] or row["allowed"])


def next_unit(tx: Transaction, row: RowMapping, tasks: Collection[str] | None) -> RowMapping | None:
    """The unit for this worker, a hidden question where one is due; None where there is none.

    In each block of `gold_every` retrievals one place, drawn from the seed for this worker and block, is a gold question; so
    is one of `attention_every`. A question that found its place taken comes next.
    """
    if not examined(row):
        return candidate(tx, row, "qualification", None)
    work, protocol = candidate(tx, row, "work", tasks), tx.rules.protocol
    every: dict[Purpose, int] = {"gold": protocol.gold_every, "attention": protocol.attention_every}
    if work is None or work["task"] != CHECKED or not any(every.values()):
        return work
    done: dict[str, int] = dict(tx.connection.execute(_RETRIEVALS, {"asker": row["id"]}).all())
    for purpose, block in every.items():
        if block:
            number = done.get(purpose, 0)
            chance = int.from_bytes(digest(protocol.seed, "check", row["id"], purpose, str(number))[:8])
            is_due = sum(done.values()) >= number * block + chance % block
            if is_due and (check := candidate(tx, row, purpose, None)) is not None:
                return check
    return work


def nothing(tx: Transaction, row: RowMapping, tasks: Collection[str] | None) -> NoWork:
    """Why there is no work: all done, or in the hands of others who may give it back or make more of it."""
    # what nobody is writing now, because another study's people would have to, is not waited for
    sources = {LEADS_TO[task] for task in tasks or () if task in LEADS_TO}.difference(tasks or ())
    wider = None if tasks is None else sources.union(tasks)
    fresh = sorted(sources & {LEADS_TO["retrieve"]})
    if tx.row(_IN_HANDS, sources=fresh, **leasing.suit_parameters(row, "work", wider)) is not None:
        others = N_("Other people are working on the remaining tasks. Please come back in a few minutes.")
        return NoWork("wait", others)
    later = N_("There is nothing for you to do now, and you need not wait. If you come back later, there may be more.")
    return NoWork("nothing_left", later)


def reclaim(tx: Transaction) -> None:
    """Free the places of leases that have expired."""
    # one at a time: the end of one seat of a talk may end the other, or keep it
    while row := tx.row(_EXPIRED, now=tx.now):
        free(tx, row, "expired")


def free_held(tx: Transaction, worker: str) -> None:
    """Free the place that a worker holds, if any."""
    if (lease := leasing.held(tx, worker)) is not None:
        free(tx, lease, "returned")
        leasing.recount(tx, worker)  # the end of a talk may have made a vote of it


def free(tx: Transaction, row: RowMapping, state: str) -> None:
    """End a live lease without an answer, and with it its part in a talk."""
    if row["room"] is not None:
        rooms.leave_room(tx, row, state)
        return
    tx.update(tables.lease, {"token": row["token"]}, state=state)
    leasing.count_live(tx, row["unit"], -1)


def unreachable(tx: Transaction) -> dict[str, tuple[str, ...]]:
    """By pool, ids of units that want another answer and that no active worker may take."""
    lacking = {row["id"]: (row["side"], row["seats"]) for row in tx.rows(_WANTING)}
    active = tx.rows(select(tables.worker).where(tables.worker.c.state == "active"))
    away = worker_state.declined(tx)
    for worker in (row for row in active if row["id"] not in away):
        if not lacking:
            break
        for name in tx.column(_SUITING, **leasing.suit_parameters(worker, "work", None)):
            pool, seats = lacking.pop(name, ("", 1))
            lacking |= {name: (pool, seats - 1)} if seats > 1 else {}
    pools = sorted({pool for pool, _ in lacking.values()} if active else ())
    return {pool: tuple(sorted(name for name in lacking if lacking[name][0] == pool)) for pool in pools}
