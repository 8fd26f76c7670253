"""Intervals and tests on clustered data: against the literal procedure, and against the truth of simulated benchmarks."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from ctxr.metrics.agreement import percentiles
from ctxr.metrics.compare import (
    Clusters,
    Interval,
    mcnemar,
    mcnemar_of_shares,
    mean_interval,
    pearson,
    pearson_interval,
    sampled_spearman,
    sign_flip,
    spearman,
)

Simulated = tuple[np.ndarray, np.ndarray, np.ndarray]


def benchmark(rng: np.random.Generator, sets: int) -> Simulated:
    """Sets of one to three queries, and whether two equally good runs are right [N]: a run's own luck with a set holds for
    all of its queries nine times in ten, and each run is right on three of ten."""
    groups = np.repeat(np.arange(sets), rng.integers(1, 4, sets))
    return groups, _right(rng, groups, sets), _right(rng, groups, sets)


def _right(rng: np.random.Generator, groups: np.ndarray, sets: int) -> np.ndarray:
    shared = rng.random(sets)[groups]
    own = rng.random(len(groups))
    return np.where(rng.random(len(groups)) < 0.9, shared, own) < 0.3


def coverage(rounds: int, sets: int, resamples: int, groups_of: Callable[[np.ndarray], np.ndarray]) -> float:
    """Share of the intervals that hold the true accuracy, 0.3."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(rounds):
        groups, right, _ = benchmark(rng, sets)
        found = mean_interval(right, groups_of(groups), rng, resamples)
        held += (found.low or 0) <= 0.3 <= (found.high or 0)
    return held / rounds


def level(rounds: int, sets: int, test: Callable[[np.random.Generator, Simulated], float]) -> float:
    """How often a test finds two equally good runs different at 5 %."""
    rng = np.random.default_rng(2)
    return sum(test(rng, benchmark(rng, sets)) <= 0.05 for _ in range(rounds)) / rounds


def flipped(rng: np.random.Generator, drawn: Simulated, draws: int = 500) -> float:
    groups, left, right = drawn
    return sign_flip(left * 1.0 - right, groups, rng, draws)


def test_means_are_those_of_rows_copied_as_often_as_their_cluster_was_drawn() -> None:
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 7, 20)
    values, within = rng.random((20, 2)), rng.random((20, 2)) < 0.6
    drawn = Clusters(groups, np.random.default_rng(4), 50)
    names = np.unique(groups)
    copied: list[list[float]] = [[], []]
    for weights in drawn.weights:
        rows = np.concatenate(
            [np.flatnonzero(groups == name) for name, times in zip(names, weights, strict=True) for _ in range(times)]
        )
        for figure in range(2):
            held = rows[within[rows, figure]]
            if len(held):
                copied[figure].append(float(values[held, figure].mean()))
    for figure, interval in enumerate(drawn.means(values, within)):
        assert interval.value == pytest.approx(values[within[:, figure], figure].mean())
        assert (interval.low, interval.high) == pytest.approx(percentiles(np.array(copied[figure])))
        assert interval.resamples == len(copied[figure])


def test_every_draw_has_as_many_clusters_as_there_are() -> None:
    drawn = Clusters(["b", "a", "b", "c"], np.random.default_rng(0), 300)
    assert (drawn.weights.sum(axis=1) == 3).all()
    assert drawn.weights.mean(axis=0) == pytest.approx(np.ones(3), abs=0.15)


def test_what_nothing_can_vary_has_no_interval() -> None:
    alone = mean_interval(np.array([1.0, 0.0]), ["a", "a"], np.random.default_rng(0), 20)
    assert (alone.value, alone.low, alone.high, alone.clusters) == (0.5, None, None, 1)
    none = Clusters(["a", "b"], np.random.default_rng(0), 20).means(np.ones((2, 1)), np.zeros((2, 1), bool))
    assert none == [Interval(None, clusters=0, resamples=0)]
    assert mean_interval(np.zeros(0), [], np.random.default_rng(0), 20).value is None


def test_few_clusters_and_draws_that_are_all_alike_give_no_interval() -> None:
    def found(values: list[float], groups: list[int]) -> Interval:
        return mean_interval(np.array(values), groups, np.random.default_rng(0), 100)

    four, five = found([0, 1, 0, 1], [0, 1, 2, 3]), found([0, 1, 0, 1, 1], [0, 1, 2, 3, 4])
    assert (four.low, four.high, four.clusters) == (None, None, 4)
    assert five.low is not None
    alike = found([0, 0.3, 0.6] * 6, [number // 3 for number in range(18)])
    assert alike.value == pytest.approx(0.3)
    assert (alike.low, alike.high) == (None, None)


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.1, 0.5, 1.0])] * 2), max_size=12))
def test_mcnemar_counts_no_query_with_a_tie(rows: list[tuple[float, float]]) -> None:
    table = np.array(rows).reshape(-1, 2)
    outright = np.array([row for row in rows if set(row) <= {0.0, 1.0}]).reshape(-1, 2)
    expected = mcnemar(outright[:, 0] == 1, outright[:, 1] == 1) if len(outright) else None
    assert mcnemar_of_shares(table[:, 0], table[:, 1]) == (expected, len(rows) - len(outright))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])), min_size=1, max_size=12))
def test_few_clusters_are_flipped_in_every_way(rows: list[tuple[int, float]]) -> None:
    groups, differences = [group for group, _ in rows], np.array([value for _, value in rows])
    sums = [sum(value for group, value in rows if group == one) for one in sorted(set(groups))]
    every = [
        abs(sum(sign * each for sign, each in zip(signs, sums, strict=True)))
        for signs in product((1, -1), repeat=len(sums))
    ]
    literal = np.mean([value >= abs(sum(sums)) - 1e-9 for value in every])
    assert sign_flip(differences, groups, np.random.default_rng(0)) == pytest.approx(literal)


def test_many_clusters_are_flipped_at_random_and_no_p_value_is_zero() -> None:
    ahead = sign_flip(np.ones(200), np.arange(200), np.random.default_rng(0), 999)
    assert ahead == 1 / 1000
    assert sign_flip(np.tile([1.0, -1.0], 100), np.arange(200), np.random.default_rng(0), 999) == 1.0


def test_random_flips_come_near_to_all_of_them() -> None:
    sums = np.arange(1.0, 16.0)
    sums[[3, 7, 9, 12]] *= -1
    patterns = 1 - 2 * (np.arange(1 << 15)[:, None] >> np.arange(15) & 1)
    exact = (np.abs(patterns @ sums) >= abs(sums.sum())).mean()
    assert sign_flip(sums, np.arange(15), np.random.default_rng(0), 20_000) == pytest.approx(exact, abs=0.01)


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 3))
def test_mcnemar_counts_every_fall_of_the_coins(ours: int, theirs: int, both: int) -> None:
    left = np.array([True] * ours + [False] * theirs + [True] * both, bool)
    right = np.array([False] * ours + [True] * theirs + [True] * both, bool)
    falls = [sum(coins) for coins in product((0, 1), repeat=ours + theirs)]
    literal = np.mean([min(heads, ours + theirs - heads) <= min(ours, theirs) for heads in falls])
    assert mcnemar(left, right) == pytest.approx(literal)


def test_mcnemar_holds_for_thousands_of_queries() -> None:
    rows = np.arange(2306)
    assert mcnemar(rows < 1153, rows >= 1153) == 1.0
    assert 0 < mcnemar(rows < 1300, rows >= 1300) < 1e-8
    assert mcnemar(rows < 2306, rows < 0) < 1e-300


def test_r_is_that_of_the_textbook_however_far_from_zero() -> None:
    rng = np.random.default_rng(5)
    x = rng.random(80)
    y = x + rng.random(80)
    expected = np.corrcoef(x, y)[0, 1]
    assert pearson(x, y) == pytest.approx(expected)
    assert pearson(1e9 + x, -y / 1e6) == pytest.approx(-expected, rel=1e-5)
    assert pearson(x, np.ones(80)) is None
    assert pearson(x[:1], y[:1]) is None


def test_the_interval_of_r_is_that_of_copied_rows() -> None:
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(15), 2)
    x, y = rng.random(30), rng.random(30)
    drawn = Clusters(groups, np.random.default_rng(8), 60)
    literal = []
    for weights in drawn.weights:
        rows = np.repeat(np.arange(30), weights[groups])
        literal.append(float(np.corrcoef(x[rows], y[rows])[0, 1]))
    found = pearson_interval(x, y, drawn)
    assert (found.low, found.high) == pytest.approx(percentiles(np.array(literal)))
    assert pearson_interval(x, np.ones(30), drawn).value is None


def test_rows_that_do_not_count_for_r_may_hold_anything() -> None:
    rng = np.random.default_rng(9)
    groups, x, y = np.repeat(np.arange(12), 2), rng.random(24), rng.random(24)
    within = np.arange(24) < 16
    drawn = Clusters(groups, np.random.default_rng(1), 40)
    found = pearson_interval(x, y, drawn, within)
    assert found == pearson_interval(np.where(within, x, np.nan), np.where(within, y, np.nan), drawn, within)
    assert found.value == pytest.approx(np.corrcoef(x[:16], y[:16])[0, 1])
    assert found.clusters == 8


def test_rho_is_that_of_scipy_ties_included() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, other = rng.integers(0, 6, 30).astype(float), rng.standard_normal(30).round(1)
        assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert spearman(np.ones(4), np.arange(4.0)) is None


def test_every_draw_is_half_of_the_queries_and_one_pair_of_each() -> None:
    rng = np.random.default_rng(1)
    queries = np.repeat(np.arange(9), rng.integers(1, 5, 9))
    rated, scored = rng.random(len(queries)), rng.random(len(queries))
    found = sampled_spearman(queries, rated, scored, np.random.default_rng(2), draws=300)
    slow = []
    for _ in range(300):
        chosen = rng.permutation(9)[:5]
        pairs = [int(rng.choice(np.flatnonzero(queries == query))) for query in chosen]
        slow.append(spearmanr(rated[pairs], scored[pairs]).statistic)
    assert found.value == pytest.approx(np.mean(slow), abs=0.06)
    assert found.spread == pytest.approx(np.std(slow), abs=0.06)
    low, value, high = (one or 0.0 for one in (found.low, found.value, found.high))
    assert low < value < high
    assert (found.pairs, found.queries) == (len(queries), 9)


def test_a_query_with_many_pairs_counts_no_more_than_another() -> None:
    # 500 pairs of one query say the opposite of 99 others
    queries = np.concatenate([np.zeros(500, int), np.arange(1, 100)])
    rng = np.random.default_rng(3)
    rated = rng.random(599)
    scored = np.where(queries == 0, 1 - rated, rated)
    plain = spearman(rated, scored)
    assert plain is not None
    assert plain < 0
    found = sampled_spearman(queries, rated, scored, rng, draws=50)
    assert found.value is not None
    assert found.value > 0.9


def test_what_cannot_be_correlated_is_said() -> None:
    nothing = sampled_spearman(np.zeros(0), np.zeros(0), np.zeros(0), np.random.default_rng(0))
    assert (nothing.value, nothing.pairs) == (None, 0)
    flat = sampled_spearman(np.arange(8), np.ones(8), np.arange(8.0), np.random.default_rng(0))
    assert (flat.value, flat.queries) == (None, 8)


def test_intervals_over_sets_hold_the_truth_and_those_over_queries_do_not() -> None:
    clustered = coverage(300, 120, 300, lambda groups: groups)
    naive = coverage(300, 120, 300, lambda groups: np.arange(len(groups)))
    assert 0.91 <= clustered <= 0.98
    assert naive < clustered - 0.03


def test_flipping_sets_errs_as_often_as_it_says_and_mcnemar_more_often() -> None:
    honest = level(300, 120, flipped)
    careless = level(300, 120, lambda _, drawn: mcnemar(drawn[1], drawn[2]))
    assert 0.02 <= honest <= 0.085
    assert careless > honest + 0.03


@pytest.mark.prove
def test_coverage_and_level_over_thousands_of_benchmarks() -> None:
    assert 0.938 <= coverage(4000, 200, 1000, lambda groups: groups) <= 0.96
    assert 0.04 <= level(4000, 200, lambda rng, drawn: flipped(rng, drawn, 1000)) <= 0.06
