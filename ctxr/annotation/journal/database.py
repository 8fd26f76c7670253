"""Open, read and write SQLite and PostgreSQL, in transactions with time and rules.

Writers go one after the other: in SQLite by BEGIN IMMEDIATE, in PostgreSQL by one advisory lock for the length of a
transaction. So a transaction may look first and write then, and what it saw still holds.
"""

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy import Connection, Engine, RowMapping, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)

from ctxr.annotation.protocol import Protocol
from ctxr.annotation.waiting import address_to_read
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.store.atomic import disk_errors

SURE = 0.95
"""Probability above which a worker's accuracy counts as below the limit."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Rules:
    """The rules of a journal: the time for an answer, for an inactive partner in a dialogue, and to wait for a partner; `exported`: ids of
    units that files of tasks hold, which follow from answers and stay as they are."""

    protocol: Protocol
    lease_for: timedelta = timedelta(minutes=30)
    patience: timedelta = timedelta(minutes=5)
    longest_wait: timedelta = timedelta(minutes=10)
    exported: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Transaction:
    """One transaction of the journal. `now`: microseconds since 1970, UTC; 0 where nothing depends on the time."""

    connection: Connection
    rules: Rules
    now: int = 0

    def after(self, wait: timedelta) -> int:
        """The time after a wait."""
        return self.now + wait // _MICROSECOND

    def find(self, table: sql.Table, **values: object) -> RowMapping | None:
        """The row of a table that has these values; None without one."""
        return self.row(_find(table, *values), **values)

    def get(self, table: sql.Table, **values: object) -> RowMapping:
        """The row of a table that has these values, which must exist."""
        return self.connection.execute(_find(table, *values), values).mappings().one()

    def row(self, query: sql.Executable, **values: object) -> RowMapping | None:
        """The row of a query; None without one."""
        return self.connection.execute(query, values).mappings().one_or_none()

    def rows(self, query: sql.Executable, **values: object) -> list[RowMapping]:
        """All rows of a query."""
        return list(self.connection.execute(query, values).mappings())

    def column(self, query: sql.Executable, **values: object) -> list[Any]:
        """The first value of each row of a query."""
        return list(self.connection.scalars(query, values))

    def insert(self, table: sql.Table, **values: object) -> None:
        """Add a row to a table; columns that are left out have their defaults."""
        self.connection.execute(_insert(table), values)

    def update(self, table: sql.Table, key: Mapping[str, object], **values: object) -> None:
        """Set columns of the rows of a table that have the values in `key`."""
        named = {f"key_{name}": value for name, value in key.items()}
        self.connection.execute(_update(table, *key), named | values)

    def last(self, column: sql.Column[int]) -> int:
        """The greatest number in a column; -1 in an empty table."""
        greatest = self.connection.scalar(sql.select(sql.func.max(column)))
        return -1 if greatest is None else int(greatest)


# statements are built once: building one takes longer than running it
_insert = cache(sql.insert)


@cache
def _find(table: sql.Table, *names: str) -> sql.Executable:
    return sql.select(table).where(*(table.c[name] == sql.bindparam(name) for name in names))


@cache
def _update(table: sql.Table, *names: str) -> sql.Update:
    return sql.update(table).where(*(table.c[name] == sql.bindparam(f"key_{name}") for name in names))


def micros(moment: datetime) -> int:
    """An aware time as the journal stores it: microseconds since 1970, UTC. Raises ValueError for one without a zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} does not say its time zone")
    return (moment - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    """The time, aware, UTC."""
    return _EPOCH + stored * _MICROSECOND


def stamp(stored: int) -> str:
    """ISO 8601 with milliseconds and "Z"."""
    return moment(stored).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_LOCK = 0x63747872
"""Number of the advisory lock, "ctxr"."""

_ADDRESS = "write it as postgresql://user:password@host/name, or give the path of a file"


_MOST_TOGETHER = 16
"""Writers that reach the disk together; then another program has its chance."""


class _Group:
    """Writers of one transaction, each undone alone if it raises; all reach the disk together, as fast as one."""

    def __init__(self, begun: AbstractContextManager[Connection]) -> None:
        self._begun, self.connection = begun, begun.__enter__()
        self.size, self.over = 0, threading.Event()
        self.failure: BaseException | None = None

    def end(self) -> None:
        """Commit, or undo all of it after a failure; `failure` says afterwards whether it is on the disk."""
        try:
            self._begun.__exit__(type(self.failure) if self.failure else None, self.failure, None)
        except BaseException as error:
            self.failure = self.failure or error
        finally:
            self.over.set()


class Database:
    """A database that accepts connections; `name` is how messages call it, without a password."""

    def __init__(self, url: str | Path, busy_seconds: float = 30.0, *, read_only: bool = False) -> None:
        address = _address(url)
        self.sqlite = address.get_backend_name() == "sqlite"
        self.name = str(address.database) if self.sqlite else address.render_as_string(hide_password=True)
        self._guard, self._queue = threading.Lock(), deque[threading.Event]()
        self._group: _Group | None = None
        if not self.sqlite:
            pool: dict[str, Any] = {"pool_size": 16, "max_overflow": -1, "pool_pre_ping": True, "pool_use_lifo": True}
            try:
                self._engine = create_engine(address, **pool)
            except NoSuchModuleError as error:
                raise UsageError(
                    f"{address.drivername} is not a driver that SQLAlchemy knows", hint=_ADDRESS
                ) from error
            except ModuleNotFoundError as error:
                raise UsageError(
                    f"the driver {error.name} of {address.drivername} is not installed",
                    hint="pip install pg8000, or the driver that the address names",
                ) from error
        elif read_only:
            file = address_to_read(Path(self.name))
            options: dict[str, Any] = {"uri": True, "timeout": busy_seconds, "check_same_thread": False}
            self._engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(file, **options))
        else:
            self._engine = _sqlite_engine(address, busy_seconds)
        self._writer = self._engine.execution_options(writing=True)
        with self.errors():
            if self.sqlite and not read_only:
                _write_ahead(self._engine, busy_seconds)
            else:
                self._engine.connect().close()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A writer's transaction alone, on the disk when the block ends; undone if it raises."""
        # threads are admitted in the order in which they asked: with SQLite's own waiting, or a plain lock, some could starve
        admitted = threading.Event()
        with self._guard:
            self._queue.append(admitted)
            self._queue[0].set()
        try:
            admitted.wait()
            with self.errors():
                group = self._group = self._group or _Group(self._writer.begin())
                run = group.connection.exec_driver_sql
                try:
                    if not self.sqlite and not group.size:
                        run(f"SELECT pg_advisory_xact_lock({_LOCK})")
                    group.size += 1
                    run("SAVEPOINT one")
                    yield group.connection
                    run("RELEASE SAVEPOINT one")
                except BaseException as error:
                    # of all, unless this one can be undone alone: a full disk may end the transaction
                    group.failure = error
                    with suppress(Exception):  # of a driver, too, that has lost its server
                        run("ROLLBACK TO SAVEPOINT one")
                        run("RELEASE SAVEPOINT one")
                        group.failure = None
                    raise
        finally:  # also where the wait was interrupted: the next thread must be admitted
            self._leave(admitted)
        group.over.wait()
        with self.errors():
            if group.failure is not None:
                raise group.failure

    def _leave(self, admitted: threading.Event) -> None:
        """Admit the next thread, to this group or, where that is full, broken or the last one waited, once it has ended."""
        with self._guard:
            group = self._group if self._queue[0] is admitted else None
            if group is None or not (len(self._queue) == 1 or group.failure or group.size == _MOST_TOGETHER):
                self._admit_after(admitted)
                return
            self._group = None
        try:
            group.end()  # without the guard: others may queue, and wait behind this thread
        finally:
            with self._guard:
                self._admit_after(admitted)

    def _admit_after(self, admitted: threading.Event) -> None:
        self._queue.remove(admitted)
        if self._queue:
            self._queue[0].set()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only transaction, which waits for no writer."""
        with self.errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises CtxrError for what the database refuses."""
        try:
            yield
        except (DBAPIError, sqlite3.Error, ConnectionError) as error:
            # while a connection is made, SQLAlchemy wraps no error of SQLite
            if self.sqlite or isinstance(error, sqlite3.Error):
                code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None) or 0
                kind, sentence, hint = _FILE.get(code & 0xFF, (CtxrError, "", ""))
                refusal = kind(sentence.format(self.name), hint=hint) if sentence else None
            else:
                refusal = _server_error(error, self.name)
            if refusal is None:
                raise
            raise refusal from error

    def compact(self, tables: sql.MetaData) -> None:
        """Leave no byte of deleted rows in the files. Raises CtxrError where somebody else reads them for too long."""
        if not self.sqlite:
            with self.errors(), self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                # the look whether the server is there has begun a transaction
                for statement in ("COMMIT", *(f"VACUUM FULL {table}" for table in tables.tables)):
                    connection.exec_driver_sql(statement)
            return
        with self.errors(), closing(self._engine.raw_connection()) as file:
            cursor = file.cursor()
            cursor.execute("VACUUM")
            # the log in which SQLite writes ahead holds earlier pages until it is cut
            if cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise CtxrError(f"{self.name} is being read, and still holds what was deleted", hint=_LOCKED[2])

    def close(self) -> None:
        """Let go of every connection."""
        self._engine.dispose()


def _address(url: str | Path) -> URL:
    if isinstance(url, Path) or "://" not in url:
        return URL.create("sqlite", database=str(url))
    try:
        address = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise UsageError(f"{url.split('@')[-1]!r} is not the address of a database", hint=_ADDRESS) from error
    if address.drivername in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+pg8000")
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise UsageError(f"{address.get_backend_name()} is neither SQLite nor PostgreSQL", hint=_ADDRESS)
    if address.get_backend_name() == "sqlite" and not address.database:
        raise UsageError("a journal in memory would be lost with the program", hint="give the path of a file")
    return address


def _sqlite_engine(address: URL, busy_seconds: float) -> Engine:
    """The engine of a file, which is made where it is not, and readable to its owner alone."""
    path = Path(str(address.database))
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch(0o600)  # before SQLite opens it: files beside it get its mode
        for file in filter(Path.is_file, (path, Path(f"{path}-wal"), Path(f"{path}-shm"))):
            with suppress(PermissionError):  # somebody else's, who decides who may read it
                file.chmod(0o600)
    engine = create_engine(
        address, pool_size=16, max_overflow=-1, pool_use_lifo=True, connect_args={"timeout": busy_seconds}
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says, not where the driver guesses
        connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("writing", False)
        # by the driver: through SQLAlchemy it takes as long as a search
        connection.connection.cursor().execute("BEGIN IMMEDIATE" if writing else "BEGIN").close()

    return engine


def _write_ahead(engine: Engine, busy_seconds: float) -> None:
    """Switch the file to write-ahead logging; the switch itself waits for no other openers."""
    deadline = time.monotonic() + busy_seconds
    connection = engine.raw_connection()
    try:
        while True:
            try:
                if connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                    return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)
    finally:
        connection.close()


_LOCKED = (CtxrError, "{} is locked by another program", "end the program that holds it, then try again")
_READONLY = (CtxrError, "no permission to write {}", "make the file and its folder writable")
_FULL = "free some space; what was acknowledged is kept"
_FILE: dict[int, tuple[type[CtxrError], str, str]] = {
    sqlite3.SQLITE_FULL: (CtxrError, "the disk is full: {} could not be written", _FULL),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_NOTADB: (DataError, "{} is not a SQLite database", "name another file, or move this one away"),
    sqlite3.SQLITE_CORRUPT: (DataError, "{} is damaged", "restore it from a backup, or run sqlite3 FILE .recover"),
    sqlite3.SQLITE_READONLY: _READONLY,
    sqlite3.SQLITE_PERM: _READONLY,
    sqlite3.SQLITE_CANTOPEN: (CtxrError, "{} cannot be opened", "name a file in a folder that can be written"),
    sqlite3.SQLITE_IOERR: (CtxrError, "the disk failed under {}", "look at the disk; what was acknowledged is kept"),
}
"""Kind of error, sentence about the file, and what to do, by SQLite's primary result code."""

_SERVER = (
    ("28", "refuses the user or the password", "write the right ones into the address"),
    ("3D000", "has no database of that name", "createdb makes one"),
    ("53100", "has no space left on its disk", _FULL),
    ("53", "has no place for another connection", "raise max_connections, or end other programs"),
    ("42501", "does not let this user write", "grant the user its own schema"),
    ("57P", "is shutting down", "start it, then try again"),
)
"""What a SQLSTATE begins with, what that means, and what to do."""


def _server_error(error: Any, name: str) -> CtxrError | None:
    lost = CtxrError(f"PostgreSQL at {name} cannot be reached", hint="is it running, and are host and port right?")
    if isinstance(error, ConnectionError):  # which pg8000 passes on from its socket
        return lost
    # the SQLSTATE, however a driver tells it; empty where there is none
    code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if code is None and error.orig is not None and error.orig.args and isinstance(error.orig.args[0], dict):
        code = error.orig.args[0].get("C")
    state = str(code or "")
    for start, meaning, hint in _SERVER:
        if state.startswith(start):
            return CtxrError(f"PostgreSQL at {name} {meaning}", hint=hint)
    if error.connection_invalidated or (isinstance(error, (InterfaceError, OperationalError)) and not state):
        return lost
    return None
