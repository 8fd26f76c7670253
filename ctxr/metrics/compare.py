"""Intervals, significance tests and correlations for runs whose queries are clustered by image set, and the columns of measures.

A set brings one to three descriptions, and what makes it hard makes it hard for all of them. So sets are what is drawn again
and what is flipped, never single queries. McNemar's test alone takes queries for independent: its p-value is too small on clustered data.

With 5 sets about 81 % of the intervals of 95 % hold the truth, with 10 about 90 %, with 20 about 94 % (`python -m bench evaluation`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.special import bdtr

from ctxr.metrics.agreement import percentiles
from ctxr.metrics.proportions import exact_interval
from ctxr.metrics.ranking import row_blocks
from ctxr.metrics.votes import Codes, Column, Doubles, Flags, factorise

K = TypeVar("K")

RESAMPLES = 10_000

EXACT_CLUSTERS = 13
"""Up to so many clusters with a difference every pattern of signs is tried: 8,192."""

FEW_CLUSTERS = 20
"""With fewer clusters percentile intervals are noticeably too narrow."""

LEAST_CLUSTERS = 5
"""With fewer clusters there is no interval: a handful drawn again says next to nothing about those that were not drawn."""

_BLOCK = 1_000_000
_LEAST = 1e-9
_NOISE = 1e-13


@dataclass(frozen=True)
class Interval:
    """A figure with its percentile interval.

    Attributes:
        value: on the data as they are; None where it is not defined. low, high: None where it rests on fewer than
            `LEAST_CLUSTERS` clusters, or all draws give the same: then drawing again says nothing.
        clusters: what was drawn again. resamples: in how many of the draws the figure was defined.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    clusters: int = 0
    resamples: int = 0


class Clusters:
    """The clusters of N rows drawn again with replacement, R times and once for all figures: each figure is a sum through weights. So
    the interval of a difference between two runs is that of their pairs."""

    def __init__(self, groups: Column, rng: np.random.Generator, resamples: int = RESAMPLES) -> None:
        self.codes, names = factorise(groups)
        self.size = len(names)
        self.resamples = resamples if self.size else 0
        # that one of more than 255 clusters comes up more than 255 times in as many draws has no chance in any lifetime
        self.weights = np.zeros((self.resamples, self.size), np.uint8)
        for rows in row_blocks(self.resamples, self.size, _BLOCK):
            count = rows.stop - rows.start
            picks = rng.integers(0, self.size, (count, self.size)) + self.size * np.arange(count)[:, None]
            counts = np.bincount(picks.reshape(-1), minlength=count * self.size)
            self.weights[rows] = counts.reshape(count, self.size)

    def sums(self, columns: Doubles) -> Doubles:
        """Columns [N, M] summed in each cluster, [C, M]."""
        table = np.zeros((self.size, columns.shape[1]))
        np.add.at(table, self.codes, columns)
        return table

    def totals(self, columns: Doubles) -> Doubles:
        """Columns [N, M] summed over each draw, [R, M]."""
        sums = self.sums(columns)
        totals = np.empty((self.resamples, columns.shape[1]))
        for rows in row_blocks(self.resamples, self.size, _BLOCK):
            totals[rows] = self.weights[rows].astype(np.float64) @ sums
        return totals

    def means(self, values: Doubles, within: Flags) -> list[Interval]:
        """Means of M figures, each of its values [N, M] over its own rows `within` [N, M]."""
        counted = within.astype(np.float64)
        weighed = np.where(within, values, 0.0)
        sums = [(weighed[:, column].sum(), counted[:, column].sum()) for column in range(values.shape[1])]
        figures = [float(total / count) if count else None for total, count in sums]
        return self.ratios(weighed, counted, figures)

    def ratios(
        self, values: Doubles, weights: Doubles, figures: Sequence[float | None], apart: bool = True
    ) -> list[Interval]:
        """Intervals of M `figures`, ratios of sums [N, M]; `apart` multiplies one by one: digits depend on width."""
        tables = [values, weights]
        totals = np.hstack([self.totals(table) for table in tables]) if apart else self.totals(np.hstack(tables))
        present = (self.sums(weights) > 0).sum(axis=0)
        intervals = []
        for column, figure in enumerate(figures):
            weight = totals[:, len(figures) + column]
            shares = totals[weight > 0, column] / weight[weight > 0]
            intervals.append(interval_of(figure, shares, int(present[column])))
        return intervals


def mean_interval(values: Doubles, groups: Column, rng: np.random.Generator, resamples: int = RESAMPLES) -> Interval:
    """The mean of values [N] with its interval over whole clusters."""
    column = np.asarray(values, np.float64)[:, None]
    return Clusters(groups, rng, resamples).means(column, np.ones(column.shape, bool))[0]


def sign_flip(differences: Doubles, groups: Column, rng: np.random.Generator, draws: int = RESAMPLES) -> float:
    """Two-sided p-value for the claim that two runs are alike: in each cluster [N] by itself a coin decides which run is which, which
    flips the sign of the differences [N] of their outcomes.

    All patterns of signs are tried where at most `EXACT_CLUSTERS` clusters differ; else `draws` random ones, and the data as
    they are count as one more, so no p-value is 0.

    >>> sign_flip(np.array([1.0, 1.0, 0.0]), ["a", "b", "c"], np.random.default_rng(0))
    0.5
    """
    codes, names = factorise(groups)
    sums = np.bincount(codes, differences, len(names)).astype(np.float64)
    sums = sums[np.abs(sums) > _LEAST]
    far = abs(sums.sum()) - _LEAST * max(1.0, float(np.abs(sums).sum()))
    if len(sums) <= EXACT_CLUSTERS:
        patterns = np.arange(1 << len(sums))[:, None] >> np.arange(len(sums)) & 1
        return float((np.abs((1 - 2 * patterns) @ sums) >= far).mean())
    as_far = 0
    for rows in row_blocks(draws, len(sums), _BLOCK):
        signs = 1 - 2 * rng.integers(0, 2, (rows.stop - rows.start, len(sums)), np.int8)
        as_far += int((np.abs(signs @ sums) >= far).sum())
    return (1 + as_far) / (1 + draws)


def mcnemar(left: Flags, right: Flags) -> float:
    """McNemar's exact two-sided p-value for two runs that are right on [N] queries: the chance that a fair coin splits the queries on
    which one run alone is right as unevenly.
    """
    ours, theirs = int((left & ~right).sum()), int((right & ~left).sum())
    return min(1.0, 2 * float(bdtr(min(ours, theirs), ours + theirs, 0.5)))


def mcnemar_of_shares(left: Doubles, right: Doubles) -> tuple[float | None, int]:
    """McNemar's p-value for two runs by their accuracy on [N] queries, and how many queries say nothing to it.

    A query counts where both runs are right or wrong outright, 1 or 0. Where a target shares the highest score, accuracy lies
    in between and neither outcome is the run's own, so the query is left out. None where none is left.
    """
    outright = np.isin(left, (0.0, 1.0)) & np.isin(right, (0.0, 1.0))
    left_out = int((~outright).sum())
    if left_out == len(outright):
        return None, left_out
    return mcnemar(left[outright] == 1, right[outright] == 1), left_out


def pearson(one: Doubles, other: Doubles) -> float | None:
    """Pearson's r of two columns [N], -1..1; None where one of them does not vary."""
    if len(one) < 2:
        return None
    return _r(np.array([_moments(one, other).sum(axis=0)]))[0]


def pearson_interval(one: Doubles, other: Doubles, clusters: Clusters, within: Flags | None = None) -> Interval:
    """Pearson's r of two columns [N], on the rows `within` (default: all), with its interval over the draws of `clusters`."""
    chosen = np.ones(len(one), bool) if within is None else within
    value = pearson(one[chosen], other[chosen])
    present = len(np.unique(clusters.codes[chosen]))
    if value is None:
        return Interval(None, clusters=present)
    moments = np.zeros((len(one), 6))
    moments[chosen] = _moments(one[chosen], other[chosen])
    resampled = [r for r in _r(clusters.totals(moments)) if r is not None]
    return interval_of(value, np.array(resampled), present)


def _moments(one: Doubles, other: Doubles) -> Doubles:
    """1, x, y, x², y², xy of each row, [N, 6]; both centred and scaled, as squares of large numbers lose their last digits."""
    scaled = []
    for column in (one, other):
        centred = column - column.mean()
        spread = float(centred.std())
        scaled.append(centred / spread if spread > _NOISE * float(np.abs(column).max()) else centred * 0.0)
    x, y = scaled
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def _r(moments: Doubles) -> list[float | None]:
    """r of each row of sums [R, 6]; None where a column does not vary."""
    n, x, y, xx, yy, xy = moments.T
    n = np.maximum(n, 1.0)
    spread = (xx - x * x / n) * (yy - y * y / n)
    defined = spread > _LEAST * n * n
    ratio = (xy - x * y / n) / np.sqrt(np.where(defined, spread, 1.0))
    return [
        float(np.clip(value, -1, 1)) if is_defined else None for value, is_defined in zip(ratio, defined, strict=True)
    ]


def interval_of(value: float | None, resampled: Doubles, clusters: int) -> Interval:
    """A figure with the percentile interval of what draws over so many clusters gave, where they say anything."""
    if value is None or clusters < LEAST_CLUSTERS or not resampled.size or np.ptp(resampled) <= _LEAST:
        return Interval(value, clusters=clusters, resamples=len(resampled))
    low, high = percentiles(resampled)
    return Interval(value, low, high, clusters, len(resampled))


DRAWS = 1000


@dataclass(frozen=True)
class SampledRho:
    """Spearman's rho over draws, -1..1, as Crisscrossed Captions has it (Parekh et al. 2021): they chose their pairs densely around some
    items, so a plain correlation would count these most.

    Attributes:
        value: mean over the draws; None where rho is not defined in any of them. spread: standard deviation over them.
        low, high: between which 95 % of the draws lie: of half of the queries each, so no interval of their mean.
        pairs, queries: that there are.
    """

    value: float | None
    spread: float | None
    low: float | None
    high: float | None
    pairs: int
    queries: int


def spearman(one: Doubles, other: Doubles) -> float | None:
    """Spearman's rho of two columns [N], -1..1, ties by their mean rank; None where one of them does not vary."""
    return pearson(mean_ranks(one), mean_ranks(other))


def sampled_spearman(
    queries: Column, rated: Doubles, scored: Doubles, rng: np.random.Generator, draws: int = DRAWS
) -> SampledRho:
    """Spearman's rho of ratings [N] and scores [N], over draws of half of the queries [N] (rounded up) and one pair of each."""
    codes = np.unique(np.asarray(queries), return_inverse=True)[1] if len(queries) else np.zeros(0, np.int64)
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    rhos = []
    for _ in range(draws):
        chosen = rng.choice(len(sizes), (len(sizes) + 1) // 2, replace=False)
        pairs = order[starts[chosen] + rng.integers(0, sizes[chosen])]
        rho = spearman(rated[pairs], scored[pairs])
        if rho is not None:
            rhos.append(rho)
    if not rhos:
        return SampledRho(None, None, None, None, len(queries), len(sizes))
    values = np.array(rhos)
    low, high = percentiles(values)
    return SampledRho(float(values.mean()), float(values.std()), low, high, len(queries), len(sizes))


def mean_ranks(column: Doubles) -> Doubles:
    """Ranks from 1, equal values at the mean of theirs."""
    _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + 1 + ends) / 2)[codes]


@dataclass(frozen=True, eq=False)
class RatioColumn:
    """A measure of n queries: the row of the clusters that each is drawn with, and values and weights, whose ratio of sums is the figure;
    `value` is the figure where it is defined otherwise."""

    rows: Codes
    values: Doubles
    weights: Doubles
    value: float | None = None

    @property
    def figure(self) -> float | None:
        """The figure; None where the weights add up to 0."""
        total = float(self.weights.sum())
        return self.value if self.value is not None or not total else float(self.values.sum() / total)

    @property
    def within(self) -> Flags:
        """[n] the queries that count."""
        return self.weights > 0


def mean_columns(runs: Sequence[Mapping[K, RatioColumn]]) -> dict[K, RatioColumn]:
    """The columns of a run: the mean over its seeds, query by query."""
    return {
        name: RatioColumn(
            column.rows,
            np.mean([run[name].values for run in runs], axis=0),
            np.mean([run[name].weights for run in runs], axis=0),
            None if column.value is None else float(np.mean([run[name].value for run in runs])),
        )
        for name, column in runs[0].items()
    }


def ratio_intervals(columns: Sequence[RatioColumn], clusters: Clusters, apart: bool = False) -> list[Interval]:
    """The figures with intervals over clusters of the rows: queries are drawn again with their row. `apart`: see `Clusters.ratios`."""
    rows = len(clusters.codes)
    values = np.stack([np.bincount(column.rows, column.values, rows) for column in columns], axis=1)
    weights = np.stack([np.bincount(column.rows, column.weights, rows) for column in columns], axis=1)
    figures = [column.figure for column in columns]
    return clusters.ratios(values.astype(np.float64), weights.astype(np.float64), figures, apart)


def ratio_difference(
    ours: RatioColumn, base: RatioColumn, clusters: Clusters, seed: tuple[int, int], draws: int
) -> tuple[Interval, float]:
    """Difference of two ratios with different weights, such as F1: interval, and p-value for swaps in each cluster."""
    tables = [np.stack([column.values, column.weights], axis=1) for column in (ours, base)]
    sums = [np.zeros((clusters.size, 2)) for _ in tables]
    for total, table, column in zip(sums, tables, (ours, base), strict=True):
        np.add.at(total, clusters.codes[column.rows], table)
    swaps = np.random.default_rng(seed).integers(0, 2, (draws, clusters.size)).astype(np.float64)
    change = swaps @ (sums[1] - sums[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = [clusters.weights.astype(np.float64) @ total for total in sums]
        shares = resampled[0][:, 0] / resampled[0][:, 1] - resampled[1][:, 0] / resampled[1][:, 1]
        swapped = [total.sum(axis=0) + change * sign for total, sign in zip(sums, (1, -1), strict=True)]
        gains = swapped[0][:, 0] / swapped[0][:, 1] - swapped[1][:, 0] / swapped[1][:, 1]
    if ours.figure is None or base.figure is None:
        return Interval(None), 1.0
    value = ours.figure - base.figure
    interval = interval_of(value, shares[np.isfinite(shares)], clusters.size)
    return interval, float((1 + (np.abs(gains) >= abs(value) - 1e-12).sum()) / (1 + draws))


def widen_certain(interval: Interval) -> Interval:
    """An interval of a share that is 0 or 1: drawing again never leaves it, so it is that of as many trials as clusters."""
    if interval.value not in (0.0, 1.0) or interval.clusters < 2:
        return interval
    low, high = exact_interval(interval.value * interval.clusters, interval.clusters)
    return replace(interval, low=low, high=high)
