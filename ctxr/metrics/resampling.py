"""Percentile intervals for alpha by resampling, through weights: nothing is copied, so a thousand resamples are cheap.

- **units** (`by_units`): other units of the same kind, the *same* workers. For a statement about these workers.
- **units and workers** (`by_units_and_workers`): Owen's pigeonhole bootstrap, a vote counts by the product of how often its
  unit and its worker were drawn (Owen 2007, "The pigeonhole bootstrap"). For a statement about any such crowd: the one to
  quote. Where workers hardly differ it is up to twice as wide as need be; where they differ much, the other is far too narrow.

Of 200 simulated crowds, 3 votes a unit, so many intervals of 95 % hold the alpha of an endless crowd (units / both): 30 equal
workers on 1,000 units 192 / 200; 30 workers with skills from Beta(4, 1) on 1,000 units 75 / 177, on 200 units 140 / 195; 10
such workers on 200 units 89 / 181 (`python -m bench agreement`).
"""

from dataclasses import replace

import numpy as np

from ctxr.metrics.agreement import Agreement, Level, Paired
from ctxr.metrics.differences import Metric
from ctxr.metrics.votes import Doubles, Votes

LEVEL = 0.95
RESAMPLES = 1000


def by_units(
    votes: Votes,
    level: Level | Metric,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = LEVEL,
) -> Agreement:
    """Alpha with an interval over units: those with at least two votes are drawn again with replacement.

    Args:
        votes: as for `alpha`. level: as for `alpha`. rng: equal generators give equal intervals.
        resamples: how many. confidence: share of the resamples inside the interval.
    """
    return _resampled(Paired(votes, level), rng, resamples, confidence, workers=False)


def by_units_and_workers(
    votes: Votes,
    level: Level | Metric,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = LEVEL,
) -> Agreement:
    """Alpha with an interval over units and workers, both drawn again with replacement; arguments as for `by_units`."""
    return _resampled(Paired(votes, level), rng, resamples, confidence, workers=True)


def percentiles(values: Doubles, confidence: float) -> tuple[float, float]:
    """The interval that holds the middle `confidence` of the values.

    >>> percentiles(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _drawn(rng: np.random.Generator, size: int) -> Doubles:
    """How often each of `size` things comes up in as many draws, [size]."""
    return np.bincount(rng.integers(0, size, size), minlength=size).astype(np.float64)


def _resampled(paired: Paired, rng: np.random.Generator, resamples: int, confidence: float, workers: bool) -> Agreement:
    """Alpha with an interval; units are drawn again, and with `workers` those too."""
    agreement = paired.agreement()
    drawn = (paired.size, paired.crowd) if workers else (paired.size,)
    values = [paired.weighed(*(_drawn(rng, size) for size in drawn)) for _ in range(resamples if paired.size else 0)]
    defined = np.array([value for value in values if value is not None])
    if agreement.value is None or not defined.size:
        return agreement
    low, high = percentiles(defined, confidence)
    return replace(agreement, low=low, high=high, resamples=len(defined))
