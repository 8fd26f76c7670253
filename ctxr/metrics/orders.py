"""Whether images stand in the order of time, from their distances alone: neighbours should be the ones that are alike.

Two permutation tests over all sets of a dataset. A dataset whose sets are shuffled fails the first; one whose sets are cut in
two and put together the wrong way round, which is what sorting img98 to img107 as text does, passes it and fails the second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.metrics.votes import Doubles

DRAWS = 999


@dataclass(frozen=True)
class Neighbours:
    """How alike neighbours are, of S sets.

    Attributes:
        ratio: mean distance of neighbours by that of all pairs, over all sets; 1 is what a random order gives.
        p: of the claim that every set has a random order, one-sided: small where neighbours are alike.
    """

    ratio: float
    p: float


def neighbour_test(distances: Sequence[Doubles], rng: np.random.Generator, draws: int = DRAWS) -> Neighbours:
    """Neighbours of each set against neighbours in random orders of the same set.

    Args:
        distances: a matrix [K, K] for each set, K >= 3, in the order of the set. rng: draws the orders.

    >>> line = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    >>> found = neighbour_test([line, line], np.random.default_rng(0))
    >>> round(found.ratio, 2), found.p
    (0.43, 0.001)
    """
    total, chance = 0.0, np.zeros(draws)
    pairs = 0.0
    for matrix in distances:
        count = len(matrix)
        level = float(matrix[np.triu_indices(count, 1)].mean())
        scale = 1.0 / level if level > 0 else 0.0
        own = float(np.diagonal(matrix, 1).mean()) * scale
        orders = rng.permuted(np.tile(np.arange(count), (draws, 1)), axis=1)
        drawn = matrix[orders[:, :-1], orders[:, 1:]].mean(axis=1) * scale
        total, pairs = total + own, pairs + scale * level
        chance += drawn
    ratio = total / pairs if pairs else 1.0
    return Neighbours(ratio, _p(int((chance <= total * (1 + 1e-9)).sum()), draws))


def seam_test(distances: Sequence[Doubles], rng: np.random.Generator, draws: int = DRAWS) -> float:
    """One-sided p-value of the claim that sets may start anywhere in their cycle, 0..1.

    Small where the step from the last image back to the first is larger than those between neighbours, as it is where the
    first and the last are the farthest apart in time. The arguments are those of `neighbour_test`.
    """
    own, chance = 0.0, np.zeros(draws)
    for matrix in distances:
        steps = _steps(matrix)
        level = float(steps.mean())
        if level > 0:
            own += float(steps[-1]) / level
            chance += steps[rng.integers(0, len(steps), draws)] / level
    return _p(int((chance >= own * (1 - 1e-9)).sum()), draws)


def displaced(distances: Sequence[Doubles]) -> int:
    """About how many sets are shuffled or start in the middle: twice those in which the step from the last image back to the
    first is no larger than the median step. Wherever a cycle is cut by chance, half of the sets are such; in order, few are.

    >>> line = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    >>> turned = np.roll(line, 2, (0, 1))
    >>> displaced([line, line]), displaced([line, turned])
    (0, 2)
    """
    there = [steps for matrix in distances if (steps := _steps(matrix)).any()]
    return min(len(distances), 2 * sum(bool(steps[-1] <= np.median(steps) * (1 + 1e-9)) for steps in there))


def _steps(matrix: Doubles) -> Doubles:
    """Distances [K] from each image to the next, last from the last to the first."""
    after = (np.arange(len(matrix)) + 1) % len(matrix)
    steps: Doubles = matrix[np.arange(len(matrix)), after]
    return steps


def _p(as_far: int, draws: int) -> float:
    return (1 + as_far) / (1 + draws)
