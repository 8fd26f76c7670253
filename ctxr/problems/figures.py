"""Figures of an evaluation and comparisons of its runs, made of columns in one place.

All figures of a split see the same draws, so the interval of a difference is that of pairs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ctxr.metrics.columns import RatioColumn, ratio_difference, ratio_intervals, widen_certain
from ctxr.metrics.compare import Clusters, Interval, mcnemar_of_shares, sign_flip
from ctxr.metrics.proportions import holm

PARTS = ("all", "video", "photos")
"""What the paper calls static is called photos in tables of records."""

Measure = tuple[str, str, str]
"""View, part and name of a measure; see `Figure`."""

Columns = Sequence[tuple[Measure, RatioColumn]]


@dataclass(frozen=True)
class Figure:
    """One measure of one run on one part of a side.

    Attributes:
        view: the grouping: overall, phenomena, writers, source, length, distance.
        part: name of the part; in `phenomena` with the number of annotated questions. measure: accuracy, mrr, recall@k, chance.
        queries: in the part. interval: with its clusters.
    """

    side: str
    run: str
    view: str
    part: str
    measure: str
    queries: int
    interval: Interval


@dataclass(frozen=True)
class Seeds:
    """Accuracy of the seeds of one run on a side: each, their mean and standard deviation (n - 1)."""

    side: str
    run: str
    accuracies: dict[str, float]
    mean: float
    deviation: float


def seeds_of(split: str, run: str, accuracies: Mapping[str, float]) -> list[Seeds]:
    """The row of a run with several seeds; none for a single one."""
    values = list(accuracies.values())
    if len(values) < 2:
        return []
    return [Seeds(split, run, dict(accuracies), float(np.mean(values)), float(np.std(values, ddof=1)))]


@dataclass(frozen=True)
class RunDifference:
    """Accuracy of a run less that of another, on one part of a side.

    Attributes:
        permutation: p-value of flipping clusters. corrected: the same after Holm's correction over all that is printed together.
        mcnemar: exact, on queries that both runs have right or wrong outright, as if they were independent; None for runs of
            several seeds, which are neither right nor wrong, and where every query has a tie.
        mcnemar_corrected: after Holm's correction over all that is printed together.
        tied: queries that McNemar leaves out, as the target shares the highest score of one of the two runs.
    """

    side: str
    part: str
    run: str
    against: str
    queries: int
    interval: Interval
    permutation: float
    corrected: float
    mcnemar: float | None
    mcnemar_corrected: float | None
    tied: int | None = None


def correct_together(rows: Sequence[RunDifference]) -> list[RunDifference]:
    """The rows with Holm's correction over all of them, of the flips and of McNemar's test each."""
    flips = holm([row.permutation for row in rows])
    exact = iter(holm([row.mcnemar for row in rows if row.mcnemar is not None]))
    return [
        replace(row, corrected=flip, mcnemar_corrected=None if row.mcnemar is None else next(exact))
        for row, flip in zip(rows, flips, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Summariser:
    """What makes figures and differences of the columns of a split.

    Attributes:
        groups: [N] what is drawn again and flipped as a whole. seed: equal ones give equal draws.
        together: the columns of all runs are one product; else each run is one, with its weights. exact: figures of 0 and 1 get the
            interval of as many trials.
    """

    split: str
    groups: Sequence[str | int]
    seed: tuple[int, int]
    resamples: int
    permutations: int
    together: bool = False
    exact: bool = False

    @cached_property
    def clusters(self) -> Clusters:
        """The draws."""
        return Clusters(self.groups, np.random.default_rng(self.seed), self.resamples)

    def figures(self, runs: Mapping[str, Columns]) -> list[Figure]:
        """Every measure of every run."""
        rows = [(run, *item) for run, columns in runs.items() for item in columns]
        tables = [rows] if self.together else [[row for row in rows if row[0] == run] for run in runs]
        intervals = [one for table in tables if table for one in self._intervals([column for *_, column in table])]
        return [
            Figure(
                self.split, run, *measure, int(column.within.sum()), widen_certain(interval) if self.exact else interval
            )
            for (run, measure, column), interval in zip(rows, intervals, strict=True)
        ]

    def differences(
        self, parts: Mapping[str, Mapping[str, RatioColumn]], single: Collection[str] = ()
    ) -> list[RunDifference]:
        """Every run against every one before it, uncorrected (`correct_together`).

        Args:
            parts: a measure of the runs, of the same queries. single: runs whose queries are right or wrong outright, for McNemar.
        """
        rows: list[RunDifference] = []
        for part, runs in parts.items():
            for number, (first, base) in enumerate(runs.items()):
                others = [*runs.items()][number + 1 :]
                within = base.within
                tested = self._tested(base, [column for _, column in others])
                for (run, one), (interval, flip) in zip(others, tested, strict=True):
                    exact: tuple[float | None, int | None] = None, None
                    if run in single and first in single:
                        exact = mcnemar_of_shares(one.values[within], base.values[within])
                    size, (p, tied) = int(within.sum()), exact
                    rows.append(RunDifference(self.split, part, run, first, size, interval, flip, flip, p, p, tied))
        return rows

    def _tested(self, base: RatioColumn, others: Sequence[RatioColumn]) -> list[tuple[Interval, float]]:
        """How runs differ from one, and the p-value of that."""
        if not others:
            return []
        if any(not np.array_equal(other.weights, base.weights) for other in others):
            return [ratio_difference(other, base, self.clusters, self.seed, self.permutations) for other in others]
        gains = [RatioColumn(base.rows, other.values - base.values, base.weights) for other in others]
        codes = self.clusters.codes[base.rows[base.within]]
        flips = [
            sign_flip(gain.values[base.within], codes, np.random.default_rng(self.seed), self.permutations)
            for gain in gains
        ]
        return list(zip(self._intervals(gains), flips, strict=True))

    def _intervals(self, columns: Sequence[RatioColumn]) -> list[Interval]:
        return ratio_intervals(columns, self.clusters, apart=self.together)
