"""What is kept about people: the tables that say something about them, in plain words, with how much is in them now."""

from dataclasses import dataclass

import sqlalchemy as sql
from sqlalchemy import Connection, MetaData


@dataclass(frozen=True)
class KeptTable:
    """A table that says something about people: its columns with words for each, its rows, and how many people they name; None for a table
    that names none."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: int
    people: int | None


def words_of(text: str) -> dict[str, str]:
    """What a table says by column, from "column: words; column: words"."""
    pairs = (" ".join(part.split()).partition(": ") for part in text.split(";"))
    return {column: words for column, _, words in pairs}


def kept_tables(connection: Connection, metadata: MetaData) -> list[KeptTable]:
    """The tables with words about people, in the order in which they were declared."""
    kept = []
    for table in metadata.tables.values():
        if not (words := table.info.get("people")):
            continue
        named = next(
            (table.c[name] for name in ("worker", "id") if name in table.c and "pseudonym" in words_of(words)[name]),
            None,
        )
        counts = [sql.func.count()] if named is None else [sql.func.count(), sql.func.count(named.distinct())]
        rows, *people = connection.execute(sql.select(*counts).select_from(table)).one()
        kept.append(KeptTable(table.name, tuple(words_of(words).items()), rows, people[0] if people else None))
    return kept
