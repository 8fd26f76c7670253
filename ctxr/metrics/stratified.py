"""Precision and recall of a classifier over a finite pool of pairs, from an audit that drew from each stratum of it.

What people looked at is known; only the rest of each stratum varies (beta-binomial with Jeffreys' prior). So intervals shrink to a
point as the audit becomes a census. Strata are cut by what is known of every pair before anybody looks: the classifier's
probability, the rank of retrieval, the decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.agreement import NO_VARIATION, Agreement
from ctxr.metrics.compare import RESAMPLES, Interval
from ctxr.metrics.corrected import DRAWS, Rates
from ctxr.metrics.entailment import Stratum, finite_share
from ctxr.metrics.resampling import LEVEL, percentiles
from ctxr.metrics.votes import Doubles

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


def reliability(parts: Sequence[Part], rng: np.random.Generator, confidence: float = LEVEL) -> Reliability:
    """Precision and recall from what people said in each stratum.

    No recall, and no number of entailed pairs, where a stratum with pairs was not sampled; no precision where that is so of one
    that was called, or where nothing was. Raises DataError for counts that do not fit each other.

    >>> called, other = Part(Stratum(10, 10, 9), True), Part(Stratum(90, 90, 3), False)
    >>> found = reliability([called, other], np.random.default_rng(0))
    >>> found.precision.value, found.recall.value, found.recall.low, found.entailed.value
    (0.9, 0.75, 0.75, 12.0)
    """
    called = [part.stratum for part in parts if part.called]
    precision = finite_share(called, rng, confidence)
    share = finite_share([part.stratum for part in parts], rng, confidence)
    pairs = sum(part.stratum.population for part in parts)
    sizes = {"called": sum(one.population for one in called), "pairs": pairs}
    looked = sum(part.stratum.sampled for part in parts)
    if share.value is None or share.low is None or share.high is None:
        return Reliability(precision, Interval(None), Interval(None), looked=looked, **sizes)
    entailed = _holding(share.value * pairs, share.low * pairs, share.high * pairs, share.clusters)
    return Reliability(precision, _recall(parts, rng, confidence), entailed, looked=looked, **sizes)


def _recall(parts: Sequence[Part], rng: np.random.Generator, confidence: float) -> Interval:
    estimates = [_estimate(part.stratum) for part in parts]
    total = sum(estimates)
    if not total:
        return Interval(None)
    value = sum(one for one, part in zip(estimates, parts, strict=True) if part.called) / total
    drawn = np.stack([_drawn(part.stratum, rng) for part in parts])
    found = drawn[[part.called for part in parts]].sum(axis=0)
    every = drawn.sum(axis=0)
    low, high = percentiles(found[every > 0] / every[every > 0], confidence)
    return _holding(value, low, high, len(parts))


def _holding(value: float, low: float, high: float, strata: int) -> Interval:
    """An interval that holds its own estimate: where nothing entailed was seen in a large stratum, the prior alone would say
    that some must be there."""
    return Interval(value, min(low, value), max(high, value), strata, RESAMPLES)


def _estimate(stratum: Stratum) -> float:
    return stratum.population * stratum.positive / stratum.sampled if stratum.sampled else 0.0


def _drawn(stratum: Stratum, rng: np.random.Generator) -> Doubles:
    """Numbers of entailed pairs that the stratum may hold, given what was seen, [R]."""
    chance = rng.beta(stratum.positive + 0.5, stratum.sampled - stratum.positive + 0.5, RESAMPLES)
    rest = rng.binomial(stratum.population - stratum.sampled, chance)
    return np.asarray(stratum.positive + rest, np.float64)


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
    held = [part for part in parts if part.stratum.population]
    called = np.array([part.called for part in held], bool)
    population, sampled, positive = _columns(held)
    if not len(held) or not sampled.all():
        return None
    share = positive / sampled
    entailed, other = population * share, population * (1 - share)
    if not entailed.sum() or not other.sum():
        return None
    chance = rng.beta(positive + 0.5, sampled - positive + 0.5, (draws, len(held)))
    sizes = rng.gamma(population, size=(draws, len(held)))
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
    0.63
    """
    held = [part for part in parts if part.stratum.population]
    population, sampled, positive = _columns(held)
    looked = int(sampled.sum())
    if not len(held) or not sampled.all():
        return Agreement(None, looked, 2 * looked, UNSEEN)
    weight = population / population.sum()
    yes, called = positive / sampled, np.array([part.called for part in held], np.float64)
    people, classifier = float(weight @ yes), float(weight @ called)
    observed = float(weight @ (yes * called + (1 - yes) * (1 - called)))
    chance = people * classifier + (1 - people) * (1 - classifier)
    if chance >= 1 - 1e-15:
        return Agreement(None, looked, 2 * looked, NO_VARIATION)
    return Agreement((observed - chance) / (1 - chance), looked, 2 * looked)


def _columns(parts: Sequence[Part]) -> tuple[Doubles, Doubles, Doubles]:
    told = [(one.stratum.population, one.stratum.sampled, one.stratum.positive) for one in parts]
    population, sampled, positive = np.array(told, np.float64).reshape(-1, 3).T
    return population, sampled, positive
