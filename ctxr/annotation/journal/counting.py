"""Vote counts of a unit: updated with each vote, and recomputed when a worker is blocked or unblocked.

Votes of blocked workers do not count, and other workers may replace them. If the block is undone later, the unit has more
votes than it asks for, and all of them count.
"""

from collections.abc import Iterable

import msgspec
from sqlalchemy import RowMapping, bindparam, delete, func, insert, select, update

from ctxr.annotation.journal import leasing, tables
from ctxr.annotation.journal.transaction import Transaction
from ctxr.annotation.protocol import verdict, wanted
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of

_ANSWER = tables.answer.c
_LAST_DECISION = select(func.coalesce(func.max(tables.decision.c.number), -1))
_COUNT = update(tables.unit).where(leasing.unit.id == bindparam("name"))
_OF_WORKER = select(_ANSWER.unit).where(_ANSWER.worker == bindparam("name")).order_by(_ANSWER.unit)
_OF_UNIT = (
    select(_ANSWER.payload, tables.worker.c.state)
    .join_from(tables.answer, tables.worker, tables.worker.c.id == _ANSWER.worker)
    .where(_ANSWER.unit == bindparam("name"))
    .order_by(_ANSWER.number)
)


def count(tx: Transaction, found: RowMapping, unit: Unit, right: bool | None) -> None:
    """Count one more vote, whose place was held, and stop the unit where it has enough."""
    rights = found["right_votes"] + (right is True)
    wrongs = found["wrong_votes"] + (right is False)
    unknowns = found["unknown_votes"] + (right is None)
    word = found["decided"] or stop(unit, rights, wrongs, unknowns)
    _write(tx, found, unit, (rights, wrongs, unknowns), found["live"] - 1, word)


def recount(tx: Transaction, worker: str) -> None:
    """Recount the votes of every unit that a worker voted on, after they were blocked or unblocked."""
    for name in tx.connection.scalars(_OF_WORKER, {"name": worker}).all():
        found = leasing.unit_row(tx, name)
        unit = leasing.unit_of(found)
        votes = _votes(tx, unit)
        counts = votes.count(True), votes.count(False), votes.count(None)
        _write(tx, found, unit, counts, found["live"], stop(unit, *counts))


def stop(unit: Unit, right: int, wrong: int, unknown: int) -> str | None:
    """The decision that ends a unit: `accepted`, `dropped`, or `complete` where no truth is known; None while it is open."""
    votes = right + wrong + unknown
    if votes < unit.most and (unit.full or not unit.truth):
        return None
    if not unit.truth:
        return "complete"
    word = verdict(right, wrong, unit.needed, unit.most)
    if word == "open":
        return "dropped" if votes >= unit.most else None
    return word


def _votes(tx: Transaction, unit: Unit) -> list[bool | None]:
    """Whether each vote that counts is right; a talk of two is one vote, and counts if neither is blocked."""
    given: dict[int, list[tuple[Answer, str]]] = {}
    for payload, state in tx.connection.execute(_OF_UNIT, {"name": unit.id}):
        answer = msgspec.json.decode(payload, type=Answer)
        given.setdefault(answer.slot, []).append((answer, state))
    score = task_of(unit).score
    return [score(unit, one[0][0]).right for one in given.values() if _trusted(state for _, state in one)]


def _trusted(states: Iterable[str]) -> bool:
    return "blocked" not in states


def _write(
    tx: Transaction,
    found: RowMapping,
    unit: Unit,
    counts: tuple[int, int, int],
    live: int,
    word: str | None,
) -> None:
    right, wrong, unknown = counts
    votes = sum(counts)
    tx.connection.execute(
        _COUNT,
        {
            "name": unit.id,
            "live": live,
            "answers": votes,
            "right_votes": right,
            "wrong_votes": wrong,
            "unknown_votes": unknown,
            "wanted": wanted(unit, right, wrong, unknown),
            "most": max(unit.most, live + votes),
            "decided": word,
        },
    )
    if word == found["decided"]:
        return
    decision = tables.decision
    tx.connection.execute(delete(decision).where(decision.c.unit == unit.id))
    if word is None:
        return
    tx.connection.execute(
        insert(decision).values(
            unit=unit.id,
            number=int(tx.connection.scalar(_LAST_DECISION) or 0) + 1,
            verdict=word,
            right_votes=right,
            wrong_votes=wrong,
            unknown_votes=unknown,
            spared=max(0, unit.most - votes - live),
            at=tx.now,
        )
    )
