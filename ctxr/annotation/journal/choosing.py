"""What a worker does next: what they hold, the qualification round, a hidden question, a talk that waits, or work."""

from collections.abc import Collection

from sqlalchemy import RowMapping, bindparam, select
from sqlalchemy import func as sql

from ctxr.annotation.journal import leasing, rooms, tables, worker_state
from ctxr.annotation.journal.database import Transaction
from ctxr.annotation.journal.leasing import candidate, give, live_lease, unit
from ctxr.annotation.journal.results import NoWork
from ctxr.annotation.protocol import digest
from ctxr.annotation.records import Purpose

LEADS_TO = {"retrieve": "describe", "verify": "dialogue"}
"""Tasks whose units come out of answers to another one."""

CHECKED = "retrieve"
"""The task among which hidden questions are mixed."""

_IN_HANDS = select(unit.id).where(unit.decided.is_(None), unit.live > 0, leasing.SUITS).limit(1)
_EXPIRED = (
    select(tables.lease)
    .where(leasing.lease.state == "live", leasing.lease.expires <= bindparam("now"))
    .order_by(leasing.lease.expires, leasing.lease.token)
    .limit(1)
)
_RETRIEVALS = (
    select(unit.purpose, sql.count())
    .select_from(tables.answer.join(tables.unit, unit.id == tables.answer.c.unit))
    .where(
        tables.answer.c.worker == bindparam("asker"),
        tables.answer.c.task == CHECKED,
        unit.purpose != "qualification",
    )
    .group_by(unit.purpose)
)


def choose(tx: Transaction, worker: str, tasks: Collection[str] | None) -> str | NoWork:
    """The token of the lease that the worker holds or now gets, or why there is none."""
    reclaim(tx)
    lease = live_lease(tx, worker)
    if lease is not None:
        work = leasing.unit_row(tx, lease["unit"])
        # a check of the worker belongs to every task
        if tasks is None or work["task"] in tasks or work["purpose"] != "work":
            return str(lease["token"])
        free(tx, lease, "returned", "other tasks")
    row = worker_state.require(tx, worker)
    if stopped := _stopped(row):
        return stopped
    best = next_unit(tx, row, tasks)
    if best is None and not examined(row):
        # fewer questions than planned suit this worker: those that were answered decide
        row = worker_state.examine(tx, row)
        if stopped := _stopped(row):
            return stopped
        best = next_unit(tx, row, tasks)
    if examined(row) and (token := rooms.join(tx, row, tasks)) is not None:
        return token
    if best is None:
        return nothing(tx, row, tasks)
    return rooms.open_room(tx, best, worker) if best["seats"] > 1 else give(tx, best, worker)


def examined(row: RowMapping) -> bool:
    """Whether the qualification round is behind a worker, or a person vouched for them."""
    return bool(row["qualified"] or row["allowed"])


def next_unit(tx: Transaction, row: RowMapping, tasks: Collection[str] | None) -> RowMapping | None:
    """The unit for this worker, a hidden question where one is due; None where there is none."""
    if not examined(row):
        return candidate(tx, row, "qualification", None)
    work = candidate(tx, row, "work", tasks)
    if work is None or work["task"] != CHECKED:
        return work
    checks = (candidate(tx, row, purpose, None) for purpose in due(tx, row["id"]))
    return next((check for check in checks if check is not None), work)


def due(tx: Transaction, worker: str) -> list[Purpose]:
    """The hidden questions that this worker's next retrieval should be.

    In each block of `gold_every` retrievals one place, drawn from the seed for this worker and block, is a gold question; so
    is one of `attention_every`. A question that found its place taken comes next.
    """
    protocol = tx.rules.protocol
    if not protocol.gold_every and not protocol.attention_every:
        return []
    done: dict[str, int] = dict(tx.connection.execute(_RETRIEVALS, {"asker": worker}).all())
    every: dict[Purpose, int] = {"gold": protocol.gold_every, "attention": protocol.attention_every}
    return [
        purpose
        for purpose, block in every.items()
        if block and sum(done.values()) >= check_index(protocol.seed, worker, purpose, done.get(purpose, 0), block)
    ]


def check_index(seed: int, worker: str, purpose: str, number: int, block: int) -> int:
    """Before which retrieval, from 0, a worker's check of that number comes."""
    chance = int.from_bytes(digest(seed, "check", worker, purpose, str(number))[:8])
    return number * block + chance % block


def nothing(tx: Transaction, row: RowMapping, tasks: Collection[str] | None) -> NoWork:
    """Why there is no work: all done, or in the hands of others who may give it back or make more of it."""
    sources = {LEADS_TO[task] for task in tasks or () if task in LEADS_TO}
    wider = None if tasks is None else {*tasks, *sources}
    in_hands = tx.row(_IN_HANDS, **leasing.suit_parameters(row, "work", wider)) is not None
    if in_hands or (sources and candidate(tx, row, "work", sources) is not None):
        return NoWork("wait", "Other people are working on the remaining tasks. Please come back in a few minutes.")
    return NoWork("nothing_left", "There are no tasks left for you. Thank you for your work.")


def _stopped(row: RowMapping) -> NoWork | None:
    if row["state"] == "blocked":
        return NoWork("blocked", "We have no more work for you. Your answers are stored and will be reviewed.")
    if row["state"] == "screened_out":
        return NoWork("screened_out", "Thank you for trying. These tasks turned out not to be a good match for you.")
    return None


def reclaim(tx: Transaction) -> None:
    """Free the places of leases that have expired."""
    # one at a time: the end of one seat of a talk may end the other, or keep it
    while row := tx.row(_EXPIRED, now=tx.now):
        free(tx, row, "expired", "abandoned")


def free(tx: Transaction, row: RowMapping, state: str, reason: str) -> None:
    """End a live lease without an answer, and with it its part in a talk."""
    if row["room"] is not None:
        rooms.leave_room(tx, row, state, reason)
        return
    leasing.end(tx, row, state, reason)
    leasing.count_live(tx, row["unit"], -1)
