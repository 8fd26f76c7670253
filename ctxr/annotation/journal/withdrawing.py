"""Units that are asked no more: they stay in the journal, and nobody gets them."""

from collections.abc import Collection

import msgspec
from sqlalchemy import Connection, select, update

from ctxr.annotation.journal import leasing, tables
from ctxr.annotation.journal.filling import MAKES_WORK
from ctxr.annotation.journal.rules import Rules
from ctxr.annotation.making import follow
from ctxr.annotation.records import Answer, Unit
from ctxr.data.records import ImageSet
from ctxr.errors import DataError

WITHDRAWN = "withdrawn"
"""Purpose, in the table of units, of those that are served for nothing any more."""


def withdraw(connection: Connection, asked: Collection[str], rules: Rules) -> None:
    """Serve only the units whose ids are in `asked`, and what follows from answers; what was withdrawn may come back.

    Raises DataError where an answered unit is neither.
    """
    unit, answer = leasing.unit, tables.answer.c
    purposes: dict[str, str] = dict(connection.execute(select(unit.id, unit.purpose)).all())
    gone = purposes.keys() - asked
    if gone:
        gone -= _followed(connection, rules)
    lost = sorted(gone.intersection(connection.scalars(select(answer.unit))))
    if lost:
        raise DataError(
            f"{len(lost)} answered units, such as {lost[0]!r}, are in no exported tasks any more; their answers would be lost",
            hint="ctxr export-tasks with the options of then, or another --workdir for another question",
        )
    for name, purpose in purposes.items():
        if name in gone and purpose != WITHDRAWN:
            _serve_for(connection, name, WITHDRAWN)
        elif name not in gone and purpose == WITHDRAWN:
            _serve_for(connection, name, leasing.unit_of(leasing.unit_row(connection, name)).purpose)


def _followed(connection: Connection, rules: Rules) -> set[str]:
    """Ids of what the answers gave others to do."""
    unit, answer, image_set = leasing.unit, tables.answer.c, tables.image_set.c
    rows = connection.execute(
        select(unit.payload, answer.payload, image_set.payload)
        .join_from(tables.answer, tables.unit, unit.id == answer.unit)
        .join(tables.image_set, image_set.id == unit.image_set)
        .where(answer.task.in_(MAKES_WORK))
    )
    return {
        one.id
        for asked, given, shown in rows
        for one in follow(
            msgspec.json.decode(asked, type=Unit),
            msgspec.json.decode(given, type=Answer),
            msgspec.json.decode(shown, type=ImageSet),
            rules.protocol,
        )
    }


def _serve_for(connection: Connection, name: str, purpose: str) -> None:
    connection.execute(update(tables.unit).where(leasing.unit.id == name).values(purpose=purpose))
