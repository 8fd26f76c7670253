"""Platform ids stay in a file of their own."""

import sqlite3
import stat
from pathlib import Path

from ctxr.annotation.journal import Identities, open_journal
from ctxr.annotation.pseudonyms import pseudonym, read_key
from tests.annotation.journal.study import START, answer, described, image_sets, leased

PERSON = "A1SECRETPERSON"


def test_a_person_is_found_again_by_pseudonym_and_by_platform_id(tmp_path: Path) -> None:
    key = read_key(tmp_path)
    people = Identities(tmp_path, key)
    name = people.worker("mturk", PERSON)
    assert name == pseudonym(key, "mturk", PERSON) == people.worker("mturk", PERSON)
    assert people.worker("prolific", PERSON) != name
    people.close()
    again = Identities(tmp_path, key)
    assert again.who(name) == ("mturk", PERSON)
    assert again.who("w-nobody") is None
    again.close()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    people = Identities(tmp_path / "private", b"k" * 32)
    people.worker("mturk", PERSON)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "private").iterdir()}
    people.close()
    assert modes["identities.sqlite"] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


def test_no_platform_id_reaches_the_journal(tmp_path: Path) -> None:
    people = Identities(tmp_path / "private", b"k" * 32)
    sets = image_sets(1)
    journal = open_journal(tmp_path / "answers.sqlite", [described(sets[0])], sets)
    name = people.worker("mturk", PERSON)
    journal.enrol(name, "mturk", START)
    answer(journal, leased(journal, name))
    journal.close()
    people.close()
    connection = sqlite3.connect(tmp_path / "answers.sqlite")
    dump = "\n".join(connection.iterdump())
    connection.close()
    assert name in dump
    assert PERSON not in dump
