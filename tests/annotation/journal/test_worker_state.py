"""Who gets work: pools, the qualification round, known answers, and people who decide otherwise."""

import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from ctxr.annotation.confirmation import leaving
from ctxr.annotation.journal.dealing import STOPPED
from ctxr.annotation.journal.results import Lease, NotAllowed, NoWork
from ctxr.annotation.journal.worker_state import chance_below, deal_bundles, people_needed, pool_of, pool_shares
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from ctxr.annotation.unit_factory import entail_unit
from ctxr.store.records import ImageSet, Text
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.model import chance_below as added_up
from tests.annotation.journal.study import (
    PUBLISHED,
    START,
    after,
    answer,
    decisions_of,
    described,
    enrolled,
    image_sets,
    known,
    leased,
    reason,
    retrieved,
    state_of,
    tagged,
    talked,
)


@pytest.fixture
def address(tmp_path: Path) -> str:
    """One database suffices for single rules: random schedules run every statement on both."""
    return str(tmp_path / "answers.sqlite")


@pytest.mark.parametrize(
    ("protocol", "counts"),
    [
        (Protocol(disjoint="wholly"), {"train": 10, "eval": 10}),
        (Protocol(disjoint="partly", shared_workers=0.2), {"train": 8, "eval": 8, "both": 4}),
        (Protocol(disjoint="none"), {"both": 20}),
    ],
)
def test_pools_are_dealt_in_balance(opener: Opener, protocol: Protocol, counts: dict[str, int]) -> None:
    sets = image_sets(2)
    journal = opener([described(sets[0], split="train"), described(sets[1], split="valid")], sets, protocol)
    pools = {worker: journal.enrol(worker, "local", START).pool for worker in (f"w{number}" for number in range(20))}
    assert Counter(pools.values()) == counts
    assert {worker: journal.enrol(worker, "elsewhere", after(9)).pool for worker in pools} == pools
    assert {standing.platform for standing in journal.workers()} == {"local"}


@pytest.mark.parametrize(
    ("work", "shares"),
    [
        ({"train": 60, "eval": 40}, {"train": 0.6, "eval": 0.4}),
        ({"train": 3, "any": 9}, {"train": 1.0}),
        ({"any": 9}, {"train": 0.5, "eval": 0.5}),
    ],
)
def test_workers_go_where_the_work_is(work: dict[str, int], shares: dict[str, float]) -> None:
    assert pool_shares(Protocol(disjoint="wholly"), work) == shares | {"both": 0.0}


def test_a_small_side_is_not_left_alone() -> None:
    shares = pool_shares(Protocol(disjoint="partly", shared_workers=0.2), {"train": 990, "eval": 10})
    assert shares["eval"] == pytest.approx(0.8 * 0.25 / 1.24)
    assert sum(shares.values()) == pytest.approx(1)


def test_a_stranger_gets_no_work(opener: Opener) -> None:
    journal = opener()
    with pytest.raises(NotAllowed, match="not know you"):
        journal.lease("w1", START)
    with pytest.raises(NotAllowed, match="not know you"):
        journal.change("w1", "blocked", "unknown", "lead", START)


def test_a_new_worker_answers_the_qualification_round_first(opener: Opener) -> None:
    sets = image_sets(4)
    units = [known(one, "qualification") for one in image_sets(3, "q")] + [tagged(one, 9) for one in sets]
    journal = opener(units, sets, Protocol(qualification=2, qualification_pass=0.75), workers="good bad")
    for worker in ("good", "bad"):
        for number in range(2):
            assert not state_of(journal, worker).qualified
            lease = leased(journal, worker, tasks=["tag"])
            assert lease.unit.purpose == "qualification"
            answer(journal, lease, right=worker == "good" or number == 0)
    assert leased(journal, "good").unit.purpose == "work"
    assert reason(journal, "bad") == "screened_out"
    assert state_of(journal, "bad").state == "screened_out"
    assert [one.reason for one in journal.changes("bad")] == ["1 of 2 qualification questions right"]
    assert journal.ending("bad", START, START, 20) == "stopped"  # they gave their time
    journal.change("bad", "allowed", "misread one", "lead", after(1))
    assert leased(journal, "bad").unit.purpose == "work"
    assert journal.change("bad", "undone", "no, they did not", "lead", after(2)).state == "screened_out"


def test_a_worker_who_fails_hidden_questions_is_stopped_with_the_figures(opener: Opener) -> None:
    sets = image_sets(20)
    units = [retrieved(one, split="train") for one in sets] + [known(one, "gold") for one in image_sets(9, "gold")]
    journal = opener(units, (), Protocol(gold_every=2, disjoint="none", block_below=0.5), workers="w1 w2")
    for worker, right in (("w1", False), ("w2", True)):
        while state_of(journal, worker).state == "active" and journal.done_by(worker) < 12:
            answer(journal, leased(journal, worker), right)
    assert reason(journal, "w1") == "blocked"
    standing = state_of(journal, "w1")
    assert (standing.right, standing.wrong) == (0, 4)
    (change,) = journal.changes("w1")
    assert re.findall(r"[\d.]*\d", change.reason) == ["0", "4", "0.5", "0.969"]
    assert state_of(journal, "w2").state == "active"
    assert journal.change("w1", "undone", "the gold was wrong", "lead", after(1)).state == "active"
    assert leased(journal, "w1").worker == "w1"


def test_every_change_is_written_down_and_can_be_taken_back_in_turn(opener: Opener) -> None:
    journal = opener(workers="w1")
    journal.change("w1", "allowed", "good in the pilot", "lead", after(1))
    journal.change("w1", "blocked", "copied texts", "lead", after(2))
    assert journal.change("w1", "undone", "they were their own", "lead", after(3)).allowed
    assert (journal.change("w1", "undone", "to be sure", "lead", after(4)).allowed, state_of(journal, "w1").state) == (
        False,
        "active",
    )
    with pytest.raises(NotAllowed, match="was never changed"):
        journal.change("w1", "undone", "once more", "lead", after(5))
    told = [(one.before, one.after, one.reason, one.by, one.undone) for one in journal.changes("w1")]
    assert told == [
        ("active", "allowed", "good in the pilot", "lead", True),
        ("allowed", "blocked", "copied texts", "lead", True),
        ("blocked", "allowed", "they were their own", "lead", True),
        ("allowed", "active", "to be sure", "lead", True),
    ]


def test_who_declines_a_changed_consent_is_noted_once_until_they_agree_and_hides_no_other_change(
    opener: Opener,
) -> None:
    sets = image_sets(1)
    journal = opener([described(sets[0])], sets, workers="w1")
    journal.decline("nobody", after(0))
    assert (journal.declined(), journal.unreachable()) == (set(), {})
    for minute in (1, 2):
        journal.decline("w1", after(minute))
    assert (journal.declined(), len(journal.changes()), state_of(journal, "w1").state) == ({"w1"}, 1, "active")
    assert journal.unreachable() == {"any": ("describe-s0-0",)}
    journal.change("w1", "blocked", "spam", "lead", after(3))
    journal.decline("w1", after(4))
    block = journal.block_of("w1")
    assert block is not None
    assert (block.by, leaving(journal), journal.stopped("w1")) == ("lead", [], STOPPED["blocked"])
    journal.change("w1", "undone", "by mistake", "lead", after(5))
    with pytest.raises(NotAllowed, match="never"):  # what they decided is theirs
        journal.change("w1", "undone", "by mistake", "lead", after(5))
    assert journal.declined() == {"w1"}
    # the text that they agreed to is back
    assert isinstance(journal.lease("w1", after(6)), Lease)
    assert journal.declined() == set()
    journal.decline("w1", after(7))
    assert journal.declined() == {"w1"}
    journal.agree("w1", "v2", "en", after(8))
    assert (journal.declined(), [one.undone for one in journal.changes()]) == (set(), [True] * 4)


def test_votes_of_a_blocked_worker_are_given_anew_by_somebody_else(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([retrieved(one, split="test")], sets, Protocol(full_share=0, disjoint="none"))
    enrolled(journal, "w1", "w2", "w3", "w4")
    for worker in ("w1", "w2"):
        answer(journal, leased(journal, worker))
    assert [one.verdict for one in decisions_of(journal)] == ["accepted"]
    assert reason(journal, "w3") == "nothing_left"
    journal.change("w1", "blocked", "a robot", "lead", START)
    assert (decisions_of(journal), journal.progress()["retrieve"].open) == ([], 1)
    assert journal.progress()["retrieve"].answered == 2
    assert reason(journal, "w2") == "nothing_left"
    answer(journal, leased(journal, "w3"), right=False)
    assert decisions_of(journal) == []
    answer(journal, leased(journal, "w4"))
    (decision,) = decisions_of(journal)
    assert (decision.verdict, decision.right, decision.wrong) == ("accepted", 2, 1)
    journal.change("w1", "undone", "no robot", "lead", START)  # now four votes count where three were asked for
    assert decisions_of(journal) == [decision._replace(right=3)]
    assert [one.slot for one in journal.answers()] == [0, 1, 2, 3]


def test_the_chance_of_a_low_accuracy_is_an_area_under_the_beta_density() -> None:
    for right in range(0, 40, 6):
        for wrong in range(0, 40, 6):
            for limit in (0.1, 0.5, 0.9):
                assert chance_below(right, wrong, limit) == pytest.approx(added_up(right, wrong, limit), abs=1e-5)
    assert [chance_below(3, 3, limit) for limit in (0.0, 1.0)] == [0.0, 1.0]
    assert chance_below(5000, 5000, 0.5) == pytest.approx(0.5, abs=1e-6)


def test_who_is_blocked_again_by_an_undo_holds_nothing(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([tagged(one, 1)], sets, workers="w1")
    journal.change("w1", "blocked", "a robot", "lead", START)
    journal.change("w1", "allowed", "no robot", "lead", START)
    lease = leased(journal, "w1")
    assert journal.change("w1", "undone", "a robot after all", "lead", START).state == "blocked"
    with pytest.raises(NotAllowed, match="to somebody else"):
        answer(journal, lease)


def test_people_that_suffice_are_counted_for_each_pool() -> None:
    one, two = image_sets(2)
    describes = [described(one, place, split="train") for place in range(3)]
    describes += [described(two, place, split="test") for place in range(3)]
    # a set takes its describers and another person for each vote: 3 + 3 * 1 and 3 + 3 * 3
    assert people_needed(describes, Protocol(disjoint="none")) == {"eval": 12, "train": 6, "all": 12}
    wholly = people_needed(describes, Protocol(disjoint="wholly"))
    assert wholly["all"] == 24
    # tags may be given by who has seen the set; a talk takes two and who verifies it
    assert people_needed([tagged(one, 3), tagged(two, 2)], PUBLISHED) == {"any": 3, "all": 3}
    assert people_needed([talked(one), talked(one, 1)], PUBLISHED)["any"] == 3


@pytest.mark.parametrize(("right", "state"), [(3, "active"), (2, "screened_out")])
def test_the_pass_mark_itself_is_passed(opener: Opener, right: int, state: str) -> None:
    sets = image_sets(1)
    units = [known(one, "qualification") for one in image_sets(4, "q")] + [tagged(one, 9) for one in sets]
    journal = opener(units, sets, Protocol(qualification=4, qualification_pass=0.75), workers="w1")
    for number in range(4):
        answer(journal, leased(journal, "w1"), right=number < right)
    assert state_of(journal, "w1").state == state


def overlapping(count: int) -> list[ImageSet]:
    """Sets each of which shares a picture with the next one."""
    sets = image_sets(count)
    return [
        msgspec.structs.replace(one, images=(*one.images[:3], sets[(number + 1) % count].images[0]))
        for number, one in enumerate(sets)
    ]


@pytest.mark.parametrize("disjoint", ["none", "partly", "wholly"])
def test_people_who_come_one_after_another_are_given_what_was_counted(opener: Opener, disjoint: str) -> None:
    protocol = Protocol(full_share=1.0, disjoint=disjoint, train_most=2)
    sets = overlapping(7)
    units = [
        retrieved(one, place, split, protocol)
        for number, one in enumerate(sets)
        for place in (0, 1)
        for split in ("train" if number % 3 else "test",)
    ]
    units += [tagged(one, 3) for one in sets[:2]]
    bundles = deal_bundles(units, protocol, 5, writers=())
    journal = opener(units, sets, protocol)
    for number, bundle in enumerate(bundles):
        (worker,) = enrolled(journal, f"w{number}")
        given = list[Unit]()
        while len(given) < 5 and not isinstance(lease := journal.lease(worker, START), NoWork):
            given.append(lease.unit)
            answer(journal, lease)
        assert given == bundle
    assert {task: one.open for task, one in journal.progress().items()} == {"retrieve": 0, "tag": 0}


def test_who_wrote_what_is_judged_comes_too_and_finds_less() -> None:
    sets = image_sets(7)
    units = [retrieved(one, place, "test", author=f"w-{place}") for one in sets for place in range(3)]
    counts = [[len(bundle) for bundle in deal_bundles(units, PUBLISHED, 20, writers=who)] for who in ((), None)]
    assert counts == [[7] * 9, [0] * 3 + [7] * 9]
    assert people_needed(units, PUBLISHED)["eval"] == 12
    copied = {unit.images[0]: "one picture" for unit in units}
    assert [len(bundle) for bundle in deal_bundles(units, PUBLISHED, 20, copied, ())] == [1] * 63


@pytest.mark.parametrize("size", [2, 20])
def test_nobody_is_dealt_a_pool_that_has_all_its_votes(size: int) -> None:
    sets = image_sets(8)
    units = [retrieved(one, place, "test") for one in sets[2:] for place in range(3)]
    units += [retrieved(one, 0, "train") for one in sets[:2]]
    assert all(deal_bundles(units, PUBLISHED, size, writers=()))


def test_what_was_made_already_is_counted_once() -> None:
    (one,) = image_sets(1)
    describes = [described(one, place, split="test") for place in range(3)]
    made = [retrieved(one, place, split="test") for place in range(3)]
    needed = people_needed(describes, PUBLISHED)
    assert needed["eval"] == 3 + 3 * 3
    assert people_needed([*describes, *made], PUBLISHED) == people_needed([*describes, *made[:1]], PUBLISHED) == needed


def test_sets_that_share_pictures_or_copies_take_people_of_their_own() -> None:
    units = [retrieved(one, 1, "train", author="unknown") for one in image_sets(4)]
    assert people_needed(units, PUBLISHED)["train"] == 1
    copies = {units[0].images[0]: "a", units[1].images[3]: "a", units[2].images[0]: "b"}
    assert people_needed(units, PUBLISHED, copies)["train"] == 2
    assert (
        people_needed([retrieved(one, 1, "train", author="unknown") for one in overlapping(4)], PUBLISHED)["train"] == 3
    )


def test_pairs_are_judged_by_anybody_but_their_writers() -> None:
    (one,) = image_sets(1)
    pair = entail_unit(one, one.images[0], (), Text("s", "There is an animal.", "candidate"), "train", votes=3)
    assert pool_of(pair) == "any"
    assert people_needed([pair], PUBLISHED)["all"] == 3
    assert people_needed([msgspec.structs.replace(pair, authors=("w-1",))], PUBLISHED)["all"] == 4
