"""A journal that is only read stays as it is, and is known by what happened in it."""

from pathlib import Path

import pytest

from ctxr.annotation.artifacts import CROWD
from ctxr.annotation.journal.journal import Journal, open_journal, read_journal
from ctxr.annotation.waiting import JOURNAL, waiting
from ctxr.errors import DataError
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import START, after, answer, described, enrolled, image_sets, leased, newcomer


def study(journal: Journal) -> Journal:
    """Two people describe a picture each."""
    enrolled(journal, "w1", "w2")
    for worker in ("w1", "w2"):
        answer(journal, leased(journal, worker))
    return journal


def identity(address: str | Path) -> str:
    journal = read_journal(address)
    try:
        return journal.identity()
    finally:
        journal.close()


def test_an_identity_changes_with_answers_and_changes_of_workers_alone(opener: Opener, address: str) -> None:
    sets = image_sets(3)
    journal = opener([described(one) for one in sets], sets)
    empty = identity(address)
    study(journal)
    first = identity(address)
    journal.enrol("w3", "local", after(9))
    lease = leased(journal, "w3")
    assert identity(address) == first != empty
    answer(journal, lease)
    second = identity(address)
    journal.change("w3", "blocked", "guesses", "me", after(10))
    third = identity(address)
    journal.change("w3", "undone", "does not", "me", after(11))
    undone = identity(address)
    answer(journal, leased(journal, "w3", tasks=["describe"]))
    answer(journal, leased(journal, newcomer(journal, "w4"), tasks=["retrieve"]))
    (given,) = journal.last_answers("w4")
    assert given.may_be_corrected
    corrected = []
    others = [image for image in given.lease.unit.images if (image,) != given.answer.values["pick"]]
    for image in others[:2]:
        journal.correct(given.lease.token, given.answer.worker, {"pick": (image,)}, after(12))
        corrected.append(identity(address))
    assert len({empty, first, second, third, undone, *corrected}) == 7


def test_reading_a_file_leaves_no_trace(tmp_path: Path) -> None:
    sets, path = image_sets(2), tmp_path / "answers.sqlite"
    study(open_journal(path, [described(one) for one in sets], sets)).close()
    before = path.read_bytes(), path.stat().st_mtime_ns, [path.name]
    journal = read_journal(path)
    assert len(journal.answers()) == 2
    assert journal.blocked(ever=True) == ()
    during = [file.name for file in tmp_path.iterdir()]
    journal.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns, during) == before
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert identity(path)
    finally:
        tmp_path.chmod(0o700)


def test_what_a_running_server_has_not_yet_moved_into_the_file_is_read_too(tmp_path: Path) -> None:
    sets, path = image_sets(2), tmp_path / "answers.sqlite"
    serving = study(open_journal(path, [described(one) for one in sets], sets))
    journal = read_journal(path)
    assert len(journal.answers()) == 2
    serving.change("w1", "blocked", "guesses", "me", START)
    assert journal.blocked() == ("w1",)
    journal.close()
    serving.close()


@pytest.mark.parametrize("content", [b"", b"another"])
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"answers\.sqlite"):
        read_journal(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_waits_is_counted_as_the_journal_counts_it_and_reading_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / CROWD / JOURNAL
    path.parent.mkdir()
    assert waiting(tmp_path) == (None, 0)
    sets = image_sets(4)
    journal = study(open_journal(path, [described(one) for one in sets], sets))

    def counted() -> tuple[dict[str, int], int]:
        states = journal.progress()
        return {task: state.open for task, state in states.items()}, len(journal.answers())

    first = counted()
    assert waiting(tmp_path) == first
    journal.change("w1", "blocked", "guesses", "me", after(10))
    blocked = counted()
    assert waiting(tmp_path) == blocked != first
    journal.close()
    before = path.read_bytes(), sorted(file.name for file in path.parent.iterdir())
    assert waiting(tmp_path) == blocked
    assert (path.read_bytes(), sorted(file.name for file in path.parent.iterdir())) == before
    path.write_bytes(b"not a journal")
    assert waiting(tmp_path) == (None, 0)
