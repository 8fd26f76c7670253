"""Add units and image sets to a journal, each once and never with different content, and withdraw them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Table, Text, bindparam, cast, func, insert, literal_column, null, select, update
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.types import UserDefinedType

from ctxr.annotation.journal import leasing, tables
from ctxr.annotation.journal.transaction import Transaction
from ctxr.annotation.protocol import digest, wanted
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.annotation.unit_factory import derive_units
from ctxr.errors import DataError, UsageError, plural
from ctxr.store.records import ImageSet

R = TypeVar("R", Unit, ImageSet)

_CHUNK = 400

WITHDRAWN = "withdrawn"
"""Purpose, in the table of units, of those that are served for nothing any more."""

MAKES_WORK = ("describe", "dialogue")
"""Tasks whose answers give others work, for which the image set must be known."""


def add_sets(tx: Transaction, image_sets: Iterable[ImageSet]) -> int:
    """Add image sets and return the number of new ones. Raises DataError for a known id with different images."""
    new = 0
    for chunk in _chunks(image_sets):
        fresh = _unknown(tx, tables.image_set, "image set", chunk)
        if fresh:
            _insert(tx, tables.image_set, [_payload(image_set) for image_set in fresh])
        new += len(fresh)
    return new


def add_units(tx: Transaction, units: Iterable[Unit]) -> int:
    """Add units and return the number of new ones. Raises DataError for a known id with different content, or a missing set."""
    number = int(tx.connection.scalar(select(func.coalesce(func.max(tables.unit.c.number), -1))) or 0)
    before = number
    for chunk in _chunks(units):
        fresh = _unknown(tx, tables.unit, "unit", chunk)
        if not fresh:
            continue
        _check_sets(tx, fresh)
        _insert(
            tx, tables.unit, [_row(unit, number + place, tx.rules.protocol.seed) for place, unit in enumerate(fresh, 1)]
        )
        number += len(fresh)
        authors = [{"unit": unit.id, "worker": name} for unit in fresh for name in sorted(set(unit.authors))]
        if authors:
            _insert(tx, tables.author, authors)
    return number - before


def pool_of(unit: Unit) -> str:
    """The side of the benchmark that a unit's workers must be on; a check of the worker is for everybody."""
    if unit.purpose != "work" or unit.split is None:
        return "any"
    return "train" if unit.split == "train" else "eval"


def _row(unit: Unit, number: int, seed: int) -> dict[str, object]:
    task = task_of(unit)
    return {
        **_payload(unit),
        "number": number,
        "task": unit.task,
        "purpose": unit.purpose,
        "image_set": unit.image_set,
        "target": unit.target,
        "side": pool_of(unit),
        # an attention check names the image itself: having seen the set is no help
        "fresh": int(task.FRESH and unit.purpose != "attention"),
        "seats": task.SEATS,
        "most": unit.most,
        "wanted": wanted(unit, 0, 0),
        "shuffle": int.from_bytes(digest(seed, "serve", unit.id)[:8]) >> 1,
    }


def _insert(tx: Transaction, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    if tx.connection.dialect.name == "sqlite" or len(rows) == 1:
        tx.connection.execute(insert(table), rows)
        return
    # the driver sends one statement for each row, or is slow with thousands of parameters: all rows travel as one
    recordset = func.json_populate_recordset(
        cast(null(), _RowOf(table.name)), cast(bindparam("rows", type_=Text), JSON)
    )
    names = [column.name for column in table.columns]
    defaults = {column.name: 0 for column in table.columns if column.default is not None}
    columns: list[ColumnElement[Any]] = [literal_column(name) for name in names]
    payload = msgspec.json.encode([defaults | dict(row) for row in rows]).decode()
    tx.connection.execute(
        insert(table).from_select(names, select(*columns).select_from(recordset), include_defaults=False),
        {"rows": payload},
    )


class _RowOf(UserDefinedType[object]):
    """A table's row as a type of PostgreSQL."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        """The name of the type."""
        return self.name


def _payload(record: Unit | ImageSet) -> dict[str, object]:
    return {"id": record.id, "payload": msgspec.json.encode(record).decode()}


def _chunks(records: Iterable[R]) -> Iterator[Sequence[R]]:
    rest = iter(records)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _unknown(tx: Transaction, table: Table, noun: str, records: Sequence[R]) -> list[R]:
    """Those that the table lacks."""
    known = dict(
        tx.connection.execute(
            select(table.c.id, table.c.payload).where(table.c.id.in_([record.id for record in records]))
        ).all()
    )
    fresh: list[R] = []
    for record in records:
        payload = str(_payload(record)["payload"])
        if record.id not in known:
            known[record.id] = payload
            fresh.append(record)
        elif known[record.id] != payload:
            raise DataError(
                f"{noun} {record.id!r} is in the journal with another content",
                hint="export the tasks into a new folder with its own journal, or give the old ones",
            )
    return fresh


def _check_sets(tx: Transaction, units: Sequence[Unit]) -> None:
    needed = {unit.image_set: unit.id for unit in units if unit.task in MAKES_WORK}
    known = tx.connection.scalars(select(tables.image_set.c.id).where(tables.image_set.c.id.in_(list(needed))))
    missing = sorted(set(needed) - set(known))
    if missing:
        raise DataError(
            f"unit {needed[missing[0]]!r} is about image set {missing[0]!r}, which was not given",
            hint="give the sets with the units",
        )


def check_questions(tx: Transaction) -> None:
    """Raises UsageError where the protocol asks for more qualification questions than there are."""
    asked = tx.rules.protocol.qualification
    if not asked:
        return
    unit = tables.unit.c
    there = tx.connection.scalar(select(func.count()).where(unit.purpose == "qualification")) or 0
    if there < asked:
        raise UsageError(
            f"qualification needs {plural(asked, 'question')}, and the tasks contain {there}",
            hint="export more qualification units, or lower qualification",
        )


def withdraw(tx: Transaction, asked: Collection[str]) -> None:
    """Serve only the units whose ids are in `asked`, and what follows from answers; what was withdrawn may come back.

    Raises DataError where an answered unit is neither.
    """
    unit, answer = leasing.unit, tables.answer.c
    purposes: dict[str, str] = dict(tx.connection.execute(select(unit.id, unit.purpose)).all())
    gone = purposes.keys() - asked
    if gone:
        gone -= _followed(tx)
    lost = sorted(gone.intersection(tx.connection.scalars(select(answer.unit))))
    if lost:
        raise DataError(
            f"{len(lost)} answered units, such as {lost[0]!r}, are in no exported tasks any more; their answers would be lost",
            hint="ctxr export-tasks with the options of then, or another --workdir for another question",
        )
    for name, purpose in purposes.items():
        if name in gone and purpose != WITHDRAWN:
            _serve_for(tx, name, WITHDRAWN)
        elif name not in gone and purpose == WITHDRAWN:
            _serve_for(tx, name, leasing.unit_of(leasing.unit_row(tx, name)).purpose)


def _followed(tx: Transaction) -> set[str]:
    """Ids of what the answers gave others to do."""
    unit, answer, image_set = leasing.unit, tables.answer.c, tables.image_set.c
    rows = tx.connection.execute(
        select(unit.payload, answer.payload, image_set.payload)
        .join_from(tables.answer, tables.unit, unit.id == answer.unit)
        .join(tables.image_set, image_set.id == unit.image_set)
        .where(answer.task.in_(MAKES_WORK))
    )
    return {
        one.id
        for asked, given, shown in rows
        for one in derive_units(
            msgspec.json.decode(asked, type=Unit),
            msgspec.json.decode(given, type=Answer),
            msgspec.json.decode(shown, type=ImageSet),
            tx.rules.protocol,
        )
    }


def _serve_for(tx: Transaction, name: str, purpose: str) -> None:
    tx.connection.execute(update(tables.unit).where(leasing.unit.id == name).values(purpose=purpose))
