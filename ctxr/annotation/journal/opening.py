"""Making the tables of a journal, and refusing what a newer program made."""

from sqlalchemy import Connection, func, insert, select

from ctxr.annotation.journal import tables
from ctxr.annotation.journal.database import Database
from ctxr.annotation.journal.rules import Rules
from ctxr.errors import DataError, UsageError


def prepare(database: Database) -> None:
    """Make the tables where there are none. Raises DataError for a journal of a newer schema."""
    about = tables.about.c
    with database.writing() as connection:
        tables.metadata.create_all(connection, tables=[tables.about])
        found = connection.scalar(select(about.value).where(about.name == "schema"))
        if found is None:
            tables.metadata.create_all(connection)
            connection.execute(insert(tables.about).values(name="schema", value=str(tables.SCHEMA)))
        elif found != str(tables.SCHEMA):
            raise DataError(
                f"the journal in {database.name} has schema {found}, this ctxr knows {tables.SCHEMA}",
                hint="use the version of ctxr that made it, or a newer one",
            )


def check_questions(connection: Connection, rules: Rules) -> None:
    """Raises UsageError where the protocol asks for more qualification questions than there are."""
    asked = rules.protocol.qualification
    if not asked:
        return
    unit = tables.unit.c
    there = connection.scalar(select(func.count()).where(unit.purpose == "qualification")) or 0
    if there < asked:
        raise UsageError(
            f"qualification asks {asked} questions, and there {'is' if there == 1 else 'are'} {there}",
            hint="export more qualification units, or lower qualification",
        )
