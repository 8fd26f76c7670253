"""Spearman's rho over draws of half of the queries, against the slow obvious version."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from ctxr.metrics.similarity import sampled_spearman, spearman


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
