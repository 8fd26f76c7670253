"""An answer on its way in: stored once, checked, counted, followed up."""

import msgspec
import pytest

from ctxr.annotation.journal import tables
from ctxr.annotation.journal.results import NotAllowed, NoWork
from ctxr.annotation.protocol import Protocol, shown_order
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.unit_factory import derive_units
from ctxr.errors import DataError, UsageError
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import (
    PUBLISHED,
    START,
    Decision,
    after,
    answer,
    decisions_of,
    described,
    image_sets,
    known,
    leased,
    retrieved,
    state_of,
    tagged,
    units_of,
)

TEXT = {"description": ("a small brown dog sleeps under the table",)}


def test_the_same_submission_twice_is_stored_once_and_another_is_refused(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([described(one)], sets, workers="w1")
    lease = leased(journal, "w1")
    first = journal.submit(lease.token, "w1", TEXT, after(2.5))
    again = journal.submit(lease.token, "w1", TEXT, after(9))
    assert again == first
    assert (first.at, first.seconds) == ("2026-11-21T09:02:30.000Z", 150.0)
    assert first.backend == "local"
    with pytest.raises(NotAllowed, match="answer is kept") as refused:
        journal.submit(lease.token, "w1", {"description": ("quite another text about the same dog",)}, after(9))
    assert refused.value.reason == "already_answered"
    assert journal.answers() == [first]
    assert journal.done_by("w1") == 1
    assert journal.done_by("a stranger") == 0


def test_forged_and_borrowed_tokens_are_refused_and_store_nothing(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([described(one)], sets, workers="w1 w2")
    lease = leased(journal, "w1")
    for token, worker, reason in (
        ("forged", "w1", "unknown"),
        ("' OR 1=1 --", "w1", "unknown"),
        ("\0", "w1", "unknown"),
        (lease.token, "w2", "not_yours"),
    ):
        with pytest.raises(NotAllowed, match="Please") as refused:
            journal.submit(token, worker, TEXT, START)
        assert refused.value.reason == reason
    assert journal.answers() == []


def test_what_the_task_does_not_take_is_refused_with_every_problem(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([described(one)], sets, workers="w1")
    lease = leased(journal, "w1")
    with pytest.raises(NotAllowed, match="add more detail") as refused:
        journal.submit(lease.token, "w1", {"description": ("the next image",)}, START)
    assert [problem.code for problem in refused.value.problems] == ["too_short", "mentions_other_images"]
    with pytest.raises(NotAllowed, match="cannot be stored"):
        journal.submit(lease.token, "w1", {"description": ("half a \ud800 sign is no sign",)}, START)
    assert journal.find(lease.token) == lease
    odd = {"description": ("Robert'); DROP TABLE crowd_answer; -- <script>alert(1)</script> Zoë 🐕",)}
    assert journal.submit(lease.token, "w1", odd, START).values == odd
    assert journal.answers()[0].values == odd


def test_a_text_sent_before_or_copied_from_others_is_refused(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([described(sets[0], 0), described(sets[0], 1), described(sets[1], 0)], sets, workers="w1 w2")
    journal.submit(leased(journal, "w1").token, "w1", TEXT, START)
    lease = leased(journal, "w1", tasks=["describe"])
    assert journal.exposure(lease) == Exposure(own=TEXT["description"])
    with pytest.raises(NotAllowed, match="same text before") as refused:
        journal.submit(lease.token, "w1", TEXT, START)
    assert [problem.code for problem in refused.value.problems] == ["repeats_yourself"]


def test_an_open_page_is_answered_after_the_tasks_were_exported_again_with_another_seed(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    unit = tagged(one, 1)
    lease = leased(opener([unit], sets, workers="w1"), "w1")
    again = opener([unit], sets, Protocol(seed=5), exported=[unit.id])
    assert lease.order != shown_order(unit.images, unit.ordered, unit.id, lease.slot, 5)
    assert answer(again, lease).order == lease.order
    assert (again.done_by("w1"), again.ending("w1", START, START, 1)) == (1, "complete")  # it is paid


def test_a_description_makes_a_retrieval_in_the_same_transaction(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    unit = described(one, split="test")
    journal = opener([unit], sets, workers="w1")
    given = answer(journal, leased(journal, "w1"))
    assert units_of(journal) == [unit, *derive_units(unit, given, one, PUBLISHED)]
    again = opener([unit], sets)
    assert units_of(again) == units_of(journal)


def test_units_are_added_once_and_never_with_another_content(opener: Opener) -> None:
    sets = image_sets(2)
    first = opener([described(sets[0])], sets, workers="w1")
    second = opener([described(sets[0]), described(sets[1])], sets)
    assert units_of(first) == units_of(second) == [described(sets[0]), described(sets[1])]
    with pytest.raises(DataError, match=r"unit 'tag-s0' .* another content"):
        opener([tagged(sets[0], 1), tagged(sets[0], 2)], sets)
    assert len(units_of(first)) == 2
    answer(first, leased(first, "w1"))
    with pytest.raises(DataError, match=r"set 's0' .* another content"):
        opener((), [msgspec.structs.replace(sets[0], mean_distance=0.5)])
    with pytest.raises(DataError, match=r"unit 'describe-t0-0' .* image set 't0'"):
        opener([described(image_sets(1, "t")[0])])


def test_until_somebody_answers_other_content_replaces_what_was_served(opener: Opener) -> None:
    (one,) = image_sets(1)
    first = opener([described(one), tagged(one, 1)], [one], workers="w1")
    leased(first, "w1")
    other = msgspec.structs.replace(one, mean_distance=0.5)
    units = [described(other), tagged(other, 2)]
    again = opener(units, [other], exported={unit.id for unit in units})
    assert sorted(units_of(again), key=str) == sorted(units, key=str)
    assert answer(again, leased(again, "w1")).unit in {unit.id for unit in units}


def test_what_is_asked_no_more_is_kept_and_served_to_nobody_until_it_is_asked_again(opener: Opener) -> None:
    sets = image_sets(3)
    units = [described(one) for one in sets]
    journal = opener(units, sets, workers="w1 w2 w3")
    held = leased(journal, "w2")
    answered = answer(journal, leased(journal, "w1")).unit
    followed = units_of(journal)[-1]
    again = opener([], (), exported=[answered])
    assert units_of(again) == [*units, followed]
    assert {task: (one.units, one.open) for task, one in again.progress().items()} == {
        "describe": (1, 0),
        "retrieve": (1, 1),
    }
    again.give_back(held.token, START)
    assert leased(again, "w3").unit == followed
    assert isinstance(again.lease("w2", START, ["describe"]), NoWork)
    back = opener([], (), exported=[unit.id for unit in units])
    assert leased(back, "w2", tasks=["describe"]).unit.task == "describe"
    assert back.progress()["describe"].open == 2


def test_an_answered_unit_that_is_asked_no_more_is_no_state_to_serve_from(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([described(one) for one in sets], sets, workers="w1")
    name = answer(journal, leased(journal, "w1")).unit
    with pytest.raises(DataError, match=rf"1 answered units, .*'{name}'"):
        opener([], (), exported=[unit.id for unit in units_of(journal) if unit.id != name])
    assert journal.progress()["describe"].open == 1


def test_a_protocol_that_asks_more_questions_than_there_are_is_refused(opener: Opener) -> None:
    with pytest.raises(UsageError, match=r"qualification needs 3 .* 1"):
        opener([known(image_sets(1)[0], "qualification")], (), Protocol(qualification=3))


def test_a_vote_that_comes_after_the_decision_is_kept_and_changes_nothing(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([retrieved(one, split="test")], sets, Protocol(full_share=0, disjoint="none"), workers="w1 w2 w3")
    first, second = leased(journal, "w1"), leased(journal, "w2")
    answer(journal, first, right=False)
    third = leased(journal, "w3")
    answer(journal, second, right=False)
    assert decisions_of(journal) == [Decision(first.unit.id, "dropped", 0, 2)]
    answer(journal, third)
    assert len(journal.answers()) == 3
    assert decisions_of(journal) == [Decision(first.unit.id, "dropped", 1, 2)]
    assert isinstance(journal.lease("w1", START), NoWork)


def is_over(work: object) -> bool:
    """Whether there is nothing left to do."""
    return isinstance(work, NoWork) and work.reason == "nothing_left"


BROKEN, CANNOT_TELL = {"problem": ("broken",)}, {"problem": ("cannot_tell",), "comment": ("two are the same",)}


def test_a_broken_picture_is_no_vote_and_two_who_see_it_end_the_unit(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([retrieved(one, split="train")], sets, workers="w1 w2 w3")
    with journal._writing(START) as tx:
        tx.update(tables.worker, {"state": "active"}, pool="both")
    told = []
    for worker in ("w1", "w2"):
        lease = leased(journal, worker)
        told.append(journal.submit(lease.token, worker, BROKEN, START))
        assert journal.submit(lease.token, worker, BROKEN, START) == told[-1]
    assert journal.answers() == told
    assert [journal.done_by(worker) for worker in ("w1", "w2")] == [1, 1]
    assert decisions_of(journal) == [Decision(told[0].unit, "stuck", 0, 0)]
    assert is_over(journal.lease("w3", START))
    journal.change("w1", "blocked", "calls everything broken", "test", START)
    assert decisions_of(journal) == []
    answer(journal, leased(journal, "w3"))
    assert decisions_of(journal) == [Decision(told[0].unit, "accepted", 1, 0)]


def test_who_cannot_find_the_image_has_voted_against_the_description(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([retrieved(one, protocol=PUBLISHED)], sets, workers="w1 w2 w3")
    with journal._writing(START) as tx:
        tx.update(tables.worker, {"state": "active"}, pool="both")
    for worker in ("w1", "w2"):
        lease = leased(journal, worker)
        assert journal.submit(lease.token, worker, CANNOT_TELL, START).values == CANNOT_TELL
    assert [decision[1:] for decision in decisions_of(journal)] == [("dropped", 0, 2)]


def test_what_nobody_can_describe_goes_to_another_and_is_given_up(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([described(one)], sets, workers="w1 w2 w3")
    for worker, values in (("w1", CANNOT_TELL), ("w2", BROKEN)):
        lease = leased(journal, worker)
        journal.submit(lease.token, worker, values, START)
        assert is_over(journal.lease(worker, START))
    assert [unit.task for unit in units_of(journal)] == ["describe"]
    assert [decision.verdict for decision in decisions_of(journal)] == ["stuck"]
    assert is_over(journal.lease("w3", START))


def test_nobody_is_wrong_where_a_check_is_broken_and_nobody_is_examined_by_calling_all_of_them_so(
    opener: Opener,
) -> None:
    protocol = Protocol(full_share=0, disjoint="none", qualification=2)
    questions = [known(one, "qualification") for one in image_sets(2)]
    journal = opener([*questions, *(tagged(one, 1) for one in image_sets(1, "t"))], [], protocol, workers="w1 w2")
    for worker, second, state in (("w1", BROKEN, "screened_out"), ("w2", None, "active")):
        for values in (BROKEN, second):
            lease = leased(journal, worker)
            journal.submit(lease.token, worker, values or {"pick": lease.unit.truth}, START)
        journal.lease(worker, START)
        found = state_of(journal, worker)
        assert (found.state, found.wrong, found.answers) == (state, 0, 2)


def test_a_draft_comes_back_until_it_is_submitted(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([described(one)], sets, workers="w1")
    lease = leased(journal, "w1")
    assert lease.draft == {}
    journal.save_draft(lease.token, "w1", {"description": ("a dog, and",)}, START)
    assert leased(opener(), "w1").draft == {"description": ("a dog, and",)}
    with pytest.raises(NotAllowed, match="somebody else's hands"):
        journal.save_draft(lease.token, "w2", {"description": ("mine",)}, START)
    journal.submit(lease.token, "w1", TEXT, START)
    answered = journal.find(lease.token)
    assert answered is not None
    assert answered.draft == {}
    with pytest.raises(NotAllowed, match="no longer open"):
        journal.save_draft(lease.token, "w1", {"description": ("too late",)}, START)


def test_paid_work_ends_with_the_bundle_or_the_last_work_and_not_before(opener: Opener) -> None:
    sets = image_sets(3)
    journal = opener([tagged(one, 2) for one in sets], sets, workers="w1 w2")

    def ending(worker: str, bundle: int, before: int = 0) -> str | None:
        return journal.ending(worker, START, START, bundle, before)

    answer(journal, leased(journal, "w1"))
    assert ending("w1", 2) is None
    lease = leased(journal, "w1")
    assert ending("w1", 2) is None
    answer(journal, lease)
    assert ending("w1", 2) == "complete"
    assert ending("w1", 2, before=2) is None  # paid for already
    assert ending("a stranger", 2) is None
    for _ in range(3):
        assert ending("w2", 100) is None
        answer(journal, leased(journal, "w2"))
    assert ending("w2", 100) == "complete"


def test_who_comes_when_nothing_is_left_is_done_at_once_and_who_might_get_some_waits_a_little(opener: Opener) -> None:
    sets = image_sets(1)
    journal = opener([tagged(sets[0], 1)], sets, workers="w1 w2")
    lease = leased(journal, "w1")
    assert journal.ending("w2", START, after(9), 20) is None
    assert journal.ending("w2", START, after(10), 20) == "complete"
    answer(journal, lease)
    assert journal.ending("w2", after(11), after(11), 20) == "complete"
    journal.change("w2", "blocked", "spam", "lead", after(12))
    assert journal.ending("w2", after(13), after(13), 20) == "stopped"


def test_who_asks_for_other_tasks_gives_back_what_they_hold(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([tagged(sets[0], 1), retrieved(sets[1])], sets, workers="w1")
    held = leased(journal, "w1", tasks=["tag"])
    assert leased(journal, "w1", tasks=["tag", "describe"]) == held
    assert leased(journal, "w1", tasks=["retrieve"]).unit.task == "retrieve"
    assert journal.progress()["tag"].leases == 0


def test_a_time_without_zone_is_a_mistake(opener: Opener) -> None:
    journal = opener()
    with pytest.raises(ValueError, match="time zone"):
        journal.enrol("w1", "local", START.replace(tzinfo=None))
