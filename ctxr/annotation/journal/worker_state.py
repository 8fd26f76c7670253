"""Workers: the pool they are dealt, whether they get work, and every change of that with its reason."""

from collections.abc import Mapping
from math import exp, lgamma, log
from typing import get_args

from sqlalchemy import RowMapping, bindparam, func, insert, select, update

from ctxr.annotation.journal import counting, tables
from ctxr.annotation.journal.results import Pool, Refused, WorkerState
from ctxr.annotation.journal.transaction import SURE, Transaction
from ctxr.annotation.protocol import Protocol

RULE = "rule"
"""The author of changes that a rule of the protocol makes."""

_WORKER = select(tables.worker).where(tables.worker.c.id == bindparam("name"))


def enrol(tx: Transaction, worker: str, platform: str) -> WorkerState:
    """The worker's standing; a new worker is dealt the pool that is furthest below its share."""
    if find(tx, worker) is None:
        tx.connection.execute(
            insert(tables.worker).values(
                id=worker,
                platform=platform,
                pool=_deal(tx),
                state="active",
                reason="",
                qualified=int(tx.rules.protocol.qualification == 0),
                enrolled=tx.now,
            )
        )
    return told(known(tx, worker))


def find(tx: Transaction, worker: str) -> RowMapping | None:
    """The worker's row; None for one who never enrolled."""
    return tx.row(_WORKER, name=worker)


def known(tx: Transaction, worker: str) -> RowMapping:
    """The worker's row. Raises Refused for one who never enrolled."""
    row = find(tx, worker)
    if row is None:
        raise Refused("unknown", "We do not know you yet. Please start from the first page.")
    return row


def told(row: RowMapping) -> WorkerState:
    """A row as a standing."""
    return WorkerState(
        worker=row["id"],
        platform=row["platform"],
        pool=row["pool"],
        state=row["state"],
        reason=row["reason"],
        qualified=bool(row["qualified"]),
        right=row["known_right"],
        wrong=row["known_wrong"],
        answers=row["answers"],
        allowed=bool(row["allowed"]),
    )


LEAST_POOL = 0.25
"""A side with any work gets at least this share of the workers who are not on both: each vote needs another person."""


def pool_shares(protocol: Protocol, work: Mapping[str, int]) -> dict[Pool, float]:
    """The share of the workers that each pool should have: sides by their units of `work`, beside who may do both.

    Where no unit is on a side yet, both are expected to come.
    """
    if protocol.disjoint == "none":
        return {"both": 1.0}
    units: dict[Pool, int] = {pool: work[pool] for pool in get_args(Pool) if pool != "both" and work.get(pool)}
    units = units or {"train": 1, "eval": 1}
    shared = protocol.shared_workers if protocol.disjoint == "partly" else 0.0
    parts = {pool: max(count / sum(units.values()), LEAST_POOL) for pool, count in units.items()}
    return {**{pool: (1 - shared) * part / sum(parts.values()) for pool, part in parts.items()}, "both": shared}


def _deal(tx: Transaction) -> Pool:
    unit = tables.unit.c
    units = select(unit.side, func.count()).where(unit.purpose == "work").group_by(unit.side)
    work: dict[str, int] = dict(tx.connection.execute(units).all())
    counted = select(tables.worker.c.pool, func.count()).group_by(tables.worker.c.pool)
    there: dict[str, int] = dict(tx.connection.execute(counted).all())
    everybody = sum(there.values()) + 1
    shares = pool_shares(tx.rules.protocol, work)
    return max(shares, key=lambda pool: (shares[pool] > 0, shares[pool] * everybody - there.get(pool, 0)))


def learn(tx: Transaction, row: RowMapping, right: bool) -> None:
    """Count an answer to a question with a known answer, and stop the worker where the rules say so."""
    rights, wrongs = row["known_right"] + right, row["known_wrong"] + (not right)
    tx.connection.execute(
        update(tables.worker).where(tables.worker.c.id == row["id"]).values(known_right=rights, known_wrong=wrongs)
    )
    if row["allowed"] or row["state"] != "active":
        return
    if not row["qualified"]:
        if rights + wrongs >= tx.rules.protocol.qualification:
            examine(tx, known(tx, row["id"]))
        return
    below = chance_below(rights, wrongs, tx.rules.protocol.block_below)
    if below >= SURE:
        reason = (
            f"{rights} of {rights + wrongs} known answers right: below {tx.rules.protocol.block_below:g} "
            f"with a probability of {below:.3f}"
        )
        change(tx, row, "blocked", reason, RULE)


def chance_below(right: int, wrong: int, limit: float) -> float:
    """Probability that the accuracy behind `right` and `wrong` answers is below `limit`, from a uniform prior.

    The posterior is Beta(right + 1, wrong + 1); with whole numbers its distribution function is a binomial tail: at least
    right + 1 of right + wrong + 1 coins that fall with probability `limit`.

    >>> chance_below(0, 0, 0.5), round(chance_below(0, 4, 0.5), 3)
    (0.5, 0.969)
    """
    if limit <= 0 or limit >= 1:
        return float(limit >= 1)
    coins = right + wrong + 1
    return min(
        1.0,
        sum(
            exp(
                lgamma(coins + 1)
                - lgamma(heads + 1)
                - lgamma(coins - heads + 1)
                + heads * log(limit)
                + (coins - heads) * log(1 - limit)
            )
            for heads in range(right + 1, coins + 1)
        ),
    )


def examine(tx: Transaction, row: RowMapping) -> RowMapping:
    """End the qualification round: go on, or be screened out. The row as it is then."""
    asked = row["known_right"] + row["known_wrong"]
    tx.connection.execute(update(tables.worker).where(tables.worker.c.id == row["id"]).values(qualified=1))
    if row["known_right"] < tx.rules.protocol.qualification_pass * asked:
        reason = f"{row['known_right']} of {asked} qualification questions right"
        change(tx, row, "screened_out", reason, RULE)
    return known(tx, row["id"])


def change(tx: Transaction, row: RowMapping, after: str, reason: str, by: str) -> None:
    """Change a standing (`active`, `allowed`, `blocked`, `screened_out`) and write down who, why and when."""
    _write(tx, row, after, reason, by, undone=0)


def undo(tx: Transaction, row: RowMapping, reason: str, by: str) -> None:
    """Take back the last change that stands; that is written down as well. Raises Refused where there is none."""
    columns = tables.change.c
    last = tx.row(
        select(tables.change)
        .where(columns.worker == row["id"], columns.undone == 0)
        .order_by(columns.number.desc())
        .limit(1)
    )
    if last is None:
        raise Refused("nothing_to_undo", f"The standing of {row['id']} was never changed.")
    tx.connection.execute(update(tables.change).where(columns.number == last["number"]).values(undone=1))
    _write(tx, row, last["before"], reason, by, undone=1)


def _write(tx: Transaction, row: RowMapping, after: str, reason: str, by: str, undone: int) -> None:
    before = "allowed" if row["state"] == "active" and row["allowed"] else row["state"]
    tx.connection.execute(
        insert(tables.change).values(
            worker=row["id"], before=before, after=after, reason=reason, by=by, at=tx.now, undone=undone
        )
    )
    tx.connection.execute(
        update(tables.worker)
        .where(tables.worker.c.id == row["id"])
        .values(
            state="active" if after == "allowed" else after,
            allowed=int(after == "allowed"),
            reason=reason,
        )
    )
    if "blocked" in (before, after):
        counting.recount(tx, row["id"])
