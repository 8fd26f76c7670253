"""Leases of units to workers, the only place that assigns work; an index finds the unit, without loading them all.

A unit suits a worker who belongs to its part of the benchmark, has not worked on it, did not create what it shows and, where
the task requires it, has not seen its image set. Units based on the work of blocked workers are not served. The unit with the
fewest answers and leases comes first, ties in seeded random order.
"""

import secrets
from collections.abc import Collection

import msgspec
from sqlalchemy import RowMapping, and_, bindparam, exists, insert, not_, or_, select, update
from sqlalchemy import func as sql

from ctxr.annotation.journal import tables
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.journal.transaction import Transaction, moment
from ctxr.annotation.protocol import shown_order
from ctxr.annotation.records import Purpose, Unit
from ctxr.annotation.tasks import NAMES

HOLDS = ("live", "answered")
"""States of a lease that has a place in its unit."""

unit, lease, exposure = tables.unit.c, tables.lease.c, tables.exposure.c

SERVED = unit.live + unit.answers
FREE = and_(unit.decided.is_(None), unit.live + unit.answers < unit.wanted)

WELL_MADE = or_(
    unit.task == "audit",  # its authors are those who judged before
    not_(
        exists().where(
            tables.author.c.unit == unit.id,
            tables.author.c.worker == tables.worker.c.id,
            tables.worker.c.state == "blocked",
        )
    ),
)
"""The condition under which a unit is served at all: it is not based on the work of a blocked worker."""

# statements are built once: building one takes longer than running it
SUITS = and_(
    unit.purpose == bindparam("purpose"),
    unit.side.in_(bindparam("sides", expanding=True)),
    unit.task.in_(bindparam("tasks", expanding=True)),
    not_(
        exists().where(
            lease.unit == unit.id,
            lease.worker == bindparam("asker"),
            lease.state.in_(HOLDS),
            lease.token != bindparam("but"),
        )
    ),
    not_(exists().where(tables.author.c.unit == unit.id, tables.author.c.worker == bindparam("asker"))),
    WELL_MADE,
    or_(
        unit.fresh == 0,
        not_(
            exists().where(
                exposure.worker == bindparam("asker"),
                exposure.image_set == unit.image_set,
                exposure.unit != unit.id,
            )
        ),
    ),
)
"""The condition under which a unit is for a worker; its parameters come from `asking`."""

_CANDIDATE = select(tables.unit).where(FREE, SUITS).order_by(SERVED, unit.shuffle).limit(1)
_TAKEN = and_(lease.unit == bindparam("name"), lease.state.in_(HOLDS))
_COUNT_SLOTS = select(sql.count(lease.slot.distinct()), sql.max(lease.slot)).where(_TAKEN)
_SLOTS = select(lease.slot).where(_TAKEN)
_TAKE = update(tables.unit).where(unit.id == bindparam("name")).values(live=unit.live + bindparam("places"))
_STATE = update(tables.lease).where(lease.token == bindparam("name"))
_SEEN = select(exposure.unit).where(
    exposure.worker == bindparam("asker"),
    exposure.image_set == bindparam("image_set"),
    exposure.unit == bindparam("name"),
)
_EXPOSE, _LOG, _LEASE = insert(tables.exposure), insert(tables.event), insert(tables.lease)
_HELD = select(tables.lease).where(lease.worker == bindparam("asker"), lease.state == "live")
_BY_TOKEN = select(tables.lease).where(lease.token == bindparam("token"))
_UNIT = select(tables.unit).where(unit.id == bindparam("name"))
_WITH_UNIT = (
    select(tables.lease, unit.payload)
    .join_from(tables.lease, tables.unit, unit.id == lease.unit)
    .where(lease.token == bindparam("token"))
)


def suit_parameters(
    worker: RowMapping, purpose: Purpose, tasks: Collection[str] | None, but: str = ""
) -> dict[str, str | list[str]]:
    """The parameters of `SUITS`: who asks, for what; the lease of token `but` is no hindrance."""
    sides = ["train", "eval", "any"] if worker["pool"] == "both" else [worker["pool"], "any"]
    wanted = list(NAMES) if tasks is None else sorted(tasks)
    return {"asker": worker["id"], "purpose": purpose, "sides": sides, "tasks": wanted, "but": but}


def candidate(
    tx: Transaction, worker: RowMapping, purpose: Purpose, tasks: Collection[str] | None
) -> RowMapping | None:
    """The unit that this worker should do next; None where there is none."""
    return tx.row(_CANDIDATE, **suit_parameters(worker, purpose, tasks))


def give(tx: Transaction, found: RowMapping, worker: str) -> str:
    """The token of a new lease of a unit that one worker does alone."""
    slot = free_slot(tx, found["id"])
    token = seat(tx, found, worker, slot, 0, tx.after(tx.rules.lease_for))
    count_places(tx, found["id"])
    expose(tx, worker, found)
    log(tx, "lease", unit=found["id"], worker=worker)
    return token


def seat(
    tx: Transaction,
    found: RowMapping,
    worker: str,
    slot: int,
    place: int,
    expires: int,
    room: str | None = None,
) -> str:
    """The token of a new lease row."""
    token = secrets.token_urlsafe(24)
    tx.connection.execute(
        _LEASE,
        {
            "token": token,
            "unit": found["id"],
            "worker": worker,
            "slot": slot,
            "seat": place,
            "shown": shown(tx, found, slot),
            "began": tx.now,
            "expires": expires,
            "state": "live",
            "room": room,
        },
    )
    return token


def shown(tx: Transaction, found: RowMapping, slot: int) -> str:
    """The order of the images as JSON."""
    one = unit_of(found)
    return msgspec.json.encode(shown_order(one.images, one.ordered, one.id, slot, tx.rules.protocol.seed)).decode()


def free_slot(tx: Transaction, name: str) -> int:
    """The smallest vote number that is neither answered nor leased."""
    count, last = tx.connection.execute(_COUNT_SLOTS, {"name": name}).one()
    if last is None or count == last + 1:
        return int(count)
    slots = set(tx.connection.scalars(_SLOTS, {"name": name}))
    return min(set(range(len(slots) + 1)) - slots)


def count_places(tx: Transaction, name: str, places: int = 1) -> None:
    """Count a place of a unit as held; with -1, as free again."""
    tx.connection.execute(_TAKE, {"name": name, "places": places})


def end(tx: Transaction, row: RowMapping, state: str, reason: str) -> None:
    """End a lease without an answer. Its place in the unit is the caller's business."""
    tx.connection.execute(_STATE, {"name": row["token"], "state": state})
    log(tx, state, unit=row["unit"], worker=row["worker"], text=reason)


def expose(tx: Transaction, worker: str, found: RowMapping) -> None:
    """Remember that a worker has seen the image set of a unit."""
    seen = {"asker": worker, "image_set": found["image_set"], "name": found["id"]}
    if tx.connection.execute(_SEEN, seen).first() is None:
        row = {"worker": worker, "image_set": found["image_set"], "unit": found["id"], "target": found["target"]}
        tx.connection.execute(_EXPOSE, row)


def log(
    tx: Transaction,
    kind: str,
    text: str = "",
    *,
    unit: str,
    worker: str,
    room: str | None = None,
    seat: int | None = None,
) -> None:
    """Append an event."""
    row = {"kind": kind, "at": tx.now, "text": text, "unit": unit, "worker": worker, "room": room, "seat": seat}
    tx.connection.execute(_LOG, row)


def live_lease(tx: Transaction, worker: str) -> RowMapping | None:
    """The live lease of a worker."""
    return tx.row(_HELD, asker=worker)


def by_token(tx: Transaction, token: str) -> RowMapping | None:
    """The lease of a token, in whatever state; None for a token that is none."""
    return tx.row(_BY_TOKEN, token=token) if may_be_token(token) else None


def read(tx: Transaction, token: str) -> Lease | None:
    """The lease of a token with its unit; None for a token that never was."""
    row = tx.row(_WITH_UNIT, token=token) if may_be_token(token) else None
    if row is None:
        return None
    return Lease(
        unit=unit_of(row),
        worker=row["worker"],
        slot=row["slot"],
        seat=row["seat"],
        order=msgspec.json.decode(row["shown"], type=tuple[str, ...]),
        began=moment(row["began"]),
        expires=moment(row["expires"]),
        token=row["token"],
        state=row["state"],
    )


def may_be_token(token: str) -> bool:
    """Whether a database can be asked for it at all: halves of characters and zeros never were in a token."""
    return token.isascii() and token.isprintable()


def unit_row(tx: Transaction, name: str) -> RowMapping:
    """The row of a unit that is known to be there."""
    return tx.connection.execute(_UNIT, {"name": name}).mappings().one()


def unit_of(found: RowMapping) -> Unit:
    """The unit in a row."""
    return msgspec.json.decode(found["payload"], type=Unit)
