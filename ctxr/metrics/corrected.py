"""The share that is truly entailed, from what an imperfect classifier calls so.

Two corrections, for two ways of knowing how the classifier errs:

- `rogan_gladen`: sensitivity and specificity, from pairs chosen without looking at the classifier's answer, or from strata weighed
  by their sizes (`stratified.rates`). They may come from another set, as long as the classifier errs there as here (Rogan and
  Gladen 1978).
- `by_predictive_values`: how many of those called entailed are, and of those called not, from an audit that drew from each side.
  It holds only for the pairs that the audit drew from, and then needs nothing else.

Intervals hold both what was drawn: the audit's counts (a posterior of Jeffreys' prior) and whole clusters of the observed pairs.
Of 400 simulated studies (30 % entailed, sensitivity .8, specificity .9, 50 clusters of 10 pairs, an audit of 200) intervals of
95 % hold the truth in 95 % (`rogan_gladen`) and 88 % (`by_predictive_values`, whose audit comes from the same few clusters and so
errs with them: its interval is too narrow) (`python -m bench retrieval`).
"""

from dataclasses import dataclass

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.compare import Interval
from ctxr.metrics.resampling import LEVEL, percentiles
from ctxr.metrics.votes import Codes, Doubles

DRAWS = 4000

LEAST_DISCRIMINATION = 0.05
"""Sensitivity + specificity - 1 below which nothing can be said: the correction would divide by next to nothing."""


@dataclass(frozen=True)
class Audit:
    """What people said of pairs that the classifier judged as well.

    Attributes:
        true_positives: both say entailed. false_positives: the classifier alone does. false_negatives: people alone do.
        true_negatives: neither does.
    """

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    def __post_init__(self) -> None:
        """Raises DataError for a negative count."""
        if min(self.true_positives, self.false_positives, self.false_negatives, self.true_negatives) < 0:
            raise DataError("an audit has a negative count")


@dataclass(frozen=True, eq=False)
class Rates:
    """Sensitivity and specificity over a population, with draws of what they may be, [R] each."""

    sensitivity: float
    specificity: float
    drawn_sensitivity: Doubles
    drawn_specificity: Doubles


def rogan_gladen(
    hits: Doubles,
    trials: Doubles | Codes,
    audit: Audit | Rates,
    rng: np.random.Generator,
    draws: int = DRAWS,
    confidence: float = LEVEL,
) -> Interval:
    """(observed + specificity - 1) / (sensitivity + specificity - 1), cut to 0..1.

    Args:
        hits, trials: [C] how many pairs of each cluster (a picture's) the classifier calls entailed, of how many.
        audit: pairs chosen without looking at the classifier's answer, or what another audit says of all pairs; its own draws
            are taken then.

    No value where nothing was observed or audited, or where the classifier hardly tells the two apart.

    >>> audit = Audit(80, 10, 20, 90)
    >>> found = rogan_gladen(np.array([31.0]), np.array([100]), audit, np.random.default_rng(0))
    >>> round(found.value, 3)
    0.3
    """
    rates = audit if isinstance(audit, Rates) else _rates(audit, rng, draws)
    if not trials.sum() or rates is None:
        return Interval(None, clusters=len(trials))
    value = _invert(np.array([hits.sum() / trials.sum()]), np.array([rates.sensitivity]), np.array([rates.specificity]))
    observed = _observed(hits, trials, rng, len(rates.drawn_sensitivity))
    drawn = _invert(observed, rates.drawn_sensitivity, rates.drawn_specificity)
    return _interval(value, drawn, len(trials), confidence)


def _rates(audit: Audit, rng: np.random.Generator, draws: int) -> Rates | None:
    entailed, other = audit.true_positives + audit.false_negatives, audit.false_positives + audit.true_negatives
    if not entailed or not other:
        return None
    return Rates(
        audit.true_positives / entailed,
        audit.true_negatives / other,
        _beta(rng, audit.true_positives, audit.false_negatives, draws),
        _beta(rng, audit.true_negatives, audit.false_positives, draws),
    )


def by_predictive_values(
    hits: Doubles,
    trials: Doubles | Codes,
    audit: Audit,
    rng: np.random.Generator,
    draws: int = DRAWS,
    confidence: float = LEVEL,
) -> Interval:
    """observed * precision + (1 - observed) * share of entailed ones among those called not; arguments as for `rogan_gladen`,
    the audit drawn from the observed pairs, from each answer of the classifier by chance.

    >>> found = by_predictive_values(np.array([50.0]), np.array([100]), Audit(9, 1, 2, 8), np.random.default_rng(0))
    >>> round(found.value, 3)
    0.55
    """
    called, not_called = audit.true_positives + audit.false_positives, audit.false_negatives + audit.true_negatives
    if not trials.sum() or not called or not not_called:
        return Interval(None, clusters=len(trials))
    share = hits.sum() / trials.sum()
    value = share * audit.true_positives / called + (1 - share) * audit.false_negatives / not_called
    precision = _beta(rng, audit.true_positives, audit.false_positives, draws)
    missed = _beta(rng, audit.false_negatives, audit.true_negatives, draws)
    observed = _observed(hits, trials, rng, draws)
    return _interval(np.array([value]), observed * precision + (1 - observed) * missed, len(trials), confidence)


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
        return _beta(rng, float(hits[0]), float(trials[0] - hits[0]), draws)
    shares = np.empty(draws)
    for draw in range(draws):
        weights = np.bincount(rng.integers(0, count, count), minlength=count)
        total = weights @ trials
        shares[draw] = weights @ hits / total if total else np.nan
    return shares


def _beta(rng: np.random.Generator, yes: float, no: float, draws: int) -> Doubles:
    drawn: Doubles = rng.beta(yes + 0.5, no + 0.5, draws)
    return drawn


def _interval(value: Doubles, drawn: Doubles, clusters: int, confidence: float) -> Interval:
    if np.isnan(value[0]):
        return Interval(None, clusters=clusters)
    defined = drawn[~np.isnan(drawn)]
    if not defined.size:
        return Interval(None, clusters=clusters)
    low, high = percentiles(defined, confidence)
    return Interval(float(value[0]), low, high, clusters, len(defined))
