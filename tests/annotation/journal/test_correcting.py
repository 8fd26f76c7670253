"""A worker sees what they sent, and corrects it until somebody goes on from it."""

import threading
from collections.abc import Callable

import msgspec
import pytest

from ctxr.annotation.journal import storing
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import Lease, NotAllowed
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.tasks.values import Values
from ctxr.annotation.unit_factory import repeat_units
from tests.annotation.journal.conftest import Opener
from tests.annotation.journal.study import (
    START,
    after,
    answer,
    decisions_of,
    described,
    image_sets,
    known,
    leased,
    retrieved,
    tagged,
    talked,
    units_of,
)

OPEN = Protocol(full_share=0, disjoint="none")
FIRST = {"description": ("a small brown dog sleeps under the table",)}
BETTER = {"description": ("a small brown dog sleeps under the kitchen table",)}


def refusal(journal: Journal, lease: Lease, worker: str = "w1", values: Values = BETTER) -> str:
    before = journal.answers()
    with pytest.raises(NotAllowed, match=r"\.$") as refused:
        journal.correct(lease.token, worker, values, after(9))
    assert journal.answers() == before
    return refused.value.reason


def wrote(opener: Opener) -> tuple[Journal, Lease]:
    """A journal with a description of w1, which nobody has looked for."""
    (one,) = sets = image_sets(1)
    journal = opener([described(one)], sets, OPEN, workers="w1 w2 w3")
    lease = leased(journal, "w1")
    journal.submit(lease.token, "w1", FIRST, after(1))
    return journal, lease


def may_be_corrected(journal: Journal, worker: str = "w1") -> list[bool]:
    return [given.may_be_corrected for given in journal.last_answers(worker)]


def test_a_description_is_corrected_in_its_place_and_others_look_for_the_corrected_one(opener: Opener) -> None:
    journal, lease = wrote(opener)
    (first,), (_, asked) = journal.answers(), units_of(journal)
    corrected = journal.correct(lease.token, "w1", BETTER, after(7))
    assert corrected == msgspec.structs.replace(first, values=BETTER)
    assert (journal.answers(), journal.done_by("w1")) == ([corrected], 1)
    (_, now) = units_of(journal)
    assert now == msgspec.structs.replace(asked, texts=BETTER["description"])
    assert leased(journal, "w2").unit == now
    assert [given.answer for given in journal.last_answers("w1")] == [corrected]
    assert (journal.last_answers("w2"), journal.last_answers("a stranger")) == ([], [])


@pytest.mark.parametrize("how", ["live", "returned", "expired", "answered"])
def test_what_was_handed_out_to_others_stays(opener: Opener, how: str) -> None:
    journal, lease = wrote(opener)
    assert may_be_corrected(journal) == [True]
    other = leased(journal, "w2", after(2))
    if how == "answered":
        answer(journal, other, now=after(3))
    elif how == "returned":
        journal.give_back(other.token, after(3))
    elif how == "expired":
        leased(journal, "w3", after(200))
    assert refusal(journal, lease) == "built_on"
    assert may_be_corrected(journal) == [False]


def test_only_ones_own_answers_that_were_given_and_are_valid_are_corrected(opener: Opener) -> None:
    journal, lease = wrote(opener)
    assert refusal(journal, lease, "w2") == "not_yours"
    with pytest.raises(NotAllowed, match="ours"):
        journal.correct("' OR 1=1 --", "w1", BETTER, START)
    assert refusal(journal, lease, values={"description": ("dog",)}) == "invalid"
    assert refusal(journal, lease, values={"description": ("half a \ud800 sign is none",)}) == "invalid"
    assert refusal(journal, leased(journal, "w2"), "w2", {"pick": ("s0/p0",)}) == "unknown"
    journal.change("w1", "blocked", "guesses", "test", START)
    assert refusal(journal, lease) == "built_on"


def test_a_vote_is_corrected_until_the_votes_decide(opener: Opener) -> None:
    (one,) = sets = image_sets(1)
    journal = opener([retrieved(one, split="valid")], sets, OPEN, workers="w1 w2 w3")
    first, truth = leased(journal, "w1"), one.images[0]
    answer(journal, first, right=False)
    journal.correct(first.token, "w1", {"pick": (truth,)}, after(1))
    second = leased(journal, "w2")
    assert may_be_corrected(journal) == [True]
    answer(journal, second)
    assert [decision[1:] for decision in decisions_of(journal)] == [("accepted", 2, 0)]
    assert refusal(journal, first, values={"pick": (one.images[1],)}) == "built_on"


def test_who_could_not_tell_after_all_can_while_there_is_a_place(opener: Opener) -> None:
    sets = image_sets(2)
    journal = opener([described(one) for one in sets], sets, OPEN, workers="w1 w2")
    for taken in (False, True):
        lease = leased(journal, "w1")
        journal.submit(lease.token, "w1", {"problem": ("cannot_tell",)}, START)
        if taken:
            assert leased(journal, "w2", tasks=["describe"]).unit == lease.unit
            assert refusal(journal, lease) == "built_on"
        else:
            journal.correct(lease.token, "w1", FIRST, START)
            assert [unit.task for unit in units_of(journal)] == ["describe", "describe", "retrieve"]
            journal.correct(lease.token, "w1", {"problem": ("broken",)}, START)
            assert [unit.task for unit in units_of(journal)] == ["describe", "describe"]
            assert decisions_of(journal) == []
            journal.correct(lease.token, "w1", FIRST, START)


def test_checks_talks_and_what_is_judged_again_stay(opener: Opener) -> None:
    sets = image_sets(3)
    units = [known(sets[0], "gold"), talked(sets[1]), tagged(sets[2], 1)]
    journal = opener(units, sets, Protocol(full_share=0, disjoint="none", qualification=0), workers="w1 w2")
    tags = leased(journal, "w1", tasks=["tag"])
    journal.submit(tags.token, "w1", {"tags": ("spatial",)}, START)
    journal.correct(tags.token, "w1", {"tags": ("negation",)}, START)
    with journal._writing(START) as tx:
        storing.add_units(tx, repeat_units([tags.unit], journal.answers(), 1.0, OPEN))
    assert refusal(journal, tags, values={"tags": ("spatial",)}) == "built_on"
    talk = [leased(journal, worker, tasks=["dialogue"]) for worker in ("w1", "w2")]
    journal.submit(talk[0].token, "w1", {"problem": ("broken",)}, START)
    assert may_be_corrected(journal) == [False, False]


def test_a_correction_and_a_lease_at_once_are_one_after_the_other(opener: Opener, address: str) -> None:
    """Who looks for the image reads the text that is kept, whoever came first."""
    sets = image_sets(6)
    journal = opener([described(one) for one in sets], sets, OPEN, workers="w1 w2")
    leases = []
    for number, _ in enumerate(sets):
        leases.append(leased(journal, "w1", tasks=["describe"]))
        journal.submit(
            leases[-1].token, "w1", {"description": (f"first text {number} of a red {number}{number} thing",)}, START
        )
    read: list[Lease] = []
    reasons = {"built_on"}

    def look() -> None:
        other = opener()
        for _ in sets:
            read.append(leased(other, "w2", tasks=["retrieve"]))
            answer(other, read[-1])

    def correct() -> None:
        for number, lease in enumerate(leases):
            try:
                journal.correct(
                    lease.token,
                    "w1",
                    {"description": (f"second text {number} of a blue {number}{number} thing",)},
                    START,
                )
            except NotAllowed as refused:
                reasons.add(refused.reason)

    _at_once(look, correct)
    kept = {one.values["description"][0] for one in journal.answers() if "description" in one.values}
    assert {lease.unit.texts[0] for lease in read} == kept
    assert (len(read), reasons) == (len(sets), {"built_on"})


def _at_once(*acts: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def safely(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=safely, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
