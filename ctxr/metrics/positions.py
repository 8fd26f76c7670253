"""Whether picks follow the place where an image was shown, or the frames next to the target, instead of the text."""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.special import gammaincc

from ctxr.metrics.proportions import holm
from ctxr.metrics.votes import Codes, Doubles

MOST_POSITIONS = 20
"""Larger sets are galleries, in which a position means nothing."""


@dataclass(frozen=True)
class PositionBias:
    """Picks by shown slot, compared with those expected without position bias.

    Attributes:
        observed: picks of each slot [K]. expected: picks expected from the accuracy and the slots of the targets [K].
        votes: picks. wrong: those that missed the target; a handful is too few for a conclusion.
        statistic: chi-square with `freedom` degrees; p_value: probability of a statistic at least as large without bias.
        corrected: the same after Holm's correction over all workers of one call; equal to `p_value` for one.
        worker: code of the worker; None for all together.
    """

    observed: tuple[int, ...]
    expected: tuple[float, ...]
    votes: int
    wrong: int
    statistic: float
    freedom: int
    p_value: float
    corrected: float
    worker: int | None = None


@dataclass(frozen=True)
class Confusion:
    """Wrong picks by their distance 1..K-1 from the target, and as many as there would be if they fell evenly on the others."""

    distance: tuple[int, ...]
    observed: tuple[int, ...]
    expected: tuple[float, ...]


def position_bias(
    picked: Codes,
    target: Codes,
    slots: int,
    errors: Doubles | None = None,
    rng: np.random.Generator | None = None,
    *,
    draws: int = 2000,
) -> PositionBias:
    """Pearson's test against the right expectation: without bias, accuracy does not depend on the slot of the target, and
    wrong picks are distributed as in `errors`. The deviations of the K counts depend on each other, so they are weighed by their own
    covariance: the plain sum of (o-e)²/e is far too small for workers who are mostly right.

    Args:
        picked, target: shown slots 0..K-1 [N]. slots: K.
        errors: [K, K] probabilities of wrong picks by the target's slot; without, even over the others. For frames in
            temporal order pass `errors_by_distance`, or confusing neighbours will look like a bias to the middle.
        rng: with one, the p-value is that of `draws` simulated workers, good for any number of votes; without, that of the
            chi-square distribution, good from about five wrong picks a slot.

    >>> always_first = position_bias(np.zeros(100, int), np.arange(100) % 10, slots=10)
    >>> always_first.observed[0], round(always_first.expected[0], 6), always_first.p_value < 1e-9
    (100, 10.0, True)
    """
    spread = (1 - np.eye(slots)) / max(1, slots - 1) if errors is None else errors
    shown = np.bincount(target, minlength=slots)
    votes, hits = len(picked), int((picked == target).sum())
    accuracy = hits / votes if votes else 0.0
    expected = accuracy * shown + (1 - accuracy) * (shown @ spread)
    weights, freedom = _weights(shown, accuracy, spread)
    observed = np.bincount(picked, minlength=slots)
    statistic = float((observed - expected) @ weights @ (observed - expected))
    p_value = 1.0
    if freedom and rng is None:
        p_value = float(gammaincc(freedom / 2, statistic / 2))
    elif freedom and rng is not None:
        # picks by slot [draws, K] of unbiased workers as accurate as this one, on the same targets
        hit_slots = rng.multivariate_hypergeometric(shown, hits, size=draws, method="marginals")
        missed = [rng.multinomial(shown[slot] - hit_slots[:, slot], spread[slot]) for slot in range(len(shown))]
        simulated = cast("Doubles", np.sum([hit_slots, *missed], axis=0, dtype=np.float64)) - expected
        odd = np.einsum("ds,st,dt->d", simulated, weights, simulated) >= statistic * (1 - 1e-12)
        p_value = float(1 + odd.sum()) / (1 + draws)
    counts, wanted = tuple(observed.tolist()), tuple(expected.tolist())
    return PositionBias(counts, wanted, votes, votes - hits, statistic, freedom, p_value, p_value)


def position_bias_by_worker(
    workers: Codes, picked: Codes, target: Codes, slots: int, errors: Doubles | None = None
) -> list[PositionBias]:
    """`position_bias` of each worker, by code, with Holm's correction over all of them."""
    rows = [
        replace(position_bias(picked[own], target[own], slots, errors), worker=int(worker))
        for worker in np.unique(workers)
        for own in [workers == worker]
    ]
    adjusted = holm([row.p_value for row in rows])
    return [replace(row, corrected=value) for row, value in zip(rows, adjusted, strict=True)]


def neighbour_confusion(picked: Codes, target: Codes, slots: int) -> Confusion:
    """How far from the target wrong picks fall; picked and target are places in the set's own order 0..K-1 [N].

    >>> neighbour_confusion(np.array([0, 2, 1]), np.array([1, 1, 1]), slots=3)
    Confusion(distance=(1, 2), observed=(2, 0), expected=(2.0, 0.0))
    """
    wrong = picked != target
    away = np.abs(np.arange(slots)[:, None] - np.arange(slots))
    observed = np.bincount(np.abs(picked - target)[wrong], minlength=slots)
    by_slot = np.bincount(target[wrong], minlength=slots) / max(1, slots - 1)
    expected = np.array([(by_slot[:, None] * (away == distance)).sum() for distance in range(slots)])
    return Confusion(tuple(range(1, slots)), tuple(observed[1:].tolist()), tuple(expected[1:].tolist()))


def errors_by_distance(confusion: Confusion) -> Doubles:
    """[K, K] probabilities of wrong picks by the target's slot, if only the distance matters; for `position_bias`.

    One pick is first spread evenly over all distances, to avoid probabilities of 0.
    """
    slots = len(confusion.distance) + 1
    observed, expected = np.array(confusion.observed, float), np.array(confusion.expected)
    # the weight of a distance is how often it occurs relative to an even spread
    likely = np.append(0.0, (observed + 1 / (slots - 1)) / (expected + 1 / (slots - 1)))
    spread = likely[np.abs(np.arange(slots)[:, None] - np.arange(slots))]
    return cast("Doubles", spread / spread.sum(axis=1, keepdims=True))


def _weights(shown: Codes, accuracy: float, spread: Doubles) -> tuple[Doubles, int]:
    """Inverse [K, K] of the covariance of the counts of an unbiased worker, and its rank."""
    votes, slots = int(shown.sum()), len(shown)
    if votes < 2:
        return np.zeros((slots, slots)), 0
    # hits fall on the votes at random: a hit moves one pick from the spread of errors to the target's slot
    moved = np.eye(slots) - spread
    moved = moved - shown @ moved / votes
    hitting = accuracy * (1 - accuracy) * votes / (votes - 1) * (moved.T * shown) @ moved
    missing = (1 - accuracy) * (np.diag(shown @ spread) - (spread.T * shown) @ spread)
    sizes, axes = np.linalg.eigh(hitting + missing)
    kept = sizes > 1e-9 * max(1.0, sizes.max())
    inverse: Doubles = (axes[:, kept] / sizes[kept]) @ axes[:, kept].T
    return inverse, int(kept.sum())
