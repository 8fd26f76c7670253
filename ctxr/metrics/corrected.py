"""The share that is truly entailed, from what an imperfect classifier calls so and how often it errs (Rogan and Gladen 1978).

Sensitivity and specificity come from an audit by strata (`stratified.rates`), also of another set, as long as the classifier errs
there as here. Intervals hold both what was drawn: the looks of the audit, and whole clusters of the observed pairs
(`python -m bench retrieval` counts how often they hold the truth).
"""

from dataclasses import dataclass

import numpy as np

from ctxr.metrics.compare import Interval
from ctxr.metrics.resampling import LEVEL, percentiles
from ctxr.metrics.votes import Codes, Doubles

DRAWS = 4000

LEAST_DISCRIMINATION = 0.05
"""Sensitivity + specificity - 1 below which nothing can be said: the correction would divide by next to nothing."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Sensitivity and specificity over a population, with draws of what they may be, [R] each."""

    sensitivity: float
    specificity: float
    drawn_sensitivity: Doubles
    drawn_specificity: Doubles


def rogan_gladen(
    hits: Doubles, trials: Doubles | Codes, rates: Rates, rng: np.random.Generator, confidence: float = LEVEL
) -> Interval:
    """(observed + specificity - 1) / (sensitivity + specificity - 1), cut to 0..1.

    Args:
        hits, trials: [C] how many pairs of each cluster (a picture's) the classifier calls entailed, of how many.
        rates: how the classifier errs, over all pairs of a population.

    No value where nothing was observed, or where the classifier hardly tells the two apart.

    >>> rates = Rates(0.8, 0.9, np.array([0.8]), np.array([0.9]))
    >>> found = rogan_gladen(np.array([31.0]), np.array([100]), rates, np.random.default_rng(0))
    >>> round(found.value, 3)
    0.3
    """
    if not trials.sum():
        return Interval(None, clusters=len(trials))
    value = _invert(np.array([hits.sum() / trials.sum()]), np.array([rates.sensitivity]), np.array([rates.specificity]))
    observed = _observed(hits, trials, rng, len(rates.drawn_sensitivity))
    drawn = _invert(observed, rates.drawn_sensitivity, rates.drawn_specificity)
    defined = drawn[~np.isnan(drawn)]
    if np.isnan(value[0]) or not defined.size:
        return Interval(None, clusters=len(trials))
    low, high = percentiles(defined, confidence)
    return Interval(float(value[0]), low, high, len(trials), len(defined))


def _invert(observed: Doubles, sensitivity: Doubles, specificity: Doubles) -> Doubles:
    tells = sensitivity + specificity - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Doubles = np.clip((observed + specificity - 1) / tells, 0.0, 1.0)
    share[tells < LEAST_DISCRIMINATION] = np.nan
    return share


def _observed(hits: Doubles, trials: Doubles | Codes, rng: np.random.Generator, draws: int) -> Doubles:
    """The observed share with whole clusters drawn again, [draws]; one cluster varies as its pairs would by themselves."""
    count = len(trials)
    if count == 1:
        alone: Doubles = rng.beta(float(hits[0]) + 0.5, float(trials[0] - hits[0]) + 0.5, draws)
        return alone
    shares = np.empty(draws)
    for draw in range(draws):
        weights = np.bincount(rng.integers(0, count, count), minlength=count)
        total = weights @ trials
        shares[draw] = weights @ hits / total if total else np.nan
    return shares
