"""Figures as text: percent with intervals, p-values, and the table of seeds."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ctxr.engine.report import P_SHOWN, Table
from ctxr.metrics.compare import LEAST_CLUSTERS, Interval
from ctxr.metrics.proportions import LEVEL
from ctxr.problems.figures import RunDifference, Seeds

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
        if row.side == split
    )
    return Table(f"{split}: over seeds", ("run", "seeds", measure, "each"), shown, note) if shown else None


def none_had(intervals: Sequence[Interval]) -> str:
    """What to add where a figure has no interval, by the reasons that occur."""
    lacking = [interval for interval in intervals if interval.value is not None and interval.low is None]
    few = any(one.clusters < LEAST_CLUSTERS for one in lacking)
    alike = any(one.clusters >= LEAST_CLUSTERS for one in lacking)
    why = [*([f"fewer than {LEAST_CLUSTERS} clusters"] if few else []), *(["all draws are alike"] if alike else [])]
    return f"; (–): no interval, {' or '.join(why)}" if why else ""


CHANGED = "†: made on another dataset, or on this one before its judgments were changed"


def mark_changed(table: Table, runs: Collection[str]) -> Table:
    """The table with a dagger at these runs, named in the columns `run` and `against` or else at the top, and a note of what it means."""
    named = {place for place, head in enumerate(table.columns) if head in ("run", "against")}

    def mark(cells: Sequence[object]) -> tuple[object, ...]:
        return tuple(
            f"{cell} †" if cell in runs and (not named or place in named) else cell for place, cell in enumerate(cells)
        )

    marked = (
        replace(table, rows=tuple(map(mark, table.rows)))
        if named
        else replace(table, columns=tuple(map(str, mark(table.columns))))
    )
    return table if marked == table else replace(marked, note=f"{table.note}; {CHANGED}" if table.note else CHANGED)


def difference(row: RunDifference) -> str:
    """A difference in points with its interval, starred where it is significant after correction."""
    return percent(row.interval, signed=True) + ("*" if row.corrected < 1 - LEVEL else "")


def corrected_note(rows: Sequence[RunDifference]) -> str:
    """What the star and Holm's correction mean, by all rows that were corrected together."""
    return (
        f"Holm: corrected over all {len(rows):,} differences of the evaluation, for each test by itself; "
        f"*: p of the sign flips below {1 - LEVEL:.2f} after it"
    )


def difference_table(split: str, rows: Sequence[RunDifference], units: str) -> Table | None:
    """Each run less every one before it, measure by measure; `units` are what is flipped. None without a difference."""
    own = [row for row in rows if row.side == split]
    if not own:
        return None
    shown = tuple(
        (row.run, row.part, row.against, difference(row), p_value(row.permutation), p_value(row.corrected))
        for row in own
    )
    note = (
        f"points; p: two-sided, {units} flipped whole; {corrected_note(rows)}{none_had([row.interval for row in own])}"
    )
    return Table(f"{split}: differences", ("run", "measure", "against", "difference", "p flips", "Holm"), shown, note)


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
