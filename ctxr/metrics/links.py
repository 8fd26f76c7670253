"""How well scores of pairs find the links inside a document, and what explains it (Hessel et al., EMNLP 2019).

Entries that share a score share their places, so one score for all pairs gives chance.
"""

import numpy as np
import numpy.typing as npt

from ctxr.metrics.similarity import mean_ranks
from ctxr.metrics.votes import Doubles


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float | None:
    """Area under the ROC curve, 0..1: the chance that a link scores higher than another pair, a tie counting half.

    Args:
        scores, labels: arrays of one shape; pairs whose label is NaN do not count.

    None where all pairs are links, or none is.

    >>> auc([[0.9, 0.1], [0.5, 0.5]], [[1, 0], [1, 0]])
    0.875
    """
    values, linked = _labelled(scores, labels)
    links = int(linked.sum())
    if links in (0, len(values)):
        return None
    above = float(mean_ranks(values)[linked == 1].sum()) - links * (links + 1) / 2
    return above / (links * (len(values) - links))


def precision_at(scores: npt.ArrayLike, labels: npt.ArrayLike, k: int) -> float:
    """Share of links among the `k` pairs with the highest scores, of all pairs where there are fewer, over all ways to break ties.

    Args:
        scores, labels: as for `auc`; at least one pair has a label.

    >>> precision_at([3.0, 1.0, 1.0, 0.0], [1, 1, 0, 1], 2)
    0.75
    """
    values, linked = _labelled(scores, labels)
    k = min(k, len(values))
    last = np.partition(values, len(values) - k)[len(values) - k]
    above, level = values > last, values == last
    return float(linked[above].sum() + (k - above.sum()) * linked[level].mean()) / k


def spread(vectors: npt.NDArray[np.floating]) -> float:
    """Mean squared distance of vectors [N, D] from their mean, each scaled to length 1; 0 where all point one way.

    >>> spread(np.array([[2.0, 0.0], [0.0, 1.0]]))
    0.5
    """
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return float(((units - units.mean(axis=0)) ** 2).sum(axis=1).mean())


def explained(values: Doubles, *columns: Doubles) -> float | None:
    """R² of ordinary least squares of values [N] on columns [N] or [N, D], with an intercept.

    None where the values do not vary, or as many coefficients as values would fit anything.

    >>> round(explained(np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0])), 3)
    0.9
    """
    table = np.column_stack([np.ones(len(values)), *columns])
    residual = values - values.mean() if len(values) else values
    total = float(residual @ residual)
    if table.shape[1] >= len(values) or total <= 1e-18 * len(values):
        return None
    rest = residual - table @ np.linalg.lstsq(table, residual)[0]
    return 1 - float(rest @ rest) / total


def _labelled(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Doubles, Doubles]:
    """The pairs with a label as columns, a label above 0 as 1."""
    values, linked = np.asarray(scores, np.float64).ravel(), np.asarray(labels, np.float64).ravel()
    judged = ~np.isnan(linked)
    return values[judged], (linked[judged] > 0).astype(np.float64)
