"""The bipartite matching of greatest weight between the rows and the columns of a matrix."""

from typing import Literal

import numpy as np
from lapjv import lapjv
from scipy.optimize import linear_sum_assignment

from ctxr.metrics.votes import Codes, Doubles

Solver = Literal["auto", "lapjv", "scipy"]


def assign(
    weights: Doubles, k: int | None = None, at_most: bool = False, solver: Solver = "auto"
) -> tuple[Codes, Codes]:
    """Rows and columns of the links that maximise the sum of weights [n, m], strongest first.

    Args:
        k: number of links; None for min(n, m).
        at_most: leave out links that do not add to the sum, so there are k at most.
        solver: auto takes lapjv for a square matrix and SciPy for any other; k < min(n, m) makes a matrix oblong.

    Raises ValueError for a weight that is not finite, and for a k beyond 1..min(n, m).

    >>> assign(np.array([[0.9, 0.8], [0.7, -0.2]]))
    (array([0, 1]), array([1, 0]))
    """
    weights = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(weights).all():
        raise ValueError("weights of an assignment must be finite")
    n, m = weights.shape
    k = min(n, m) if k is None else k
    if not 0 < k <= min(n, m):
        raise ValueError(f"k = {k} links of a {n} x {m} matrix: must be in 1..{min(n, m)}")
    rows, columns = _solve(_capped(weights.clip(0) if at_most else weights, k), solver)
    if len(rows) > k:
        real = (rows < n) & (columns < m)
        rows, columns = rows[real], columns[real]
    strengths = weights[rows, columns]
    order = (-strengths).argsort(kind="stable")
    if at_most:
        order = order[: np.count_nonzero(strengths > 0)]
    return rows[order], columns[order]


def _capped(gains: Doubles, k: int) -> Doubles:
    """The longer side with dummies that outbid every weight, so that k lines of the shorter side are left to real links."""
    n, m = gains.shape
    extra = min(n, m) - k
    if not extra:
        return gains
    low, high = gains.min(), gains.max()
    padded = np.full((n + extra, m) if n >= m else (n, m + extra), high + (max(high - low, abs(high)) or 1.0))
    padded[:n, :m] = gains
    return padded


def _solve(gains: Doubles, solver: Solver) -> tuple[Codes, Codes]:
    """A full assignment; for lapjv the shorter side is filled up with zeros, whose links lie beyond the matrix."""
    n, m = gains.shape
    if solver == "scipy" or (solver == "auto" and n != m):
        rows, columns = linear_sum_assignment(gains, maximize=True)
        return rows, columns
    side = max(n, m)
    costs = -gains if n == m else np.pad(-gains, ((0, side - n), (0, side - m)))
    # without force_doubles lapjv rounds to float32 and misses optima
    return np.arange(side), lapjv(costs, force_doubles=True)[0].astype(np.int64)
