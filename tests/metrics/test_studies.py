from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from ctxr.annotation.protocol import verdict
from ctxr.metrics.compare import Interval, mean_interval
from ctxr.metrics.studies import (
    VoteModel,
    least_sets,
    model_of_votes,
    resolved_by,
    simulate,
    simulate_runs,
    standard_error,
    tetrachoric,
    votes_used,
    width_of,
)

MODEL = VoteModel(0.7, description=0.5, image_set=0.2, worker=0.15)


@pytest.mark.parametrize(("right", "alike"), [*product((0.1, 0.5, 0.735, 0.95), (0.05, 0.4, 0.9))])
def test_the_correlation_is_that_of_two_normal_sums(right: float, alike: float) -> None:
    at = [norm.ppf(right)] * 2
    both = multivariate_normal([0, 0], [[1, alike], [alike, 1]]).cdf(at)
    assert tetrachoric(right, float(both)) == pytest.approx(alike, abs=1e-3)


def test_votes_that_agree_by_chance_or_always_have_the_least_and_the_greatest_correlation() -> None:
    assert [tetrachoric(0.7, both) for both in (0.3, 0.49, 0.7)] == [0.0, 0.0, 0.95]
    assert [tetrachoric(right, right) for right in (0.0, 1.0)] == [0.0, 0.0]


def test_nobody_sees_a_set_twice_and_nobody_gives_more_votes_than_they_are_to() -> None:
    workers = simulate(MODEL, 101, 3, 2, each=20, rng=np.random.default_rng(0)).workers
    assert all(len({*of_set.ravel()}) == of_set.size for of_set in workers)
    assert np.bincount(workers.ravel()).max() == 20


def test_a_pilot_of_simulated_votes_gives_its_model_back() -> None:
    votes = simulate(MODEL, 20_000, 2, 2, each=50, rng=np.random.default_rng(1))
    units = np.arange(votes.right.size) // 2
    found = model_of_votes(votes.right.ravel(), units, units // 2, votes.workers.ravel())
    assert found is not None
    for name in ("right", "description", "image_set", "worker"):
        assert getattr(found, name) == pytest.approx(getattr(MODEL, name), abs=0.02)


def test_one_vote_on_each_description_says_nothing_about_agreement() -> None:
    assert model_of_votes(np.array([True, False]), ["a", "b"], ["s", "s"], ["x", "x"]) is None


def test_votes_stop_where_the_verdict_of_the_protocol_stands() -> None:
    for needed, most in ((1, 1), (1, 3), (2, 3), (3, 5)):
        for marks in product((False, True), repeat=most):
            count = next(
                used
                for used in range(1, most + 1)
                if verdict(sum(marks[:used]), used - sum(marks[:used]), needed, most) != "open"
            )
            assert votes_used(np.array([marks]), needed).tolist() == [count]


def test_the_error_is_that_of_clusters_drawn_again() -> None:
    rng = np.random.default_rng(2)
    clusters = rng.integers(0, 200, 1000)
    values = (rng.random(200)[clusters] + rng.random(1000) > 1).astype(float)
    drawn = mean_interval(values, clusters, rng, 5000)
    assert drawn.low is not None
    assert drawn.high is not None
    assert width_of(standard_error(values, clusters)) == pytest.approx(drawn.high - drawn.low, rel=0.05)


def test_models_are_right_as_often_as_they_should_be_and_fail_together() -> None:
    one, other = simulate_runs(MODEL, (0.3, 0.4), (20_000, 2), np.random.default_rng(3))
    assert [one.mean(), other.mean()] == pytest.approx([0.3, 0.4], abs=0.01)
    assert (one & other).mean() > 0.3 * 0.4 + 0.03
    gains = other.astype(float) - one
    assert np.corrcoef(gains.T)[0, 1] > 0.02  # within a set


def test_a_difference_is_resolved_where_its_interval_times_two_point_eight_errors_says_so() -> None:
    many, few, none = (Interval(0.1, 0.1 - 1.96 * 0.01, 0.1 + 1.96 * 0.01, clusters=n) for n in (10**9, 40, 4))
    assert resolved_by(many) == pytest.approx(0.028, abs=1e-4)
    assert resolved_by(none) is resolved_by(Interval(0.1)) is None
    # with few clusters, what is resolved lies 0.84 errors above what flips of signs call significant
    resolved = resolved_by(few)
    assert resolved is not None
    assert resolved - 0.8416 * 0.01 == pytest.approx(1.96 * (0.01**2 + resolved**2 / 40) ** 0.5, abs=1e-5)


def test_sizes_are_found_between_the_least_and_the_most() -> None:
    def root(sets: int) -> float:
        return float(1 / sets**0.5)

    assert least_sets(0.05, root, 5, 1000) == 400
    assert least_sets(0.9, root, 5, 1000) == 5
    assert least_sets(0.01, root, 5, 1000) is None

    def rough(sets: int) -> float:
        return float(1 / sets**0.5 * (1 + 0.04 * np.sin(sets)))

    for wanted in (0.03, 0.05, 0.09):
        found = least_sets(wanted, rough, 5, 5000)
        assert found is not None
        assert rough(found) <= wanted
        assert found <= 1.2 / wanted**2
