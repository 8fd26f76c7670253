"""Figures of links against the slow, obvious way to count them."""

from itertools import permutations

import numpy as np
import pytest

from ctxr.metrics.links import auc, explained, precision_at, spread


def test_auc_is_the_share_of_pairs_of_a_link_and_another_that_are_in_order_and_ties_count_half() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores, labels = rng.integers(0, 4, (3, 5)) * 1.0, rng.choice([0.0, 1.0, np.nan], (3, 5))
        right = [value for value, label in zip(scores.flat, labels.flat, strict=True) if label == 1]
        wrong = [value for value, label in zip(scores.flat, labels.flat, strict=True) if label == 0]
        if right and wrong:
            credits = [1.0 if one > other else 0.5 if one == other else 0.0 for one in right for other in wrong]
            assert auc(scores, labels) == pytest.approx(np.mean(credits))


@pytest.mark.parametrize("labels", [[1, 1, np.nan], [0, 0, np.nan], [np.nan] * 3])
def test_auc_is_not_defined_without_both_labels(labels: list[float]) -> None:
    assert auc([1.0, 2.0, 3.0], labels) is None


def test_precision_is_the_mean_over_all_orders_of_ties() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores, labels = rng.integers(0, 3, 6) * 1.0, rng.choice([0.0, 1.0, np.nan], 6, p=[0.4, 0.4, 0.2])
        judged = [place for place in range(6) if not np.isnan(labels[place])]
        for k in (1, 2, 9) if judged else ():
            orders = [sorted(order, key=lambda place: -scores[place]) for order in permutations(judged)]
            expected = np.mean([np.mean([labels[place] for place in order[:k]]) for order in orders])
            assert precision_at(scores, labels, k) == pytest.approx(expected)


def test_a_score_for_all_pairs_gives_chance() -> None:
    labels = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, np.nan]])
    assert auc(np.zeros((2, 3)), labels) == 0.5
    assert precision_at(np.zeros((2, 3)), labels, 2) == pytest.approx(0.2)


def test_spread_is_the_mean_squared_distance_to_the_centre_of_unit_vectors() -> None:
    vectors = np.random.default_rng(2).normal(size=(7, 4))
    units = [vector / np.sqrt(sum(vector**2)) for vector in vectors]
    centre = sum(units) / len(units)
    assert spread(vectors) == pytest.approx(np.mean([sum((unit - centre) ** 2) for unit in units]))
    assert spread(np.array([[1.0, 1.0], [3.0, 3.0]])) == pytest.approx(0.0)
    assert np.isfinite(spread(np.zeros((2, 3))))


def test_r_squared_is_that_of_the_normal_equations() -> None:
    rng = np.random.default_rng(3)
    one, more = rng.normal(size=30), rng.normal(size=(30, 2))
    values = one + 0.3 * more[:, 1] + rng.normal(size=30)
    table = np.hstack([np.ones((30, 1)), one[:, None], more])
    rest = values - table @ np.linalg.solve(table.T @ table, table.T @ values)
    assert explained(values, one, more) == pytest.approx(1 - np.var(rest) / np.var(values))


def test_nothing_is_explained_where_values_do_not_vary_or_any_would_fit() -> None:
    column = np.arange(3.0)
    assert explained(np.ones(3), column) is None
    assert explained(np.array([1.0, 2.0, 4.0]), column, column**2) is None
    assert explained(np.array([1.0, 2.0]), column[:2]) is None
    assert explained(np.array([]), np.array([])) is None
