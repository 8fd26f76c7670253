"""Human accuracy and its intervals; picks that follow the slot or the neighbour instead of the text."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.metrics.compare import mean_interval, widen_certain
from ctxr.metrics.positions import (
    Confusion,
    errors_by_distance,
    neighbour_confusion,
    position_bias,
    position_bias_by_worker,
)
from ctxr.metrics.proportions import exact_interval
from ctxr.metrics.votes import Codes, Doubles, gather
from ctxr.metrics.workers import decision_on, human_accuracy, skill_of
from tests.metrics.crowd import pick


def answer(
    rng: np.random.Generator, votes: int, accuracy: float, errors: Doubles | None = None, bias: float = 0.0
) -> tuple[Codes, Codes]:
    """Picked and target slots of a worker who is right with `accuracy`, else errs by `errors`; `bias` of all picks are slot 2."""
    target = rng.integers(0, 10, votes)
    wrong = (target + rng.integers(1, 10, votes)) % 10
    if errors is not None:
        wrong = np.array([rng.choice(10, p=errors[slot]) for slot in target])
    picked = np.where(rng.random(votes) < accuracy, target, wrong)
    return np.where(rng.random(votes) < bias, 2, picked), target


def test_accuracy_is_the_share_of_right_votes() -> None:
    picks = pick(np.random.default_rng(0), 200, 3, np.full(12, 0.9))
    found = human_accuracy(picks.votes(), picks.right, np.random.default_rng(1))
    assert found.value == picks.right.mean()
    assert (found.right, found.votes, found.workers) == (picks.right.sum(), 600, 12)
    assert (found.low, found.high) == exact_interval(int(picks.right.sum()), 600)
    assert found == human_accuracy(picks.votes(), picks.right, np.random.default_rng(1))


def test_the_same_votes_have_one_interval_whoever_asks() -> None:
    right, rng = np.ones(6, bool), np.random.default_rng(0)
    found = human_accuracy(gather(range(6), list("xyxyxy"), [1] * 6), right, rng)
    evaluated = widen_certain(mean_interval(right.astype(np.float64), range(6), rng))
    assert (found.low, found.high) == (evaluated.low, evaluated.high) == exact_interval(6, 6)
    # workers who are all right every time vary in no draw, and two of them are too few
    assert (found.crowd_low, found.crowd_high) == (None, None)


def test_the_interval_over_workers_is_that_of_workers_drawn_with_all_their_votes() -> None:
    picks = pick(np.random.default_rng(0), 60, 3, np.linspace(0.3, 1, 7))
    found = human_accuracy(picks.votes(), picks.right, np.random.default_rng(1), resamples=100)
    rng, shares = np.random.default_rng(1), []
    for _ in range(100):
        rows = np.concatenate([np.flatnonzero(picks.workers == worker) for worker in rng.integers(0, 7, 7)])
        shares.append(picks.right[rows].mean())
    assert (found.crowd_low, found.crowd_high) == pytest.approx(tuple(np.quantile(shares, [0.025, 0.975])))


def test_one_worker_is_no_crowd_and_no_vote_no_accuracy() -> None:
    alone = human_accuracy(gather([1, 2], ["x", "x"], [1, 1]), np.array([True, False]), np.random.default_rng(0))
    assert (alone.value, alone.workers, alone.crowd_low) == (0.5, 1, None)
    none = human_accuracy(gather([], [], []), np.zeros(0, bool), np.random.default_rng(0))
    assert (none.value, none.low, none.high, none.workers) == (None, 0.0, 1.0, 0)


@pytest.mark.parametrize("accuracy", [0.1, 0.6, 0.9])
def test_workers_without_a_bias_are_refused_as_often_as_asked_for(accuracy: float) -> None:
    rng = np.random.default_rng(5)
    p_values = np.array([position_bias(*answer(rng, 600, accuracy), slots=10).p_value for _ in range(400)])
    assert np.mean(p_values < 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(p_values < 0.5) == pytest.approx(0.5, abs=0.08)


def test_the_simulated_p_value_holds_for_few_votes_and_is_the_chi_square_one_for_many() -> None:
    rng = np.random.default_rng(6)
    few = np.array([position_bias(*answer(rng, 25, 0.85), slots=10, rng=rng, draws=199).p_value for _ in range(200)])
    assert np.mean(few <= 0.1) == pytest.approx(0.1, abs=0.06)
    picked, target = answer(rng, 800, 0.7, bias=0.02)
    simulated = position_bias(picked, target, 10, rng=rng, draws=4000).p_value
    assert simulated == pytest.approx(position_bias(picked, target, 10).p_value, abs=0.03)


def test_a_bias_of_a_tenth_is_found_in_mostly_right_picks() -> None:
    found = position_bias(*answer(np.random.default_rng(7), 400, 0.9, bias=0.1), slots=10)
    assert found.p_value < 1e-4
    assert found.observed[2] > found.expected[2] + 10
    assert sum(found.observed) == pytest.approx(sum(found.expected)) == 400


def test_expected_counts_are_the_literal_sum_over_votes() -> None:
    picked, target = answer(np.random.default_rng(1), 60, 0.5)
    found = position_bias(picked, target, 10)
    hits = np.mean(picked == target)
    wanted = [sum(hits if slot == each else (1 - hits) / 9 for each in target) for slot in range(10)]
    assert found.expected == pytest.approx(wanted)
    assert found.wrong == np.sum(picked != target)


def test_a_worker_who_never_errs_or_hardly_voted_is_not_suspected() -> None:
    always = np.arange(40) % 10
    assert position_bias(always, always, 10).p_value == 1.0
    assert position_bias(np.array([3]), np.array([4]), 10).p_value == 1.0
    assert position_bias(always[:0], always[:0], 10).votes == 0


def test_the_biased_worker_is_flagged_by_code() -> None:
    rng = np.random.default_rng(8)
    crowd = [answer(rng, 150, 0.8, bias=0.5 if worker == 3 else 0) for worker in range(6)]
    workers = np.repeat(np.arange(6), 150)
    picked, target = (np.concatenate(column) for column in zip(*crowd, strict=True))
    rows = position_bias_by_worker(workers, picked, target, 10)
    assert [row.worker for row in rows] == list(range(6))
    assert [row.corrected < 0.01 for row in rows] == [False, False, False, True, False, False]
    assert all(row.corrected >= row.p_value for row in rows)


def test_wrong_picks_of_neighbours_are_no_bias_once_distance_is_allowed_for() -> None:
    rng = np.random.default_rng(9)
    errors = errors_by_distance(Confusion(tuple(range(1, 10)), (90, *[1] * 8), (10.0,) * 9))
    picked, target = answer(rng, 4000, 0.5, errors)
    assert position_bias(picked, target, 10).p_value < 1e-3
    confusion = neighbour_confusion(picked, target, 10)
    assert confusion.observed[0] > 3 * confusion.expected[0]
    assert position_bias(picked, target, 10, errors_by_distance(confusion)).p_value > 0.01


def test_distances_are_counted_one_by_one() -> None:
    picked, target = answer(np.random.default_rng(2), 200, 0.4)
    found = neighbour_confusion(picked, target, 10)
    wrong = [(one, other) for one, other in zip(picked.tolist(), target.tolist(), strict=True) if one != other]
    for distance, observed, expected in zip(found.distance, found.observed, found.expected, strict=True):
        assert observed == sum(abs(one - other) == distance for one, other in wrong)
        places = sum((other - distance >= 0) + (other + distance <= 9) for _, other in wrong)
        assert expected == pytest.approx(places / 9)
    assert sum(found.observed) == pytest.approx(sum(found.expected)) == len(wrong)


def slow_above(right: int, votes: int, threshold: float) -> float:
    """P(skill > threshold) for a uniform prior: that of at most `right` successes in one trial more."""
    return sum(
        math.comb(votes + 1, hits) * threshold**hits * (1 - threshold) ** (votes + 1 - hits)
        for hits in range(right + 1)
    )


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.01, 0.99))
def test_the_tail_is_the_binomial_sum(right: int, wrong: int, threshold: float) -> None:
    votes = right + wrong
    above = slow_above(right, votes, threshold)
    wanted = "allow" if above > 0.95 else "block" if above < 0.05 else "undecided"
    assert decision_on(right, votes, threshold, threshold) == wanted or min(abs(above - 0.95), abs(above - 0.05)) < 1e-9
    skill = skill_of(right, votes)
    assert skill.mean == pytest.approx((right + 1) / (votes + 2), abs=1e-4)
    # the interval ends where its tails are a fortieth
    assert slow_above(right, votes, skill.low) == pytest.approx(0.975, abs=0.02)
    assert slow_above(right, votes, skill.high) == pytest.approx(0.025, abs=0.02)


def test_decisions_wait_until_the_votes_are_enough() -> None:
    always = [decision_on(votes, votes, 0.9, 0.9) for votes in range(40)]
    assert always.index("allow") == 28  # 0.9 to the 29th power is the first below a twentieth
    assert set(always[:28]) == {"undecided"}
    never = [decision_on(0, votes, 0.9, 0.5) for votes in range(40)]
    assert never.index("block") == 4  # a half to the fifth power
    assert [decision_on(7 * n, 10 * n, 0.9, poor) for n, poor in ((1, 0.5), (10, 0.5), (10, 0.9))] == [
        "undecided", "undecided", "block",
    ]  # fmt: skip
