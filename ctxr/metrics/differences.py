"""Sums of differences between values, within units and over all votes: the two halves of Krippendorff's alpha.

Each class answers the same two questions about votes that count as often as `weights` [N] says (None: once).
`within(weights, counts)`: for each unit [U] the sum, over ordered pairs of its votes, of weight times weight times difference.
`overall(counts)`: the same sum over all votes, which needs only how often each value was given, `counts` [V].
`moves` says whether `within` looks at `counts` at all.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxr.metrics.votes import Codes, Doubles

Metric = Callable[[npt.NDArray[Any], npt.NDArray[Any]], Doubles]

TABLE = 1500
"""Values up to which all differences are kept as one table; above, they are computed in stripes each time."""


class NominalDistance:
    """Values are names: 1 apart if they differ."""

    moves = False

    def __init__(self, units: Codes, size: int, values: Codes, kinds: int) -> None:
        self.units, self.size = units, size
        self.cells, self.cell_units, _ = cells(units, size, values, kinds)

    def within(self, weights: Doubles | None, counts: Doubles) -> Doubles:
        """m² less the squares of how often each value was given."""
        sizes = np.bincount(self.units, weights, self.size).astype(np.float64)
        given = np.bincount(self.cells, weights, len(self.cell_units)).astype(np.float64)
        apart: Doubles = sizes * sizes - np.bincount(self.cell_units, given * given, self.size)
        return apart

    def overall(self, counts: Doubles) -> float:
        """n² less the squares of the counts."""
        return float(counts.sum() ** 2 - (counts * counts).sum())


class SquaredDistance:
    """Values are numbers, apart by the square of their distance; without `numbers` by that of their ranks.

    A rank is the mean place of a value among all votes, so ordinal alpha is interval alpha over ranks: the votes between
    two values, with half of each of the two, are what Krippendorff's ordinal difference counts.
    """

    def __init__(self, units: Codes, size: int, values: Codes, numbers: Doubles | None) -> None:
        self.units, self.size, self.values = units, size, values
        # numbers far from 0 would lose their last digits in squares
        self.numbers = numbers - numbers.mean() if numbers is not None and numbers.size else numbers
        self.moves = numbers is None

    def _places(self, counts: Doubles) -> Doubles:
        places: Doubles = np.cumsum(counts) - counts / 2 if self.numbers is None else self.numbers
        return places

    def within(self, weights: Doubles | None, counts: Doubles) -> Doubles:
        """Twice m times the squared distances from the unit's mean: the closed form of the sum over pairs."""
        places = self._places(counts)[self.values]
        weighed = places if weights is None else places * weights
        sizes = np.bincount(self.units, weights, self.size).astype(np.float64)
        means = np.bincount(self.units, weighed, self.size) / np.maximum(sizes, 1e-300)
        off = np.square(places - means[self.units])
        apart: Doubles = 2 * sizes * np.bincount(self.units, off if weights is None else off * weights, self.size)
        return apart

    def overall(self, counts: Doubles) -> float:
        """The same closed form over all votes."""
        places, total = self._places(counts), counts.sum()
        if not total:
            return 0.0
        mean = (counts * places).sum() / total
        return float(2 * total * (counts * np.square(places - mean)).sum())


class MetricDistance:
    """Values are as far apart as a function of two arrays of labels says; work grows with the pairs in a unit and with V²."""

    moves = False

    def __init__(self, units: Codes, size: int, values: Codes, labels: npt.NDArray[Any], metric: Metric) -> None:
        self.size, self.labels, self.metric = size, labels, metric
        self.cells, cell_units, cell_values = cells(units, size, values, len(labels))
        self.left, self.right = pairs_within(cell_units)
        self.pair_units = cell_units[self.left]
        self.apart = metric(labels[cell_values[self.left]], labels[cell_values[self.right]]).astype(np.float64)
        self.cell_count = len(cell_units)
        self.table = metric(labels[:, None], labels[None, :]).astype(np.float64) if len(labels) <= TABLE else None

    def within(self, weights: Doubles | None, counts: Doubles) -> Doubles:
        """Summed over the pairs of different values of a unit."""
        given = np.bincount(self.cells, weights, self.cell_count).astype(np.float64)
        apart = np.bincount(self.pair_units, given[self.left] * given[self.right] * self.apart, self.size)
        return 2.0 * apart.astype(np.float64)

    def overall(self, counts: Doubles) -> float:
        """Summed over the table of differences, or over stripes of it."""
        if self.table is not None:
            return float(counts @ self.table @ counts)
        used = np.flatnonzero(counts)
        labels, given = self.labels[used], counts[used]
        total = 0.0
        for start in range(0, len(used), TABLE):
            stripe = slice(start, start + TABLE)
            total += float(given[stripe] @ self.metric(labels[stripe, None], labels[None, :]) @ given)
        return total


def cells(units: Codes, size: int, values: Codes, kinds: int) -> tuple[Codes, Codes, Codes]:
    """The cells of the table unit x value that hold a vote: the cell of each vote [N], and each cell's unit and value [C].

    Cells are numbered by unit, then value.

    >>> [column.tolist() for column in cells(np.array([1, 0, 1]), 2, np.array([2, 2, 2]), 3)]
    [[1, 0, 1], [0, 1], [2, 2]]
    """
    keys = units * np.int64(kinds) + values
    if size * kinds <= 4 * len(keys) + 1000:
        # a table that is small beside the votes is ticked off, which is faster than sorting
        there = np.bincount(keys, minlength=size * kinds) > 0
        known = np.flatnonzero(there)
        found = (np.cumsum(there) - 1)[keys]
    else:
        known, found = np.unique(keys, return_inverse=True)
        found = found.reshape(-1)
    return found.astype(np.int64), known // kinds, known % kinds


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
