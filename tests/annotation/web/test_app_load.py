"""Many workers at once, and a power cut in the middle: nothing acknowledged is missing, nothing is there twice."""

from contextlib import closing
from pathlib import Path

import pytest

from bench.crowd_load import Load, load
from ctxr.annotation.journal.journal import read_journal
from scripts.postgres_server import programs, server


def holds(found: Load, least: int) -> None:
    assert (found.missing, found.doubled, found.above) == (0, 0, 0), found.line()
    assert found.acknowledged >= least, found.line()
    # whoever was cut off between the commit and the answer may have one more in the journal, and nobody more than that
    assert 0 <= found.stored - found.acknowledged <= found.workers * (found.kills + 1), found.line()


def test_twenty_workers_lose_nothing_when_the_server_is_killed(tmp_path: Path) -> None:
    holds(load(tmp_path, workers=20, seconds=2), least=1)
    with closing(read_journal(tmp_path / "work" / "crowd" / "answers.sqlite")) as journal:
        assert [row[1:] for row in journal.consents()] == [("en", 20)]


@pytest.mark.prove
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_hundred_workers_lose_nothing_in_a_minute(tmp_path: Path, database: str) -> None:
    if database == "sqlite":
        holds(load(tmp_path), least=300)
        return
    if programs() is None:
        pytest.skip("no PostgreSQL server on this machine: apt-get install postgresql (make system)")
    with server() as running:
        holds(load(tmp_path, database=running.new_database()), least=300)
