"""An open transaction of the journal, with the time and the rules that apply."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Executable, RowMapping, Select, Table, func, insert, select

from ctxr.annotation.protocol import Protocol

SURE = 0.95
"""Probability above which a worker's accuracy counts as below the limit."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Rules:
    """The rules of a journal.

    Attributes:
        lease_for: time for an answer. patience: how long a partner in a dialogue may be inactive.
        longest_wait: how long a worker waits for a partner.
    """

    protocol: Protocol
    lease_for: timedelta = timedelta(minutes=30)
    patience: timedelta = timedelta(minutes=5)
    longest_wait: timedelta = timedelta(minutes=10)


@dataclass(frozen=True)
class Transaction:
    """One transaction of the journal.

    Attributes:
        now: microseconds since 1970, UTC; 0 where nothing goes by the time.
    """

    connection: Connection
    rules: Rules
    now: int = 0

    def after(self, wait: timedelta) -> int:
        """The time after a wait."""
        return self.now + wait // _MICROSECOND

    def row(self, query: Select[Any], **values: object) -> RowMapping | None:
        """The row of a query; None without one."""
        return self.connection.execute(query, values).mappings().one_or_none()

    def rows(self, query: Select[Any], **values: object) -> list[RowMapping]:
        """All rows of a query."""
        return list(self.connection.execute(query, values).mappings())

    def column(self, query: Select[Any], **values: object) -> list[Any]:
        """The first value of each row of a query."""
        return list(self.connection.scalars(query, values))

    def run(self, statement: Executable, **values: object) -> None:
        """Execute a statement that changes rows."""
        self.connection.execute(statement, values)

    def insert(self, table: Table, **values: object) -> None:
        """Add a row to a table; columns that are left out have their defaults."""
        self.connection.execute(insert(table), values)

    def last(self, column: Column[int]) -> int:
        """The greatest number in a column; -1 in an empty table."""
        greatest = self.connection.scalar(select(func.max(column)))
        return -1 if greatest is None else int(greatest)


def micros(moment: datetime) -> int:
    """An aware time as the journal stores it: microseconds since 1970, UTC. Raises ValueError for one without a zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} does not say its time zone")
    return (moment - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    """The time, aware, UTC."""
    return _EPOCH + stored * _MICROSECOND


def stamp(stored: int) -> str:
    """ISO 8601 with milliseconds and "Z".

    >>> stamp(1_500_000)
    '1970-01-01T00:00:01.500Z'
    """
    return moment(stored).isoformat(timespec="milliseconds").replace("+00:00", "Z")
