"""Selective accuracy and AUROC against the definition: every pair of queries, and every way to break a tie."""

from itertools import pairwise, permutations
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.errors import DataError
from ctxr.metrics import selective as module
from ctxr.metrics.compare import Clusters, interval_of
from ctxr.metrics.selective import COVERAGES, BestScores, best_scores, draw_removed, selective


class Asked(NamedTuple):
    """A query: its highest scores, how right its first candidate is, whether its right candidates are taken out, its cluster."""

    best: float
    credit: float
    rest: float
    removed: bool
    cluster: int


SCORES = st.sampled_from([-np.inf, -1.0, 0.0, 2.0])
QUERIES = st.lists(
    st.builds(Asked, SCORES, st.sampled_from([0.0, 0.5, 1.0]), SCORES, st.booleans(), st.integers(0, 5)),
    min_size=1,
    max_size=5,
)


def slowly(rows: list[Asked]) -> list[float]:
    """AUROC, NaN without both kinds of queries, and selective accuracy."""
    confident = [(one.rest, 0.0) if one.removed else (one.best, one.credit) for one in rows]
    whole = [score for (score, _), one in zip(confident, rows, strict=True) if not one.removed]
    lacking = [score for (score, _), one in zip(confident, rows, strict=True) if one.removed]
    wins = [float(one > other) + (one == other) / 2 for one in whole for other in lacking]
    orders = [order for order in permutations(confident) if all(one[0] >= two[0] for one, two in pairwise(order))]
    shares = []
    for coverage in COVERAGES:
        count = coverage * len(rows)
        # the last query counts in part where the coverage ends inside of it
        parts = [min(1.0, max(0.0, count - place)) for place in range(len(rows))]
        found = [sum(part * credit for part, (_, credit) in zip(parts, order, strict=True)) for order in orders]
        shares.append(float(np.mean(found)) / count)
    return [float(np.mean(wins)) if wins else np.nan, *shares]


def columns(rows: list[Asked]) -> tuple[BestScores, np.ndarray]:
    best, credit, rest, removed, _ = (np.array(column) for column in zip(*rows, strict=True))
    return BestScores(best, credit, rest), removed.astype(bool)


@given(QUERIES)
def test_figures_are_means_over_all_pairs_and_all_ways_to_break_ties(rows: list[Asked]) -> None:
    scored, removed = columns(rows)
    clusters = Clusters(np.arange(len(rows)), np.random.default_rng(0), 3)
    found = selective([scored], removed, np.arange(len(rows)), clusters)
    assert [np.nan if one.value is None else one.value for one in found] == pytest.approx(slowly(rows), nan_ok=True)


@pytest.mark.parametrize("seed", range(4))
def test_intervals_are_those_of_whole_clusters_drawn_again_for_the_mean_over_seeds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    removed, rows = rng.permutation(6) < 3, np.array([5, 1, 2, 3, 4, 0])
    seeds = [
        [
            Asked(float(rng.integers(4)), rng.random(), float(rng.integers(4)), *one)
            for one in zip(removed.tolist(), rows.tolist(), strict=True)
        ]
        for _ in range(2)
    ]
    clusters = Clusters(np.arange(6), rng, 20)
    with patch.object(module, "BLOCK", 7 * seed + 1):
        found = selective([columns(one)[0] for one in seeds], removed, rows, clusters)
    draws = [
        np.mean([slowly([one for one in asked for _ in range(weights[one.cluster])]) for asked in seeds], axis=0)
        for weights in clusters.weights.tolist()
    ]
    for interval, drawn in zip(found, np.transpose(draws), strict=True):
        assert interval.value is not None
        expected = interval_of(interval.value, drawn[~np.isnan(drawn)], 6)
        assert expected.low is not None
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
        assert (interval.clusters, interval.resamples) == (6, expected.resamples)


def test_blocks_give_the_highest_scores_and_the_share_of_right_ones_among_them() -> None:
    scores = np.array([[1.0, 3.0, 3.0, -np.inf], [2.0, 0.0, -np.inf, 2.0]])
    right = np.array([[False, True, False, True], [True, False, True, True]])
    found = best_scores([(scores[:1], right[:1]), (scores[1:, :2], right[1:, :2]), (scores[1:, ::3], right[1:, ::3])])
    assert found.best.tolist() == [3.0, 2.0, 2.0]
    assert found.credit.tolist() == [0.5, 1.0, 1.0]
    assert found.rest.tolist() == [3.0, 0.0, -np.inf]
    with pytest.raises(DataError, match="candidate 1 is nan"):
        best_scores([(np.array([[0.0, np.nan]]), np.array([[True, False]]))])


def test_half_of_the_queries_are_drawn_by_seed_and_only_where_another_candidate_remains() -> None:
    some = np.where(np.arange(101) % 5 == 0, -np.inf, 0.0)
    scorers = [BestScores(np.ones(101), np.ones(101), rest) for rest in (np.zeros(101), some)]
    first, again, other = (draw_removed(scorers, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert first.sum() == other.sum() == 50
    assert not first[::5].any()
    assert draw_removed(scorers[:1], np.random.default_rng(0))[::5].any()
