"""Who gets which unit, one rule a test."""

from dataclasses import replace
from pathlib import Path

import pytest

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
    reason,
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
