from collections import Counter

import pytest
from msgspec.structs import replace

from ctxr.annotation.protocol import Protocol, share, shown_order, verdict
from ctxr.annotation.records import PUBLISHED, AnswerLimits
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.unit_factory import (
    attention_index,
    attention_unit,
    check_units,
    derive_units,
    describe_units,
    repeat_units,
    retrieve_units,
    tag_units,
)
from ctxr.annotation.web.site import SHIPPED
from ctxr.errors import DataError, UsageError
from ctxr.web.translations import read_languages
from tests.annotation.crowd_units import answer, dataset, image_set
from tests.annotation.tasks.test_tasks import SHARED, as_values

SETS = tuple(image_set(f"clip-shot{number}_0", group=f"clip{number % 3}") for number in range(30))
SPLITS = {"clip0": "train", "clip1": "valid", "clip2": "test"}


def test_each_set_gets_three_different_targets_of_its_own_that_the_seed_chooses() -> None:
    units = describe_units(dataset(*SETS), Protocol())
    assert set(Counter(one.image_set for one in units).values()) == {3}
    assert len({one.id for one in units}) == len(units) == 90
    assert all(one.target in one.images for one in units)
    assert [one.target for one in units] != [one.target for one in describe_units(dataset(*SETS), Protocol(seed=1))]


def test_votes_follow_the_side_of_the_benchmark_and_a_seeded_share_gets_all() -> None:
    units = retrieve_units(dataset(*SETS, splits=SPLITS, described=True), Protocol(full_share=0.0))  # type: ignore[arg-type]
    assert {(one.split, one.needed, one.most) for one in units} == {("train", 1, 1), ("valid", 2, 3), ("test", 2, 3)}
    assert all(one.authors == ("w-author",) for one in units)
    many = dataset(*(image_set(f"s{number}") for number in range(1000)), described=True)
    assert 60 < sum(one.full for one in retrieve_units(many, Protocol(full_share=0.1))) < 140


def test_a_description_is_followed_by_its_retrieval() -> None:
    one = describe_units(dataset(*SETS), Protocol())[0]
    (next_unit,) = derive_units(one, answer(one, description=("the cat has a folded ear",)), SETS[0], Protocol())
    assert next_unit.task == "retrieve"
    assert (next_unit.truth, next_unit.authors, next_unit.target) == ((one.target,), ("w-anna",), None)
    assert next_unit.query == next_unit.text_ids[0]


def test_a_talk_is_followed_by_its_verification_by_somebody_else() -> None:
    one = describe_units(dataset(*SETS), Protocol(), {})[0]
    (check,) = derive_units(one, answer(one, values=as_values(SHARED)), SETS[0], Protocol())
    assert (check.task, check.authors) == ("review", ("w-anna", "w-ben"))
    assert derive_units(one, answer(one, "w-ben", values=as_values(SHARED)), SETS[0], Protocol()) == []
    assert len(check.texts) == len(check.speakers) == len(SHARED)
    (check,) = derive_units(one, answer(one, values=as_values(SHARED)), SETS[0], Protocol(review_votes=3))
    assert (check.needed, check.most) == (3, 3)


def test_units_carry_the_limits_of_the_protocol() -> None:
    protocol = Protocol(least_words=2, sameness=0.5, turns_before_share=7)
    units = [*describe_units(dataset(*SETS), protocol), *describe_units(dataset(*SETS), protocol, {})]
    assert {one.limits for one in units} == {AnswerLimits(least_words=2, sameness=0.5, turns_before_share=7)}
    assert {one.limits for one in describe_units(dataset(*SETS), Protocol())} == {PUBLISHED}


def test_who_sees_the_photo_is_told_what_is_in_it_where_that_is_known() -> None:
    one, other = describe_units(dataset(*SETS), Protocol(), {})[:2]
    units = describe_units(dataset(*SETS), Protocol(), {str(one.target): ("Dog", "Bread")})
    assert [unit.labels for unit in units[:2]] == [("Dog", "Bread"), ()]
    assert replace(units[0], labels=()) == one
    assert units[1] == other


def test_a_second_look_goes_to_nobody_who_has_voted() -> None:
    units = retrieve_units(dataset(*SETS, described=True), Protocol())
    answers = [answer(one, f"w-{number}", pick=(one.images[0],)) for one in units for number in range(2)]
    repeats = repeat_units(units, answers, 0.5, Protocol())
    assert 5 < len(repeats) < 25
    assert all(one.authors == ("w-0", "w-1", "w-author") and one.round == 1 for one in repeats)


def test_an_attention_check_names_the_place_it_asks_for() -> None:
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    for seed in range(20):
        one = attention_unit(SETS[0], Protocol(seed=seed))
        assert words[one.images.index(one.truth[0])] in one.texts[0]
        assert one.ordered
        assert task_of(one).validate(one, {"pick": one.truth}, Exposure()) == []


def test_what_an_attention_check_asks_is_understood_in_the_language_of_its_page() -> None:
    arabic = read_languages(SHIPPED)["ar"]
    one = attention_unit(SETS[0], Protocol())
    at, asked = one.images.index(one.truth[0]), arabic.texts.gettext(one.texts[0])
    assert (attention_index(asked, arabic), attention_index(asked), attention_index(one.texts[0])) == (at, None, at)


def test_known_answers_make_hidden_checks() -> None:
    units = check_units(dataset(*SETS, described=True), Protocol(), "gold")
    assert all(one.purpose == "gold" and one.truth and one.query is None for one in units)
    with pytest.raises(DataError, match="no description"):
        check_units(dataset(*SETS), Protocol(), "gold")


def test_a_check_is_called_like_any_retrieval() -> None:
    asked = dataset(*SETS, described=True)
    units = [
        *retrieve_units(asked, Protocol()),
        *check_units(asked, Protocol(), "gold"),
        *check_units(asked, Protocol(), "qualification"),
        *(attention_unit(one, Protocol()) for one in SETS),
    ]
    assert {one.id.partition("-")[0] for one in units} == {"retrieve"}
    assert len({one.id for one in units}) == len(units) == 4 * len(SETS)


def test_tags_are_asked_of_every_description() -> None:
    units = tag_units(dataset(*SETS, described=True), ("context", "spatial"), votes=2)
    assert all((one.most, one.labels, one.target) == (2, ("context", "spatial"), one.images[3]) for one in units)
    assert len(units) == len(SETS)


def test_an_ordered_set_is_shown_in_order_and_another_shuffled_for_each_slot() -> None:
    images = SETS[0].images
    assert shown_order(images, True, "u", 1, 0) == images
    orders = {shown_order(images, False, "u", slot, 0) for slot in range(5)}
    assert len(orders) == 5
    assert all(sorted(order) == sorted(images) for order in orders)


def test_shares_are_uniform() -> None:
    values = sorted(share(0, str(number)) for number in range(2000))
    assert max(abs(value - place / 2000) for place, value in enumerate(values)) < 0.04


def slow_verdict(right: int, wrong: int, needed: int, most: int) -> str:
    """By trying everything that may still come."""
    ends = {right + more >= needed for left in [max(0, most - right - wrong)] for more in range(left + 1)}
    if right >= needed:
        return "accepted"
    return "dropped" if ends == {False} else "open"


def test_a_verdict_is_what_no_vote_to_come_can_change() -> None:
    for most in range(1, 6):
        for needed in range(1, most + 1):
            for right in range(most + 1):
                for wrong in range(most + 1 - right):
                    assert verdict(right, wrong, needed, most) == slow_verdict(right, wrong, needed, most)


@pytest.mark.parametrize(
    "wrong",
    [
        {"targets": 0}, {"full_share": 1.5}, {"train_needed": 2}, {"eval_needed": 4}, {"disjoint": "some"}, {"gold_every": 1},
        {"qualification": -1},
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_meant_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(wrong))} = "):
        Protocol(**wrong).check()  # type: ignore[arg-type]
