"""Who gets which unit, one rule a test."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ctxr.annotation.journal.results import Lease
from ctxr.annotation.protocol import Protocol, digest, shown_order
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import (
    PUBLISHED,
    START,
    after,
    answer,
    decisions_of,
    described,
    enrolled,
    image_sets,
    leased,
    reason,
    retrieved,
    tagged,
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


def test_units_with_as_few_answers_come_in_the_random_order_of_the_seed(opener: Opener) -> None:
    sets = image_sets(6)
    units = [described(one) for one in sets]
    journal = opener(units, sets)
    order = [leased(journal, worker).unit.id for worker in enrolled(journal, *(f"w{n}" for n in range(6)))]
    assert order == sorted((one.id for one in units), key=lambda name: digest(0, "serve", name)[:8])


def test_two_of_three_asks_for_a_third_vote_only_where_two_disagree(opener: Opener) -> None:
    sets = image_sets(2)
    agreed, split = (retrieved(one, split="test") for one in sets)
    journal = opener([agreed, split], sets, Protocol(full_share=0, disjoint="none"))
    workers = enrolled(journal, "w1", "w2", "w3")
    votes: Counter[str] = Counter()
    for worker in workers:
        while isinstance(lease := journal.lease(worker, START), Lease):
            votes[lease.unit.id] += 1
            answer(journal, lease, right=lease.unit == agreed or worker != "w1")
    assert votes == {agreed.id: 2, split.id: 3}
    told = {one.unit: (one.verdict, one.right, one.wrong) for one in decisions_of(journal)}
    assert told == {agreed.id: ("accepted", 2, 0), split.id: ("accepted", 2, 1)}


def test_an_abandoned_lease_goes_to_somebody_else_and_its_owner_is_told(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([described(one)], sets, lease_for=timedelta(minutes=10), workers="w1 w2")
    first = leased(journal, "w1")
    assert reason(journal, "w2", after(9)) == "wait"
    second = leased(journal, "w2", after(10))
    assert (second.unit, second.slot) == (first.unit, first.slot)
    abandoned = journal.find(first.token)
    assert abandoned is not None
    assert abandoned.state == "expired"


def test_what_is_given_back_is_served_again_in_the_same_slot(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([tagged(one, 2)], sets, workers="w1 w2 w3")
    first, second = leased(journal, "w1"), leased(journal, "w2")
    journal.give_back(first.token, after(1))
    journal.give_back(first.token, after(1))
    assert (leased(journal, "w3").slot, second.slot) == (0, 1)


def test_the_images_are_shown_in_the_order_of_unit_slot_and_seed(opener: Opener) -> None:
    sets = image_sets(3)
    units = [tagged(one, 1) for one in sets]
    journal = opener(units, sets, replace(PUBLISHED, seed=7))
    for worker in enrolled(journal, "w1", "w2", "w3"):
        lease = leased(journal, worker)
        unit = lease.unit
        assert lease.order == shown_order(unit.images, unit.ordered, unit.id, lease.slot, 7)
        assert answer(journal, lease).order == lease.order


def test_only_the_tasks_asked_for_are_given(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([described(sets[0]), tagged(sets[1], 1)], sets, workers="w1 w2")
    assert leased(journal, "w1", tasks=["tag"]).unit.task == "tag"
    # there is something to describe, and then to retrieve
    assert reason(journal, "w2", tasks=["retrieve"]) == "wait"
    assert reason(journal, "w2", tasks=["entail"]) == "nothing_left"
