"""What is kept about people: the tables that say something about them, in plain words, with how much is in them now.

The words are in `kept.toml`; a table that is not there says nothing about people.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import sqlalchemy as sql
from sqlalchemy import Connection, MetaData, Table


@dataclass(frozen=True)
class KeptTable:
    """A table about people: words for each column, its rows, and how many people they name.

    `people` is None for a table that names none.
    """

    name: str
    columns: Mapping[str, str]
    rows: int
    people: int | None


@cache
def words() -> dict[str, dict[str, str]]:
    """What columns say about people, by table; `common`: where tables say nothing else."""
    return tomllib.loads((files(__package__) / "kept.toml").read_text(encoding="utf-8"))


def words_by_column(table: Table) -> dict[str, str]:
    """What each column of a table says about people; nothing for a table without any words.

    Raises KeyError for a column without words.
    """
    own = words().get(table.name.removeprefix("crowd_"))
    known = words()["common"] | (own or {})
    return {} if own is None else {column.name: known[column.name] for column in table.columns}


def kept_tables(connection: Connection, metadata: MetaData) -> list[KeptTable]:
    """The tables that say something about people, with the words of each."""
    kept = []
    for table in metadata.tables.values():
        if columns := words_by_column(table):
            named = [table.c[name] for name in ("worker", "id") if "pseudonym" in columns.get(name, "")]
            counts = [sql.func.count(), *(sql.func.count(column.distinct()) for column in named)]
            rows, *people = connection.execute(sql.select(*counts).select_from(table)).one()
            kept.append(KeptTable(table.name, columns, rows, people[0] if people else None))
    return kept
