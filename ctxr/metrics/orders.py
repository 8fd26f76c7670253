"""Whether images stand in the order of time, from their distances alone: neighbours should be the ones that are alike.

Two permutation tests over all sets of a dataset. A dataset whose sets are shuffled fails the first; one whose sets are cut in
two and put together the wrong way round, which is what sorting img98 to img107 as text does, passes it and fails the second.

To fail is no proof: sets whose pictures are all alike fail the first, and scenes that come back to where they began the second.
What proves is found without the order, or inside it: `arch_test` and `tear`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.metrics.votes import Doubles

DRAWS = 999

FLAT = 1e-5
"""Share of the first coordinate's spread below which the second is rounding."""


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


def arch_test(distances: Sequence[Doubles], rng: np.random.Generator, draws: int = DRAWS) -> float:
    """One-sided p-value of the claim that the images of sets are points without structure; their order does not matter.

    Of points along a curve, such as frames that drift, the second principal coordinate bends over the first like an arch; that
    of points scattered by chance, in however many dimensions, has any direction (drawn here). 1 where nothing is spread.

    >>> rng = np.random.default_rng(0)
    >>> turn = np.exp(1j * np.linspace(0, 3, 10))
    >>> drift = np.abs(np.subtract.outer(turn, turn))
    >>> arch_test([drift] * 5, rng), arch_test([np.zeros((10, 10))] * 5, rng)
    (0.001, 1.0)
    """
    own, chance = 0.0, np.zeros(draws)
    for matrix in distances:
        first, second, spread = _coordinates(matrix)
        arch = _without(first**2, first)
        if not spread or (length := float(np.linalg.norm(arch))) < FLAT:
            continue
        drawn = _without(rng.standard_normal((draws, len(matrix))), first)
        own += abs(float(arch @ second)) / length
        chance += np.abs(drawn @ arch) / length / np.linalg.norm(drawn, axis=1)
    return _p(int((chance >= own * (1 - 1e-9)).sum()), draws)


def tear(distances: Sequence[Doubles]) -> float:
    """How far one step inside a set stands out from all others of its cycle, -1..1, the mean over sets.

    Measured along the first principal coordinate, as a share of its spread: about 0.6 where sets that drift were cut in two
    and put together the wrong way round, about -0.6 where they were not (there the step from the last image to the first stands
    out), near 0 where scenes come back, 0.15 for points scattered by chance.
    """
    found = [0.0]
    for matrix in distances:
        first, _, _ = _coordinates(matrix)
        steps = np.abs(np.roll(first, -1) - first)
        *_, next_most, most = np.sort(steps)
        if most > 0:
            found.append(float(most - next_most) / float(np.ptp(first)) * (-1 if steps[-1] == most else 1))
    return sum(found) / max(1, len(distances))


def _coordinates(matrix: Doubles) -> tuple[Doubles, Doubles, bool]:
    """The first two principal coordinates [K] of points with these distances, of length 1, and whether both are spread."""
    squares = matrix**2
    about = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-about / 2)
    return vectors[:, -1], vectors[:, -2], bool(values[-2] > FLAT * values[-1] > 0)


def _without(rows: Doubles, first: Doubles) -> Doubles:
    """Rows [..., K] less their mean and what they share with `first`."""
    about = rows - rows.mean(axis=-1, keepdims=True)
    rest: Doubles = about - (about @ first)[..., None] * first
    return rest


def _steps(matrix: Doubles) -> Doubles:
    """Distances [K] from each image to the next, last from the last to the first."""
    after = (np.arange(len(matrix)) + 1) % len(matrix)
    steps: Doubles = matrix[np.arange(len(matrix)), after]
    return steps


def _p(as_far: int, draws: int) -> float:
    return (1 + as_far) / (1 + draws)
