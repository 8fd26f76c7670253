"""What is in the journal, as the records of everybody else."""

import msgspec
from sqlalchemy import Connection, and_, bindparam, case, func, select

from ctxr.annotation.journal import leasing, tables
from ctxr.annotation.journal.clock import stamp
from ctxr.annotation.journal.results import Decision, Lease, Progress, Waited
from ctxr.annotation.records import Answer, Unit

_LEASE = (
    select(tables.lease, leasing.unit.payload)
    .join_from(tables.lease, tables.unit, leasing.unit.id == leasing.lease.unit)
    .where(leasing.lease.token == bindparam("token"))
)


def lease(connection: Connection, token: str) -> Lease | None:
    """The lease of a token with its unit; None for a token that never was."""
    if not leasing.may_be_token(token):
        return None
    row = connection.execute(_LEASE, {"token": token}).mappings().one_or_none()
    return None if row is None else leasing.told(row, leasing.unit_of(row))


def units(connection: Connection) -> list[Unit]:
    """Every unit, in the order in which they came."""
    unit = tables.unit.c
    return [
        msgspec.json.decode(payload, type=Unit)
        for payload in connection.scalars(select(unit.payload).order_by(unit.number))
    ]


def answers(connection: Connection) -> list[Answer]:
    """Every answer, in the order in which they came."""
    answer = tables.answer.c
    return [
        msgspec.json.decode(payload, type=Answer)
        for payload in connection.scalars(select(answer.payload).order_by(answer.number))
    ]


def decisions(connection: Connection) -> list[Decision]:
    """Why units stopped, in the order in which they did."""
    rows = connection.execute(select(tables.decision).order_by(tables.decision.c.number)).mappings()
    return [
        Decision(
            unit=row["unit"],
            verdict=row["verdict"],
            right=row["right_votes"],
            wrong=row["wrong_votes"],
            unknown=row["unknown_votes"],
            spared=row["spared"],
            at=stamp(row["at"]),
        )
        for row in rows
    ]


def waited(connection: Connection) -> list[Waited]:
    """Time given to talks that could not be."""
    rows = connection.execute(select(tables.waited).order_by(tables.waited.c.number)).mappings()
    return [
        Waited(row["worker"], row["unit"], row["reason"], row["microseconds"] / 1e6, stamp(row["at"])) for row in rows
    ]


def progress(connection: Connection) -> dict[str, Progress]:
    """By task, over units of work."""
    unit = tables.unit.c
    still = func.sum(case((and_(unit.decided.is_(None), leasing.WELL_MADE), 1), else_=0))
    given = (
        select(unit.task, func.count() / func.max(unit.seats))
        .join_from(tables.answer, tables.unit, unit.id == tables.answer.c.unit)
        .where(unit.purpose == "work")
        .group_by(unit.task)
    )
    answered: dict[str, int] = {task: int(count) for task, count in connection.execute(given)}
    rows = connection.execute(
        select(unit.task, func.count(), still, func.sum(unit.live))
        .where(unit.purpose == "work")
        .group_by(unit.task)
        .order_by(unit.task)
    )
    return {
        task: Progress(units=count, answered=answered.get(task, 0), open=int(undecided), leases=int(live))
        for task, count, undecided, live in rows
    }
