"""How well scores find the links inside a document, and their best matching. Pairs without a judgment (NaN) do not count."""

import numpy as np
import numpy.typing as npt
from lapjv import lapjv
from scipy.optimize import linear_sum_assignment

from ctxr.metrics.compare import mean_ranks
from ctxr.metrics.votes import Codes, Doubles, Flags

# lapjv first tries float32 (8 µs): 8 times SciPy's time at 5 x 5, equal at 20 x 20, half of it from 24 x 24 on; but near rank one
# it takes 0.2 s at 64 x 64, 500 times SciPy's, and a quarter of a minute at 150 x 150
SIDES_FOR_LAPJV = range(24, 65)


def assign(weights: Doubles, k: int | None = None, at_most: bool = False) -> tuple[Codes, Codes]:
    """Rows and columns of the links that maximise the sum of weights [n, m], strongest first.

    k is their number, min(n, m) by default; `at_most` leaves out those that do not add to the sum. lapjv solves a square matrix
    of 24 to 64 rows, and SciPy any other; k < min(n, m) makes a matrix oblong.

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
    if len(gains) == gains.shape[1] and len(gains) in SIDES_FOR_LAPJV:
        costs = np.ascontiguousarray(-gains)
        rows, columns = np.arange(len(costs)), lapjv(costs, force_doubles=True)[0]  # float32 would miss optima
    else:
        rows, columns = linear_sum_assignment(gains, maximize=True)
    real = (rows < n) & (columns < m)
    strengths = weights[rows[real], columns[real]]
    order = (-strengths).argsort(kind="stable")[: np.count_nonzero(strengths > 0) if at_most else None]
    return rows[real][order], columns[real][order].astype(np.int64)


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float | None:
    """The chance 0..1 that a link scores higher than another pair, a tie counting half; None where all pairs are links, or none is."""
    values, linked = _judged(scores, labels)
    links = int(linked.sum())
    if links in (0, len(values)):
        return None
    above = float(mean_ranks(values)[linked].sum()) - links * (links + 1) / 2  # exact, so equal areas are equal numbers
    return above / (links * (len(values) - links))


def precision_at(scores: npt.ArrayLike, labels: npt.ArrayLike, k: int) -> float:
    """Share of links among the `k` highest scores, of all where there are fewer, over all ways to break ties; a pair at least is judged."""
    values, linked = _judged(scores, labels)
    k = min(k, len(values))
    last = np.partition(values, -k)[-k]
    above = values > last
    return float(linked[above].sum() + (k - above.sum()) * linked[values == last].mean()) / k


def spread(vectors: npt.NDArray[np.floating]) -> float:
    """Mean squared distance of vectors [N, D] from their mean, each scaled to length 1 before."""
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return float(units.var(axis=0).sum())


def explained(values: Doubles, *columns: Doubles) -> float | None:
    """R² of least squares of values [N] on columns [N] or [N, D] and 1; None where values do not vary, or any would be fitted."""
    table = np.column_stack([np.ones(len(values)), *columns])
    if table.shape[1] >= len(values) or np.ptp(values) < 1e-9:
        return None
    return 1 - float(np.var(values - table @ np.linalg.lstsq(table, values)[0]) / np.var(values))


def _judged(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Doubles, Flags]:
    values, linked = np.asarray(scores, np.float64).ravel(), np.asarray(labels, np.float64).ravel()
    return values[judged := ~np.isnan(linked)], linked[judged] > 0
