"""Two workers in a room of the journal: paired, parted, paired again, stored, paid."""

import random
from collections import Counter

import msgspec
import pytest

from ctxr.annotation.journal.journal import Journal, Step
from ctxr.annotation.journal.results import Lease, NotAllowed, NoWork, Pool
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import AnswerLimits
from ctxr.annotation.tasks import task_of
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import (
    PUBLISHED,
    START,
    after,
    answer,
    decisions_of,
    enrolled,
    image_sets,
    leased,
    newcomer,
    retrieved,
    state_of,
    talked,
    units_of,
)

FREE = Protocol(full_share=0, disjoint="none")


def together(journal: Journal, *workers: str) -> tuple[Lease, Lease]:
    """Two in one room."""
    first, second = (leased(journal, worker, START, ["dialogue"]) for worker in enrolled(journal, *workers))
    return first, second


def chat(journal: Journal, first: Lease, second: Lease, turns: int, minute: float = 0) -> None:
    for place in range(turns):
        lease = (first, second)[place % 2]
        journal.act("say", lease.token, lease.worker, after(minute), f"this is turn {place}")


def opened(opener: Opener, photos: int = 1, **more: object) -> Journal:
    sets = image_sets(photos)
    return opener([talked(one) for one in sets], sets, FREE, **more)


def paired(opener: Opener, turns: int = 0) -> tuple[Journal, Lease, Lease]:
    """A journal, and two workers who have talked for some turns about its only photo."""
    journal = opened(opener)
    first, second = together(journal, "w1", "w2")
    chat(journal, first, second, turns)
    return journal, first, second


def test_two_who_wait_are_brought_together_one_with_the_photo(opener: Opener) -> None:
    journal = opened(opener, photos=2)
    first, second = together(journal, "w1", "w2")
    assert (first.unit, first.slot) == (second.unit, second.slot)
    assert (first.seat, second.seat) == (0, 1)
    assert journal.room(first.token).present
    assert journal.room(second.token).present
    third = leased(journal, newcomer(journal, "w3"))
    assert third.unit != first.unit


def test_nobody_talks_with_themselves(opener: Opener) -> None:
    journal = opened(opener, workers="w1")
    first = leased(journal, "w1")
    assert leased(journal, "w1") == first
    assert not journal.room(first.token).present
    with pytest.raises(NotAllowed, match="not here yet") as refused:
        journal.act("say", first.token, "w1", START, "hello?")
    assert refused.value.reason == "alone"


def test_a_finished_talk_is_an_answer_of_each_and_is_given_to_a_third_party(opener: Opener) -> None:
    journal, first, second = paired(opener, turns=4)
    with pytest.raises(NotAllowed, match="after 5 messages") as refused:
        journal.act("share", first.token, "w1", START)
    assert refused.value.reason == "too_early"
    assert not journal.room(first.token).may_share
    chat(journal, first, second, 1)
    assert journal.room(first.token).may_share
    with pytest.raises(NotAllowed, match="sees the photo"):
        journal.act("share", second.token, "w2", START)
    assert journal.act("share", first.token, "w1", START).shared
    journal.act("say", second.token, "w2", START, "what a <b>lovely</b> '; DROP TABLE photo")
    journal.act("finish", first.token, "w1", START)
    assert journal.answers() == []
    assert journal.act("finish", second.token, "w2", after(3)).closed
    one, two = journal.answers()
    assert (one.worker, two.worker, one.slot, two.slot) == ("w1", "w2", 0, 0)
    assert one.values == two.values
    assert one.values["pair"] == ("w1", "w2")
    (dialogue,) = task_of(first.unit).score(first.unit, one).dialogues
    assert [turn.text for turn in dialogue.turns][-2:] == ["", "what a <b>lovely</b> '; DROP TABLE photo"]
    assert (journal.done_by("w1"), journal.done_by("w2")) == (1, 1)
    for worker in ("w1", "w2"):
        assert isinstance(journal.lease(worker, after(4)), NoWork)
    third = leased(journal, newcomer(journal, "w3"), now=after(4))
    assert (third.unit.task, third.unit.authors) == ("review", ("w1", "w2"))
    assert journal.room(first.token).closed
    with pytest.raises(NotAllowed, match="it is kept"):
        journal.act("say", first.token, "w1", after(5), "one more thing")


def test_who_leaves_a_talk_because_of_its_photo_has_answered_and_others_take_it_up(opener: Opener) -> None:
    journal, first, second = paired(opener, turns=2)
    told = journal.submit(first.token, "w1", {"problem": ("broken",)}, START)
    assert (journal.answers(), state_of(journal, "w1").answers) == ([told], 1)
    assert journal.room(second.token).partner_left
    assert isinstance(journal.lease("w1", START), NoWork)
    third = leased(journal, newcomer(journal, "w3"))
    assert (third.unit, third.seat, journal.room(second.token).present) == (first.unit, 0, True)
    chat(journal, third, second, 5)
    journal.act("share", third.token, "w3", START)
    with pytest.raises(NotAllowed, match="finish"):
        journal.submit(third.token, "w3", {"problem": ("broken",)}, START)
    for lease in (third, second):
        journal.act("finish", lease.token, lease.worker, START)
    assert [one.worker for one in journal.answers()] == ["w1", "w3", "w2"]
    assert [decision.verdict for decision in decisions_of(journal)] == ["complete"]


def test_the_photo_can_be_shared_after_the_turns_that_the_unit_says(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([msgspec.structs.replace(talked(one), limits=AnswerLimits(turns_before_share=2))], sets, FREE)
    first, second = together(journal, "w1", "w2")
    chat(journal, first, second, 1)
    with pytest.raises(NotAllowed, match="after 2 messages"):
        journal.act("share", first.token, "w1", START)
    chat(journal, first, second, 1)
    assert journal.act("share", first.token, "w1", START).shared


def test_a_talk_with_a_blocked_worker_is_not_reviewed_and_others_talk_instead(opener: Opener) -> None:
    journal, first, _ = paired(opener, turns=5)
    journal.act("share", first.token, "w1", START)
    journal.change(
        "w2", "blocked", "a robot", "lead", START
    )  # who has seen the photo shared leaves a whole talk behind
    assert len(journal.answers()) == 2
    assert (journal.progress()["dialogue"].answered, journal.progress()["dialogue"].open) == (1, 1)
    third = leased(journal, newcomer(journal, "w3"))
    assert third.unit.task == "dialogue"
    journal.act("leave", third.token, "w3", START)
    journal.change("w2", "undone", "no robot", "lead", START)
    assert journal.progress()["dialogue"].open == 0
    assert leased(journal, "w3").unit.task == "review"


def test_an_answer_of_a_talk_came_through_the_platform_of_its_worker(opener: Opener) -> None:
    journal = opened(opener)
    journal.enrol("w1", "prolific", START)
    first, second = together(journal, "w1", "w2")
    chat(journal, first, second, 5)
    journal.act("share", first.token, "w1", START)
    for lease in (first, second):
        journal.act("finish", lease.token, lease.worker, START)
    assert {one.worker: one.backend for one in journal.answers()} == {"w1": "prolific", "w2": "local"}


def test_the_talk_survives_a_restart(opener: Opener) -> None:
    journal, first, second = paired(opener, turns=5)
    before = journal.room(first.token), journal.events(second.token)
    journal.close()
    again = opened(opener)
    assert (again.room(first.token), again.events(second.token)) == before
    last = before[1][-1].number
    assert again.events(second.token, last) == []
    assert again.events(second.token, 10**30) == []
    assert again.events(second.token, -(10**30)) == before[1]
    again.act("share", first.token, "w1", START)
    assert [event.kind for event in again.events(second.token, last)] == ["share"]


def test_who_is_left_before_the_share_is_told_and_gets_another_partner(opener: Opener) -> None:
    journal, first, second = paired(opener, turns=3)
    journal.act("leave", first.token, "w1", after(1))
    left = journal.room(second.token)
    assert (left.partner_left, left.present, left.turns, left.seat) == (True, False, (), 1)
    third = leased(journal, newcomer(journal, "w3"), now=after(2))
    assert (third.unit, third.seat, third.slot) == (second.unit, 0, second.slot)
    room = journal.room(second.token)
    assert (room.partner_left, room.present) == (False, True)
    with pytest.raises(NotAllowed, match="You were away"):
        journal.act("say", first.token, "w1", after(2), "I am back")
    chat(journal, third, second, 5, minute=3)
    journal.act("share", third.token, "w3", after(3))
    journal.act("leave", third.token, "w3", after(4))  # after the share the talk is whole
    assert [one.values["pair"] for one in journal.answers()] == [("w3", "w2")] * 2
    assert journal.waited() == []


def test_two_who_are_left_alone_in_different_rooms_are_brought_together(opener: Opener) -> None:
    journal = opened(opener, photos=2)
    first, second = together(journal, "w1", "w2")
    third, fourth = together(journal, "w3", "w4")
    assert first.unit != third.unit
    journal.act("leave", first.token, "w1", after(1))
    journal.act("leave", third.token, "w3", after(2))
    assert journal.room(second.token).present
    assert journal.room(fourth.token).present
    moved = journal.find(fourth.token)
    assert moved is not None
    assert (moved.unit, moved.seat) == (second.unit, 0)
    assert journal.progress()["dialogue"].leases == 1
    chat(journal, moved, second, 5, minute=3)
    journal.act("share", moved.token, "w4", after(4))


def test_who_gives_no_sign_of_life_has_left(opener: Opener) -> None:
    journal, first, second = paired(opener)
    journal.here(first.token, "w1", after(4))
    assert not journal.here(first.token, "w1", after(6)).present
    with pytest.raises(NotAllowed, match="You were away") as refused:
        journal.here(second.token, "w2", after(6))
    assert refused.value.reason == "expired"
    assert journal.room(first.token).partner_left


def test_who_waited_in_vain_is_written_down_and_need_not_wait_again(opener: Opener) -> None:
    journal = opened(opener, workers="w1 w2")
    lease = leased(journal, "w1")
    for minute in (3, 6, 9):
        journal.here(lease.token, "w1", after(minute))
    assert journal.ending("w1", START, after(9), 20) is None
    leased(journal, "w2", after(10.5))
    (waited,) = journal.waited()
    assert (waited.worker, waited.reason, waited.seconds) == ("w1", "nobody_came", 600.0)
    assert journal.ending("w1", START, after(11), 20) == "complete"
    assert journal.ending("w1", after(11), after(11), 20) is None
    assert journal.ending("w2", START, after(11), 20) is None


def test_who_was_left_and_found_nobody_else_is_written_down(opener: Opener) -> None:
    journal, first, second = paired(opener)
    journal.act("leave", first.token, "w1", after(1))
    journal.act("leave", second.token, "w2", after(4))
    (waited,) = journal.waited()
    assert (waited.worker, waited.reason, waited.seconds) == ("w2", "partner_left", 240.0)
    assert journal.progress()["dialogue"].leases == 0


def test_a_talk_is_not_finished_by_a_form_nor_by_somebody_else(opener: Opener) -> None:
    journal, first, _ = paired(opener)
    with pytest.raises(NotAllowed, match="the conversation itself"):
        journal.submit(first.token, "w1", {"turns": ("[]",)}, START)
    with pytest.raises(NotAllowed, match="somebody else's hands"):
        journal.act("say", first.token, "w2", START, "in your name")
    with pytest.raises(NotAllowed, match="one of ours"):
        journal.act("say", "forged", "w2", START, "hello")
    with pytest.raises(NotAllowed, match="no conversation here"):
        journal.room("forged")


def test_who_saw_the_photo_in_a_talk_does_not_retrieve_in_its_set(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([talked(one), retrieved(one, 2)], sets, FREE)
    first, second = together(journal, "w1", "w2")
    chat(journal, first, second, 5)
    journal.act("share", first.token, "w1", START)
    journal.act("leave", first.token, "w1", START)
    for worker in ("w1", "w2"):
        got = journal.lease(worker, START, ["retrieve"])
        assert isinstance(got, NoWork)
    assert answer(journal, leased(journal, newcomer(journal, "w3"), tasks=["retrieve"])).worker == "w3"


def test_pools_do_not_meet_in_a_room(opener: Opener) -> None:
    sets = image_sets(2)
    units = [talked(sets[0], split="train"), talked(sets[1], split="test")]
    journal = opener(units, sets, Protocol(disjoint="wholly"))
    first, second = together(journal, "w1", "w2")
    assert {state_of(journal, "w1").pool, state_of(journal, "w2").pool} == {"train", "eval"}
    assert first.unit != second.unit
    assert [journal.here(one.token, one.worker, START).apart for one in (first, second)] == [True, True]
    journal.act("leave", first.token, "w1", START)
    assert not journal.room(second.token).apart


def test_who_waits_is_fetched_by_somebody_who_waits_elsewhere(opener: Opener) -> None:
    sets = image_sets(2)
    units = [talked(sets[0], split="train"), talked(sets[1], split="test")]
    journal = opener(units, sets, Protocol(disjoint="partly", shared_workers=0.5))
    enrolled(journal, *(f"w{number}" for number in range(12)))
    pools = {state.pool: state.worker for state in journal.workers()}
    first = leased(journal, pools["both"])
    other: Pool = "eval" if first.unit.split == "train" else "train"
    second = leased(journal, pools[other])
    assert second.unit != first.unit  # the room that waited is of the other pool
    moved = journal.find(first.token)
    assert moved is not None
    assert (moved.unit, moved.slot, moved.seat) == (second.unit, second.slot, 1)
    assert journal.room(first.token).present
    assert journal.room(second.token).present
    assert journal.progress()["dialogue"].leases == 1


@pytest.mark.parametrize("address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)], indirect=True)
@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 180), *(pytest.param(seed, 1500, marks=pytest.mark.prove) for seed in range(2, 7))]
)
def test_a_random_evening_of_talks_keeps_every_promise(opener: Opener, seed: int, steps: int) -> None:
    """Nine people come, talk, leave, fall asleep: nobody is alone with themselves, no photo is talked about too often."""
    rng = random.Random(seed)
    sets = image_sets(6)
    units = [talked(one, talks=1 + place % 2) for place, one in enumerate(sets)]
    journal = opener(units, sets, PUBLISHED)
    workers = enrolled(journal, *(f"w{number}" for number in range(9)))
    tokens: dict[str, str] = {}
    now = 0.0
    for number in range(steps):
        worker = rng.choice(workers)
        now += rng.choices((0, 0.1, 6), (20, 20, 1))[0]
        got = journal.lease(worker, after(now), ["dialogue", "review"])
        if isinstance(got, NoWork):
            continue
        tokens[worker] = got.token
        if got.unit.task == "review":
            assert worker not in got.unit.authors
            answer(journal, got, now=after(now))
            continue
        try:
            late: Step = "leave" if rng.random() < 0.2 else "say"
            act: Step = rng.choice(("say", "say", "say", "say", "share", "finish", late))
            journal.act(act, got.token, worker, after(now), f"words {rng.random()}" if act == "say" else "")
        except NotAllowed as refused:
            assert refused.reason in {"alone", "too_early", "not_yours", "already_shared", "closed"}  # noqa: PT017
        if number % 10 == 0:
            promises(journal, tokens)
    promises(journal, tokens)
    finished = sum(one.worker == one.values["pair"][0] for one in journal.answers() if "pair" in one.values)
    assert finished > 1
    assert {one.unit for one in decisions_of(journal)} <= {unit.id for unit in units_of(journal)}


def promises(journal: Journal, tokens: dict[str, str]) -> None:
    leases = [lease for token in tokens.values() if (lease := journal.find(token)) is not None]
    live = [lease for lease in leases if lease.state == "live" and lease.unit.task == "dialogue"]
    places = Counter((lease.unit.id, lease.slot, lease.seat) for lease in live)
    assert set(places.values()) <= {1}
    talks: dict[str, set[tuple[str, ...]]] = {}
    for one in journal.answers():
        if "pair" in one.values:
            pair = one.values["pair"]
            assert len(set(pair)) == 2
            assert one.worker in pair
            talks.setdefault(one.unit, set()).add(pair)
    for unit in units_of(journal):
        if unit.task == "dialogue":
            held = {lease.slot for lease in live if lease.unit == unit}
            assert len(talks.get(unit.id, ())) + len(held) <= unit.most
    told = journal.progress()["dialogue"]
    assert told.leases == len({(lease.unit.id, lease.slot) for lease in live})
    assert told.answered == sum(len(pairs) for pairs in talks.values())
