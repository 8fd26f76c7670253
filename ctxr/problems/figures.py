"""Figures of an evaluation and comparisons of its runs, made of columns in one place, and as text in tables.

All figures of a split see the same draws, so the interval of a difference is that of pairs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ctxr.engine.report import P_SHOWN, Table
from ctxr.metrics import compare
from ctxr.metrics.compare import Clusters, Interval, RatioColumn, ratio_intervals, sign_flip
from ctxr.metrics.proportions import LEVEL, holm
from ctxr.metrics.studies import POWER, resolved_by
from ctxr.metrics.votes import FIRST_VOTES

Measure = tuple[str, str, str]
"""View, part and name of a measure; see `Figure`."""

Columns = Sequence[tuple[Measure, RatioColumn]]


@dataclass(frozen=True)
class Figure:
    """One measure of one run on one part of a split.

    Attributes:
        view: the grouping: overall, phenomena, writers, source, position, length, distance.
        part: name of the part; in `phenomena` with the number of annotated questions. measure: accuracy, mrr, recall@k, chance.
        queries: in the part. interval: with its clusters.
    """

    split: str
    run: str
    view: str
    part: str
    measure: str
    queries: int
    interval: Interval


@dataclass(frozen=True)
class Seeds:
    """Accuracy of the seeds of a run on a split, their mean and standard deviation (n - 1)."""

    split: str
    run: str
    accuracies: dict[str, float]
    mean: float
    deviation: float


@dataclass(frozen=True)
class People:
    """What people reach on a part of a dataset: `votes` (None: not known), figures by measure, nominal alpha."""

    votes: int | None
    reached: Mapping[str, Interval]
    alpha: Interval


def people_on(people: Mapping[str, People], split: str) -> dict[str, Mapping[str, Interval]]:
    """What models are compared with, by name of row: first votes on that split, or on all where it has none."""
    named = [name for name in people if name.endswith(FIRST_VOTES)]
    name = next((name for name in (split, f"{split}, {FIRST_VOTES}", *named) if name in people), None)
    return {} if name is None else {f"people ({name})": people[name].reached}


def seeds_of(split: str, run: str, accuracies: Mapping[str, float]) -> list[Seeds]:
    """The row of a run with several seeds; none for a single one."""
    values = list(accuracies.values())
    if len(values) < 2:
        return []
    return [Seeds(split, run, dict(accuracies), float(np.mean(values)), float(np.std(values, ddof=1)))]


@dataclass(frozen=True)
class RunDifference:
    """Accuracy of a run less that of another, on one part of a split.

    Attributes:
        permutation: p-value of flipping clusters. corrected: the same after Holm's correction over all that is printed together.
        mcnemar: exact, on queries that both runs have right or wrong outright, as if they were independent; None for runs of
            several seeds, which are neither right nor wrong, and where every query has a tie.
        mcnemar_corrected: after Holm's correction over all that is printed together.
        tied: queries that McNemar leaves out, as the target shares the highest score of one of the two runs.
    """

    split: str
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
        together: the columns of all runs are one product, and figures of 0 and 1 get the interval of as many trials; else each run is a
            product of its own, with its weights.
    """

    split: str
    groups: Sequence[str | int]
    seed: tuple[int, int]
    resamples: int
    permutations: int
    together: bool = False

    @cached_property
    def clusters(self) -> Clusters:
        """The draws."""
        return Clusters(self.groups, np.random.default_rng(self.seed), self.resamples)

    def figures(self, runs: Mapping[str, Columns]) -> list[Figure]:
        """Every measure of every run."""
        rows = [(run, *item) for run, columns in runs.items() for item in columns]
        tables = [rows] if self.together else [[row for row in rows if row[0] == run] for run in runs]
        intervals: list[Interval] = []
        for table in filter(None, tables):
            intervals += ratio_intervals([column for *_, column in table], self.clusters, apart=self.together)
        if self.together:
            intervals = list(map(compare.widen_certain, intervals))
        return [
            Figure(self.split, run, *measure, int(column.within.sum()), interval)
            for (run, measure, column), interval in zip(rows, intervals, strict=True)
        ]

    def differences(
        self, parts: Mapping[str, Mapping[str, RatioColumn]], single: Collection[str] = ()
    ) -> list[RunDifference]:
        """Every run against every one before it by a measure of each part, uncorrected (`correct_together`); `single`: runs whose
        queries are right or wrong outright, for McNemar."""
        rows, clusters = list[RunDifference](), self.clusters
        for part, runs in parts.items():
            for number, (first, base) in enumerate([*runs.items()][:-1], start=1):
                others, within = [*runs.items()][number:], base.within
                if all(np.array_equal(one.weights, base.weights) for _, one in others):
                    gains = [RatioColumn(base.rows, one.values - base.values, base.weights) for _, one in others]
                    codes = clusters.codes[base.rows[within]]
                    flips = [
                        sign_flip(gain.values[within], codes, np.random.default_rng(self.seed), self.permutations)
                        for gain in gains
                    ]
                    intervals = ratio_intervals(gains, clusters, apart=self.together)
                    tested = list(zip(intervals, flips, strict=True))
                else:
                    tested = [
                        compare.ratio_difference(one, base, clusters, self.seed, self.permutations) for _, one in others
                    ]
                for (run, one), (interval, flip) in zip(others, tested, strict=True):
                    exact: tuple[float | None, int | None] = None, None
                    if run in single and first in single:
                        exact = compare.mcnemar_of_shares(one.values[within], base.values[within])
                    size, (p, tied) = int(within.sum()), exact
                    rows.append(RunDifference(self.split, part, run, first, size, interval, flip, flip, p, p, tied))
        return rows


STATIC = {"photos": "static"}
"""How the paper calls parts that tables of records call otherwise."""


def seed_table(split: str, rows: Sequence[Seeds], measure: str, note: str) -> Table | None:
    """Mean and standard deviation over the seeds of each run, in percent; None without a run of several seeds."""
    shown = tuple(
        (
            row.run,
            len(row.accuracies),
            f"{100 * row.mean:.1f} ± {100 * row.deviation:.1f}",
            ", ".join(f"{100 * value:.1f}" for value in row.accuracies.values()),
        )
        for row in rows
        if row.split == split
    )
    return Table(f"{split}: over seeds", ("run", "seeds", measure, "each"), shown, note) if shown else None


def none_had(intervals: Sequence[Interval]) -> str:
    """What to add where a figure has no interval, by the reasons that occur."""
    lacking = [interval for interval in intervals if interval.value is not None and interval.low is None]
    few = any(one.clusters < compare.LEAST_CLUSTERS for one in lacking)
    alike = any(one.clusters >= compare.LEAST_CLUSTERS for one in lacking)
    why = [
        *([f"fewer than {compare.LEAST_CLUSTERS} clusters"] if few else []),
        *(["all draws are alike"] if alike else []),
    ]
    return f"; (–): no interval, {' or '.join(why)}" if why else ""


CHANGED = "†: made on another dataset, or on this one before its judgments were changed"


def mark_changed(table: Table, runs: Collection[str]) -> Table:
    """The table with a dagger at these runs, in cells or columns, and a note of what it means."""
    named = [head in ("run", "against") for head in table.columns]
    if any(named):
        rows = (zip(row, named, strict=True) for row in table.rows)
        marked_rows = tuple(tuple(f"{cell} †" if here and cell in runs else cell for cell, here in row) for row in rows)
        marked = replace(table, rows=marked_rows)
    else:
        marked = replace(table, columns=tuple(f"{head} †" if head in runs else head for head in table.columns))
    return table if marked == table else replace(marked, note=f"{table.note}; {CHANGED}" if table.note else CHANGED)


def difference(row: RunDifference) -> str:
    """A difference in points with its interval, starred if significant after correction."""
    return percent(row.interval, signed=True) + ("*" if row.corrected < 1 - LEVEL else "")


def corrected_note(rows: Sequence[RunDifference]) -> str:
    """What the star and Holm's correction mean, by all rows that were corrected together."""
    return (
        f"Holm: corrected over all {len(rows):,} differences of the evaluation, for each test by itself; "
        f"*: p of the sign flips below {1 - LEVEL:.2f} after it"
    )


def difference_table(split: str, rows: Sequence[RunDifference], units: str) -> Table | None:
    """Each run less every one before it, by measure; `units` are flipped. None without any."""
    own = [row for row in rows if row.split == split]
    if not own:
        return None
    shown = tuple(
        (row.run, row.part, row.against, difference(row), p_value(row.permutation), p_value(row.corrected))
        for row in own
    )
    tests = f"p: two-sided, signs of whole {units} are flipped; {corrected_note(rows)}"
    note = f"run minus against, in points; {tests}{none_had([row.interval for row in own])}"
    return Table(f"{split}: differences", ("run", "measure", "against", "difference", "p flips", "Holm"), shown, note)


def resolution(split: str, figures: Sequence[Interval], differences: Sequence[RunDifference]) -> str:
    """Which difference a split resolves, for the paper: between any two of its runs, so by the widest interval of their first measure; with
    one run, by that of its figure, as if the errors of another were independent. Empty where no interval is known."""
    compared = [row for row in differences if row.split == split]
    own = [row.interval for row in compared if row.part == compared[0].part]
    factor, between = (1.0, "") if own else (2**0.5, ", and smaller ones between models whose errors are alike")
    known = [points for one in own or figures if (points := resolved_by(one)) is not None]
    if not known:
        return ""
    points = 100 * factor * max(known)
    return f"this benchmark resolves differences of {points:.1f} points (power {POWER:g}, p < {1 - LEVEL:.2f}){between}"


def percent(interval: Interval, signed: bool = False) -> str:
    """A share as percent with its interval in brackets, "(–)" where there is none."""
    if interval.value is None:
        return "–"
    sign = "+" if signed else ""
    value = f"{100 * interval.value:{sign}.1f}"
    if interval.low is None or interval.high is None:
        return f"{value} (–)"
    to = " to " if signed else "–"
    return f"{value} ({100 * interval.low:{sign}.1f}{to}{100 * interval.high:{sign}.1f})"


def p_value(value: float | None) -> str:
    """A p-value; none is 0."""
    if value is None:
        return "–"
    return f"<{P_SHOWN}" if value < P_SHOWN else f"{value:.3f}"
