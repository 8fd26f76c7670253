"""Chat rooms: pair two workers, pair them again when one leaves, and store a complete dialogue as an answer of each.

The state of a room is its events, replayed by `dialogues.replay`. A worker whose partner leaves before the photo was shared
keeps the lease and moves to a new room, or to one with a waiting partner.
"""

import secrets
from collections.abc import Collection

import msgspec
from sqlalchemy import RowMapping, bindparam, literal_column, select

from ctxr.annotation import dialogues
from ctxr.annotation.dialogues import Event, Kind, TalkState
from ctxr.annotation.journal import leasing, tables, worker_state
from ctxr.annotation.journal.database import Transaction, stamp
from ctxr.annotation.journal.results import ChatRoom, NotAllowed
from ctxr.annotation.journal.storing import answer_of, own_lease, record
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import dialogue
from ctxr.annotation.tasks.dialogue import SENDER
from ctxr.web.language import _

LAST_EVENT = 2**63 - 1
"""The largest number of an event that a database can be asked for."""

lease, room = tables.lease.c, tables.room.c

# written out, as the states of a lease
_IS_WAITING = room.state == literal_column("'waiting'")
_WAITING = (
    select(tables.room)
    .select_from(tables.room.join(tables.unit, leasing.unit.id == room.unit))
    .where(_IS_WAITING, room.id != bindparam("own"), leasing.SUITS)
    .order_by(room.opened, room.id)
    .limit(1)
)
_OTHERS = select(room.id).where(_IS_WAITING, room.id != bindparam("own")).order_by(room.opened, room.id)
_UNIT = (
    select(leasing.unit.payload)
    .join_from(tables.room, tables.unit, leasing.unit.id == room.unit)
    .where(room.id == bindparam("name"))
)


def open_room(tx: Transaction, unit: RowMapping, worker: str) -> str:
    """The token of the first seat of a new room, in which the worker waits for a partner."""
    slot = leasing.free_slot(tx, unit["id"])
    name = _new_room(tx, unit["id"], slot)
    leasing.count_live(tx, unit["id"])
    token = leasing.add_lease(tx, unit, worker, slot, SENDER, expires=tx.after(tx.rules.patience), room=name)
    _enter(tx, unit, token, "join")
    _invite(tx, name)
    return token


def join(tx: Transaction, worker: RowMapping, tasks: Collection[str] | None) -> str | None:
    """The token of the free seat in the room that has waited longest and suits the worker; None where there is none."""
    waiting = _waiting(tx, worker, tasks)
    if waiting is None:
        return None
    unit, seat = tx.get(tables.unit, id=waiting["unit"]), 1 - _pair(tx, waiting)
    expires = tx.after(tx.rules.patience)
    token = leasing.add_lease(tx, unit, worker["id"], waiting["slot"], seat, expires=expires, room=waiting["id"])
    _enter(tx, unit, token, "join")
    return token


def act(tx: Transaction, row: RowMapping, kind: Kind, text: str) -> None:
    """Say, share or finish. Raises NotAllowed where `dialogues.refusal` says why not."""
    if problem := dialogues.refusal(_talk(tx, row["room"]), row["seat"], kind, text):
        raise NotAllowed(problem.code, problem.sentence)
    _event(tx, row, kind, text)
    for partner in _seats(tx, row["room"]):
        _extend(tx, partner["token"])
        if kind == "share":
            leasing.expose(tx, partner["worker"], tx.get(tables.unit, id=partner["unit"]))
    if _talk(tx, row["room"]).finished:
        _finish(tx, row["room"])


def report(tx: Transaction, row: RowMapping, answer: Answer) -> Answer:
    """Leave a talk in which no photo was shared yet, because something is wrong with it; the others go on as when a partner leaves."""
    if row["room"] is None or _talk(tx, row["room"]).shared:
        raise NotAllowed("talk", "Please finish the conversation itself.")
    leave_room(tx, row, "returned")
    slot = leasing.free_slot(tx, row["unit"])  # the vote's own place is somebody else's
    tx.update(tables.lease, {"token": row["token"]}, slot=slot)
    unit, answer = tx.get(tables.unit, id=row["unit"]), msgspec.structs.replace(answer, slot=slot)
    # what leaving a room took off `record` would take off again
    record(tx, {**unit, "live": unit["live"] + 1}, leasing.unit_of(unit), [(row, answer)])
    return answer


def here(tx: Transaction, token: str, worker: str) -> ChatRoom:
    """Record that a worker is active. A worker alone waits no longer than `rules.longest_wait`."""
    row = active_lease(tx, token, worker)
    if len(_seats(tx, row["room"])) > 1:
        _extend(tx, token)
    else:
        opened = tx.get(tables.room, id=row["room"])["opened"]
        _extend(tx, token, latest=opened - tx.now + tx.after(tx.rules.longest_wait))
    return view(tx, row)


def active_lease(tx: Transaction, token: str, worker: str) -> RowMapping:
    """The live lease of a worker's seat in a room. Raises NotAllowed for anything else."""
    row = own_lease(tx, token, worker)
    if row["room"] is None:
        raise NotAllowed("unknown", _("There is no conversation in this task."))
    if row["state"] == "answered":
        raise NotAllowed("closed", _("This conversation is over, and it is kept. Thank you."))
    if row["state"] != "live":
        late = _("You were away for too long, and the conversation was closed. Please take a new task.")
        raise NotAllowed("expired", late)
    return row


def room_lease(tx: Transaction, token: str) -> RowMapping:
    """The lease of a seat in a room, live or not. Raises NotAllowed for anything else."""
    row = leasing.by_token(tx, token)
    if row is None or row["room"] is None:
        raise NotAllowed("unknown", _("There is no conversation here."))
    return row


def view(tx: Transaction, row: RowMapping) -> ChatRoom:
    """The room as one seat sees it."""
    talk, seat = _talk(tx, row["room"]), int(row["seat"])
    return ChatRoom(
        seat=seat,
        turns=talk.turns,
        present=1 - seat in talk.present,
        may_share=dialogues.refusal(talk, seat, "share") is None,
        shared=talk.shared,
        partner_left=talk.deserted or 1 - seat in talk.left,
        done=seat in talk.done,
        closed=talk.closed,
        apart=len(talk.present) < 2 and bool(tx.column(_OTHERS, own=row["room"])),
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


def leave_room(tx: Transaction, row: RowMapping, state: str) -> None:
    """One partner leaves. After the photo was shared the dialogue is complete; before, the other gets a new partner."""
    talk = _talk(tx, row["room"])
    _event(tx, row, "leave", "")
    if talk.shared:
        _finish(tx, row["room"])
        return
    tx.update(tables.lease, {"token": row["token"]}, state=state)
    partners = _seats(tx, row["room"])
    tx.update(tables.room, {"id": row["room"]}, state="closed")
    if not partners:
        leasing.count_live(tx, row["unit"], -1)
        spent = max(0, min(tx.now, int(row["expires"])) - int(row["began"]))
        columns = {name: row[name] for name in ("worker", "unit")} | {"microseconds": spent, "at": tx.now}
        tx.insert(tables.waited, reason="partner_left" if talk.deserted else "nobody_came", **columns)
        return
    (left,) = partners
    present = left["expires"] > tx.now
    if present and (waiting := _waiting(tx, worker_state.require(tx, left["worker"]), None, but=left["token"])):
        _join(tx, left, waiting)
        return
    name = _new_room(tx, left["unit"], left["slot"])
    tx.update(tables.lease, {"token": left["token"]}, room=name)
    _enter(tx, tx.get(tables.unit, id=left["unit"]), left["token"], "alone")
    if present:
        _extend(tx, left["token"])
        _invite(tx, name)


def _join(tx: Transaction, row: RowMapping, waiting: RowMapping) -> None:
    """Move a worker without a partner to a room where one waits."""
    unit, seat = tx.get(tables.unit, id=waiting["unit"]), 1 - _pair(tx, waiting)
    leasing.count_live(tx, row["unit"], -1)
    columns = {"room": waiting["id"], "unit": unit["id"], "slot": waiting["slot"], "seat": seat}
    shown = leasing.shown_images(tx, unit, waiting["slot"])
    tx.update(tables.lease, {"token": row["token"]}, shown=shown, expires=tx.after(tx.rules.patience), **columns)
    _enter(tx, unit, row["token"], "join")


def _invite(tx: Transaction, name: str) -> None:
    """Fetch who has waited longest in another room, of those who may do the unit of this one."""
    for other in tx.column(_OTHERS, own=name):
        (row,) = _seats(tx, other)
        if waiting := _waiting(tx, worker_state.require(tx, row["worker"]), None, but=row["token"], own=other):
            tx.update(tables.room, {"id": other}, state="closed")
            _join(tx, row, waiting)
            return


def _finish(tx: Transaction, name: str) -> None:
    """Store the dialogue as an answer of each partner, under the platform of each."""
    partners = _seats(tx, name)
    filled = {
        dialogue.FIELD: (msgspec.json.encode(_talk(tx, name).turns).decode(),),
        dialogue.PAIR: tuple(str(row["worker"]) for row in partners),
    }
    platforms = [worker_state.require(tx, row["worker"])["platform"] for row in partners]
    answers = [answer_of(tx, row, filled, platform) for row, platform in zip(partners, platforms, strict=True)]
    unit = tx.get(tables.unit, id=partners[0]["unit"])
    record(tx, unit, leasing.unit_of(unit), list(zip(partners, answers, strict=True)))
    tx.update(tables.room, {"id": name}, state="finished")


def _waiting(
    tx: Transaction, worker: RowMapping, tasks: Collection[str] | None, but: str = "", own: str = ""
) -> RowMapping | None:
    return tx.row(_WAITING, own=own, **leasing.suit_parameters(worker, "work", tasks, but))


def _seats(tx: Transaction, name: str) -> list[RowMapping]:
    """The live leases in a room, by seat."""
    return tx.rows(select(tables.lease).where(lease.room == name, leasing.LIVE).order_by(lease.seat))


def _enter(tx: Transaction, unit: RowMapping, token: str, kind: Kind) -> None:
    row = tx.get(tables.lease, token=token)
    _event(tx, row, kind, "")
    if row["seat"] == SENDER:
        leasing.expose(tx, row["worker"], unit)


def _pair(tx: Transaction, room: RowMapping) -> int:
    """The seat of the worker who waits in a room, which waits no longer."""
    (partner,) = _seats(tx, room["id"])
    tx.update(tables.room, {"id": room["id"]}, state="talking")
    _extend(tx, partner["token"])
    return int(partner["seat"])


def _new_room(tx: Transaction, unit: str, slot: int) -> str:
    name = secrets.token_hex(8)
    tx.insert(tables.room, id=name, unit=unit, slot=slot, state="waiting", opened=tx.now)
    return name


def _extend(tx: Transaction, token: str, latest: int | None = None) -> None:
    end = tx.after(tx.rules.patience)
    tx.update(tables.lease, {"token": token}, expires=end if latest is None else min(end, latest))


def _event(tx: Transaction, row: RowMapping, kind: Kind, text: str) -> None:
    tx.insert(tables.event, kind=kind, room=row["room"], seat=row["seat"], text=text, at=tx.now)
