"""Figures of links against the slow, obvious way to count them; assignments against brute force, and each solver against the other."""

from itertools import combinations, permutations

import numpy as np
import pytest

from ctxr.metrics import links
from ctxr.metrics.links import assign, auc, explained, precision_at, spread

SOLVERS = {"both": links.SIDES_FOR_LAPJV, "lapjv": range(1000), "scipy": range(0)}
"""Rows of square matrices that lapjv solves."""


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


def brute(weights: np.ndarray, sizes: range) -> float:
    """The greatest sum over all matchings of these numbers of links."""
    n, m = weights.shape
    return max(
        float(weights[list(rows), list(columns)].sum())
        for size in sizes
        for rows in combinations(range(n), size)
        for columns in permutations(range(m), size)
    )


def matrices() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(1, 1), (1, 5), (5, 1), (2, 2), (2, 4), (4, 2), (3, 3), (3, 5), (4, 4), (5, 3)]
    drawn = [
        draw(shape)
        for shape in shapes
        for draw in (
            lambda shape: np.asarray(rng.standard_normal(shape)),
            lambda shape: rng.integers(-1, 2, shape).astype(float),
            lambda shape: np.negative(1 + rng.random(shape)),
            lambda shape: np.add(1, 1e-9 * rng.random(shape)),
            lambda shape: np.multiply(1e12, rng.standard_normal(shape)),
        )
    ]
    return [*drawn, np.zeros((3, 4)), np.full((3, 3), 1e17), np.full((2, 3), -1e-30)]


@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
def test_k_links_have_the_greatest_sum_and_at_most_k_leave_out_the_negative_ones(
    solver: str, at_most: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "SIDES_FOR_LAPJV", SOLVERS[solver])
    for weights in matrices():
        for k in range(1, min(weights.shape) + 1):
            rows, columns = assign(weights, k, at_most=at_most)
            assert len(set(rows.tolist())) == len(set(columns.tolist())) == len(rows)
            assert (weights[rows, columns] > 0).all() if at_most else len(rows) == k
            best = brute(weights, range(0 if at_most else k, k + 1))
            assert weights[rows, columns].sum() == pytest.approx(best, rel=1e-14, abs=1e-30)


def test_the_paper_selects_one_link_where_the_code_selects_two() -> None:
    weights = np.array([[0.5, -0.2], [-0.3, -0.4]])
    assert [part.tolist() for part in assign(weights)] == [[0, 1], [0, 1]]
    assert [part.tolist() for part in assign(weights, at_most=True)] == [[0], [0]]


def test_solvers_agree_on_large_matrices_of_any_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    for n, m in [(40, 40), (50, 5), (5, 50), (86, 5), (31, 30)]:
        for draw in (rng.random((2 * n, m))[::2], rng.random((m, n)).T, 1 + 1e-9 * rng.random((n, m))):
            for k in (1, (min(n, m) + 1) // 2, min(n, m)):
                sums = []
                for sides in SOLVERS.values():
                    monkeypatch.setattr(links, "SIDES_FOR_LAPJV", sides)
                    sums.append(draw[assign(draw, k)].sum())
                assert sums[0] == pytest.approx(sums[2], rel=1e-14)
                assert sums[1] == pytest.approx(sums[2], rel=1e-14)


def test_a_large_square_of_rank_one_takes_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    weights = rng.random((150, 1)) * rng.random((1, 150))  # takes lapjv a quarter of a minute and more
    monkeypatch.setattr(links, "lapjv", None)
    rows, columns = assign(weights)
    assert weights[rows, columns].sum() == pytest.approx(np.sort(weights[:, 0]) @ np.sort(weights[0]) / weights[0, 0])


def test_links_come_strongest_first() -> None:
    rows, columns = assign(np.diag([0.1, 0.9, 0.5]))
    assert (rows.tolist(), columns.tolist()) == ([1, 2, 0], [1, 2, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        assign(np.array([[0.0, bad], [1.0, 2.0]]))


@pytest.mark.parametrize("k", [0, 3])
def test_k_beyond_the_shorter_side_is_an_error(k: int) -> None:
    with pytest.raises(ValueError, match=rf"k = {k} .* 1\.\.2"):
        assign(np.zeros((2, 3)), k)


def test_at_most_k_links_are_the_best_by_what_they_add() -> None:
    # with the link of -9 in the sum, the two links of 1 would win
    assert [part.tolist() for part in assign(np.array([[5.0, 1.0], [1.0, -9.0]]), at_most=True)] == [[0], [0]]
