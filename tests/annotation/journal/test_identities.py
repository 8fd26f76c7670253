"""Platform ids stay in a file of their own."""

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from ctxr.annotation.journal.identities import Identities, Visit, read_visits
from ctxr.annotation.journal.results import NotAllowed
from ctxr.annotation.pseudonyms import pseudonym, read_key
from tests.annotation.journal.study import after

PERSON = "A1SECRETPERSON"


def test_a_person_is_found_again_by_pseudonym_and_by_platform_id(tmp_path: Path) -> None:
    key = read_key(tmp_path)
    people = Identities(tmp_path, key)
    name = people.worker("label-studio", PERSON)
    assert name == pseudonym(key, "label-studio", PERSON) == people.worker("label-studio", PERSON)
    assert people.worker("prolific", PERSON) != name
    people.close()
    again = Identities(tmp_path, key)
    assert again.knows(name)
    assert not again.knows("w-nobody")
    again.close()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    people = Identities(tmp_path / "private", b"k" * 32)
    people.worker("label-studio", PERSON)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "private").iterdir()}
    people.close()
    assert modes["identities.sqlite"] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


HOUR = timedelta(hours=1)


def visit(submission: str, participant: str = "p1", minutes: float = 0) -> Visit:
    return Visit(submission, participant, "5f", f"w-{participant}", "pilot", 0, after(minutes))


def test_visits_of_many_threads_are_all_kept(tmp_path: Path) -> None:
    people = Identities(tmp_path, b"k" * 32)
    came = [visit(f"s{number:03d}", "p" * (number + 10)) for number in range(60)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda one: people.come(one, HOUR), came * 2))
    assert read_visits(tmp_path) == came
    people.close()


def test_a_visit_stays_as_it_was_recorded_first(tmp_path: Path) -> None:
    people = Identities(tmp_path, b"k" * 32)
    first = people.come(visit("s1"), HOUR)
    assert people.come(visit("s1", minutes=5), HOUR) == first
    with pytest.raises(NotAllowed, match="to another participant"):
        people.come(visit("s1", "p2"), HOUR)
    people.end("s1", "complete")
    people.end("s1", "stopped")
    found = people.visit("s1")
    assert found is not None
    assert found.ending == "complete"
    assert people.visit("s2") is None
    people.close()


def test_a_second_submission_waits_for_the_end_of_the_first(tmp_path: Path) -> None:
    people = Identities(tmp_path, b"k" * 32)
    people.come(visit("s1"), HOUR)
    with pytest.raises(NotAllowed, match="that one first"):
        people.come(visit("s2", minutes=30), HOUR)
    assert people.come(visit("s2", minutes=30), HOUR, instead_of="s1").ending == ""
    assert people.come(visit("s3", minutes=95), HOUR).ending == ""
    people.end("s3", "complete")
    assert people.come(visit("s4", minutes=96), HOUR).ending == ""
    assert [one.ending for one in read_visits(tmp_path)] == ["left", "left", "complete", ""]
    people.close()
