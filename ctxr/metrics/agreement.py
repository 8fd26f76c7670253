"""Agreement beyond chance: Krippendorff's alpha with missing votes, kappas, AC1, MASI, and their resampled intervals.

Each class of distances offers two functions of votes with `weights` [N]. `within(weights)`: for each unit [U]
the sum, over ordered pairs of its votes, of weight times weight times difference. `overall(counts)`: the same sum over all votes,
which needs only the number of votes for each value, `counts` [V].

alpha = 1 - observed / expected disagreement: 1 if all agree, 0 for chance agreement, below 0 for less than chance
(Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").

Votes that were accepted *because* they name the target agree by selection: always report alpha on all votes as well.
Interval alpha over positions applies to frames in temporal order; the images of a photo set are nominal.

Intervals (`by_units`) resample units, for a statement about these workers; or units and workers, for a statement about any such
crowd, which is the one to quote. The latter is Owen's pigeonhole bootstrap: a vote counts by the product of the draws of its unit and
of its worker (Owen 2007, "The pigeonhole bootstrap"). Where workers hardly differ it is up to twice as wide as need be; where
they differ much, the former is far too narrow.

Of 200 simulated crowds, 3 votes a unit, the number whose 95 % interval holds the alpha of an endless crowd (units / both): 30 equal
workers on 1,000 units 192 / 200; 30 workers with skills from Beta(4, 1) on 1,000 units 75 / 177, on 200 units 140 / 195; 10
such workers on 200 units 89 / 181 (`python -m bench agreement`).

All are (observed - chance) / (1 - chance); they differ in what they call chance. Where one value is much commoner than the
others, kappa falls although workers agree, and AC1 does not (Gwet 2008).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.votes import Codes, Column, Doubles, Votes, factorise, gather


class NominalDistance:
    """Values are names: 1 apart if they differ."""

    def __init__(self, units: Codes, size: int, values: Codes, kinds: int) -> None:
        self.units, self.size = units, size
        self.cells, self.cell_units, _ = cells(units, size, values, kinds)

    def within(self, weights: Doubles) -> Doubles:
        """m² minus the sum of the squared counts of each value."""
        sizes = np.bincount(self.units, weights, self.size).astype(np.float64)
        votes = np.bincount(self.cells, weights, len(self.cell_units)).astype(np.float64)
        return sizes * sizes - np.bincount(self.cell_units, votes * votes, self.size)

    def overall(self, counts: Doubles) -> float:
        """n² minus the sum of the squared counts."""
        return float(counts.sum() ** 2 - (counts * counts).sum())


class SquaredDistance:
    """Values are numbers [V], apart by the square of their distance."""

    def __init__(self, units: Codes, size: int, values: Codes, numbers: Doubles) -> None:
        self.units, self.size, self.values = units, size, values
        # numbers far from 0 would lose their last digits in squares
        self.numbers = numbers - numbers.mean() if numbers.size else numbers

    def within(self, weights: Doubles) -> Doubles:
        """Twice m times the squared distances from the unit's mean: the closed form of the sum over pairs."""
        numbers = self.numbers[self.values]
        sizes = np.bincount(self.units, weights, self.size).astype(np.float64)
        means = np.bincount(self.units, numbers * weights, self.size) / np.maximum(sizes, 1e-300)
        off = np.square(numbers - means[self.units])
        return 2 * sizes * np.bincount(self.units, off * weights, self.size)

    def overall(self, counts: Doubles) -> float:
        """The same closed form over all votes."""
        total = counts.sum()
        if not total:
            return 0.0
        mean = (counts * self.numbers).sum() / total
        return float(2 * total * (counts * np.square(self.numbers - mean)).sum())


class TableDistance:
    """Values are as far apart as a table [V, V] says."""

    def __init__(self, units: Codes, size: int, values: Codes, table: Doubles) -> None:
        self.size, self.table = size, table
        self.cells, cell_units, cell_values = cells(units, size, values, len(table))
        self.left, self.right = pairs_within(cell_units)
        self.pair_units = cell_units[self.left]
        self.distances = table[cell_values[self.left], cell_values[self.right]]
        self.cell_count = len(cell_units)

    def within(self, weights: Doubles) -> Doubles:
        """Summed over the pairs of different values of a unit."""
        votes = np.bincount(self.cells, weights, self.cell_count).astype(np.float64)
        sums = np.bincount(self.pair_units, votes[self.left] * votes[self.right] * self.distances, self.size)
        return 2.0 * sums.astype(np.float64)

    def overall(self, counts: Doubles) -> float:
        """Summed over the table."""
        return float(counts @ self.table @ counts)


def cells(units: Codes, size: int, values: Codes, kinds: int) -> tuple[Codes, Codes, Codes]:
    """The cells of the table unit x value that hold a vote: the cell of each vote [N], and each cell's unit and value [C].

    Cells are numbered by unit, then value.

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
    return codes.reshape(-1).astype(np.int64), names // kinds, names % kinds


def pairs_within(groups: Codes) -> tuple[Codes, Codes]:
    """All pairs (left, right), left before right, of rows with the same number in `groups`, which rises.

    >>> [rows.tolist() for rows in pairs_within(np.array([0, 0, 0, 4]))]
    [[0, 1, 0], [1, 2, 2]]
    """
    lefts, rights = [], []
    left, lag = np.arange(len(groups)), 1
    while left.size:
        left = left[left + lag < len(groups)]
        left = left[groups[left + lag] == groups[left]]
        lefts.append(left)
        rights.append(left + lag)
        lag += 1
    empty = [np.empty(0, np.int64)]
    return np.concatenate(lefts or empty), np.concatenate(rights or empty)


Level = Literal["nominal", "interval"]

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
    """Krippendorff's alpha.

    Args:
        votes: missing ones are simply absent; units with one vote do not count.
        level: nominal (values are names), interval (numbers), or the difference of every two values [V, V], 0 for equals.

    Raises DataError for words where numbers are needed.

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

    def __init__(self, votes: Votes, level: Level | Doubles) -> None:
        several = np.bincount(votes.units, minlength=len(votes.unit_names)) >= 2
        kept = votes if several.all() else votes.where(several[votes.units])
        self._units, self.size = _renumbered(kept.units)
        self._workers, self.crowd = _renumbered(kept.workers)
        self._values, self._kinds = kept.values, len(kept.labels)
        self.count = len(kept)
        self._difference = _difference(self._units, self.size, kept, level)
        self._once = self._counted(np.ones(self.count))

    def agreement(self) -> Agreement:
        """Alpha of the votes as they are."""
        if not self.size:
            return Agreement(None, 0, 0, NO_PAIR)
        value = self.weighed()
        return Agreement(value, self.size, self.count, NO_VARIATION if value is None else None)

    def weighed(self, unit_weights: Doubles | None = None, worker_weights: Doubles | None = None) -> float | None:
        """Alpha with unit u counted `unit_weights[u]` times [U], and worker w `worker_weights[w]` times in each [W].

        Copies of one vote are never compared with each other: they would agree by construction. None if undefined.
        """
        counts_of = self._once if worker_weights is None else self._counted(worker_weights[self._workers])
        weights, sizes, pairs, within = counts_of
        counted = np.where(pairs > 0, 1.0 if unit_weights is None else unit_weights, 0.0)
        counts = np.bincount(self._values, counted[self._units] * weights, self._kinds).astype(np.float64)
        expected = self._difference.overall(counts)
        if expected <= 0 or np.count_nonzero(counts) < 2:
            return None
        # a unit counts by its votes: for votes that count once this is within / (m - 1)
        observed = float((counted * sizes * within / np.where(pairs > 0, pairs, 1.0)).sum())
        return 1 - float(counts.sum() - 1) * observed / expected

    def _counted(self, weights: Doubles) -> tuple[Doubles, Doubles, Doubles, Doubles]:
        """The weights [N], and of each unit the votes [U], ordered pairs of votes of different workers [U], and difference [U]."""
        sizes = np.bincount(self._units, weights, self.size).astype(np.float64)
        squares = np.bincount(self._units, weights * weights, self.size)
        return weights, sizes, sizes * sizes - squares, self._difference.within(weights)


def _renumbered(codes: Codes) -> tuple[Codes, int]:
    used = np.bincount(codes) > 0
    return codes if used.all() else (np.cumsum(used) - 1)[codes], int(used.sum())


def _difference(
    units: Codes, size: int, votes: Votes, level: Level | Doubles
) -> NominalDistance | SquaredDistance | TableDistance:
    if isinstance(level, np.ndarray):
        return TableDistance(units, size, votes.values, level)
    if level == "nominal":
        return NominalDistance(units, size, votes.values, len(votes.labels))
    return SquaredDistance(units, size, votes.values, votes.numbers())


RESAMPLES = 1000


def by_units(
    votes: Votes,
    level: Level,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    *,
    workers: bool = False,
) -> Agreement:
    """Alpha with an interval over units: those with at least two votes are resampled with replacement, and with `workers` the
    workers too.
    """
    paired = Paired(votes, level)
    agreement = paired.agreement()
    sizes = (paired.size, paired.crowd) if workers else (paired.size,)
    values = [paired.weighed(*(_counts(rng, size) for size in sizes)) for _ in range(resamples if paired.size else 0)]
    defined = np.array([value for value in values if value is not None])
    if agreement.value is None or not defined.size:
        return agreement
    low, high = percentiles(defined)
    return replace(agreement, low=low, high=high, resamples=len(defined))


def percentiles(values: Doubles) -> tuple[float, float]:
    """The interval that holds the middle 95 % of the values.

    >>> [round(edge, 6) for edge in percentiles(np.arange(201.0))]
    [5.0, 195.0]
    """
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _counts(rng: np.random.Generator, size: int) -> Doubles:
    """Counts of each of `size` items in `size` draws with replacement, [size]."""
    return np.bincount(rng.integers(0, size, size), minlength=size).astype(np.float64)


def cohen(votes: Votes) -> Agreement:
    """Cohen's kappa of two workers, on the units that both judged; chance is that each keeps to his own habits (Cohen 1960).

    Raises DataError for another number of workers.

    >>> from ctxr.metrics.votes import gather
    >>> cohen(gather([1, 2, 3, 4] * 2, ["x"] * 4 + ["y"] * 4, [1, 1, 0, 0, 1, 0, 0, 0])).value
    0.5
    """
    crowd = np.unique(votes.workers)
    if len(crowd) != 2:
        raise DataError(f"Cohen's kappa compares two workers, and {len(crowd)} voted", "choose two, or ask for alpha")
    values = np.full((2, len(votes.unit_names)), -1)
    values[(votes.workers == crowd[1]).astype(int), votes.units] = votes.values
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

    Where units have different numbers of votes, each unit counts the same (Gwet 2014); units with one vote tell of the
    shares only.
    """
    observed, shares, units, count = _agreeing(votes)
    if not units:
        return Agreement(None, 0, 0, NO_PAIR)
    return beyond_chance(observed, float((shares * shares).sum()), units, count)


def gwet(votes: Votes, categories: int | None = None) -> Agreement:
    """Gwet's AC1; chance is that of agreeing by guessing where guessing is plausible (Gwet 2008).

    Args:
        categories: values that could have been given; without, those that were. Picking one of ten images: 10.

    >>> from ctxr.metrics.votes import gather
    >>> round(gwet(gather([1, 2, 3, 4] * 2, ["x"] * 4 + ["y"] * 4, [1, 1, 0, 0, 1, 0, 0, 0])).value, 4)
    0.5294
    """
    observed, shares, units, count = _agreeing(votes)
    if not units:
        return Agreement(None, 0, 0, NO_PAIR)
    kinds = int((shares > 0).sum()) if categories is None else categories
    if kinds < 2:
        return Agreement(None, units, count, NO_VARIATION)
    return beyond_chance(observed, float((shares * (1 - shares)).sum() / (kinds - 1)), units, count)


def _agreeing(votes: Votes) -> tuple[float, Doubles, int, int]:
    """Mean share of agreeing pairs, share of each value [V] (units count the same), units and votes with a pair."""
    size, kinds = len(votes.unit_names), len(votes.labels)
    cell, cell_units, cell_values = cells(votes.units, size, votes.values, kinds)
    counts = np.bincount(cell, minlength=len(cell_units))
    sizes = np.bincount(votes.units, minlength=size)
    shares = np.bincount(cell_values, counts / sizes[cell_units], kinds) / max(1, (sizes > 0).sum())
    several = sizes >= 2
    if not several.any():
        return 0.0, shares, 0, 0
    agreeing = np.bincount(cell_units, counts * (counts - 1), size)[several] / (sizes * (sizes - 1))[several]
    return float(agreeing.mean()), shares, int(several.sum()), int(sizes[several].sum())


def beyond_chance(observed: float, chance: float, units: int, votes: int) -> Agreement:
    """(observed - chance) / (1 - chance) of shares of agreeing pairs; undefined where chance is 1."""
    if chance >= 1 - 1e-15:
        return Agreement(None, units, votes, NO_VARIATION)
    return Agreement((observed - chance) / (1 - chance), units, votes)


Tags = Collection[str]


def masi(left: Tags, right: Tags) -> float:
    """Distance of two sets, 0..1: 1 - J M, with J the share of common tags (Jaccard), and M 1 for equal sets, 2/3 if one
    holds the other, 1/3 if they overlap, 0 if not (Passonneau 2006). Two empty sets are equal.

    >>> masi({"negation"}, {"negation", "spatial"})
    0.6666666666666667
    """
    one, other = frozenset(left), frozenset(right)
    if one == other:
        return 0.0
    common = len(one & other)
    monotone = 2 / 3 if one <= other or other <= one else 1 / 3
    return 1 - common / len(one | other) * monotone


def masi_alpha(units: Column, workers: Column, tags: Sequence[Tags]) -> Agreement:
    """Krippendorff's alpha over sets of tags with MASI's distance as the difference.

    Args:
        units, workers: columns [N]. tags: [N], the set that each worker gave to the unit; empty if none fits.
    """
    codes, sets = factorise([tuple(sorted(set(names))) for names in tags])
    table = np.array([[masi(left, right) for right in sets] for left in sets]).reshape(len(sets), len(sets))
    return alpha(gather(units, workers, codes), table)


def tag_alphas(units: Column, workers: Column, tags: Sequence[Tags]) -> list[tuple[str, float, Agreement]]:
    """Each tag that was given, the share of all votes that give it, 0..1, and nominal alpha of given or not given, which for a
    tag that hardly anyone gives rests on those few votes.

    >>> ((tag, share, agreement),) = tag_alphas(["a", "a", "b", "b"], ["x", "y", "x", "y"], [["t"], ["t"], [], []])
    >>> tag, share, agreement.value
    ('t', 0.5, 1.0)
    """
    rows = []
    for tag in sorted(set().union(*map(frozenset, tags))):
        votes = np.array([tag in names_of for names_of in tags], np.int64)
        rows.append((tag, float(votes.mean()), alpha(gather(units, workers, votes))))
    return rows
