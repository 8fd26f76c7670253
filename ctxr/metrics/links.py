"""How well scores find the links inside a document, and what explains it. Pairs without a judgment (NaN) do not count."""

import numpy as np
import numpy.typing as npt

from ctxr.metrics.similarity import mean_ranks
from ctxr.metrics.votes import Doubles, Flags


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float | None:
    """The chance 0..1 that a link scores higher than another pair, a tie counting half; None where all pairs are links, or none is.

    >>> auc([[0.9, 0.1], [0.5, 0.5]], [[1, 0], [1, 0]])
    0.875
    """
    values, linked = _judged(scores, labels)
    links = int(linked.sum())
    if links in (0, len(values)):
        return None
    above = float(mean_ranks(values)[linked].sum()) - links * (links + 1) / 2  # exact, so equal areas are equal numbers
    return above / (links * (len(values) - links))


def precision_at(scores: npt.ArrayLike, labels: npt.ArrayLike, k: int) -> float:
    """Share of links among the `k` highest scores, of all where there are fewer, over all ways to break ties; a pair at least is judged.

    >>> precision_at([3.0, 1.0, 1.0, 0.0], [1, 1, 0, 1], 2)
    0.75
    """
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
