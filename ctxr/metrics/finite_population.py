"""How many pairs of a finite pool are entailed, from looks at a sample of each stratum of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.compare import Interval
from ctxr.metrics.proportions import share_limits
from ctxr.metrics.resampling import LEVEL
from ctxr.metrics.votes import Doubles


@dataclass(frozen=True)
class Stratum:
    """One part of an audit: of `population` pairs `sampled` were drawn, `positive` of which people call entailed."""

    population: int
    sampled: int
    positive: int


@dataclass(frozen=True)
class Total:
    """How many pairs of some strata are entailed: `value`, and between which numbers that is."""

    value: float
    low: float
    high: float


def finite_total(strata: Sequence[Stratum], confidence: float = LEVEL) -> Total | None:
    """The number of entailed pairs in all strata together. What was drawn is known, only the rest of each stratum varies
    (`share_limits`); the distances of its limits add up by their squares (Zou and Donner 2008), because a prior would say too much
    of large strata where next to nothing holds.

    None where a stratum with pairs was not sampled. Raises DataError for counts that do not fit each other.

    >>> finite_total([Stratum(10, 10, 7)])
    Total(value=7.0, low=7.0, high=7.0)
    """
    population, sampled, positive = columns_of(strata)
    if not sampled.all():
        return None
    share, rest = positive / sampled, population - sampled
    value = float(share @ population)
    below, above = rest_spread(sampled, positive, rest, confidence=confidence)
    return Total(value, max(float(positive.sum()), value - below), min(float((positive + rest).sum()), value + above))


def columns_of(strata: Sequence[Stratum]) -> tuple[Doubles, Doubles, Doubles]:
    """(population, sampled, positive) of the strata that hold pairs, [S] each. Raises DataError for counts that do not fit."""
    for one in strata:
        if not 0 <= one.positive <= one.sampled <= one.population:
            raise DataError(
                f"a stratum of {one.population} cannot have {one.sampled} drawn and {one.positive} entailed"
            )
    table = np.array([(one.population, one.sampled, one.positive) for one in strata], np.float64).reshape(-1, 3)
    population, sampled, positive = table[table[:, 0] > 0].T
    return population, sampled, positive


def rest_spread(
    sampled: Doubles, positive: Doubles, rest: Doubles, *, weight: int = 1, of: float = 1.0, confidence: float = LEVEL
) -> tuple[float, float]:
    """How far below and above its estimate the number of entailed pairs may lie that nobody looked at, in all strata together.

    Args:
        sampled, positive: [S] pairs that the share of each stratum is estimated from, and how many of them are entailed.
        rest: [S] pairs that nobody looked at. weight: 2 where the sampled pairs vary with the share too.
        of: the distances are shares of so many pairs.
    """
    sampled, positive, rest = (column[rest > 0] for column in (sampled, positive, rest))
    share = positive / sampled
    limits = share_limits(share, 1 / (1 / sampled + weight / rest), sampled - 1, confidence)
    below, above = (float(np.linalg.norm((limit - share) * rest / of)) for limit in limits)
    return below, above


def finite_share(strata: Sequence[Stratum], confidence: float = LEVEL) -> Interval:
    """The share of entailed pairs in all strata together with its finite-population interval (`finite_total`); no value where
    there is none, or no pair at all.

    >>> found = finite_share([Stratum(10, 10, 7)])
    >>> found.value, found.low, found.high
    (0.7, 0.7, 0.7)
    """
    found, pairs = finite_total(strata, confidence), sum(one.population for one in strata)
    if found is None or not pairs:
        return Interval(None)
    return Interval(found.value / pairs, found.low / pairs, found.high / pairs, len(strata))
