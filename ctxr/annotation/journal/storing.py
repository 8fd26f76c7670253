"""Store units, image sets and answers in a journal, each once, and with the same content once anybody has answered."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sql
from sqlalchemy import RowMapping, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import JSON

from ctxr.annotation.journal import leasing, tables, worker_state
from ctxr.annotation.journal.database import Transaction, stamp
from ctxr.annotation.journal.results import NotAllowed
from ctxr.annotation.journal.worker_state import pool_of
from ctxr.annotation.protocol import digest, wanted
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import MAKES_WORK, describe, task_of
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.unit_factory import derive_units
from ctxr.errors import DataError
from ctxr.store.records import ImageSet
from ctxr.web.language import _

R = TypeVar("R", Unit, ImageSet)

_CHUNK = 400

WITHDRAWN = "withdrawn"
"""Purpose, in the table of units, of those that are no longer served."""

COUNTED = "counted"
"""Field of a page of work with what its script counted and has not stored: pastes, absences, and milliseconds away."""

_COUNTS = re.compile("([0-9]{1,8}) ([0-9]{1,8}) ([0-9]{1,8})")
_MOST_COUNTED = 10**8

_COUNT_ANSWER = (
    update(tables.worker).where(tables.worker.c.id == bindparam("name")).values(answers=tables.worker.c.answers + 1)
)

_ANSWER = tables.answer.c
_DESCRIBED = select(_ANSWER.payload).where(_ANSWER.task == "describe").order_by(_ANSWER.number)
# what is corrected repeats itself
_DESCRIBED_BY = _DESCRIBED.where(_ANSWER.worker == bindparam("name"), _ANSWER.unit != bindparam("but"))
_OF_SET = select(leasing.unit.id).where(leasing.unit.image_set == bindparam("image_set"))
_DESCRIBED_SET = _DESCRIBED.where(_ANSWER.worker != bindparam("name"), _ANSWER.unit.in_(_OF_SET))


def add_units(
    tx: Transaction, units: Iterable[Unit], image_sets: Iterable[ImageSet] = (), pictures: Mapping[str, str] = {}
) -> None:
    """Add image sets, then units; `pictures`: hashes of contents by image id.

    Those with a known id are replaced while there are no answers. Raises DataError for one with different content after
    that, and for a missing set.
    """
    for sets in _chunks(image_sets):
        _insert(tx, tables.image_set, [_payload(one) for one in _unknown(tx, tables.image_set, "image set", sets)])
    number, seed = tx.last(tables.unit.c.number) + 1, tx.rules.protocol.seed
    for chunk in _chunks(units):
        new = _unknown(tx, tables.unit, "unit", chunk)
        needed = {unit.image_set: unit.id for unit in new if unit.task in MAKES_WORK}
        known = select(tables.image_set.c.id).where(tables.image_set.c.id.in_(list(needed)))
        if missing := sorted(set(needed).difference(tx.column(known) if needed else ())):
            raise DataError(
                f"unit {needed[missing[0]]!r} is about image set {missing[0]!r}, which was not given",
                hint="give the sets with the units",
            )
        rows = [
            {
                **_payload(unit),
                "number": index,
                "task": unit.task,
                "purpose": unit.purpose,
                "image_set": unit.image_set,
                "side": pool_of(unit),
                # an attention check names the image itself: having seen the set is no help
                "fresh": int(task_of(unit).FRESH and unit.purpose != "attention"),
                "seats": task_of(unit).SEATS,
                "most": unit.most,
                "wanted": wanted(unit, 0, 0),
                "shuffle": int.from_bytes(digest(seed, "serve", unit.id)[:8]) >> 1,
            }
            for index, unit in enumerate(new, number)
        ]
        _insert(tx, tables.unit, rows)
        number += len(new)
        shown = ((unit.id, *row) for unit in new for row in unit.pictures(pictures).items())
        _insert(tx, tables.shown, [dict(zip(tables.shown.columns.keys(), row, strict=True)) for row in shown])
        authors = ((unit.id, name) for unit in new for name in sorted(set(unit.authors)))
        _insert(tx, tables.author, [{"unit": name, "worker": worker} for name, worker in authors])


def _insert(tx: Transaction, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        return
    if tx.connection.dialect.name == "sqlite" or len(rows) == 1:
        tx.connection.execute(insert(table), rows)
        return
    # the driver sends one statement for each row, or is slow with thousands of parameters: all rows travel as one
    row: sql.ColumnElement[object] = sql.literal_column(f"CAST(NULL AS {table.name})")
    recordset = func.json_populate_recordset(row, sql.cast(bindparam("rows", type_=sql.Text), JSON))
    names = [column.name for column in table.columns]
    defaults = {column.name: 0 for column in table.columns if column.default is not None}
    columns: list[sql.ColumnElement[object]] = [sql.literal_column(name) for name in names]
    tx.connection.execute(
        insert(table).from_select(names, select(*columns).select_from(recordset), include_defaults=False),
        {"rows": msgspec.json.encode([defaults | dict(row) for row in rows]).decode()},
    )


def _payload(record: Unit | ImageSet) -> dict[str, object]:
    return {"id": record.id, "payload": msgspec.json.encode(record).decode()}


def _chunks(records: Iterable[R]) -> Iterator[Sequence[R]]:
    iterator = iter(records)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _unknown(tx: Transaction, table: Table, noun: str, records: Sequence[R]) -> list[R]:
    rows = select(table.c.id, table.c.payload).where(table.c.id.in_([record.id for record in records]))
    payloads = dict(tx.connection.execute(rows).all())
    answered = tx.row(select(tables.answer).limit(1)) is not None
    new: list[R] = []
    for record in records:
        payload = str(_payload(record)["payload"])
        if payloads.get(record.id) == "":
            continue  # it showed what was deleted with somebody's data
        if payloads.get(record.id, payload) != payload:
            if answered or any(record.id == one.id for one in new):
                raise DataError(
                    f"{noun} {record.id!r} is in the journal with another content, and people have answered",
                    hint="ctxr export-tasks TASK -w ANOTHER -i SETS, then ctxr serve -w ANOTHER: a project with answers of its own",
                )
            remove(tx, table, record.id)
            del payloads[record.id]
        if record.id not in payloads:
            payloads[record.id] = payload
            new.append(record)
    return new


def remove(tx: Transaction, table: Table, name: str) -> None:
    """Remove an image set, or a unit with all that was handed out of it."""
    if table is tables.unit:
        clear(tx, name)
    tx.connection.execute(delete(table).where(table.c.id == name))


def clear(tx: Transaction, name: str) -> None:
    """Remove what a unit shows, and all that was handed out of it."""
    talks = select(tables.room.c.id).where(tables.room.c.unit == name)
    tx.connection.execute(delete(tables.event).where(tables.event.c.room.in_(talks)))
    for one in (tables.lease, tables.room, tables.shown, tables.author):
        tx.connection.execute(delete(one).where(one.c.unit == name))


def serve_only(tx: Transaction, exported: Collection[str]) -> None:
    """Serve only the units in `exported` and what follows from answers. Raises DataError where an answered unit is neither."""
    unit, answer, image_set = leasing.unit, tables.answer.c, tables.image_set.c
    there = select(unit.id, unit.purpose).where(unit.payload != "")
    purposes: dict[str, str] = dict(tx.connection.execute(there).all())
    gone = purposes.keys() - exported
    sources = (
        select(unit.payload, answer.payload, image_set.payload)
        .join_from(tables.answer, tables.unit, unit.id == answer.unit)
        .join(tables.image_set, image_set.id == unit.image_set)
        .where(answer.task.in_(MAKES_WORK))
    )
    for work, values, shown in tx.connection.execute(sources) if gone else ():
        source, described = msgspec.json.decode(work, type=Unit), msgspec.json.decode(shown, type=ImageSet)
        derived = derive_units(source, msgspec.json.decode(values, type=Answer), described, tx.rules.protocol)
        gone = gone.difference(one.id for one in derived)
    if lost := sorted(gone.intersection(tx.column(select(answer.unit)))):
        raise DataError(
            f"{len(lost)} answered units, such as {lost[0]!r}, are in no exported tasks any more; their answers would be lost",
            hint="ctxr export-tasks with the options of then, or another --workdir for another question",
        )
    for name, purpose in purposes.items():
        if name in gone and purpose != WITHDRAWN:
            tx.update(tables.unit, {"id": name}, purpose=WITHDRAWN)
        elif name not in gone and purpose == WITHDRAWN:
            tx.update(tables.unit, {"id": name}, purpose=leasing.unit_of(tx.get(tables.unit, id=name)).purpose)


def own_lease(tx: Transaction, token: str, worker: str) -> RowMapping:
    """The lease of a token. Raises NotAllowed for no lease and for somebody else's."""
    row = leasing.by_token(tx, token)
    if row is None:
        raise NotAllowed("unknown", _("This link is not one of ours. Please start from the first page."))
    if row["worker"] != worker:
        raise NotAllowed("not_yours", _("This task is in somebody else's hands. Please take one of your own."))
    return row


def answer_of(tx: Transaction, row: RowMapping, filled: dict[str, tuple[str, ...]], backend: str) -> Answer:
    """The answer to a lease."""
    order = msgspec.json.decode(row["shown"], type=tuple[str, ...])
    seconds = round(max(0, tx.now - row["began"]) / 1e6, 3)
    return Answer(row["unit"], row["worker"], filled, order, row["slot"], stamp(tx.now), seconds, backend)


def encoded(values: Mapping[str, Sequence[str]]) -> str:
    """Values as JSON. Raises NotAllowed for text that no file can hold."""
    try:
        return msgspec.json.encode(values).decode()
    except UnicodeEncodeError as error:
        odd = _("The text contains characters that cannot be stored. Please type it again.")
        raise NotAllowed("invalid", odd) from error


def add_counted(tx: Transaction, row: RowMapping, counted: Sequence[str]) -> None:
    """Add what a page counted to its lease in `row`; what no script has written changes nothing."""
    if found := _COUNTS.fullmatch("".join(counted)):
        named = zip(("pastes", "absences", "away"), found.groups(), strict=True)
        sums = {name: min((row[name] or 0) + int(more), _MOST_COUNTED) for name, more in named}
        tx.update(tables.lease, {"token": row["token"]}, **sums)


def exposure(tx: Transaction, unit: Unit, worker: str) -> Exposure:
    """What the worker described before, and what others wrote about the same set; only describing asks for it."""
    if unit.task != "describe":
        return Exposure()
    own = tx.column(_DESCRIBED_BY, name=worker, but=unit.id)
    others = tx.column(_DESCRIBED_SET, name=worker, image_set=unit.image_set)
    return Exposure(own=_texts(own), others=_texts(others))


def _texts(payloads: Sequence[str]) -> tuple[str, ...]:
    answers = (msgspec.json.decode(payload, type=Answer) for payload in payloads)
    return tuple(one.values[describe.FIELD][0] for one in answers if describe.FIELD in one.values)


def record(
    tx: Transaction, unit_row: RowMapping | dict[str, Any], unit: Unit, votes: Sequence[tuple[RowMapping, Answer]]
) -> None:
    """Store one vote of a unit: a worker's answer, or both of a talk, where the first counts."""
    for number, (row, answer) in enumerate(votes, tx.last(tables.answer.c.number) + 1):
        columns = {"unit": unit.id, "task": unit.task, "payload": msgspec.json.encode(answer).decode()}
        tx.insert(tables.answer, worker=answer.worker, number=number, **columns)
        tx.update(tables.lease, {"token": row["token"]}, state="answered", draft=None)
        tx.connection.execute(_COUNT_ANSWER, {"name": answer.worker})
    first = votes[0][1]
    correct = task_of(unit).score(unit, first).right
    live = unit_row["live"] - 1
    if task_of(unit).is_vote(first.values):
        # one more vote, whose place was leased
        names = {"right": True, "wrong": False, "unknown": None}
        votes_of = {name: unit_row[f"{name}_votes"] + (correct is mark) for name, mark in names.items()}
        leasing.set_counts(tx, unit, live, **votes_of, decided=unit_row["decided"])
    else:
        leasing.recount_unit(tx, unit, live, unit_row["decided"])
    add_follow_ups(tx, unit, first)
    if unit.purpose != "work" and correct is not None:
        worker_state.count_check(tx, worker_state.require(tx, first.worker), correct)


def follow_ups(tx: Transaction, unit: Unit, answer: Answer) -> list[Unit]:
    """The units that follow from an answer."""
    if unit.purpose != "work" or unit.task not in MAKES_WORK:
        return []
    image_set = msgspec.json.decode(tx.get(tables.image_set, id=unit.image_set)["payload"], type=ImageSet)
    return derive_units(unit, answer, image_set, tx.rules.protocol)


def add_follow_ups(tx: Transaction, unit: Unit, answer: Answer) -> None:
    """Add the units that follow from an answer; they show pictures that `unit` shows."""
    if units := follow_ups(tx, unit, answer):
        shown = select(leasing.shown.image, leasing.shown.picture).where(leasing.shown.unit == unit.id)
        pictures: dict[str, str] = dict(tx.connection.execute(shown).all())
        add_units(tx, units, pictures=pictures)
