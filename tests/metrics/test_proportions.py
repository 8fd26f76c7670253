"""Exact intervals and tests against the slow obvious versions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ctxr.metrics.proportions import bounded_interval, bounded_tail, even_spread, exact_interval, holm


def slow_tail(hits: int, trials: int, chance: Fraction) -> float:
    """Every outcome counted with whole numbers."""
    return float(
        sum(
            math.comb(trials, count) * chance**count * (1 - chance) ** (trials - count)
            for count in range(max(0, hits), trials + 1)
        )
    )


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (3, 7), (7, 7), (31, 250)])
def test_the_interval_ends_where_its_tails_are_a_fortieth(hits: int, trials: int) -> None:
    low, high = exact_interval(hits, trials)
    assert low <= hits / trials <= high
    if hits:
        assert slow_tail(hits, trials, Fraction(low)) == pytest.approx(0.025, rel=1e-6)
    if hits < trials:
        assert 1 - slow_tail(hits + 1, trials, Fraction(high)) == pytest.approx(0.025, rel=1e-6)


def test_half_hits_only_widen_the_interval() -> None:
    low, high = exact_interval(10.5, 40)
    assert low == exact_interval(10, 40)[0]
    assert high == exact_interval(11, 40)[1]
    assert exact_interval(0, 0) == (0.0, 1.0)


def test_holm_is_the_step_down_by_hand() -> None:
    assert holm([0.04, 0.001, 0.03, 0.9]) == pytest.approx([0.09, 0.004, 0.09, 0.9])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_an_even_spread_is_likely_and_a_lopsided_one_is_not() -> None:
    assert even_spread([10, 10, 10]) == 1
    assert even_spread([100, 10, 10]) < 1e-10
    assert even_spread([]) == even_spread([7]) == 1
    # with two degrees of freedom the tail is exp(-x / 2)
    for counts in ([40, 20, 20], [5, 9, 13], [200, 180, 150]):
        expected = sum(counts) / 3
        statistic = sum((count - expected) ** 2 / expected for count in counts)
        assert even_spread(counts) == pytest.approx(math.exp(-statistic / 2), rel=1e-12)


def test_the_bound_for_fractions_lies_between_the_tail_and_e_times_it() -> None:
    for trials, chance in ((7, 0.1), (60, 0.22), (400, 0.5)):
        for hits in range(int(trials * chance) + 1, trials + 1, 3):
            tail, bound = slow_tail(hits, trials, Fraction(chance)), bounded_tail(hits, trials, chance)
            assert tail * (1 - 1e-9) <= bound <= min(1.0, np.e * tail) + 1e-9


def test_the_interval_for_fractions_ends_where_the_bound_is_the_level() -> None:
    low, high = bounded_interval(12.5, 40)
    assert bounded_tail(12.5, 40, low) == pytest.approx(0.025)
    assert bounded_tail(27.5, 40, 1 - high) == pytest.approx(0.025)
    assert low < 12.5 / 40 < high
    assert bounded_interval(0, 0) == (0.0, 1.0)
    assert bounded_interval(3, 3)[1] == 1.0
