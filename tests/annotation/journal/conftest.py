"""Both databases, each empty for each test, and journals that are closed after it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.tables import metadata
from scripts.postgres_server import Server, programs, server
from tests.annotation.journal.study import PUBLISHED, enrolled

Opener = Callable[..., Journal]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A running PostgreSQL server; tests that want it are skipped where there is none."""
    if programs() is None:
        pytest.skip("no PostgreSQL server on this machine: apt-get install postgresql (make system)")
    with server() as running:
        yield running


@pytest.fixture(scope="session")
def shared_database(postgres: Server) -> Iterator[tuple[str, Engine]]:
    """One database of the server, and a connection that empties it; a new one for each test takes longer to delete."""
    address = postgres.new_database()
    engine = create_engine(address.replace("postgresql://", "postgresql+pg8000://"), isolation_level="AUTOCOMMIT")
    metadata.create_all(engine)
    yield address, engine
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "crowd" / "answers.sqlite")
    name, engine = request.getfixturevalue("shared_database")
    with engine.connect() as connection:
        connection.exec_driver_sql("SET lock_timeout = '60s'")
        connection.exec_driver_sql(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY")
    return str(name)


@pytest.fixture
def opener(address: str) -> Iterator[Opener]:
    """Opens the journal at `address` as often as wanted, enrols `workers`, and closes what it opened."""
    opened: list[Journal] = []

    def reopen(
        units: object = (), sets: object = (), protocol: object = PUBLISHED, workers: str = "", **more: Any
    ) -> Journal:
        journal = open_journal(address, units, sets, protocol, **more)  # type: ignore[arg-type]
        opened.append(journal)
        enrolled(journal, *workers.split())
        return journal

    yield reopen
    for journal in opened:
        journal.close()
