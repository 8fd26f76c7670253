"""Assignments against brute force, and each solver against the other."""

from itertools import combinations, permutations

import numpy as np
import pytest

from ctxr.metrics import links
from ctxr.metrics.links import Solver, assign

SOLVERS: tuple[Solver, ...] = ("auto", "lapjv", "scipy")


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


@pytest.mark.parametrize("solver", SOLVERS)
def test_exactly_k_links_have_the_greatest_sum(solver: Solver) -> None:
    for weights in matrices():
        for k in range(1, min(weights.shape) + 1):
            rows, columns = assign(weights, k, solver=solver)
            assert len(set(rows.tolist())) == len(set(columns.tolist())) == len(rows) == k
            assert weights[rows, columns].sum() == pytest.approx(brute(weights, range(k, k + 1)), rel=1e-14, abs=1e-30)


@pytest.mark.parametrize("solver", SOLVERS)
def test_at_most_k_links_leave_out_the_negative_ones(solver: Solver) -> None:
    for weights in matrices():
        for k in range(1, min(weights.shape) + 1):
            rows, columns = assign(weights, k, at_most=True, solver=solver)
            assert len(set(rows.tolist())) == len(set(columns.tolist())) == len(rows) <= k
            assert (weights[rows, columns] > 0).all()
            assert weights[rows, columns].sum() == pytest.approx(brute(weights, range(k + 1)), rel=1e-14, abs=1e-30)


def test_the_paper_selects_one_link_where_the_code_selects_two() -> None:
    weights = np.array([[0.5, -0.2], [-0.3, -0.4]])
    assert [part.tolist() for part in assign(weights)] == [[0, 1], [0, 1]]
    assert [part.tolist() for part in assign(weights, at_most=True)] == [[0], [0]]


def test_solvers_agree_on_large_matrices_of_any_layout() -> None:
    rng = np.random.default_rng(1)
    for n, m in [(40, 40), (50, 5), (5, 50), (86, 5), (31, 30)]:
        for draw in (rng.random((2 * n, m))[::2], rng.random((m, n)).T, 1 + 1e-9 * rng.random((n, m))):
            for k in (1, (min(n, m) + 1) // 2, min(n, m)):
                sums = [draw[assign(draw, k, solver=solver)].sum() for solver in SOLVERS]
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
