"""How good an entailment classifier is: its figures, its calibration, and the threshold for a wanted precision.

F0.5 = 1.25 P R / (0.25 P + R) of the entailed class: a caption that is wrongly added harms more than one that is missed
(entailment paper, section 6).
"""

from dataclasses import dataclass

import numpy as np

from ctxr.errors import DataError, plural
from ctxr.metrics.compare import RESAMPLES, Clusters, Interval, interval_of
from ctxr.metrics.proportions import exact_interval
from ctxr.metrics.votes import Column, Doubles, Flags

BETA = 0.5
BINS = 15

FEW_CALLED = 20
"""Pairs below which a threshold rests on too few: of 20 that are all right the exact interval still begins at 0.83."""


@dataclass(frozen=True)
class Quality:
    """Figures of a classifier for the entailed class, 0..1, with intervals over whole clusters; precision has none where nothing is
    called entailed. `f` is F with `BETA`, `majority` the accuracy of always saying the commoner label."""

    accuracy: Interval
    precision: Interval
    recall: Interval
    f: Interval
    majority: float
    pairs: int


def quality(
    entailed: Flags, called: Flags, groups: Column, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Quality:
    """Compare what a classifier calls entailed [N] with what is [N]; pairs of a group [N], a picture or a premise, are drawn together."""
    pairs = len(entailed)
    columns = np.stack([entailed == called, entailed & called, called, entailed, np.ones(pairs, bool)], axis=1)
    clusters = Clusters(groups, rng, resamples)
    # the sums of all pairs, then those of each draw
    totals = np.vstack([columns.sum(axis=0, dtype=np.float64), clusters.totals(columns.astype(np.float64))])
    agreeing, both, judged, positive, size = totals.T
    with np.errstate(divide="ignore", invalid="ignore"):
        f = (1 + BETA**2) * both / (BETA**2 * positive + judged)
        figures = agreeing / size, both / judged, both / positive, f
    accuracy, precision, recall, f = (
        interval_of(None if np.isnan(row[0]) else float(row[0]), row[1:][~np.isnan(row[1:])], clusters.size)
        for row in figures
    )
    share = float(entailed.mean())
    return Quality(accuracy, precision, recall, f, max(share, 1 - share), pairs)


@dataclass(frozen=True)
class Bin:
    """Pairs of a probability in low..high (low excluded but for 0): count, mean, share entailed, exact interval."""

    low: float
    high: float
    pairs: int
    probability: float
    entailed: float
    entailed_low: float
    entailed_high: float


@dataclass(frozen=True)
class Calibration:
    """Whether a probability means what it says: the expected calibration error, which is the mean distance of share and probability over
    bins, by their pairs (Guo et al. 2017), the largest such distance, Brier's mean squared distance of probability and label, and the bins
    that hold pairs, in order: the reliability diagram."""

    error: float
    largest: float
    brier: float
    bins: tuple[Bin, ...]


def calibration(entailed: Flags, probability: Doubles, bins: int = BINS) -> Calibration:
    """How far probabilities of being entailed [N] are from shares, in bins of equal width. Raises DataError for one outside 0..1.

    >>> found = calibration(np.array([True, False, True, True]), np.array([0.5, 0.5, 1.0, 1.0]), bins=2)
    >>> found.error, found.brier, [one.pairs for one in found.bins]
    (0.0, 0.125, [2, 2])
    """
    _check_probabilities(probability)
    bin_of = np.clip(np.ceil(probability * bins).astype(np.int64) - 1, 0, bins - 1)
    sizes = np.bincount(bin_of, minlength=bins)
    sums, hits = np.bincount(bin_of, probability, bins), np.bincount(bin_of, entailed, bins)
    diagram = []
    for one in np.flatnonzero(sizes).tolist():
        size, share = int(sizes[one]), float(hits[one] / sizes[one])
        low, high = exact_interval(float(hits[one]), size)
        diagram.append(Bin(one / bins, (one + 1) / bins, size, float(sums[one] / size), share, low, high))
    gaps = np.array([abs(one.entailed - one.probability) for one in diagram])
    weights = np.array([one.pairs for one in diagram]) / len(entailed)
    brier = float(((probability - entailed) ** 2).mean())
    return Calibration(float(weights @ gaps), float(gaps.max()), brier, tuple(diagram))


@dataclass(frozen=True)
class Threshold:
    """From which probability on to call a pair entailed, for a wanted precision: precision with its exact interval, recall and pairs at or
    above it on dev, and whether even the interval's low end reaches the wanted precision."""

    value: float
    wanted: float
    precision: Interval
    recall: float
    called: int
    sure: bool

    def in_words(self) -> str:
        """Precision and recall in words."""
        precision = self.precision
        reach = "reaches" if self.sure else "does not reach"
        return (
            f"precision {precision.value:.3f} (95 %: {precision.low:.3f} to {precision.high:.3f}, whose low end {reach} "
            f"{self.wanted:g}) on {plural(self.called, 'pair', form=',')}, recall {self.recall:.3f}"
        )

    def weakness(self) -> str:
        """That it rests on fewer pairs than `FEW_CALLED`, in words."""
        return (
            f"the threshold {self.value:.3f} rests on {plural(self.called, 'pair', form=',')}, fewer than {FEW_CALLED}: "
            f"its precision may be as low as {self.precision.low:.3f}"
        )


def threshold_for(entailed: Flags, probability: Doubles, wanted: float) -> Threshold | None:
    """The lowest threshold, which has the highest recall, whose precision on dev reaches `wanted`; None where none does.

    Because it is chosen on the pairs it is measured on, its precision looks a little too high: quote that of other pairs.
    Raises DataError for a probability outside 0..1.
    """
    _check_probabilities(probability)
    order = np.argsort(-probability, kind="stable")
    ranked = probability[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    called, hits = np.arange(1, len(ranked) + 1)[last], np.cumsum(entailed[order])[last]
    precise = np.flatnonzero(hits / called >= wanted)
    if not precise.size:
        return None
    trials, positive = int(called[precise[-1]]), int(hits[precise[-1]])
    low, high = exact_interval(positive, trials)
    precision = Interval(positive / trials, low, high, trials)
    recall = positive / int(entailed.sum())
    return Threshold(float(ranked[last][precise[-1]]), wanted, precision, recall, trials, low >= wanted)


def best_threshold(due: Flags, values: Doubles) -> tuple[float, float]:
    """The threshold with the highest F1, between two values, and that F1: where a photo is `due` [N], `values` [N] should reach it."""
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    f1 = 2 * np.cumsum(due[order])[last] / (last + 1 + due.sum())
    best = int(f1.argmax())
    return float(ranked[last[best] : last[best] + 2].mean()), float(f1[best])


def _check_probabilities(probability: Doubles) -> None:
    odd = ~((probability >= 0) & (probability <= 1))
    if odd.any():
        row = int(np.flatnonzero(odd)[0])
        raise DataError(f"pair {row}: {probability[row]} is not a probability")
