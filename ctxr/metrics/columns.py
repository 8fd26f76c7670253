"""A measure is a column: a numerator and a weight for each query. The figure is the ratio of their sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ctxr.metrics.compare import Clusters, Interval, interval_of
from ctxr.metrics.proportions import exact_interval
from ctxr.metrics.votes import Codes, Doubles, Flags

K = TypeVar("K")


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
        """None without weight."""
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
    """How two ratios of the same queries differ whose weights differ, such as F1: with an interval, and a two-sided p-value for
    swapping the runs in each cluster by itself."""
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
