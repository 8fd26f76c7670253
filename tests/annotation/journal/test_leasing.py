"""Who gets which unit, one rule a test."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, event

from ctxr.annotation.protocol import shown_order
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import (
    PUBLISHED,
    after,
    answer,
    described,
    enrolled,
    image_sets,
    leased,
    newcomer,
    reason,
    retrieved,
    tagged,
    talked,
)


@pytest.fixture
def address(tmp_path: Path) -> str:
    """One database suffices for single rules: random schedules run every statement on both."""
    return str(tmp_path / "answers.sqlite")


def test_a_worker_has_one_lease_at_a_time_and_gets_it_again(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([described(one) for one in sets], sets, workers="w1")
    first = leased(journal, "w1")
    assert leased(journal, "w1", after(5)) == first
    assert journal.find(first.token) == first
    assert journal.find("no such token") is None
    assert journal.find("\0\ud800") is None


def test_no_search_for_work_reads_a_table_to_its_end(opener: Opener) -> None:
    """Else each answer would make the next one slower."""
    plans = set[str]()

    def look(connection: object, cursor: Any, statement: str, parameters: object, *_: object) -> None:
        if statement.startswith("SELECT") and "WHERE" in statement:  # others read one row
            steps = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.update(step[3] for step in steps)

    sets = image_sets(4)
    journal = opener([described(one) for one in sets], sets, workers="w1 w2")
    event.listen(Engine, "before_cursor_execute", look)
    try:
        answer(journal, leased(journal, "w1"))
        answer(journal, leased(journal, "w2", tasks=["retrieve"]))
        leased(journal, "w1")
    finally:
        event.remove(Engine, "before_cursor_execute", look)
    assert any("crowd_lease_one" in plan for plan in plans)
    scans = {plan.split()[1] for plan in plans if plan.startswith("SCAN")}
    assert scans == {"crowd_room"}  # whose index holds no other rooms than those that wait


def test_nobody_waits_for_descriptions_of_images_that_they_know(opener: Opener) -> None:
    """Who only retrieves waits for what others describe, but not where they could not look for it."""
    one, two = sets = image_sets(2)
    free = replace(PUBLISHED, disjoint="none")
    journal = opener([retrieved(one), described(one, 1), described(two)], sets, free, workers="w1 w2 w3")
    answer(journal, leased(journal, "w1", tasks=["retrieve"]))
    first = leased(journal, "w2", tasks=["describe"])
    second = leased(journal, "w3", tasks=["describe"])
    assert {first.unit.image_set, second.unit.image_set} == {"s0", "s1"}
    assert reason(journal, "w1", tasks=["retrieve"]) == "wait"
    answer(journal, first if first.unit.image_set == "s1" else second)
    found = leased(journal, "w1", tasks=["retrieve"])
    assert found.unit.image_set == "s1"
    answer(journal, found)
    assert reason(journal, "w1", tasks=["retrieve"]) == "nothing_left"
    assert reason(journal, "w1") == "wait"  # the description itself may come back to them


def test_the_images_are_shown_in_the_order_of_unit_slot_and_seed(opener: Opener) -> None:
    sets = image_sets(3)
    units = [tagged(one, 1) for one in sets]
    journal = opener(units, sets, replace(PUBLISHED, seed=7))
    for worker in enrolled(journal, "w1", "w2", "w3"):
        lease = leased(journal, worker)
        unit = lease.unit
        assert lease.order == shown_order(unit.images, unit.ordered, unit.id, lease.slot, 7)
        assert answer(journal, lease).order == lease.order


def test_what_others_described_is_judged_before_more_is_described(opener: Opener) -> None:
    sets = image_sets(6)
    journal = opener([described(one) for one in sets], sets, workers="w1 w2 w3 w4")
    for _ in range(2):
        answer(journal, leased(journal, "w1"))
    given = []
    for worker in ("w2", "w3", "w4"):
        for _ in range(3):
            given.append((worker, leased(journal, worker).unit.task))
            answer(journal, leased(journal, worker))
    assert given[:3] == [("w2", "retrieve"), ("w2", "retrieve"), ("w2", "describe")]
    assert given[3:6] == [("w3", "retrieve")] * 3


def test_only_the_tasks_asked_for_are_given(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([described(sets[0]), tagged(sets[1], 1)], sets, workers="w1 w2")
    assert leased(journal, "w1", tasks=["tag"]).unit.task == "tag"
    # there is something to describe, and then to retrieve, once somebody describes
    assert reason(journal, "w2", tasks=["retrieve"]) == "nothing_left"
    newcomer(journal, "w3")
    assert leased(journal, "w3", tasks=["describe"]).unit.task == "describe"
    assert reason(journal, "w2", tasks=["retrieve"]) == "wait"
    assert reason(journal, "w2", tasks=["entail"]) == "nothing_left"


def test_nobody_judges_a_set_that_shows_a_picture_they_have_seen_elsewhere(opener: Opener) -> None:
    first, second, third, fourth = image_sets(4)
    overlapping = msgspec.structs.replace(second, images=(first.images[0], *second.images[1:]))
    copied = msgspec.structs.replace(third, images=("copy", *third.images[1:]))
    units = [retrieved(one, 1) for one in (first, overlapping, copied, fourth)]
    pictures = {name: f"hash of {name}" for one in (first, second, third) for name in one.images}
    pictures["copy"] = pictures[first.images[0]]
    journal = opener([described(first, 2), *units], [first], workers="w1 w2 w3", pictures=pictures)
    described_first = leased(journal, "w1", tasks=["describe"])
    answer(journal, described_first)
    assert leased(journal, "w1", tasks=["retrieve"]).unit.image_set == fourth.id
    answer(journal, leased(journal, "w1"))
    assert reason(journal, "w1") == "nothing_left"
    # who has judged one of those that overlap judges none of the others
    given = []
    for _ in range(2):
        given.append(leased(journal, "w2", tasks=["retrieve"]))
        answer(journal, given[-1])
    assert len({lease.unit.image_set for lease in given} - {fourth.id}) == 1
    assert reason(journal, "w2", tasks=["retrieve"]) == "nothing_left"


def test_what_follows_from_an_answer_shows_pictures_that_are_known(opener: Opener) -> None:
    one, other = image_sets(2)
    pictures = {name: f"hash of {place}" for place, name in enumerate((*one.images, *other.images))}
    pictures[other.images[0]] = pictures[one.images[0]]
    units = [described(one), tagged(other, 1)]
    journal = opener(units, [one], workers="w1 w2", pictures=pictures)
    answer(journal, leased(journal, "w1", tasks=["describe"]))
    answer(journal, leased(journal, "w2", tasks=["tag"]))
    assert reason(journal, "w2", tasks=["retrieve"]) == "nothing_left"


def test_a_talk_shows_its_photo_and_no_other_of_the_set(opener: Opener) -> None:
    one, other = image_sets(2)
    beside = msgspec.structs.replace(other, images=(one.images[1], *other.images[1:]))
    talk = msgspec.structs.replace(talked(one), images=one.images[:1])
    journal = opener([talk, retrieved(one), retrieved(beside)], [one], workers="w1")
    assert leased(journal, "w1", tasks=["dialogue"]).unit.task == "dialogue"
    assert leased(journal, "w1", after(99), tasks=["retrieve"]).unit.image_set == beside.id
