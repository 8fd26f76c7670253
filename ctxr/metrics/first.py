"""Which candidates stand among the first k of a row of scores, ties by chance, found once for all k."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ctxr.metrics.votes import Codes, Doubles


@dataclass(frozen=True, eq=False)
class First:
    """Candidates that may be among the first of b rows, by row and then by number, [N].

    Attributes:
        rows, candidates: places. chances: [N, len(ks)] to be among the first of each k: 0 or 1, but for ties.
    """

    rows: Codes
    candidates: Codes
    chances: Doubles


def first(scores: npt.NDArray[np.floating], ks: Sequence[int]) -> First:
    """The first of each row of scores [b, G]; each k is of 1..G.

    >>> found = first(np.array([[3.0, 1.0, 1.0, 0.0]]), (1, 2))
    >>> found.candidates.tolist(), found.chances.tolist()
    ([0, 1, 2], [[1.0, 1.0], [0.0, 0.5], [0.0, 0.5]])
    """
    width, most = scores.shape[1], max(ks)
    highest = np.sort(np.partition(scores, width - most, axis=1)[:, width - most :], axis=1)
    rows, candidates = np.nonzero(scores >= highest[:, :1])
    values = scores[rows, candidates]
    chances = np.empty((len(rows), len(ks)))
    for place, k in enumerate(ks):
        edge = highest[:, most - k]
        above, level = values > edge[rows], values == edge[rows]
        room = k - np.bincount(rows[above], minlength=len(scores))
        share = room / np.maximum(1, np.bincount(rows[level], minlength=len(scores)))
        chances[:, place] = np.where(above, 1.0, np.where(level, share[rows], 0.0))
    return First(rows, candidates, chances)
