"""Shortcuts: against slow versions, on data with a shortcut, and on data without one."""

from collections import Counter
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from ctxr.metrics.shortcuts import (
    Trial,
    Verdict,
    bags_of_words,
    blind_credits,
    blind_to_images,
    blind_to_texts,
    corrected,
    extreme_credits,
    judge_rule,
    learns_on_train,
    learnt_credits,
    length_bins,
    position_credits,
    ridge,
)


def draw(
    rng: np.random.Generator, sets: int, weights: list[float] | None = None, split: str | None = None
) -> list[Trial]:
    """Sets of ten with one to three different targets each, drawn by `weights` (evenly without)."""
    found = []
    for number in range(sets):
        targets = rng.choice(10, int(rng.integers(1, 4)), replace=False, p=weights)
        kind = "video" if number % 4 else "photos"
        found += [
            Trial(f"{split}{number}", kind, split, 10, int(target), int(rng.integers(3, 40))) for target in targets
        ]
    return found


def verdicts(asked: list[Trial], values: dict[str, np.ndarray]) -> list[Verdict]:
    rules = {
        "first": position_credits(asked, last=False),
        "last": position_credits(asked, last=True),
        "commonest": learnt_credits(asked, by_length=False),
        "length": learnt_credits(asked, by_length=True),
        "least": extreme_credits(asked, values, largest=False),
        "most": extreme_credits(asked, values, largest=True),
    }
    found = [judge_rule(name, "all", asked, credits, one_choice=name != "length") for name, credits in rules.items()]
    return corrected([one for one in found if one is not None])


@pytest.fixture
def without_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of rounds of which only the p-values are looked at need no intervals, which take most of the time."""
    monkeypatch.setattr("ctxr.metrics.shortcuts.bounded_interval", lambda *_: (0.0, 1.0))


def slow_learnt(asked: list[Trial], by_length: bool) -> list[float]:
    """For each query look at every other one again."""
    taught = learns_on_train(asked)
    learnt_on = np.array([query.split == "train" for query in asked]) if taught else None
    bins = length_bins([query.length for query in asked], learnt_on) if by_length else [0] * len(asked)
    turn = [sha256(query.image_set.encode()).hexdigest() for query in asked]
    credits = []
    for row, query in enumerate(asked):
        teachers = [
            other.target
            for place, other in enumerate(asked)
            if (other.kind, other.size, bins[place]) == (query.kind, query.size, bins[row])
            and (other.split == "train" if taught else turn[place] < turn[row])
        ]
        if not teachers or (taught and query.split == "train"):
            credits.append(float("nan"))
            continue
        tally = Counter(teachers)
        best = [target for target, count in tally.items() if count == max(tally.values())]
        credits.append((query.target in best) / len(best))
    return credits


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("taught", [False, True])
def test_what_is_learnt_is_what_looking_at_all_teachers_gives(by_length: bool, taught: bool) -> None:
    rng = np.random.default_rng(3)
    asked = draw(rng, 30, split="train") + draw(rng, 20, split="valid") if taught else draw(rng, 40)
    asked.append(Trial("large", "video", asked[-1].split, 12, 11, 5))
    assert learnt_credits(asked, by_length).tolist() == pytest.approx(slow_learnt(asked, by_length), nan_ok=True)


def test_ties_share_the_credit() -> None:
    asked = [Trial("s", "video", None, 4, target, 3) for target in range(4)]
    values = {"s": np.array([2.0, 5.0, 5.0, 1.0])}
    assert extreme_credits(asked, values, largest=True).tolist() == [0, 0.5, 0.5, 0]
    assert extreme_credits(asked, values, largest=False).tolist() == [0, 0, 0, 1]
    assert extreme_credits(asked, {"s": np.full(4, 7.0)}, largest=True).tolist() == [0.25] * 4


def test_sets_without_values_are_left_out_and_not_counted_as_wrong() -> None:
    asked = [Trial("a", "video", None, 2, 1, 3), Trial("b", "video", None, 2, 1, 3)]
    credits = extreme_credits(asked, {"a": np.array([1.0, 2.0]), "b": np.array([1.0, np.nan])}, largest=True)
    assert credits.tolist() == pytest.approx([1.0, float("nan")], nan_ok=True)
    verdict = judge_rule("largest", "all", asked, credits)
    assert verdict is not None
    assert (verdict.queries, verdict.accuracy, verdict.chance) == (1, 1.0, 0.5)
    assert judge_rule("largest", "all", asked, np.full(2, np.nan)) is None


def test_chance_is_the_mean_over_sets_of_different_size() -> None:
    asked = [Trial("a", "video", None, 2, 0, 3), Trial("b", "video", None, 10, 3, 3)]
    verdict = judge_rule("first", "all", asked, position_credits(asked, last=False))
    assert verdict is not None
    assert verdict.accuracy == 0.5
    assert verdict.chance == pytest.approx(0.3)


@pytest.mark.parametrize("rule", ["first", "last", "commonest", "length", "least", "most"])
def test_a_shortcut_that_is_there_is_found(rule: str) -> None:
    rng = np.random.default_rng(8)
    weights = {"first": [0.3] + [0.7 / 9] * 9, "last": [0.7 / 9] * 9 + [0.3]}.get(rule)
    if rule == "commonest":
        weights = [0.05] * 4 + [0.3] + [0.1] * 5
    asked = draw(rng, 250, np.divide(weights, np.sum(weights)).tolist() if weights else None)
    values = {query.image_set: rng.normal(size=10) for query in asked}
    if rule == "length":
        asked = [replace(query, length=4 * query.target + int(rng.integers(6))) for query in asked]
    if rule in ("least", "most"):
        for query in asked:
            values[query.image_set][query.target] += 1.2 if rule == "most" else -1.2
    flagged = {verdict.rule for verdict in verdicts(asked, values) if verdict.flagged}
    assert rule in flagged
    assert all(verdict.low > verdict.chance for verdict in verdicts(asked, values) if verdict.flagged)


@pytest.mark.usefixtures("without_intervals")
@pytest.mark.parametrize("descriptions", [1, 5])  # of each target, as COCO has captions; several targets in some sets
def test_without_a_shortcut_hardly_anything_is_flagged(descriptions: int) -> None:
    rng = np.random.default_rng(5)
    flagged, below = 0, Counter[str]()
    for _ in range(80):
        trials = [
            replace(query, length=int(rng.integers(3, 40))) for query in draw(rng, 50) for _ in range(descriptions)
        ]
        # whole numbers, so that ties happen
        values = {query.image_set: rng.integers(0, 12, 10).astype(float) for query in trials}
        found = verdicts(trials, values)
        flagged += any(verdict.flagged for verdict in found)
        below.update(verdict.rule for verdict in found if verdict.p_value < 0.025)
    # at most 2.5 % are 2 of 80; six and more has a chance of 1 in 70 even at that limit
    assert flagged <= 5
    assert max(below.values(), default=0) <= 5


def test_a_blind_model_finds_what_texts_or_images_alone_betray() -> None:
    rng = np.random.default_rng(4)
    asked = draw(rng, 200)
    vectors = {query.image_set: rng.normal(size=(10, 6)) for query in asked}
    for query in asked:
        vectors[query.image_set][query.target] += (0, 2, -2, 0, 0, 0)
    words = bags_of_words([f"word{query.target // 3} and others" for query in asked])
    seen = blind_credits(asked, blind_to_texts(asked, vectors))
    read = blind_credits(asked, blind_to_images(asked, words))
    first = {query.image_set for query, credit in zip(asked, seen, strict=True) if np.isnan(credit)}
    assert len(first) == 40
    assert np.nanmean(seen) > 0.4
    assert np.nanmean(read) > 0.2
    # a model that learned on train is tried on the others alone
    sides = [replace(query, split="train" if query.image_set.endswith("1") else "valid") for query in asked]
    taught = blind_credits(sides, blind_to_texts(sides, vectors))
    assert np.isnan(taught).tolist() == [query.split == "train" for query in sides]


def test_ridge_is_what_the_equations_say_from_both_sides() -> None:
    rng = np.random.default_rng(0)
    for shape in ((30, 4), (4, 30)):
        inputs, outputs = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
        unit = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
        normal = unit.T @ unit + shape[1] * np.eye(shape[1])
        weights = np.linalg.solve(normal, unit.T @ (outputs - outputs.mean(axis=0)))
        np.testing.assert_allclose(ridge(inputs, outputs)(inputs), unit @ weights + outputs.mean(axis=0))


@pytest.mark.usefixtures("without_intervals")
def test_blind_models_stay_at_chance_where_nothing_is_betrayed() -> None:
    rng, alarms, rounds = np.random.default_rng(6), [0, 0], 200
    for _ in range(rounds):
        asked = draw(rng, 30)
        vectors = {query.image_set: rng.normal(size=(10, 5)) for query in asked}
        words = rng.integers(0, 2, (len(asked), 8)).astype(float)
        for number, (learn, single) in enumerate(
            ((blind_to_texts(asked, vectors), True), (blind_to_images(asked, words), False))
        ):
            verdict = judge_rule("blind", "all", asked, blind_credits(asked, learn), one_choice=single)
            assert verdict is not None
            alarms[number] += verdict.p_value < 0.025
    assert max(alarms) <= 0.05 * rounds


def test_several_descriptions_of_one_target_are_one_trial() -> None:
    once = [Trial(str(n), "video", None, 10, n % 3, 9) for n in range(30)]
    alone = judge_rule("first", "all", once, position_credits(once, last=False))
    five = judge_rule("first", "all", once * 5, position_credits(once * 5, last=False))
    assert alone == five
    assert alone is not None
    assert (alone.queries, alone.sets) == (30, 30)


def test_a_rule_with_several_choices_in_a_set_counts_each_set_once() -> None:
    asked = [Trial("s", "video", None, 10, target, 3) for target in (1, 4)]
    verdict = judge_rule("r", "all", asked, np.ones(2), one_choice=False)
    assert verdict is not None
    assert verdict.accuracy == 1.0
    assert (verdict.chance, verdict.p_value) == pytest.approx((0.1, 0.1))


def test_many_rules_are_corrected_for() -> None:
    alone = Verdict("r", "all", 100, 0.17, 0.1, 0.26, 0.1, p_value=0.02)
    assert corrected([alone])[0].flagged
    assert not any(verdict.flagged for verdict in corrected([alone, replace(alone, p_value=0.5)]))
