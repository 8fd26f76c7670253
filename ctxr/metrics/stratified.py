"""Precision and recall of a classifier over a finite pool of pairs, from an audit that drew from each stratum of it.

What people looked at is known; only the rest of each stratum varies. So intervals shrink to a point as the audit becomes a census.
Strata are cut by what is known of every pair before anybody looks: the classifier's probability, the rank of retrieval, the decision.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.agreement import NO_VARIATION, Agreement
from ctxr.metrics.compare import Interval
from ctxr.metrics.corrected import DRAWS, Rates
from ctxr.metrics.finite_population import Stratum, Total, columns_of, finite_share, finite_total
from ctxr.metrics.resampling import LEVEL

UNSEEN = "a stratum was not looked at"


@dataclass(frozen=True)
class Part:
    """A stratum, and whether the classifier's decision adds its pairs."""

    stratum: Stratum
    called: bool


@dataclass(frozen=True)
class Reliability:
    """How far a revision can be trusted, each figure over the whole pool with its finite-population interval.

    Attributes:
        precision: share of the pairs called entailed that are, 0..1. recall: share of the entailed pairs of the pool that were
            called so, 0..1. entailed: how many pairs of the pool are entailed, called so or not.
        called: pairs called entailed. pairs: of the pool. looked: pairs that people decided.
    """

    precision: Interval
    recall: Interval
    entailed: Interval
    called: int
    pairs: int
    looked: int


def reliability(parts: Sequence[Part], confidence: float = LEVEL) -> Reliability:
    """Precision and recall from what people said in each stratum.

    No recall, and no number of entailed pairs, where a stratum with pairs was not sampled; no precision where that is so of one
    that was called, or where nothing was. Raises DataError for counts that do not fit each other.

    >>> called, other = Part(Stratum(10, 10, 9), True), Part(Stratum(90, 90, 3), False)
    >>> found = reliability([called, other])
    >>> found.precision.value, found.recall.value, found.recall.low, found.entailed.value
    (0.9, 0.75, 0.75, 12.0)
    """
    called = [part.stratum for part in parts if part.called]
    other = [part.stratum for part in parts if not part.called]
    precision = finite_share(called, confidence)
    pairs = sum(part.stratum.population for part in parts)
    sizes = {"called": sum(one.population for one in called), "pairs": pairs}
    looked = sum(part.stratum.sampled for part in parts)
    found, missed = finite_total(called, confidence), finite_total(other, confidence)
    every = finite_total([*called, *other], confidence)
    if found is None or missed is None or every is None or not pairs:
        return Reliability(precision, Interval(None), Interval(None), looked=looked, **sizes)
    entailed = Interval(every.value, every.low, every.high, len(parts))
    recall = replace(_recall(found, missed), clusters=len(parts))
    return Reliability(precision, recall, entailed, looked=looked, **sizes)


def _recall(found: Total, missed: Total) -> Interval:
    """found / (found + missed), and the shares r for which (1 - r) found - r missed may be 0 (Zou and Donner 2008)."""
    if not found.value + missed.value:
        return Interval(None)
    value = found.value / (found.value + missed.value)

    def least(share: float) -> float:
        """The low end of (1 - r) found - r missed."""
        away = math.hypot((1 - share) * (found.value - found.low), share * (missed.high - missed.value))
        return (1 - share) * found.value - share * missed.value - away

    def most(share: float) -> float:
        away = math.hypot((1 - share) * (found.high - found.value), share * (missed.value - missed.low))
        return (1 - share) * found.value - share * missed.value + away

    return Interval(value, _falls(least, 0.0, value), _falls(most, value, 1.0))


def _falls(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls from 0 or more to 0 or less between two places is 0, by halving."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) > 0 else (low, middle)
    return high


def allocate(populations: Sequence[int], size: int, least: int = 4) -> list[int]:
    """How many pairs to draw from each stratum: `least` (or all there are), the rest by the square roots of their sizes.

    By roots, not by sizes: the many pairs that nobody would add would take the whole audit, and precision rests on the few
    others. The sum is `size`, unless there are fewer pairs, or `least` of each stratum are more. Raises DataError for negative
    numbers.

    >>> allocate([10_000, 100, 2], 50)
    [44, 4, 2]
    """
    if min([size, least, *populations]) < 0:
        raise DataError("a stratum or an audit has a negative size")
    drawn = [min(count, least) for count in populations]
    roots = np.sqrt(np.array(populations, np.float64))
    for _ in range(max(0, min(size, sum(populations)) - sum(drawn))):
        # the next pair goes where most is missing of the share by roots
        room = np.array(drawn) < np.array(populations)
        place = int(np.argmax(np.where(room, roots / (np.array(drawn) + 1), -1.0)))
        drawn[place] += 1
    return drawn


def rates(parts: Sequence[Part], rng: np.random.Generator, draws: int = DRAWS) -> Rates | None:
    """Sensitivity and specificity over all pairs of the pool, each stratum weighed by its size: for pairs other than the audited.

    The draws are of such a pool, not of this very one, so a census leaves them the width of its looks. None where a stratum with
    pairs was not looked at, or all pairs are of one kind.

    >>> parts = [Part(Stratum(500, 120, 96), True), Part(Stratum(3400, 120, 12), False)]
    >>> found = rates(parts, np.random.default_rng(0))
    >>> round(found.sensitivity, 4), round(found.specificity, 4)
    (0.5405, 0.9684)
    """
    called = np.array([part.called for part in parts if part.stratum.population], bool)
    population, sampled, positive = columns_of([part.stratum for part in parts])
    if not len(called) or not sampled.all():
        return None
    share = positive / sampled
    entailed, other = population * share, population * (1 - share)
    if not entailed.sum() or not other.sum():
        return None
    chance = rng.beta(positive + 0.5, sampled - positive + 0.5, (draws, len(called)))
    sizes = rng.gamma(population, size=(draws, len(called)))
    with_chance, without = sizes * chance, sizes * (1 - chance)
    return Rates(
        float(entailed[called].sum() / entailed.sum()),
        float(other[~called].sum() / other.sum()),
        with_chance[:, called].sum(axis=1) / with_chance.sum(axis=1),
        without[:, ~called].sum(axis=1) / without.sum(axis=1),
    )


def kappa(parts: Sequence[Part]) -> Agreement:
    """Cohen's kappa of people and the classifier over the whole pool: strata weigh as much as they hold, not as was looked at.

    >>> round(kappa([Part(Stratum(20, 10, 9), True), Part(Stratum(80, 10, 1), False)]).value, 3)
    0.719
    """
    called = np.array([part.called for part in parts if part.stratum.population], np.float64)
    population, sampled, positive = columns_of([part.stratum for part in parts])
    looked = int(sampled.sum())
    if not len(called) or not sampled.all():
        return Agreement(None, looked, 2 * looked, UNSEEN)
    weight = population / population.sum()
    yes = positive / sampled
    people, classifier = float(weight @ yes), float(weight @ called)
    observed = float(weight @ (yes * called + (1 - yes) * (1 - called)))
    chance = people * classifier + (1 - people) * (1 - classifier)
    if chance >= 1 - 1e-15:
        return Agreement(None, looked, 2 * looked, NO_VARIATION)
    return Agreement((observed - chance) / (1 - chance), looked, 2 * looked)
