"""A worker withdraws: what they gave is gone from both databases, what was built on it ends, and what was earned stays owed."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ctxr.annotation.journal import identities, tables
from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.kept import words, words_by_column
from ctxr.annotation.journal.results import Earned, Lease, NotAllowed, Withdrawal
from ctxr.annotation.journal.withdrawing import built_on
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from ctxr.annotation.unit_factory import repeat_units
from ctxr.store.records import Text
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import (
    after,
    answer,
    described,
    image_sets,
    leased,
    reason,
    retrieved,
    state_of,
    tagged,
    talked,
    units_of,
)

OPEN = Protocol(full_share=0, disjoint="none")
WROTE = "a walrus in a purple waistcoat plays the bassoon"
BEFORE = "a walrus in some orange waistcoat plays the tuba"


def withdraw(journal: Journal, worker: str = "ada", **options: Any) -> Withdrawal:
    return journal.withdraw(worker, "lead", after(90), lambda _: None, **options)


def rows(journal: Journal) -> Iterator[tuple[str, str]]:
    """Every row of every table, as text."""
    with journal._reading() as tx:
        for table in tables.metadata.sorted_tables:
            for row in tx.rows(select(table)):
                yield table.name.removeprefix("crowd_"), repr(dict(row))


def mentions(journal: Journal, *words: str) -> set[str]:
    return {table for table, row in rows(journal) if any(word in row for word in words)}


def wrote(opener: Opener) -> tuple[Journal, Lease]:
    """A journal in which ada agreed, was written to, described (and corrected it), and ben looked for it."""
    (one, *_) = sets = image_sets(3)
    units = [described(one), retrieved(sets[1], protocol=OPEN)]
    journal = opener(units, sets, OPEN, workers="ada ben cy")
    journal.agree("ada", "v1", "en", after(0))
    journal.tell("ada", f"you wrote {WROTE}", "lead", after(0))
    lease = leased(journal, "ada", tasks=("describe",))
    journal.submit(lease.token, "ada", {"description": (BEFORE,)}, after(1))
    journal.correct(lease.token, "ada", {"description": (WROTE,)}, after(2))
    answer(journal, leased(journal, "ada", after(3), ("retrieve",)), now=after(4))
    ben = leased(journal, "ben", after(5), ("retrieve",))
    while WROTE not in ben.unit.texts:
        answer(journal, ben, now=after(6))
        ben = leased(journal, "ben", after(7), ("retrieve",))
    journal.save_draft(ben.token, "ben", {"comment": (f"is it {WROTE}?",)}, after(7))
    answer(journal, ben, now=after(8))
    return journal, ben


def test_no_row_tells_of_who_withdrew_but_that_they_did_and_what_is_owed(opener: Opener) -> None:
    journal, ben = wrote(opener)
    assert mentions(journal, WROTE) == {"answer", "message", "unit"}
    done = withdraw(journal)
    assert done == Withdrawal(2, {"retrieve": 1}, {"describe": 1, "retrieve": 1}, (WROTE,))
    assert mentions(journal, WROTE, BEFORE) == set()
    assert mentions(journal, "'ada'") == {"worker", "change", "earned"}
    assert (state_of(journal, "ada").state, state_of(journal, "ada").answers) == ("withdrawn", 0)
    (change,) = journal.changes("ada")
    assert (change.after, change.by, change.reason) == ("withdrawn", "lead", "")
    assert journal.answer(ben.unit.id, "ben") is None
    assert journal.find(ben.token) is None
    assert leased(journal, "cy", after(91), ("describe",)).unit.task == "describe"
    assert reason(journal, "ada", after(92)) == "withdrawn"


def test_everybody_is_paid_for_answers_that_were_deleted_until_it_is_said_that_they_were(opener: Opener) -> None:
    journal, _ = wrote(opener)
    withdraw(journal)
    owed = [
        Earned("ada", "describe", "local", 60.0),
        Earned("ada", "retrieve", "local", 60.0),
        Earned("ben", "retrieve", "local", 180.0),
    ]
    assert journal.earned() == owed
    assert withdraw(journal).answers == 0
    assert journal.earned() == owed
    withdraw(journal, paid=True)
    assert journal.earned() == owed[2:]
    assert mentions(journal, "'ada'") == {"worker", "change"}


def test_the_same_study_served_again_asks_nothing_about_what_was_deleted(opener: Opener) -> None:
    journal, ben = wrote(opener)
    units, identity = units_of(journal), journal.identity()
    withdraw(journal)
    assert journal.identity() != identity
    again = opener(units, image_sets(3), OPEN, exported=[unit.id for unit in units])
    assert mentions(again, WROTE) == set()
    assert again.withdrawn() == (frozenset({"ada"}), frozenset({ben.unit.id}))
    assert again.enrol("ada", "local", after(99)).state == "withdrawn"
    for change in ("allowed", "blocked", "undone"):
        with pytest.raises(NotAllowed, match="ada") as refused:
            again.change("ada", change, "x", "lead", after(99))
        assert refused.value.reason == "withdrawn"


def test_a_talk_goes_as_a_whole_and_the_partner_may_talk_again_elsewhere(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([talked(sets[0])], sets, OPEN, workers="ada ben cy dan")
    first, second = leased(journal, "ada"), leased(journal, "ben")
    for number in range(5):
        lease = (first, second)[number % 2]
        journal.act("say", lease.token, lease.worker, after(1), f"{WROTE} {number}")
    journal.act("share", first.token, "ada", after(2))
    for lease in (first, second):
        journal.act("finish", lease.token, lease.worker, after(3))
    assert [one.task for one in units_of(journal)] == ["dialogue", "review"]
    answer(journal, leased(journal, "cy", after(4)), now=after(5))
    done = withdraw(journal)
    assert (done.answers, done.others, done.again) == (1, {"dialogue": 1, "review": 1}, {"dialogue": 1})
    assert (mentions(journal, WROTE), journal.answers()) == (set(), [])
    assert {(row.worker, row.task) for row in journal.earned()} == {
        ("ada", "dialogue"),
        ("ben", "dialogue"),
        ("cy", "review"),
    }
    assert {leased(journal, name, after(91)).unit.task for name in ("cy", "dan")} == {"dialogue"}


def test_a_talk_that_goes_on_and_one_that_came_to_nothing_leave_no_word(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([talked(sets[0]), talked(sets[1])], sets, OPEN, workers="ada ben cy")
    ada, ben = leased(journal, "ada"), leased(journal, "ben")
    journal.act("say", ada.token, "ada", after(1), WROTE)
    journal.act(
        "leave", ben.token, "ben", after(2)
    )  # ada waits in another room, and the first one names nobody any more
    cy = leased(journal, "cy", after(3))
    journal.act("say", cy.token, "cy", after(4), "hello there")
    journal.act("say", ada.token, "ada", after(4), f"{WROTE} again")
    withdraw(journal)
    assert mentions(journal, WROTE) == set()
    assert journal.room(cy.token).partner_left
    assert leased(journal, "ben", after(91)).unit == journal.find(cy.token).unit  # type: ignore[union-attr]


def test_every_unit_that_shows_their_words_is_found(opener: Opener) -> None:
    journal, ben = wrote(opener)
    (one, *_) = image_sets(3)
    texts = list(ben.unit.text_ids)
    tag = Unit("t", "tag", one.id, "g", query="tag/q", texts=(WROTE,), text_ids=tuple(texts))
    entail = Unit("e", "entail", one.id, "g", texts=("A dog.", WROTE), text_ids=("s",), statement="x", authors=("w-x",))
    statement = Unit("f", "entail", one.id, "g", texts=("A dog.",), text_ids=("z",), statement=WROTE, authors=("ada",))
    other = tagged(one, 1)
    units = [tag, entail, statement, other, ben.unit]
    repeats = repeat_units(units, [answer for answer in journal.answers() if answer.unit == ben.unit.id], 1, OPEN)
    judged = Unit("r", "repeat", one.id, "g", texts=("by others",), of=other.id, like="tag", authors=("ada",))
    found = built_on([*units, *repeats, judged], ["ada"], [Text(texts[0], WROTE, "ada")])
    assert found == {"t", "e", "f", ben.unit.id, *(unit.id for unit in repeats)}
    assert len(repeats) == 1


def test_a_dry_run_and_a_kill_before_the_end_delete_nothing(opener: Opener, address: str) -> None:
    journal, _ = wrote(opener)
    before = list(rows(journal))

    def stop(done: Withdrawal) -> None:
        assert done.answers == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.withdraw("ada", "lead", after(90), stop)
    assert list(rows(journal)) == before
    if (child := os.fork()) == 0:  # killed in the middle, with everything deleted and nothing committed
        try:
            open_journal(address, protocol=OPEN).withdraw("ada", "lead", after(90), lambda _: os._exit(9))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(rows(journal)) == before


def test_no_byte_of_it_is_in_the_files_of_sqlite(tmp_path: Path) -> None:
    rng, sets = random.Random(0), image_sets(30)
    file = tmp_path / "answers.sqlite"
    journal = open_journal(file, [described(one) for one in sets], sets, OPEN)
    for name in ("ada", "ben"):
        journal.enrol(name, "local", after(0))
    for number in range(25):
        worker = ("ada", "ben")[number % 2]
        lease = leased(journal, worker, after(number), ("describe",))
        text = f"{WROTE if worker == 'ada' else 'nothing here'} {rng.random()} {rng.random()} and so on"
        journal.save_draft(lease.token, worker, {"description": (text * 5,)}, after(number))
        journal.submit(lease.token, worker, {"description": (text,)}, after(number))
    reader = open_journal(file, protocol=OPEN)  # a server that goes on meanwhile
    assert reader.progress()["describe"].answered == 25

    def content() -> bytes:
        return b"".join(one.read_bytes() for one in tmp_path.iterdir())

    assert WROTE.encode() in content()
    withdraw(journal)
    assert WROTE.encode() not in content()
    assert b"nothing here" in content()
    assert len(reader.answers()) == 12
    for one in (journal, reader):
        one.close()
    assert WROTE.encode() not in content()


NOTHING = {"crowd_about", "crowd_image_set", "crowd_shown"}
"""Tables that say nothing about people."""


def test_each_column_that_says_something_about_people_has_words(tmp_path: Path) -> None:
    said = words()
    for metadata in (tables.metadata, identities._metadata):
        for name, table in metadata.tables.items():
            own, columns = said.get(name.removeprefix("crowd_"), {}), [column.name for column in table.columns]
            assert [*words_by_column(table)] == ([] if name in NOTHING else columns)
            assert all(words_by_column(table).values())
            assert own.keys() <= {*columns}
    assert said.keys() - {"common"} == {
        name.removeprefix("crowd_")
        for name in (*tables.metadata.tables, *identities._metadata.tables)
        if name not in NOTHING
    }


def test_what_is_kept_is_counted(opener: Opener) -> None:
    journal, _ = wrote(opener)
    kept = {table.name: (table.rows, table.people) for table in journal.kept()}
    assert kept["crowd_answer"] == (len(journal.answers()), 2)
    assert (kept["crowd_worker"], kept["crowd_consent"], kept["crowd_unit"]) == ((3, 3), (1, 1), (3, None))
