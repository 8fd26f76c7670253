"""Who gets what: the one place where a unit is handed to a worker, by an index and never by loading the units.

A unit is for a worker who is on its side of the benchmark, holds or held no place in it, made nothing of it, and, where the
task wants fresh eyes, has not met its image set. The least served unit comes first, then seeded chance.
"""

import secrets
from collections.abc import Collection
from datetime import timedelta

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Text,
    and_,
    exists,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy import func as sql

from ctxr.annotation.journal import tables
from ctxr.annotation.journal.clock import moment
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.journal.rules import Rules
from ctxr.annotation.records import Purpose, Unit
from ctxr.annotation.shuffling import shown_order

HOLDS = ("live", "answered")
"""States of a lease that has a place in its unit."""

_MICROSECOND = timedelta(microseconds=1)

unit, lease = tables.unit.c, tables.lease.c

SERVED = unit.live + unit.answers
FREE = and_(unit.decided.is_(None), unit.live + unit.answers < unit.wanted)


def suits(worker: RowMapping, purpose: Purpose, tasks: Collection[str] | None, but: str = "") -> ColumnElement[bool]:
    """The condition under which a unit is for this worker; the lease of token `but` is no hindrance."""
    held = exists().where(
        lease.unit == unit.id, lease.worker == worker["id"], lease.state.in_(HOLDS), lease.token != but
    )
    wrote = exists().where(tables.author.c.unit == unit.id, tables.author.c.worker == worker["id"])
    met = exists().where(
        tables.exposure.c.worker == worker["id"],
        tables.exposure.c.image_set == unit.image_set,
        tables.exposure.c.unit != unit.id,
    )
    conditions = [unit.purpose == purpose, not_(held), not_(wrote), or_(unit.fresh == 0, not_(met))]
    if worker["pool"] != "both":
        conditions.append(unit.side.in_([worker["pool"], "any"]))
    if tasks is not None:
        conditions.append(unit.task.in_(sorted(tasks)))
    return and_(*conditions)


def candidate(
    connection: Connection, worker: RowMapping, purpose: Purpose, tasks: Collection[str] | None
) -> RowMapping | None:
    """The unit that this worker should do next; None where there is none."""
    wanted = select(tables.unit).where(FREE, suits(worker, purpose, tasks)).order_by(SERVED, unit.shuffle).limit(1)
    return connection.execute(wanted).mappings().one_or_none()


def give(connection: Connection, found: RowMapping, worker: str, now: int, rules: Rules) -> str:
    """The token of a new lease of a unit that one worker does alone."""
    slot = free_slot(connection, found["id"])
    token = seat(connection, found, worker, slot, 0, now, now + rules.lease_for // _MICROSECOND, rules)
    take_place(connection, found["id"])
    expose(connection, worker, found)
    log(connection, "lease", now, unit=found["id"], worker=worker)
    return token


def seat(
    connection: Connection,
    found: RowMapping,
    worker: str,
    slot: int,
    place: int,
    now: int,
    expires: int,
    rules: Rules,
    room: str | None = None,
) -> str:
    """The token of a new lease row."""
    token = secrets.token_urlsafe(24)
    connection.execute(
        insert(tables.lease).values(
            token=token,
            unit=found["id"],
            worker=worker,
            slot=slot,
            seat=place,
            shown=shown(found, slot, rules),
            began=now,
            expires=expires,
            state="live",
            room=room,
        )
    )
    return token


def shown(found: RowMapping, slot: int, rules: Rules) -> str:
    """The order of the images as JSON."""
    one = unit_of(found)
    return msgspec.json.encode(shown_order(one.images, one.ordered, one.id, slot, rules.seed)).decode()


def free_slot(connection: Connection, name: str) -> int:
    """The smallest number of a vote that nobody gave or holds."""
    taken = and_(lease.unit == name, lease.state.in_(HOLDS))
    count, last = connection.execute(select(sql.count(lease.slot.distinct()), sql.max(lease.slot)).where(taken)).one()
    if last is None or count == last + 1:
        return int(count)
    slots = set(connection.scalars(select(lease.slot).where(taken)))
    return min(set(range(len(slots) + 1)) - slots)


def take_place(connection: Connection, name: str, places: int = 1) -> None:
    """Count a place of a unit as held; with -1, as free again."""
    connection.execute(update(tables.unit).where(unit.id == name).values(live=unit.live + places))


def end(connection: Connection, row: RowMapping, state: str, reason: str, now: int) -> None:
    """End a lease without an answer. Its place in the unit is the caller's business."""
    connection.execute(update(tables.lease).where(lease.token == row["token"]).values(state=state))
    log(connection, state, now, unit=row["unit"], worker=row["worker"], text=reason)


def expose(connection: Connection, worker: str, found: RowMapping) -> None:
    """Remember that a worker has seen the image set of a unit."""
    columns = tables.exposure.c
    seen = exists().where(
        columns.worker == worker, columns.image_set == found["image_set"], columns.unit == found["id"]
    )
    row = select(
        literal(worker), literal(found["image_set"]), literal(found["id"]), literal(found["target"], Text())
    ).where(not_(seen))
    connection.execute(insert(tables.exposure).from_select(["worker", "image_set", "unit", "target"], row))


def log(connection: Connection, kind: str, now: int, text: str = "", **named: str | int | None) -> int:
    """Append an event; its number."""
    row = insert(tables.event).values(kind=kind, at=now, text=text, **named)
    return int(connection.execute(row).inserted_primary_key[0])  # type: ignore[index]


def held_by(connection: Connection, worker: str) -> RowMapping | None:
    """The live lease of a worker."""
    wanted = select(tables.lease).where(lease.worker == worker, lease.state == "live")
    return connection.execute(wanted).mappings().one_or_none()


def by_token(connection: Connection, token: str) -> RowMapping | None:
    """The lease of a token, in whatever state; None for a token that is none."""
    if not token.isascii() or not token.isprintable():
        return None  # what a database would choke on never was a token
    return connection.execute(select(tables.lease).where(lease.token == token)).mappings().one_or_none()


def unit_row(connection: Connection, name: str) -> RowMapping:
    """The row of a unit that is known to be there."""
    return connection.execute(select(tables.unit).where(unit.id == name)).mappings().one()


def unit_of(found: RowMapping) -> Unit:
    """The unit in a row."""
    return msgspec.json.decode(found["payload"], type=Unit)


def told(row: RowMapping, one: Unit) -> Lease:
    """A row as a lease."""
    return Lease(
        unit=one,
        worker=row["worker"],
        slot=row["slot"],
        seat=row["seat"],
        order=msgspec.json.decode(row["shown"], type=tuple[str, ...]),
        began=moment(row["began"]),
        expires=moment(row["expires"]),
        token=row["token"],
        state=row["state"],
    )
