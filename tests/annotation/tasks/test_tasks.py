from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxr.annotation.forms import Choice, Pick, Write
from ctxr.annotation.records import Outcome, Unit
from ctxr.annotation.tasks import NAMES, counts, review, tag, task_of
from ctxr.annotation.tasks.entail import LABELS
from ctxr.annotation.tasks.values import Exposure
from ctxr.errors import DataError
from ctxr.store.records import Judgment, Turn
from tests.annotation.crowd_units import EVERY_KIND, OWN_ANSWER, TEN, answer, unit

DESCRIBE = unit("describe", target=TEN[3])
RETRIEVE = unit("retrieve", query="q-1", texts=("the cat looks left at you",), text_ids=("q-1",), truth=(TEN[3],))
TAG = unit("tag", target=TEN[3], query="tag/q-1", texts=("two cats",), text_ids=("q-1",), labels=("context", "spatial"))
ENTAIL = unit("entail", images=TEN[:1], query="entail/x", statement="a cat", text_ids=("t",), labels=LABELS)
VERIFY = unit(
    "review", images=TEN[:1], query="review/d", texts=("hi", "yes?", ""), text_ids=("d/000", "d/001"),
    speakers=(0, 1, 0), labels=review.LABELS,
)  # fmt: skip
DIALOGUE = unit("dialogue", images=TEN[:1], target=TEN[0])
AUDIT = unit("repeat", like="retrieve", of="retrieve-1", query="q-1", texts=("the cat",), truth=(TEN[3],), round=1)

OWN = unit("own", target=TEN[3], query="own/q-1", texts=("two cats",), text_ids=("q-1",), asked=EVERY_KIND)

ALL = (DESCRIBE, RETRIEVE, TAG, ENTAIL, VERIFY, OWN, DIALOGUE, AUDIT)
GOOD: dict[str, dict[str, tuple[str, ...]]] = {
    "describe": {"description": ("the cat has its left ear folded",)},
    "retrieve": {"pick": (TEN[3],)},
    "tag": {"tags": ("spatial",)},
    "entail": {"verdict": ("neutral",)},
    "review": {"verdict": ("unnatural", "typos")},
    "own": OWN_ANSWER,
    "repeat": {"pick": (TEN[4],)},
}
TALK = tuple(Turn(place % 2, f"message {place}") for place in range(5))
SHARED = (*TALK, Turn(0, "", share=True), Turn(1, "nice"))


def as_values(turns: tuple[Turn, ...]) -> dict[str, tuple[str, ...]]:
    return {"turns": (msgspec.json.encode(turns).decode(),), "pair": ("w-anna", "w-ben")}


def codes(one: Unit, values: Mapping[str, tuple[str, ...]], met: Exposure | None = None) -> list[str]:
    return [problem.code for problem in task_of(one).validate(one, values, met or Exposure())]


def test_a_reason_overrules_the_wording_check_but_for_an_empty_text() -> None:
    text, reason = ("the cat on the next image",), ("a sign says so",)
    assert codes(DESCRIBE, {"description": text, "reason": (" ",)}) == ["mentions_other_images"]
    assert codes(DESCRIBE, {"description": text, "reason": reason}) == []
    assert codes(DESCRIBE, {"description": ("...",), "reason": reason}) == ["empty"]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.task)
def test_a_form_never_holds_the_truth(one: Unit) -> None:
    shown = task_of(one).render(one, one.images)
    if one.truth:
        elsewhere = msgspec.structs.replace(one, truth=("some other truth",))
        assert task_of(one).render(elsewhere, one.images) == shown
    assert shown.fields
    assert shown.instruction


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.task)
def test_a_good_answer_is_taken_and_scored_alike_every_time(one: Unit) -> None:
    values = GOOD.get(one.task) or as_values(SHARED)
    assert codes(one, values) == []
    outcome = task_of(one).score(one, answer(one, values=values))
    assert outcome == task_of(one).score(one, answer(one, values=values))
    assert bool(outcome.judgments) is (one.task != "own")  # which has a table of its own


@pytest.mark.parametrize("code", ["cannot_tell", "broken"])
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.task)
def test_a_problem_is_an_answer_to_every_task_and_makes_no_rows(one: Unit, code: str) -> None:
    told, comment = {"problem": (code,)}, {"comment": ("two are the same",)}
    assert codes(one, told | comment) == codes(one, told) == []
    assert codes(one, {"problem": ("boring",)}) == ["not_offered"]
    assert codes(one, {"problem": ("broken", "cannot_tell")}) == ["too_many_chosen"]
    cannot_find = code == "cannot_tell" and bool(one.truth)
    assert task_of(one).score(one, answer(one, values=told)) == Outcome(right=False if cannot_find else None)
    votes = {"broken": set(), "cannot_tell": {"retrieve", "tag", "entail", "review", "own", "repeat"}}
    assert counts(one, answer(one, values=told), ()) is (one.task in votes[code])
    form = task_of(one).render(one, one.images)
    posted = GOOD.get(one.task, {}) | told | {"comment": (" ",)}
    assert form.without_blanks(posted) == told
    assert form.without_blanks({**GOOD.get(one.task, {}), "problem": ("",)}) == GOOD.get(one.task, {})


@pytest.mark.parametrize("one", [one for one in ALL if one.task != "dialogue"], ids=lambda one: one.task)
def test_nothing_is_no_answer(one: Unit) -> None:
    assert codes(one, {})


@pytest.mark.parametrize("one", ALL[:-1], ids=lambda one: one.task)
@settings(max_examples=50)
@given(
    values=st.dictionaries(
        st.sampled_from(
            [
                "pick",
                "look",
                "spot",
                "area",
                "rank",
                "tags",
                "verdict",
                "description",
                "turns",
                "pair",
                "unit",
                "target",
            ]
        ),
        st.lists(st.one_of(st.text(max_size=12), st.sampled_from([*TEN, "keep", "none", "context"])), max_size=3).map(
            tuple
        ),
        max_size=3,
    )
)
def test_whatever_is_sent_is_refused_in_words_or_can_be_scored(one: Unit, values: dict[str, tuple[str, ...]]) -> None:
    wrong = task_of(one).validate(one, values, Exposure())
    assert all(problem.sentence.endswith((".", "?")) or ":" in problem.sentence for problem in wrong)
    if (not wrong and "pair" in values) or one.task != "dialogue":
        assert wrong or task_of(one).score(one, answer(one, values=values)) is not None


def test_a_description_becomes_a_query_with_its_target_as_gold() -> None:
    outcome = task_of(DESCRIBE).score(DESCRIBE, answer(DESCRIBE, description=("  the cat\n looks left ",)))
    (text,), (query,), (gold,) = outcome.texts, outcome.queries, outcome.judgments
    assert (text.text, text.author) == ("the cat looks left", "w-anna")
    assert query.texts == (text.id,)
    assert gold == Judgment(query.id, TEN[3], "gold", 1.0)


@pytest.mark.parametrize(("picked", "right"), [(TEN[3], True), (TEN[4], False)])
def test_a_pick_is_a_judgment_by_image_id_and_right_or_wrong(picked: str, right: bool) -> None:
    outcome = task_of(RETRIEVE).score(RETRIEVE, answer(RETRIEVE, pick=(picked,)))
    assert outcome.right is right
    assert outcome.judgments == (Judgment("q-1", picked, "w-anna", 1.0, "2026-01-02T03:04:05Z", 12.5),)


def test_a_check_of_the_worker_makes_no_judgment() -> None:
    gold = msgspec.structs.replace(RETRIEVE, purpose="gold")
    outcome = task_of(gold).score(gold, answer(gold, pick=(TEN[3],)))
    assert (outcome.right, outcome.judgments) == (True, ())


def test_a_second_look_is_a_later_round_of_the_task_it_repeats_and_must_repeat_one() -> None:
    (row,) = task_of(AUDIT).score(AUDIT, answer(AUDIT, pick=(TEN[4],))).judgments
    assert (row.candidate, row.round) == (TEN[4], 1)
    with pytest.raises(DataError, match="not say of"):
        task_of(unit("repeat"))


def test_a_tag_that_nobody_ticked_was_looked_for() -> None:
    outcome = task_of(TAG).score(TAG, answer(TAG, tags=("spatial",)))
    assert [(row.candidate, row.value) for row in outcome.judgments] == [("context", 0.0), ("spatial", 1.0)]
    assert outcome.queries[0].labels == ("context", "spatial")
    assert all(row.value == 0 for row in task_of(TAG).score(TAG, answer(TAG, tags=(tag.NONE,))).judgments)


@pytest.mark.parametrize(
    ("one", "values", "code"),
    [
        (TAG, {"tags": ("none", "spatial")}, "none_and_some"),
        (VERIFY, {"verdict": ("keep", "typos")}, "keep_and_fault"),
        (RETRIEVE, {"pick": ("../../etc/passwd",)}, "not_offered"),
        (RETRIEVE, {"pick": (TEN[0], TEN[1])}, "too_many_chosen"),
        (RETRIEVE, {"pick": (TEN[0],), "target": (TEN[3],)}, "not_asked"),
        (DESCRIBE, {"description": ("cat",)}, "too_short"),
        (DESCRIBE, {"description": ("x" * 1001,)}, "too_long"),
        *(
            (DESCRIBE, {"description": (f"a cat {sign} sits here",)}, "odd_characters")
            for sign in ("\x00", "\x1b[31m", "\x7f", "\x85", "\u202e", "\ue000", "\U0010ffff")
        ),
        (DIALOGUE, as_values((*TALK, Turn(0, "", share=True), Turn(1, "a \u202ekcalb cat"))), "odd_characters"),
        (DIALOGUE, as_values((*TALK[:4], Turn(0, "", share=True))), "shared_early"),
        (DIALOGUE, as_values((*TALK, Turn(1, "", share=True))), "shared_early"),
        (DIALOGUE, as_values(TALK), "not_shared"),
        (DIALOGUE, {"turns": ("[{",), "pair": ("a", "b")}, "no_talk"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_name(one: Unit, values: dict[str, tuple[str, ...]], code: str) -> None:
    assert codes(one, values) == [code]
    harmless = "two\r\n\ttabs, \U0001f469\u200d\U0001f692 and \u0646\u200c\u0645"
    assert codes(DESCRIBE, {"description": (harmless,)}) == []


def test_own_and_others_texts_are_recognised() -> None:
    text = "the grey cat on the left has its ear folded back"
    values = {"description": (text,)}
    assert codes(DESCRIBE, values, Exposure(own=(text.upper(),))) == ["repeats_yourself"]
    assert codes(DESCRIBE, values, Exposure(others=(text + ".",))) == ["copied"]


def test_only_the_marked_image_is_marked() -> None:
    pictures = task_of(DESCRIBE).render(DESCRIBE, tuple(reversed(TEN))).pictures
    assert [picture.image for picture in pictures if picture.marked] == [TEN[3]]
    assert [picture.place for picture in pictures] == list(range(1, 11))


def test_the_fields_of_each_task_are_those_it_reads() -> None:
    kinds = {one.task: type(task_of(one).render(one, one.images).fields[0]) for one in ALL if one.task != "dialogue"}
    choices = dict.fromkeys(("tag", "entail", "review", "own"), Choice)
    assert kinds == {"describe": Write, "retrieve": Pick, "repeat": Pick, **choices}
    assert {*kinds, "dialogue"} == set(NAMES)


def test_only_the_sender_sees_the_photo_and_makes_the_rows() -> None:
    sender, other = (task_of(DIALOGUE).render(DIALOGUE, DIALOGUE.images, seat).pictures for seat in (0, 1))
    assert [picture.image for picture in sender] == [*DIALOGUE.images]
    assert other == ()
    by_sender = task_of(DIALOGUE).score(DIALOGUE, answer(DIALOGUE, "w-anna", values=as_values(SHARED)))
    assert task_of(DIALOGUE).score(DIALOGUE, answer(DIALOGUE, "w-ben", values=as_values(SHARED))).dialogues == ()
    (progress,) = by_sender.dialogues
    assert (progress.shared_at, progress.workers, len(by_sender.texts)) == (5, ("w-anna", "w-ben"), 5)
    assert [text.author for text in by_sender.texts[:2]] == ["w-anna", "w-ben"]
    assert task_of(DIALOGUE).SEATS == 2
