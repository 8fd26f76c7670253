"""RankCounts of the right candidates against the definition: every way to break a tie, tried out."""

from itertools import pairwise, permutations, product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.errors import DataError
from ctxr.metrics import ranking
from ctxr.metrics.ranking import (
    RankCounts,
    accuracy,
    all_right,
    best,
    chance,
    count_ranks,
    recall,
    reciprocal_rank,
    untied,
)

Row = list[tuple[float, bool, bool]]
"""Candidates of one query: score, whether it is right, whether it is there."""


def candidates(most: int = 6) -> st.SearchStrategy[Row]:
    """Few different scores, so that ties are common; at least one right candidate is there."""
    one = st.tuples(st.sampled_from([-2.0, 0.0, 0.5, 3.0]), st.booleans(), st.booleans())
    return st.lists(one, min_size=1, max_size=most).filter(lambda row: any(right and there for _, right, there in row))


def ranked(row: Row) -> list[list[bool]]:
    """Every order by falling score, equal scores in any order: for each whether the candidates are right."""
    held = [(score, right) for score, right, there in row if there]
    return [
        [right for _, right in order]
        for order in permutations(held)
        if all(before[0] >= after[0] for before, after in pairwise(order))
    ]


def table(rows: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, which are right and which are there [B, K]; rows are filled up with candidates that are not there."""
    width = max(map(len, rows))
    filled = [row + [(99.0, True, False)] * (width - len(row)) for row in rows]
    columns = np.array(filled, object)
    scores, right, there = (columns[..., part].astype(float) for part in range(3))
    return np.where(there > 0, scores, -np.inf), right > 0, there > 0


@given(st.lists(candidates(), min_size=1, max_size=4), st.integers(0, 7), st.integers(1, 9))
def test_every_figure_is_the_mean_over_all_ways_to_break_ties(rows: list[Row], k: int, block: int) -> None:
    scores, right, _ = table(rows)
    with patch.object(ranking, "BLOCK", block):
        found = count_ranks(scores, right)
    for number, row in enumerate(rows):
        orders = ranked(row)
        firsts = [order.index(True) + 1 for order in orders]
        assert accuracy(found)[number] == pytest.approx(np.mean([first == 1 for first in firsts]))
        assert recall(found, k)[number] == pytest.approx(np.mean([first <= k for first in firsts]))
        assert reciprocal_rank(found)[number] == pytest.approx(np.mean([1 / first for first in firsts]))
        assert chance(found)[number] == pytest.approx(np.mean(orders[0]))


@given(st.lists(st.tuples(candidates(3), st.integers(0, 1)), min_size=1, max_size=3))
def test_a_group_is_right_as_often_as_all_of_its_queries_are_over_all_ways_to_break_ties(
    asked: list[tuple[Row, int]],
) -> None:
    rows, groups = zip(*asked, strict=True)
    scores, right, _ = table([*rows])
    names, codes = np.unique(groups, return_inverse=True)
    found = all_right(accuracy(count_ranks(scores, right)), codes)
    for value, name in zip(found, names, strict=True):
        ways = [*product(*(ranked(row) for row, group in asked if group == name))]
        assert value == pytest.approx(np.mean([all(order[0] for order in way) for way in ways]))


@given(st.lists(candidates(), min_size=1, max_size=4), st.integers(1, 7))
def test_ties_that_are_broken_give_the_best_and_the_worst_of_all_ways(rows: list[Row], k: int) -> None:
    scores, right, _ = table(rows)
    for ties, end in (("first", min), ("last", max)):
        found = count_ranks(untied(scores, right, ties), right)
        firsts = np.array([end(order.index(True) + 1 for order in ranked(row)) for row in rows])
        assert recall(found, k).tolist() == (firsts <= k).tolist()
        np.testing.assert_allclose(reciprocal_rank(found), 1 / firsts)
    assert untied(scores, right, "expected") is scores


@given(st.lists(candidates(), min_size=1, max_size=4))
def test_one_right_candidate_is_the_same_as_a_table_with_one(rows: list[Row]) -> None:
    scores, right, mask = table(rows)
    target = (right & mask).argmax(axis=1)
    alone = np.zeros(right.shape, bool)
    alone[np.arange(len(rows)), target] = True
    one, other = count_ranks(scores, target), count_ranks(scores, alone)
    assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in RankCounts.__dataclass_fields__)


@given(st.lists(candidates(), min_size=1, max_size=4))
def test_what_is_picked_gives_the_accuracy_again(rows: list[Row]) -> None:
    scores, right, mask = table(rows)
    picked = best(scores)
    assert picked.sum(axis=1) == pytest.approx(np.ones(len(rows)))
    assert (picked * (right & mask)).sum(axis=1) == pytest.approx(accuracy(count_ranks(scores, right)))


def test_candidates_at_minus_infinity_are_not_there() -> None:
    found = count_ranks(np.array([[1.0, -np.inf, 1.0]]), np.array([0]))
    assert (found.candidates.tolist(), accuracy(found).tolist()) == ([2], [0.5])


def test_a_scorer_that_says_nothing_stands_at_chance_in_a_gallery_of_thousands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "BLOCK", 9000)
    scores = np.zeros((3, 5000), np.float32)
    scores[2, 17] = 1
    found = count_ranks(scores, np.array([4, 4999, 17]))
    assert accuracy(found).tolist() == [1 / 5000, 1 / 5000, 1.0]
    assert recall(found, 10) == pytest.approx([0.002, 0.002, 1.0])
    harmonic = (1 / np.arange(1, 5001)).sum() / 5000
    assert reciprocal_rank(found) == pytest.approx([harmonic, harmonic, 1.0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_refused_with_its_place(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "BLOCK", 4)
    scores = np.zeros((3, 4))
    scores[2, 1] = value
    with pytest.raises(DataError, match=rf"query 2: .* candidate 1 is {value}"):
        count_ranks(scores, np.zeros(3, np.int64))


@pytest.mark.parametrize("right", [np.array([0, 1]), np.array([[True, False], [False, True]])])
def test_a_query_without_a_right_candidate_is_refused(right: np.ndarray) -> None:
    with pytest.raises(DataError, match="query 1: no candidate"):
        count_ranks(np.array([[0.0, 0.0], [0.0, -np.inf]]), right)
