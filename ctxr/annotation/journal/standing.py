"""Workers: the pool they are dealt, whether they get work, and every change of that with its reason."""

from collections.abc import Mapping
from typing import get_args

from sqlalchemy import Connection, RowMapping, bindparam, func, insert, select, update

from ctxr.annotation.journal import counting, tables
from ctxr.annotation.journal.clock import stamp
from ctxr.annotation.journal.results import Change, Pool, Refused, Standing
from ctxr.annotation.journal.rules import SURE, Rules
from ctxr.annotation.journal.trust import chance_below
from ctxr.annotation.protocol import Protocol

RULE = "rule"
"""Who stops a worker when nobody does."""

_WORKER = select(tables.worker).where(tables.worker.c.id == bindparam("name"))


def enrol(connection: Connection, worker: str, platform: str, now: int, rules: Rules) -> Standing:
    """The worker's standing; a new worker is dealt the pool that is furthest below its share."""
    if find(connection, worker) is None:
        connection.execute(
            insert(tables.worker).values(
                id=worker,
                platform=platform,
                pool=_deal(connection, rules.protocol),
                state="active",
                reason="",
                qualified=int(rules.protocol.qualification == 0),
                enrolled=now,
            )
        )
    return told(known(connection, worker))


def find(connection: Connection, worker: str) -> RowMapping | None:
    """The worker's row; None for one who never enrolled."""
    return connection.execute(_WORKER, {"name": worker}).mappings().one_or_none()


def known(connection: Connection, worker: str) -> RowMapping:
    """The worker's row. Raises Refused for one who never enrolled."""
    row = find(connection, worker)
    if row is None:
        raise Refused("unknown", "We do not know you yet. Please start from the first page.")
    return row


def told(row: RowMapping) -> Standing:
    """A row as a standing."""
    return Standing(
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


def everybody(connection: Connection) -> list[Standing]:
    """All who enrolled, in that order."""
    rows = connection.execute(select(tables.worker).order_by(tables.worker.c.enrolled, tables.worker.c.id))
    return [told(row) for row in rows.mappings()]


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


def _deal(connection: Connection, protocol: Protocol) -> Pool:
    unit = tables.unit.c
    units = select(unit.side, func.count()).where(unit.purpose == "work").group_by(unit.side)
    work: dict[str, int] = dict(connection.execute(units).all())
    counted = select(tables.worker.c.pool, func.count()).group_by(tables.worker.c.pool)
    there: dict[str, int] = dict(connection.execute(counted).all())
    everybody = sum(there.values()) + 1
    shares = pool_shares(protocol, work)
    return max(shares, key=lambda pool: (shares[pool] > 0, shares[pool] * everybody - there.get(pool, 0)))


def learn(connection: Connection, row: RowMapping, right: bool, now: int, rules: Rules) -> None:
    """Count an answer to a question with a known answer, and stop the worker where the rules say so."""
    rights, wrongs = row["known_right"] + right, row["known_wrong"] + (not right)
    connection.execute(
        update(tables.worker).where(tables.worker.c.id == row["id"]).values(known_right=rights, known_wrong=wrongs)
    )
    if row["allowed"] or row["state"] != "active":
        return
    if not row["qualified"]:
        if rights + wrongs >= rules.protocol.qualification:
            examine(connection, known(connection, row["id"]), now, rules)
        return
    below = chance_below(rights, wrongs, rules.protocol.block_below)
    if below >= SURE:
        reason = (
            f"{rights} of {rights + wrongs} known answers right: below {rules.protocol.block_below:g} "
            f"with a probability of {below:.3f}"
        )
        change(connection, row, "blocked", reason, RULE, now)


def examine(connection: Connection, row: RowMapping, now: int, rules: Rules) -> RowMapping:
    """End the qualification round: go on, or be screened out. The row as it is then."""
    asked = row["known_right"] + row["known_wrong"]
    connection.execute(update(tables.worker).where(tables.worker.c.id == row["id"]).values(qualified=1))
    if row["known_right"] < rules.protocol.qualification_pass * asked:
        reason = f"{row['known_right']} of {asked} qualification questions right"
        change(connection, row, "screened_out", reason, RULE, now)
    return known(connection, row["id"])


def change(connection: Connection, row: RowMapping, after: str, reason: str, by: str, now: int) -> None:
    """Change a standing (`active`, `allowed`, `blocked`, `screened_out`) and write down who, why and when."""
    _write(connection, row, after, reason, by, now, undone=0)


def undo(connection: Connection, row: RowMapping, reason: str, by: str, now: int) -> None:
    """Take back the last change that stands; that is written down as well. Raises Refused where there is none."""
    columns = tables.change.c
    last = (
        connection.execute(
            select(tables.change)
            .where(columns.worker == row["id"], columns.undone == 0)
            .order_by(columns.number.desc())
            .limit(1)
        )
        .mappings()
        .one_or_none()
    )
    if last is None:
        raise Refused("nothing_to_undo", f"The standing of {row['id']} was never changed.")
    connection.execute(update(tables.change).where(columns.number == last["number"]).values(undone=1))
    _write(connection, row, last["before"], reason, by, now, undone=1)


def changes(connection: Connection, worker: str) -> list[Change]:
    """Every change of a worker's standing, oldest first."""
    rows = connection.execute(
        select(tables.change).where(tables.change.c.worker == worker).order_by(tables.change.c.number)
    ).mappings()
    return [Change(**{**row, "at": stamp(row["at"]), "undone": bool(row["undone"])}) for row in rows]


def _write(connection: Connection, row: RowMapping, after: str, reason: str, by: str, now: int, undone: int) -> None:
    before = "allowed" if row["state"] == "active" and row["allowed"] else row["state"]
    connection.execute(
        insert(tables.change).values(
            worker=row["id"], before=before, after=after, reason=reason, by=by, at=now, undone=undone
        )
    )
    connection.execute(
        update(tables.worker)
        .where(tables.worker.c.id == row["id"])
        .values(
            state="active" if after == "allowed" else after,
            allowed=int(after == "allowed"),
            reason=reason,
        )
    )
    if "blocked" in (before, after):
        counting.recount(connection, row["id"], now)
