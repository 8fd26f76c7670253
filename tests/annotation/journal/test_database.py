"""What is wrong with a database is said in one sentence, and nothing that was acknowledged is lost by it."""

import os
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy

from ctxr.annotation.journal.database import Database, Rules
from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.tables import SCHEMA, metadata
from ctxr.annotation.records import Answer
from ctxr.errors import CtxrError, DataError, UsageError
from scripts.postgres_server import PASSWORD, Server
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import PUBLISHED, START, answer, described, enrolled, image_sets, leased


def told(error: pytest.ExceptionInfo[CtxrError]) -> None:
    """One sentence, a hint, and no password."""
    assert "\n" not in error.value.message
    assert error.value.hint
    assert PASSWORD not in error.value.message + error.value.hint


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://localhost/crowd", "mysql is neither"),
        ("postgresql+nonsense://localhost/crowd", "postgresql.nonsense is not"),
        ("postgresql+asyncpg://localhost/crowd", "asyncpg of postgresql.asyncpg"),
        ("postgresql://user:only-for-tests@host:port/crowd", "'host:port/crowd'"),
        ("sqlite://", "in memory"),
    ],
)
def test_an_address_that_is_none_is_told(address: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        open_journal(address)
    told(error)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(
        CtxrError, match=r"PostgreSQL at postgresql\+pg8000://ctxr:\*\*\*@127.0.0.1:1/crowd cannot"
    ) as error:
        open_journal(f"postgresql://ctxr:{PASSWORD}@127.0.0.1:1/crowd")
    told(error)


def test_a_wrong_password_or_database_is_told(postgres: Server) -> None:
    with pytest.raises(CtxrError, match="or the password") as error:
        open_journal(postgres.url(password="wrong"))  # noqa: S106
    told(error)
    with pytest.raises(CtxrError, match="of that name") as error:
        open_journal(postgres.url("nowhere"))
    told(error)


def test_any_driver_may_be_named(postgres: Server) -> None:
    address = postgres.new_database().replace("postgresql://", "postgresql+pg8000://")
    open_journal(address).close()
    open_journal(address).close()


@pytest.mark.parametrize(("state", "message"), [("53100", "no space"), ("57P03", "shutting")])
def test_a_server_that_refuses_a_write_is_told_and_the_answer_is_kept_the_next_time(
    postgres: Server, state: str, message: str
) -> None:
    sets = image_sets(2)
    journal = open_journal(postgres.new_database(), [described(one) for one in sets], sets)
    enrolled(journal, "w1")
    lease = leased(journal, "w1", tasks=["describe"])
    with journal._database.writing() as connection:
        refusal = f"BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END"
        connection.exec_driver_sql(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $${refusal}$$")
        connection.exec_driver_sql("CREATE TRIGGER refusal BEFORE INSERT ON crowd_answer EXECUTE FUNCTION refuse()")
    with pytest.raises(CtxrError, match=f"PostgreSQL at .* {message}") as error:
        answer(journal, lease)
    told(error)
    assert journal.answers() == []
    with journal._database.writing() as connection:
        connection.exec_driver_sql("DROP FUNCTION refuse CASCADE")
    assert [answer(journal, lease)] == journal.answers()
    journal.close()


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_text("my thesis, the only copy" * 100)
    with pytest.raises(DataError, match=r"answers\.sqlite is not") as error:
        open_journal(path)
    told(error)
    assert path.read_text() == "my thesis, the only copy" * 100


@pytest.mark.parametrize("was", [None, 0o644])
def test_the_file_and_those_beside_it_are_readable_to_their_owner_alone(tmp_path: Path, was: int | None) -> None:
    path, before = tmp_path / "answers.sqlite", os.umask(0)
    try:
        if was is not None:
            for name in ("", "-wal", "-shm"):
                Path(f"{path}{name}").touch(was)
        journal = open_journal(path)
        journal.enrol("w1", "local", START)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        journal.close()
    finally:
        os.umask(before)
    assert modes == {"answers.sqlite": 0o600, "answers.sqlite-wal": 0o600, "answers.sqlite-shm": 0o600}


def test_a_journal_of_a_newer_schema_is_told(opener: Opener, address: str) -> None:
    opener()
    database = Database(address)
    with database.writing() as connection:
        connection.execute(sqlalchemy.update(metadata.tables["crowd_about"]).values(value=str(SCHEMA + 1)))
    database.close()
    with pytest.raises(DataError, match=f"has schema {SCHEMA + 1}, this ctxr knows {SCHEMA}") as error:
        opener()
    told(error)


def test_a_folder_in_the_place_of_the_file_or_of_its_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(CtxrError, match="cannot be opened") as error:
        open_journal(tmp_path)
    told(error)
    (tmp_path / "file").write_text("")
    with pytest.raises(CtxrError, match="in its way") as error:
        open_journal(tmp_path / "file" / "answers.sqlite")
    told(error)


def test_a_file_that_another_program_holds_is_told_and_works_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    open_journal(path).close()
    journal = Journal(Database(path, busy_seconds=0.1), Rules(PUBLISHED))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CtxrError, match=r"answers\.sqlite is locked") as error:
        journal.enrol("w1", "local", START)
    told(error)
    other.execute("ROLLBACK")
    other.close()
    assert journal.enrol("w1", "local", START).worker == "w1"
    journal.close()


def test_a_full_disk_is_told_and_what_was_acknowledged_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    sets = image_sets(60)
    journal = open_journal(path, [described(one) for one in sets], sets)
    enrolled(journal, "w1")
    with journal._database.writing() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 3}")
    kept: list[Answer] = []

    def fill() -> None:
        while True:
            kept.append(answer(journal, leased(journal, "w1", tasks=["describe"])))

    with pytest.raises(CtxrError, match=r"disk is full: .*answers\.sqlite") as error:
        fill()
    told(error)
    assert kept
    assert journal.answers() == kept
    journal.close()
    again = open_journal(path)
    assert again.answers() == kept
    enrolled(again, "w2")
    answer(again, leased(again, "w2"))
    again.close()


def test_every_answer_is_on_the_disk_before_it_is_acknowledged_in_a_strict_table(tmp_path: Path) -> None:
    open_journal(tmp_path / "answers.sqlite").close()
    database = Database(tmp_path / "answers.sqlite")
    with database.writing() as connection:
        told = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")}
        keys = connection.exec_driver_sql("PRAGMA foreign_keys").scalar()
        strict = connection.exec_driver_sql("SELECT name, strict FROM pragma_table_list WHERE name LIKE 'crowd%'").all()
    database.close()
    assert (told, keys) == ({"journal_mode": "wal", "synchronous": 2}, 1)
    assert {tuple(row) for row in strict} == {(name, 1) for name in metadata.tables}


def test_threads_share_one_journal(opener: Opener) -> None:
    sets = image_sets(8)
    journal = opener([described(one) for one in sets], sets)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            enrolled(journal, name)
            answer(journal, leased(journal, name, tasks=["describe"]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({one.unit for one in journal.answers()}) == 8


def write_together(database: Database, broken: str) -> dict[str, BaseException | None]:
    """By name, what came of four writers who wait for a fifth; `broken` is run in the transaction of "c", who then fails."""
    outcome: dict[str, BaseException | None] = {}
    connections = set[sqlalchemy.Connection]()

    def write(name: str) -> None:
        try:
            with database.writing() as connection:
                connections.add(connection)
                connection.execute(sqlalchemy.insert(metadata.tables["crowd_about"]).values(name=name, value=""))
                if name == "a":
                    deadline = time.monotonic() + 30
                    while len(database._queue) < 5 and time.monotonic() < deadline:
                        time.sleep(0.01)
                if name == "c":
                    connection.exec_driver_sql(broken)
                    raise CtxrError("c cannot be stored")
            outcome[name] = None
        except CtxrError as error:
            outcome[name] = error

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcde"]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert len(connections) == (1 if broken != "ROLLBACK" else 2)
    return outcome


def names_in(database: Database) -> set[str]:
    about = metadata.tables["crowd_about"].c.name
    with database.reading() as connection:
        return set(connection.scalars(sqlalchemy.select(about).where(about != "schema")))


def test_writers_reach_the_disk_together_and_one_who_fails_takes_nothing_from_the_others(
    opener: Opener, address: str
) -> None:
    opener()
    database = Database(address)
    outcome = write_together(database, "SELECT 1")
    assert {name for name, error in outcome.items() if error} == {"c"}
    assert names_in(database) == set("abde")
    database.close()


def test_others_may_queue_while_a_group_reaches_the_disk_and_come_after_it(opener: Opener, address: str) -> None:
    opener()
    database = Database(address)
    queued: list[int] = []

    def write(name: str) -> None:
        with database.writing() as connection:
            assert names_in(database) == ({"a"} if name == "b" else set())
            connection.execute(sqlalchemy.insert(metadata.tables["crowd_about"]).values(name=name, value=""))

    later = threading.Thread(target=write, args=("b",))

    @sqlalchemy.event.listens_for(database._engine, "commit")
    def join(connection: sqlalchemy.Connection) -> None:
        if later.ident is None and connection.get_execution_options().get("writing"):
            later.start()
            deadline = time.monotonic() + 30
            while len(database._queue) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            queued.append(len(database._queue))

    write("a")
    later.join()
    assert (queued, names_in(database)) == ([2], {"a", "b"})
    database.close()


def test_nobody_is_told_that_something_is_stored_if_the_database_undid_it_for_all(opener: Opener, address: str) -> None:
    opener()
    database = Database(address)
    outcome = write_together(database, "ROLLBACK")
    stored = {name for name, error in outcome.items() if error is None}
    assert (stored, names_in(database)) == (set("de"), set("de"))
    database.close()
