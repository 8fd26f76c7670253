"""Agreement beyond chance: Krippendorff's alpha with missing votes, kappas, AC1, MASI, and their resampled intervals.

All are (observed - chance) / (1 - chance) and differ in what they call chance: 1 if all agree, 0 for chance agreement. Where one value
is much commoner than the others, kappa falls although workers agree, and AC1 does not (Gwet 2008). Votes that were accepted *because*
they name the target agree by selection: always report alpha on all votes as well.

Intervals (`by_units`) resample units, for a statement about these workers; or units and workers, for a statement about any such
crowd, which is the one to quote: Owen's pigeonhole bootstrap, where a vote counts by the product of the draws of its unit and of its
worker (Owen 2007). Where workers differ much, the former is far too narrow (`python -m bench agreement`).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse

from ctxr.metrics.fields import Distance
from ctxr.metrics.proportions import LEVEL, Limits
from ctxr.metrics.votes import Codes, Column, Doubles, Votes, factorise, gather


class Cells(NamedTuple):
    """The C cells of the table unit x value that hold a vote, by unit, then value: that of each vote [N], and each one's unit and
    value [C]."""

    of_votes: Codes
    units: Codes
    values: Codes


def cells(units: Codes, size: int, values: Codes, kinds: int) -> Cells:
    """The cells of votes [N] on `size` units with `kinds` values.

    >>> [column.tolist() for column in cells(np.array([1, 0, 1]), 2, np.array([2, 2, 2]), 3)]
    [[1, 0, 1], [0, 1], [2, 2]]
    """
    keys = units * np.int64(kinds) + values
    if size * kinds <= 4 * len(keys) + 1000:
        # a table that is small compared with the votes is ticked off, which is faster than sorting
        used = np.bincount(keys, minlength=size * kinds) > 0
        names, codes = np.flatnonzero(used), (np.cumsum(used) - 1)[keys]
    else:
        names, codes = np.unique(keys, return_inverse=True)
    return Cells(codes.astype(np.int64), names // kinds, names % kinds)


Level = Literal["nominal", "ordinal", "interval"]

NO_PAIR = "no unit with two votes"
NO_VARIATION = "no variation"


@dataclass(frozen=True)
class Agreement:
    """An agreement coefficient and its sample.

    Attributes:
        value: the coefficient, at most 1; None where it is undefined, and then `reason` says why.
        units: units with at least two votes. votes: votes on these; all others do not count.
        low, high: percentile interval by resampling; None if not requested or undefined.
        resamples: resamples in which the coefficient was defined.
    """

    value: float | None
    units: int
    votes: int
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    resamples: int = 0


def alpha(votes: Votes, level: Level | Doubles = "nominal") -> Agreement:
    """Krippendorff's alpha (2011); units with one vote do not count.

    Args:
        level: nominal (values are names), ordinal (ranks), interval (numbers), or the difference of every two values [V, V], 0 for equals.

    >>> from ctxr.metrics.votes import gather
    >>> two = gather(["a", "a", "b", "b"], ["x", "y", "x", "y"], [1, 1, 2, 3])
    >>> alpha(two).value, alpha(two, "interval").value
    (0.4, 0.7272727272727273)
    """
    return PairedVotes(votes, level).agreement()


class PairedVotes:
    """N votes of W workers on U units with at least two, made ready to be weighed again and again: values are names, 1 apart if they
    differ, or numbers, apart by the square of their distance, or as far apart as a table [V, V] says."""

    def __init__(self, votes: Votes, level: Level | Doubles) -> None:
        several = np.bincount(votes.units, minlength=len(votes.unit_names)) >= 2
        kept = votes.where(several[votes.units])
        present = np.bincount(kept.workers, minlength=len(votes.worker_names)) > 0
        codes, people = ((np.cumsum(part) - 1)[of] for part, of in ((several, kept.units), (present, kept.workers)))
        self.size, self.crowd, self.count = int(several.sum()), int(present.sum()), len(kept)
        self._table = level if isinstance(level, np.ndarray) else None
        self._numeric = self.count > 0 and isinstance(level, str) and level != "nominal"
        # values that nobody else gave need no cell: of many different numbers most are such
        lone = np.bincount(kept.values)[kept.values] == (1 if self._table is None and not self._numeric else 0)
        # who judged which unit [U, W], who is in which cell [C, W]: sums over votes are products with the weights of workers
        shape, ones = (self.size, self.crowd), np.ones(self.count)
        self._judged = sparse.csr_array((ones, (codes, people)), shape=shape)
        self._lone = sparse.csr_array((ones[lone], (codes[lone], people[lone])), shape=shape)
        if self._numeric:
            # numbers far from 0 would lose their last digits in squares, and huge ones have none; no outlier moves the median
            numbers = _scaled(_numbers(kept, str(level)))[kept.values]
            numbers = _scaled(numbers - np.median(numbers))
            # in place of cells, the number and its square of every vote on a unit, [2U, W]
            powers = [sparse.csr_array((numbers**power, (codes, people)), shape=shape) for power in (1, 2)]
            self._held = sparse.vstack(powers, format="csr")
        else:
            self._kinds, others = len(kept.labels), ~lone
            self._cells = cells(codes[others], self.size, kept.values[others], self._kinds)
            size = len(self._cells.units)
            by_people = (ones[others], (self._cells.of_votes, people[others]))
            self._held = sparse.csr_array(by_people, shape=(size, self.crowd))
        if self._table is not None:
            held_by = sparse.csr_array((np.ones(size), (self._cells.units, np.arange(size))), shape=(self.size, size))
            self._left, self._right = (held_by.T @ held_by).nonzero()  # every two cells of a unit
            self._distances = self._table[self._cells.values[self._left], self._cells.values[self._right]]
        self._once = self._sums(np.ones(self.crowd))

    def agreement(self) -> Agreement:
        """Alpha of the votes as they are."""
        if not self.size:
            return Agreement(None, 0, 0, NO_PAIR)
        value = self.weighed()
        return Agreement(value, self.size, self.count, NO_VARIATION if value is None else None)

    def weighed(self, unit_weights: Doubles | None = None, worker_weights: Doubles | None = None) -> float | None:
        """Alpha with unit u counted `unit_weights[u]` times [U], and worker w `worker_weights[w]` times in each [W], whole numbers.

        Copies of one vote are never compared with each other: they would agree by construction. None if undefined.
        """
        held, (sizes, pairs, within, lone) = self._once if worker_weights is None else self._sums(worker_weights)
        counted = np.where(pairs > 0, 1.0 if unit_weights is None else unit_weights, 0.0)
        total, least = float((counted * sizes).sum()), 0.0
        # the same sum as `within` over all votes, by the number of votes for each value
        if self._numeric:
            first, second = (float((counted * power).sum()) for power in held.reshape(2, -1))
            # equal numbers differ by no more than the rounding of their sums
            expected, least = 2 * (total * second - first * first), 1e-12 * total * second
        else:
            counts = np.bincount(self._cells.values, counted[self._cells.units] * held, self._kinds).astype(np.float64)
            expected = total * total - float((counts * counts).sum() + (counted * counted * lone).sum())
            if self._table is not None:
                expected = float(counts @ self._table @ counts)
        if expected <= least:
            return None
        # a unit counts by its votes: for votes that count once this is within / (m - 1)
        observed = float((counted * sizes * within / np.where(pairs > 0, pairs, 1.0)).sum())
        value = 1 - (total - 1) * observed / expected
        return value if np.isfinite(value) else None

    def drawn(self, rng: np.random.Generator, resamples: int = 1000, *, workers: bool = False) -> Agreement:
        """Alpha with an interval over units, which are resampled with replacement, and with `workers` the workers too."""
        agreement = self.agreement()
        sizes = (self.size, self.crowd) if workers else (self.size,)
        values = []
        for _ in range(resamples if self.size else 0):
            draws = [np.bincount(rng.integers(0, size, size), minlength=size).astype(np.float64) for size in sizes]
            values.append(self.weighed(*draws))
        defined = np.array([value for value in values if value is not None])
        if agreement.value is None or not defined.size:
            return agreement
        low, high = percentiles(defined)
        return replace(agreement, low=low, high=high, resamples=len(defined))

    def _sums(self, weights: Doubles) -> tuple[Doubles, Doubles]:
        """With the weights of workers [W], the votes in each cell [C], or of numbers the sums of first and second powers [2U]; and of each
        unit the votes, the ordered pairs of votes of different workers, the sum of weight times weight times difference over ordered
        pairs of votes, and that of the squared weights of lone votes, [4, U]."""
        held, sizes, squares = self._held @ weights, self._judged @ weights, weights * weights
        lone = self._lone @ squares
        if self._numeric:  # twice m times the squared distances from the unit's mean: the closed form
            first, second = held.reshape(2, -1)
            within = 2 * np.maximum(sizes * second - first * first, 0)
        elif self._table is None:  # m² minus the sum of the squared counts of each value
            within = sizes * sizes - np.bincount(self._cells.units, held * held, self.size) - lone
        else:
            differences = held[self._left] * held[self._right] * self._distances
            within = np.bincount(self._cells.units[self._left], differences, self.size)
        return held, np.stack([sizes, sizes * sizes - self._judged @ squares, within, lone])


def _numbers(votes: Votes, level: str) -> Doubles:
    """Each label [V] as a number: the difference of two on the ordinal level is the distance of their mean ranks among the votes
    (Krippendorff 2011), which draws of votes leave as they are."""
    if level == "interval":
        return votes.labels.astype(np.float64)
    counts = np.bincount(votes.values, minlength=len(votes.labels))
    return (np.cumsum(counts) - counts / 2).astype(np.float64)


def _scaled(numbers: Doubles) -> Doubles:
    """Numbers divided by the power of two that leaves them within -1..1, which changes no digit."""
    return np.ldexp(numbers, -int(np.frexp(np.abs(numbers).max())[1]))


def by_units(
    votes: Votes, level: Level, rng: np.random.Generator, resamples: int = 1000, *, workers: bool = False
) -> Agreement:
    """Alpha with an interval over units: those with at least two votes are resampled with replacement, and with `workers` the
    workers too.
    """
    return PairedVotes(votes, level).drawn(rng, resamples, workers=workers)


MOST_UNITS = 1000
"""Of more, `distance_alpha` draws so many: it compares every two."""


def distance_alpha(
    units: Column, values: Doubles, distance: Distance, rng: np.random.Generator, resamples: int = 1000
) -> Agreement:
    """Krippendorff's alpha of votes that are rows of numbers [N, D], with an interval over units; `distance` gives the differences [N, M]
    of rows [N, D] and [M, D], 0 for equal ones."""
    codes = factorise(units).codes
    several = np.flatnonzero(np.bincount(codes) >= 2)
    if not several.size:
        return Agreement(None, 0, 0, NO_PAIR)
    several = np.sort(rng.permutation(several)[:MOST_UNITS])
    rows = np.flatnonzero(np.isin(codes, several))
    rows = rows[np.argsort(codes[rows], kind="stable")]
    _, starts, sizes = np.unique(codes[rows], return_index=True, return_counts=True)
    # the sum of the differences between the votes of every two units [U, U], and how often each unit counts [1 + resamples, U]
    between = np.add.reduceat(np.add.reduceat(distance(values[rows], values[rows]), starts, axis=0), starts, axis=1)
    draws = rng.integers(0, len(starts), (resamples, len(starts)))
    weights = np.stack([np.ones(len(starts)), *(np.bincount(draw, minlength=len(starts)) for draw in draws)])
    expected, observed = ((weights @ between) * weights).sum(axis=1), weights @ (between.diagonal() / (sizes - 1))
    counted = expected > 0
    found = 1 - (weights @ sizes - 1)[counted] * observed[counted] / expected[counted]
    if not counted[0]:
        return Agreement(None, len(starts), len(rows), NO_VARIATION)
    low, high = percentiles(found[1:]) if len(found) > 1 else (None, None)
    return Agreement(float(found[0]), len(starts), len(rows), None, low, high, len(found) - 1)


def percentiles(values: Doubles) -> Limits:
    """The interval that holds the middle 95 % of the values."""
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Limits(float(low), float(high))


def cohen(votes: Votes) -> Agreement:
    """Cohen's kappa of two workers, on the units that both judged; chance is that each keeps to his own habits (Cohen 1960)."""
    values = np.full((2, len(votes.unit_names)), -1)
    values[(votes.workers == votes.workers.max()).astype(int), votes.units] = votes.values
    both = values[:, (values >= 0).all(axis=0)]
    units, kinds = both.shape[1], len(votes.labels)
    if not units:
        return Agreement(None, 0, 0, NO_PAIR)
    one, other = (np.bincount(row, minlength=kinds) / units for row in both)
    observed, expected = float((both[0] != both[1]).mean()), float(1 - one @ other)
    if expected <= 1e-15:
        return Agreement(None, units, 2 * units, NO_VARIATION)
    return Agreement(1 - observed / expected, units, 2 * units)


def fleiss(votes: Votes) -> Agreement:
    """Fleiss' kappa; chance is that everybody draws from the shares of the values over all units (Fleiss 1971).

    Each unit counts the same, whatever its votes (Gwet 2014); units with one vote tell of the shares only.
    """
    return _by_pairs(votes, lambda shares: float((shares * shares).sum()))


def gwet(votes: Votes, categories: int) -> Agreement:
    """Gwet's AC1; chance is that of agreeing by guessing where guessing is plausible (Gwet 2008). `categories` are the values that
    could have been given: 10 where one of ten images is picked."""
    if categories < 2:
        return _by_pairs(votes, lambda shares: 1.0)
    return _by_pairs(votes, lambda shares: float((shares * (1 - shares)).sum() / (categories - 1)))


def _by_pairs(votes: Votes, chance: Callable[[Doubles], float]) -> Agreement:
    """The share of agreeing pairs beyond `chance`, which is computed from the share of each value [V]; units count the same."""
    size, kinds = len(votes.unit_names), len(votes.labels)
    cell = cells(votes.units, size, votes.values, kinds)
    counts = np.bincount(cell.of_votes, minlength=len(cell.units))
    sizes = np.bincount(votes.units, minlength=size)
    several = sizes >= 2
    if not several.any():
        return Agreement(None, 0, 0, NO_PAIR)
    shares = np.bincount(cell.values, counts / sizes[cell.units], kinds) / (sizes > 0).sum()
    agreeing = np.bincount(cell.units, counts * (counts - 1), size)[several] / (sizes * (sizes - 1))[several]
    return beyond_chance(float(agreeing.mean()), chance(shares), int(several.sum()), int(sizes[several].sum()))


def beyond_chance(observed: float, chance: float, units: int, votes: int) -> Agreement:
    """(observed - chance) / (1 - chance) of shares of agreeing pairs; undefined where chance is 1."""
    if chance >= 1 - 1e-15:
        return Agreement(None, units, votes, NO_VARIATION)
    return Agreement((observed - chance) / (1 - chance), units, votes)


Tags = Collection[str]


def masi(left: Tags, right: Tags) -> float:
    """Distance of two sets, 0..1: 1 - J M, with J the share of common tags (Jaccard), and M 1 for equal sets, 2/3 if one
    holds the other, 1/3 if they overlap, 0 if not (Passonneau 2006). Two empty sets are equal.
    """
    one, other = frozenset(left), frozenset(right)
    if one == other:
        return 0.0
    monotone = 2 / 3 if one <= other or other <= one else 1 / 3
    return 1 - len(one & other) / len(one | other) * monotone


def masi_alpha(units: Column, workers: Column, tags: Sequence[Tags]) -> Agreement:
    """Krippendorff's alpha over the sets of tags [N] that workers gave to units, with MASI's distance as the difference."""
    codes, sets = factorise([tuple(sorted(set(names))) for names in tags])
    table = np.array([[masi(left, right) for right in sets] for left in sets]).reshape(len(sets), len(sets))
    return alpha(gather(units, workers, codes), table)


def tag_alphas(units: Column, workers: Column, tags: Sequence[Tags]) -> list[tuple[str, float, Agreement]]:
    """Each tag that was given, the share of all votes that give it, 0..1, and nominal alpha of given or not given, which for a
    tag that hardly anyone gives rests on those few votes."""
    given = {
        tag: np.array([tag in names_of for names_of in tags], np.int64)
        for tag in sorted(set().union(*map(frozenset, tags)))
    }
    return [(tag, float(votes.mean()), alpha(gather(units, workers, votes))) for tag, votes in given.items()]
