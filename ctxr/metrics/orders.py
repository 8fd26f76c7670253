"""Whether images stand in the order of time, from their distances alone: neighbours should be the ones that are alike.

Two permutation tests over all sets of a dataset. A dataset whose sets are shuffled fails the first; one whose sets are cut in
two and put together the wrong way round, which is what sorting img98 to img107 as text does, passes it and fails the second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.metrics.votes import Doubles

DRAWS = 999


@dataclass(frozen=True, eq=False)
class Neighbours:
    """How alike neighbours are, of S sets.

    Attributes:
        ratio: mean distance of neighbours by that of all pairs, over all sets; 1 is what a random order gives.
        p: of the claim that every set has a random order, one-sided: small where neighbours are alike.
        by_set: [S] the same of each set alone.
    """

    ratio: float
    p: float
    by_set: Doubles

    @property
    def shuffled(self) -> int:
        """About how many sets have an order no better than a random one: twice those with p above 0.5 (Storey 2002)."""
        return min(len(self.by_set), round(2 * float((self.by_set > 0.5).sum())))


def neighbour_test(distances: Sequence[Doubles], rng: np.random.Generator, draws: int = DRAWS) -> Neighbours:
    """Neighbours of each set against neighbours in random orders of the same set.

    Args:
        distances: a matrix [K, K] for each set, K >= 3, in the order of the set. rng: draws the orders.

    >>> line = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    >>> found = neighbour_test([line, line], np.random.default_rng(0))
    >>> round(found.ratio, 2), found.p, found.shuffled
    (0.43, 0.001, 0)
    """
    total, chance = 0.0, np.zeros(draws)
    by_set, pairs = np.ones(len(distances)), 0.0
    for number, matrix in enumerate(distances):
        count = len(matrix)
        level = float(matrix[np.triu_indices(count, 1)].mean())
        scale = 1.0 / level if level > 0 else 0.0
        own = float(np.diagonal(matrix, 1).mean()) * scale
        orders = rng.permuted(np.tile(np.arange(count), (draws, 1)), axis=1)
        drawn = matrix[orders[:, :-1], orders[:, 1:]].mean(axis=1) * scale
        by_set[number] = _p(int((drawn <= own * (1 + 1e-9)).sum()), draws)
        total, pairs = total + own, pairs + scale * level
        chance += drawn
    ratio = total / pairs if pairs else 1.0
    return Neighbours(ratio, _p(int((chance <= total * (1 + 1e-9)).sum()), draws), by_set)


def seam_test(distances: Sequence[Doubles], rng: np.random.Generator, draws: int = DRAWS) -> float:
    """One-sided p-value of the claim that sets may start anywhere in their cycle, 0..1.

    Small where the step from the last image back to the first is larger than those between neighbours, as it is where the
    first and the last are the farthest apart in time. The arguments are those of `neighbour_test`.
    """
    own, chance = 0.0, np.zeros(draws)
    for matrix in distances:
        count = len(matrix)
        steps = matrix[np.arange(count), (np.arange(count) + 1) % count]
        level = float(steps.mean())
        if level > 0:
            own += float(steps[-1]) / level
            chance += steps[rng.integers(0, count, draws)] / level
    return _p(int((chance >= own * (1 - 1e-9)).sum()), draws)


def _p(as_far: int, draws: int) -> float:
    return (1 + as_far) / (1 + draws)
