"""How far workers agree beyond chance: Krippendorff's alpha with missing votes, for any difference between values.

alpha = 1 - observed / expected disagreement: 1 if all agree, 0 if values fall as from one urn, below 0 if workers disagree
more than that (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").

Votes that were accepted *because* they name the target agree by selection: quote alpha on all votes beside any other.
Interval alpha over positions means something for frames in temporal order only; the pictures of a photo set are nominal.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError
from ctxr.metrics.differences import Metric, MetricDistance, NominalDistance, SquaredDistance
from ctxr.metrics.votes import Codes, Doubles, Votes

Level = Literal["nominal", "ordinal", "interval", "ratio"]

NO_PAIR = "no unit with two votes"
NO_VARIATION = "no variation"


@dataclass(frozen=True)
class Agreement:
    """An agreement coefficient and what it rests on.

    Attributes:
        value: the coefficient, at most 1; None where it is undefined, and then `reason` says why.
        units: units with at least two votes. votes: votes on these; all others do not count.
        low, high: percentile interval by resampling; None if nobody asked for one, or none is defined.
        resamples: resamples in which the coefficient was defined, on which the interval rests.
    """

    value: float | None
    units: int
    votes: int
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    resamples: int = 0


def alpha(votes: Votes, level: Level | Metric = "nominal") -> Agreement:
    """Krippendorff's alpha.

    Args:
        votes: missing ones are simply absent; units with one vote do not count.
        level: nominal (values are names), ordinal (ranks), interval (numbers), ratio (numbers from 0), or a function that
            gives the difference, 0 for equals, of two arrays of labels element by element (squared, where it is a distance).

    Raises:
        DataError: words where numbers are needed, a negative number for the ratio level, or votes with repeats.

    >>> from ctxr.metrics.votes import gather
    >>> two = gather(["a", "a", "b", "b"], ["x", "y", "x", "y"], [1, 1, 2, 3])
    >>> alpha(two).value, alpha(two, "interval").value
    (0.4, 0.7272727272727273)
    """
    return Paired(votes, level).agreement()


class Paired:
    """Votes on units with at least two, made ready to be weighed again and again.

    Attributes:
        size: units U. crowd: workers W. count: votes N.
    """

    def __init__(self, votes: Votes, level: Level | Metric) -> None:
        votes.once()
        many = np.bincount(votes.units, minlength=len(votes.unit_names)) >= 2
        kept = votes if many.all() else votes.where(many[votes.units])
        self._units, self.size = _renumbered(kept.units)
        self._workers, self.crowd = _renumbered(kept.workers)
        self._values, self._kinds = kept.values, len(kept.labels)
        self.count = len(kept)
        self._difference = _difference(self._units, self.size, kept, level)
        self._sizes_once = self._sizes(None)
        self._within_once = None if self._difference.moves else self._difference.within(None, np.empty(0))

    def agreement(self) -> Agreement:
        """Alpha of the votes as they are."""
        if not self.size:
            return Agreement(None, 0, 0, NO_PAIR)
        value = self.weighed()
        return Agreement(value, self.size, self.count, NO_VARIATION if value is None else None)

    def weighed(self, unit_weights: Doubles | None = None, worker_weights: Doubles | None = None) -> float | None:
        """Alpha where unit u counts `unit_weights[u]` times [U], and worker w `worker_weights[w]` times in each [W].

        Copies of one vote are never held against each other: they would agree by construction. None where undefined.
        """
        weights = None if worker_weights is None else worker_weights[self._workers]
        sizes, pairs = self._sizes_once if weights is None else self._sizes(weights)
        counted = pairs > 0 if unit_weights is None else np.where(pairs > 0, unit_weights, 0.0)
        each = counted[self._units] if weights is None else counted[self._units] * weights
        counts = np.bincount(self._values, each, self._kinds).astype(np.float64)
        expected = self._difference.overall(counts)
        if expected <= 0 or np.count_nonzero(counts) < 2:
            return None
        within = self._within_once if weights is None else None
        if within is None:
            within = self._difference.within(weights, counts)
        # a unit counts by its votes: for votes that count once this is within / (m - 1)
        observed = float((counted * sizes * within / np.where(pairs > 0, pairs, 1.0)).sum())
        return 1 - float(counts.sum() - 1) * observed / expected

    def _sizes(self, weights: Doubles | None) -> tuple[Doubles, Doubles]:
        """Votes of each unit [U], and ordered pairs of votes of different workers [U]."""
        sizes = np.bincount(self._units, weights, self.size).astype(np.float64)
        alone = sizes if weights is None else np.bincount(self._units, weights * weights, self.size)
        return sizes, sizes * sizes - alone


def _renumbered(codes: Codes) -> tuple[Codes, int]:
    there = np.bincount(codes) > 0
    if there.all():
        return codes, len(there)
    return (np.cumsum(there) - 1)[codes], int(there.sum())


def _difference(
    units: Codes, size: int, votes: Votes, level: Level | Metric
) -> NominalDistance | SquaredDistance | MetricDistance:
    if callable(level):
        return MetricDistance(units, size, votes.values, votes.labels, level)
    if level == "nominal":
        return NominalDistance(units, size, votes.values, len(votes.labels))
    numbers = votes.numbers()
    if level != "ratio":
        return SquaredDistance(units, size, votes.values, numbers if level == "interval" else None)
    if numbers.size and numbers.min() < 0:
        raise DataError(
            f"value {numbers.min():g} lies below 0, and ratios need numbers from 0", "ask for the interval level"
        )
    return MetricDistance(units, size, votes.values, numbers, _ratio)


def _ratio(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Doubles:
    sums = left + right
    apart: Doubles = np.square((left - right) / np.where(sums > 0, sums, 1.0))
    return apart
