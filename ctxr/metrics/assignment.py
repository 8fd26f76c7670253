"""The bipartite matching of greatest weight between the rows and the columns of a matrix."""

from typing import Literal

import numpy as np
from lapjv import lapjv
from scipy.optimize import linear_sum_assignment

from ctxr.metrics.votes import Codes, Doubles

Solver = Literal["auto", "lapjv", "scipy"]

# lapjv first tries float32 (8 µs): 8 times SciPy's time at 5 x 5, equal at 20 x 20, half of it from 24 x 24 on; but near rank one
# it takes 0.2 s at 64 x 64, 500 times SciPy's, and a quarter of a minute at 150 x 150
_SMALLEST, _LARGEST = 24, 64


def assign(
    weights: Doubles, k: int | None = None, at_most: bool = False, solver: Solver = "auto"
) -> tuple[Codes, Codes]:
    """Rows and columns of the links that maximise the sum of weights [n, m], strongest first.

    k is their number, min(n, m) by default; `at_most` leaves out those that do not add to the sum. auto takes lapjv for a square
    matrix of 24 to 64 rows, and SciPy for any other; k < min(n, m) makes a matrix oblong.

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
    gains = np.maximum(weights, 0) if at_most else weights
    if extra := min(n, m) - k:  # dummies that outbid every weight leave k lines of the shorter side to real links
        low, high = gains.min(), gains.max()
        padded = np.full((n + extra, m) if n >= m else (n, m + extra), high + (max(high - low, abs(high)) or 1.0))
        padded[:n, :m] = gains
        gains = padded
    if solver == "scipy" or (solver == "auto" and not _SMALLEST <= len(gains) == gains.shape[1] <= _LARGEST):
        rows, columns = linear_sum_assignment(gains, maximize=True)
    else:
        costs = np.zeros((max(gains.shape),) * 2)  # links of the lines that fill it up lie beyond the matrix
        costs[: len(gains), : gains.shape[1]] = -gains
        rows, columns = np.arange(len(costs)), lapjv(costs, force_doubles=True)[0]  # float32 would miss optima
    real = (rows < n) & (columns < m)
    strengths = weights[rows[real], columns[real]]
    order = (-strengths).argsort(kind="stable")[: np.count_nonzero(strengths > 0) if at_most else None]
    return rows[real][order], columns[real][order].astype(np.int64)
