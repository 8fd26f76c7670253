"""Two workers in a room: brought together, parted, brought together again; a whole talk becomes an answer of each.

A room has the events that `dialogues.replay` turns into its state. Who is left alone before the photo was shared keeps the
lease and goes to a new room, or to one where somebody waits.
"""

import secrets
from collections.abc import Collection
from datetime import timedelta

import msgspec
from sqlalchemy import Connection, RowMapping, bindparam, insert, select, update

from ctxr.annotation import dialogues
from ctxr.annotation.dialogues import Event, Kind, Talk
from ctxr.annotation.journal import leasing, standing, tables
from ctxr.annotation.journal.clock import stamp
from ctxr.annotation.journal.results import Refused, Room
from ctxr.annotation.journal.rules import Rules
from ctxr.annotation.journal.submitting import answer_of, own_lease, record
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks import dialogue
from ctxr.annotation.tasks.dialogue import SENDER

_MICROSECOND = timedelta(microseconds=1)

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


def open_room(connection: Connection, found: RowMapping, worker: str, now: int, rules: Rules) -> str:
    """The token of the first seat of a new room, in which the worker waits for a partner."""
    slot = leasing.free_slot(connection, found["id"])
    name = _new_room(connection, found["id"], slot, now)
    leasing.take_place(connection, found["id"])
    return _sit(connection, found, worker, name, slot, SENDER, now, rules)


def join(
    connection: Connection, worker: RowMapping, now: int, tasks: Collection[str] | None, rules: Rules
) -> str | None:
    """The token of the free seat in the room that has waited longest and suits the worker; None where there is none."""
    found = _waiting(connection, worker, tasks)
    if found is None:
        return None
    partner = _seats(connection, found["id"])[0]
    unit = leasing.unit_row(connection, found["unit"])
    _pair(connection, found["id"], partner, now, rules)
    place = 1 - partner["seat"]
    return _sit(connection, unit, worker["id"], found["id"], found["slot"], place, now, rules)


def act(connection: Connection, token: str, worker: str, kind: Kind, text: str, now: int, rules: Rules) -> Room:
    """Say, share, finish. Raises Refused with the reason and sentence of `dialogues.refusal`."""
    row = own_seat(connection, token, worker)
    talk = _talk(connection, row["room"])
    wrong = dialogues.refusal(talk, row["seat"], kind, text)
    if wrong is not None:
        raise Refused(*wrong)
    _event(connection, row, kind, text, now)
    for one in _seats(connection, row["room"]):
        _extend(connection, one["token"], now, rules)
        if kind == "share":
            leasing.expose(connection, one["worker"], leasing.unit_row(connection, one["unit"]))
    if _talk(connection, row["room"]).finished:
        _finish(connection, row["room"], now, rules)
    return view(connection, row)


def here(connection: Connection, token: str, worker: str, now: int, rules: Rules) -> Room:
    """A sign of life. Who waits alone is not kept longer than `rules.longest_wait`."""
    row = own_seat(connection, token, worker)
    if len(_seats(connection, row["room"])) > 1:
        _extend(connection, token, now, rules)
    else:
        opened = int(connection.scalar(select(room.opened).where(room.id == row["room"])) or 0)
        end = min(now + rules.patience // _MICROSECOND, opened + rules.longest_wait // _MICROSECOND)
        connection.execute(update(tables.lease).where(lease.token == token).values(expires=end))
    return view(connection, row)


def own_seat(connection: Connection, token: str, worker: str) -> RowMapping:
    """The lease of a seat that is still held. Raises Refused for anything else."""
    row = own_lease(connection, token, worker)
    if row["room"] is None:
        raise Refused("unknown", "There is no conversation in this task.")
    if row["state"] == "answered":
        raise Refused("closed", "This conversation is over, and it is kept. Thank you.")
    if row["state"] != "live":
        raise Refused("expired", "You were away for too long, and the conversation was closed. Please take a new task.")
    return row


def seat_of(connection: Connection, token: str) -> RowMapping:
    """The lease of a seat, held or not. Raises Refused for anything else."""
    row = leasing.by_token(connection, token)
    if row is None or row["room"] is None:
        raise Refused("unknown", "There is no conversation here.")
    return row


def view(connection: Connection, row: RowMapping) -> Room:
    """The room as one seat sees it."""
    talk = _talk(connection, row["room"])
    seat = int(row["seat"])
    return Room(
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


def log_of(connection: Connection, name: str, after: int = 0) -> list[Event]:
    """The events of a room after one number, oldest first."""
    event = tables.event.c
    rows = connection.execute(
        select(event.number, event.kind, event.seat, event.text, event.at)
        .where(event.room == name, event.number > after)
        .order_by(event.number)
    )
    return [Event(number, name, kind, seat, text, stamp(at)) for number, kind, seat, text, at in rows]


def _talk(connection: Connection, name: str) -> Talk:
    unit = msgspec.json.decode(connection.execute(_UNIT, {"name": name}).scalar_one(), type=Unit)
    return dialogues.replay(log_of(connection, name), unit.limits)


def end_seat(connection: Connection, row: RowMapping, state: str, reason: str, now: int, rules: Rules) -> None:
    """One of the two is gone. A shared talk is whole; otherwise the other is brought together with somebody else."""
    talk = _talk(connection, row["room"])
    _event(connection, row, "leave", "", now)
    if talk.shared:
        _finish(connection, row["room"], now, rules)
        return
    leasing.end(connection, row, state, reason, now)
    others = _seats(connection, row["room"])
    _set_room(connection, row["room"], "closed")
    if not others:
        leasing.take_place(connection, row["unit"], -1)
        _credit(connection, row, "partner_left" if talk.deserted else "nobody_came", now)
        return
    _bring_together_again(connection, others[0], now, rules)


def _bring_together_again(connection: Connection, row: RowMapping, now: int, rules: Rules) -> None:
    """Move who was left alone to where somebody waits, or to a new room of the same unit."""
    unit = leasing.unit_row(connection, row["unit"])
    found = _waiting(connection, standing.known(connection, row["worker"]), None, row["token"])
    if found is not None and row["expires"] > now:
        partner = _seats(connection, found["id"])[0]
        leasing.take_place(connection, row["unit"], -1)
        unit, place = leasing.unit_row(connection, found["unit"]), 1 - partner["seat"]
        _move(connection, row, unit, found["id"], found["slot"], place, rules)
        _pair(connection, found["id"], partner, now, rules)
        _extend(connection, row["token"], now, rules)
        _enter(connection, unit, row["token"], "join", now)
        return
    name = _new_room(connection, row["unit"], row["slot"], now)
    _move(connection, row, unit, name, row["slot"], row["seat"], rules)
    if row["expires"] > now:
        _extend(connection, row["token"], now, rules)
    _enter(connection, unit, row["token"], "alone", now)


def _finish(connection: Connection, name: str, now: int, rules: Rules) -> None:
    """Store the talk as an answer of each seat, through whichever platform its worker came."""
    first, second = sorted(_seats(connection, name), key=lambda row: int(row["seat"]))
    turns = _talk(connection, name).turns
    given = {
        dialogue.FIELD: (msgspec.json.encode(turns).decode(),),
        dialogue.PAIR: (str(first["worker"]), str(second["worker"])),
    }
    found = leasing.unit_row(connection, first["unit"])
    platforms = [standing.known(connection, row["worker"])["platform"] for row in (first, second)]
    seats = zip((first, second), platforms, strict=True)
    answers = [(row, answer_of(row, given, now, platform)) for row, platform in seats]
    record(connection, found, leasing.unit_of(found), answers, now, rules)
    _set_room(connection, name, "finished")


def _waiting(
    connection: Connection, worker: RowMapping, tasks: Collection[str] | None, but: str = ""
) -> RowMapping | None:
    found = connection.execute(_WAITING, leasing.asking(worker, "work", tasks, but))
    return found.mappings().one_or_none()


def _seats(connection: Connection, name: str) -> list[RowMapping]:
    """The live leases in a room, by seat."""
    wanted = select(tables.lease).where(lease.room == name, lease.state == "live").order_by(lease.seat)
    return list(connection.execute(wanted).mappings())


def _sit(
    connection: Connection, unit: RowMapping, worker: str, name: str, slot: int, place: int, now: int, rules: Rules
) -> str:
    expires = now + rules.patience // _MICROSECOND
    token = leasing.seat(connection, unit, worker, slot, place, now, expires, rules, room=name)
    leasing.log(connection, "lease", now, unit=unit["id"], worker=worker)
    _enter(connection, unit, token, "join", now)
    return token


def _enter(connection: Connection, unit: RowMapping, token: str, kind: Kind, now: int) -> None:
    row = leasing.by_token(connection, token)
    if row is None:
        raise LookupError(token)
    _event(connection, row, kind, "", now)
    if row["seat"] == SENDER:
        leasing.expose(connection, row["worker"], unit)


def _move(
    connection: Connection, row: RowMapping, unit: RowMapping, name: str, slot: int, place: int, rules: Rules
) -> None:
    connection.execute(
        update(tables.lease)
        .where(lease.token == row["token"])
        .values(room=name, unit=unit["id"], slot=slot, seat=place, shown=leasing.shown(unit, slot, rules))
    )


def _pair(connection: Connection, name: str, partner: RowMapping, now: int, rules: Rules) -> None:
    _set_room(connection, name, "talking")
    _extend(connection, partner["token"], now, rules)


def _new_room(connection: Connection, unit: str, slot: int, now: int) -> str:
    name = secrets.token_hex(8)
    connection.execute(insert(tables.room).values(id=name, unit=unit, slot=slot, state="waiting", opened=now))
    return name


def _set_room(connection: Connection, name: str, state: str) -> None:
    connection.execute(update(tables.room).where(room.id == name).values(state=state))


def _extend(connection: Connection, token: str, now: int, rules: Rules) -> None:
    end = now + rules.patience // _MICROSECOND
    connection.execute(update(tables.lease).where(lease.token == token).values(expires=end))


def _event(connection: Connection, row: RowMapping, kind: Kind, text: str, now: int) -> None:
    leasing.log(connection, kind, now, text, unit=row["unit"], worker=row["worker"], room=row["room"], seat=row["seat"])


def _credit(connection: Connection, row: RowMapping, reason: str, now: int) -> None:
    spent = max(0, min(now, int(row["expires"])) - int(row["began"]))
    connection.execute(
        insert(tables.waited).values(worker=row["worker"], unit=row["unit"], reason=reason, microseconds=spent, at=now)
    )
