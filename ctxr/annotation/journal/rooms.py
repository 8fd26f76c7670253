"""Chat rooms: pair two workers, pair them again when one leaves, and store a complete dialogue as an answer of each.

The state of a room is its events, replayed by `dialogues.replay`. A worker whose partner leaves before the photo was shared
keeps the lease and moves to a new room, or to one with a waiting partner.
"""

import secrets
from collections.abc import Collection

import msgspec
from sqlalchemy import RowMapping, bindparam, insert, select, update

from ctxr.annotation import dialogues
from ctxr.annotation.dialogues import Event, Kind, TalkState
from ctxr.annotation.journal import leasing, tables, worker_state
from ctxr.annotation.journal.results import ChatRoom, Refused
from ctxr.annotation.journal.submitting import answer_of, own_lease, record
from ctxr.annotation.journal.transaction import Transaction, stamp
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks import dialogue
from ctxr.annotation.tasks.dialogue import SENDER

LAST_EVENT = 2**63 - 1
"""The largest number of an event that a database can be asked for."""

lease, room = tables.lease.c, tables.room.c

_WAITING = (
    select(tables.room)
    .select_from(tables.room.join(tables.unit, leasing.unit.id == room.unit))
    .where(room.state == "waiting", leasing.SUITS)
    .order_by(room.opened, room.id)
    .limit(1)
)
_UNIT = (
    select(leasing.unit.payload)
    .join_from(tables.room, tables.unit, leasing.unit.id == room.unit)
    .where(room.id == bindparam("name"))
)


def open_room(tx: Transaction, found: RowMapping, worker: str) -> str:
    """The token of the first seat of a new room, in which the worker waits for a partner."""
    slot = leasing.free_slot(tx, found["id"])
    name = _new_room(tx, found["id"], slot)
    leasing.count_places(tx, found["id"])
    return _sit(tx, found, worker, name, slot, SENDER)


def join(tx: Transaction, worker: RowMapping, tasks: Collection[str] | None) -> str | None:
    """The token of the free seat in the room that has waited longest and suits the worker; None where there is none."""
    found = _waiting(tx, worker, tasks)
    if found is None:
        return None
    partner = _seats(tx, found["id"])[0]
    unit = leasing.unit_row(tx, found["unit"])
    _pair(tx, found["id"], partner)
    place = 1 - partner["seat"]
    return _sit(tx, unit, worker["id"], found["id"], found["slot"], place)


def act(tx: Transaction, token: str, worker: str, kind: Kind, text: str) -> ChatRoom:
    """Say, share, finish. Raises Refused with the reason and sentence of `dialogues.refusal`."""
    row = live_seat_lease(tx, token, worker)
    talk = _talk(tx, row["room"])
    wrong = dialogues.refusal(talk, row["seat"], kind, text)
    if wrong is not None:
        raise Refused(*wrong)
    _event(tx, row, kind, text)
    for one in _seats(tx, row["room"]):
        _extend(tx, one["token"])
        if kind == "share":
            leasing.expose(tx, one["worker"], leasing.unit_row(tx, one["unit"]))
    if _talk(tx, row["room"]).finished:
        _finish(tx, row["room"])
    return view(tx, row)


def here(tx: Transaction, token: str, worker: str) -> ChatRoom:
    """Record that a worker is active. A worker alone waits no longer than `rules.longest_wait`."""
    row = live_seat_lease(tx, token, worker)
    if len(_seats(tx, row["room"])) > 1:
        _extend(tx, token)
    else:
        opened = int(tx.connection.scalar(select(room.opened).where(room.id == row["room"])) or 0)
        _extend(tx, token, latest=opened - tx.now + tx.after(tx.rules.longest_wait))
    return view(tx, row)


def live_seat_lease(tx: Transaction, token: str, worker: str) -> RowMapping:
    """The lease of a seat that is still held. Raises Refused for anything else."""
    row = own_lease(tx, token, worker)
    if row["room"] is None:
        raise Refused("unknown", "There is no conversation in this task.")
    if row["state"] == "answered":
        raise Refused("closed", "This conversation is over, and it is kept. Thank you.")
    if row["state"] != "live":
        raise Refused("expired", "You were away for too long, and the conversation was closed. Please take a new task.")
    return row


def seat_lease(tx: Transaction, token: str) -> RowMapping:
    """The lease of a seat, held or not. Raises Refused for anything else."""
    row = leasing.by_token(tx, token)
    if row is None or row["room"] is None:
        raise Refused("unknown", "There is no conversation here.")
    return row


def view(tx: Transaction, row: RowMapping) -> ChatRoom:
    """The room as one seat sees it."""
    talk = _talk(tx, row["room"])
    seat = int(row["seat"])
    return ChatRoom(
        seat=seat,
        turns=talk.turns,
        present=talk.present[1 - seat],
        may_share=dialogues.may_share(talk, seat),
        shared=talk.shared,
        finished=talk.finished,
        partner_left=talk.deserted or talk.left[1 - seat],
        done=talk.done[seat],
        closed=talk.closed,
    )


def log_of(tx: Transaction, name: str, after: int = 0) -> list[Event]:
    """The events of a room after one number, oldest first."""
    event = tables.event.c
    rows = tx.connection.execute(
        select(event.number, event.kind, event.seat, event.text, event.at)
        .where(event.room == name, event.number > after)
        .order_by(event.number)
    )
    return [Event(number, name, kind, seat, text, stamp(at)) for number, kind, seat, text, at in rows]


def _talk(tx: Transaction, name: str) -> TalkState:
    unit = msgspec.json.decode(tx.connection.execute(_UNIT, {"name": name}).scalar_one(), type=Unit)
    return dialogues.replay(log_of(tx, name), unit.limits)


def leave_room(tx: Transaction, row: RowMapping, state: str, reason: str) -> None:
    """One partner leaves. After the photo was shared the dialogue is complete; before, the other gets a new partner."""
    talk = _talk(tx, row["room"])
    _event(tx, row, "leave", "")
    if talk.shared:
        _finish(tx, row["room"])
        return
    leasing.end(tx, row, state, reason)
    others = _seats(tx, row["room"])
    _set_room(tx, row["room"], "closed")
    if not others:
        leasing.count_places(tx, row["unit"], -1)
        _credit(tx, row, "partner_left" if talk.deserted else "nobody_came")
        return
    _bring_together_again(tx, others[0])


def _bring_together_again(tx: Transaction, row: RowMapping) -> None:
    """Move a worker without a partner to a room where one waits, or to a new room of the same unit."""
    unit = leasing.unit_row(tx, row["unit"])
    found = _waiting(tx, worker_state.known(tx, row["worker"]), None, row["token"])
    if found is not None and row["expires"] > tx.now:
        partner = _seats(tx, found["id"])[0]
        leasing.count_places(tx, row["unit"], -1)
        unit, place = leasing.unit_row(tx, found["unit"]), 1 - partner["seat"]
        _move(tx, row, unit, found["id"], found["slot"], place)
        _pair(tx, found["id"], partner)
        _extend(tx, row["token"])
        _enter(tx, unit, row["token"], "join")
        return
    name = _new_room(tx, row["unit"], row["slot"])
    _move(tx, row, unit, name, row["slot"], row["seat"])
    if row["expires"] > tx.now:
        _extend(tx, row["token"])
    _enter(tx, unit, row["token"], "alone")


def _finish(tx: Transaction, name: str) -> None:
    """Store the dialogue as an answer of each partner, under the platform of each."""
    first, second = sorted(_seats(tx, name), key=lambda row: int(row["seat"]))
    turns = _talk(tx, name).turns
    given = {
        dialogue.FIELD: (msgspec.json.encode(turns).decode(),),
        dialogue.PAIR: (str(first["worker"]), str(second["worker"])),
    }
    found = leasing.unit_row(tx, first["unit"])
    platforms = [worker_state.known(tx, row["worker"])["platform"] for row in (first, second)]
    seats = zip((first, second), platforms, strict=True)
    answers = [(row, answer_of(tx, row, given, platform)) for row, platform in seats]
    record(tx, found, leasing.unit_of(found), answers)
    _set_room(tx, name, "finished")


def _waiting(tx: Transaction, worker: RowMapping, tasks: Collection[str] | None, but: str = "") -> RowMapping | None:
    return tx.row(_WAITING, **leasing.suit_parameters(worker, "work", tasks, but))


def _seats(tx: Transaction, name: str) -> list[RowMapping]:
    """The live leases in a room, by seat."""
    wanted = select(tables.lease).where(lease.room == name, lease.state == "live").order_by(lease.seat)
    return tx.rows(wanted)


def _sit(tx: Transaction, unit: RowMapping, worker: str, name: str, slot: int, place: int) -> str:
    token = leasing.seat(tx, unit, worker, slot, place, tx.after(tx.rules.patience), room=name)
    leasing.log(tx, "lease", unit=unit["id"], worker=worker)
    _enter(tx, unit, token, "join")
    return token


def _enter(tx: Transaction, unit: RowMapping, token: str, kind: Kind) -> None:
    row = leasing.by_token(tx, token)
    if row is None:
        raise LookupError(token)
    _event(tx, row, kind, "")
    if row["seat"] == SENDER:
        leasing.expose(tx, row["worker"], unit)


def _move(tx: Transaction, row: RowMapping, unit: RowMapping, name: str, slot: int, place: int) -> None:
    tx.connection.execute(
        update(tables.lease)
        .where(lease.token == row["token"])
        .values(room=name, unit=unit["id"], slot=slot, seat=place, shown=leasing.shown(tx, unit, slot))
    )


def _pair(tx: Transaction, name: str, partner: RowMapping) -> None:
    _set_room(tx, name, "talking")
    _extend(tx, partner["token"])


def _new_room(tx: Transaction, unit: str, slot: int) -> str:
    name = secrets.token_hex(8)
    tx.connection.execute(insert(tables.room).values(id=name, unit=unit, slot=slot, state="waiting", opened=tx.now))
    return name


def _set_room(tx: Transaction, name: str, state: str) -> None:
    tx.connection.execute(update(tables.room).where(room.id == name).values(state=state))


def _extend(tx: Transaction, token: str, latest: int | None = None) -> None:
    end = tx.after(tx.rules.patience)
    end = end if latest is None else min(end, latest)
    tx.connection.execute(update(tables.lease).where(lease.token == token).values(expires=end))


def _event(tx: Transaction, row: RowMapping, kind: Kind, text: str) -> None:
    leasing.log(tx, kind, text, unit=row["unit"], worker=row["worker"], room=row["room"], seat=row["seat"])


def _credit(tx: Transaction, row: RowMapping, reason: str) -> None:
    spent = max(0, min(tx.now, int(row["expires"])) - int(row["began"]))
    tx.connection.execute(
        insert(tables.waited).values(
            worker=row["worker"], unit=row["unit"], reason=reason, microseconds=spent, at=tx.now
        )
    )
