"""What was measured, as one table on the screen and as `docs/performance.md`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from bench.growth import expectations
from bench.plot import draw
from bench.results import Part
from bench.table import Row, number, runs_of

HEAD = ("figure", "ours", "beside", "theirs", "ratio", "target", "met", "note")
PLOT = "performance-growth.svg"
UNTOLD = "–"
TIME = re.compile(r"\d[\d.,]*(?= ?(?:s|ms|µs|images/s)\b)")
"""A time or a speed in a text."""


def tabulated(parts: Iterable[Part]) -> Table:
    """All figures as one table with a section for each part."""
    table = Table()
    for column in HEAD:
        right = column in ("ours", "theirs", "ratio")
        table.add_column(column, justify="right" if right else "left", ratio=None if right else 1)
    for part in parts:
        table.add_row(f"[bold]{part.name}[/]", *[""] * 6, part.error and f"[red]failed: {escape(part.error)}[/]")
        for row in part.rows:
            table.add_row(*map(escape, cells(row, part.quiet)))
        table.add_section()
    return table


def cells(row: Row, quiet: bool = True) -> tuple[str, ...]:
    """A row's figures in words, in the order of `HEAD`; of a machine that was not quiet without times, and without verdicts on them."""
    told = quiet or row.unit != "s"
    alone = row.ratio is None and row.target.startswith("<")
    known = row.met if told or not (alone or TIME.search(row.target)) else None
    ours = shown(row.seconds, row.unit) if told else UNTOLD
    theirs = "" if row.against_seconds is None else shown(row.against_seconds, row.unit) if told else UNTOLD
    met, note = "" if known is None else "yes" if known else "NO", row.note if quiet else TIME.sub(UNTOLD, row.note)
    return row.figure, ours, row.against, theirs, ratio_of(row), row.target, met, note


def ratio_of(row: Row) -> str:
    """The ratio, and the least and largest of the pairs where there are several."""
    if row.ratio is None:
        return ""
    return f"{number(row.ratio)}{_range(row.ratios, 1.0)}"


def shown(figure: float, unit: str = "s") -> str:
    """A figure with its unit, and the least and largest run where there are several."""
    scale = 1.0
    if unit == "s":
        unit, scale = next(
            ((name, step) for name, step in (("s", 1.0), ("ms", 1e-3)) if abs(figure) >= step), ("µs", 1e-6)
        )
    return f"{number(figure / scale)} {unit}".rstrip() + _range(runs_of(figure), scale)


def _range(runs: Sequence[float], scale: float) -> str:
    return f" ({number(min(runs) / scale)}–{number(max(runs) / scale)})" if len(runs) > 1 else ""


def page(facts: Mapping[str, str], parts: Sequence[Part]) -> tuple[str, str]:
    """The document, and the plot that it shows; "" without growth curves."""
    growing = curves(row for part in parts for row in part.rows)
    quiet = all(part.quiet for part in parts if any(row.curve for row in part.rows))
    lines = [*_opening(facts, parts), *_expected(growing, quiet), *_table(parts), *_growth(growing, quiet)]
    return "\n".join(lines), draw(growing)


def curves(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The points of each growth curve, from the smallest on."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.size):
        if row.curve:
            found.setdefault(row.curve, []).append(row)
    return dict(sorted(found.items()))


def _opening(facts: Mapping[str, str], parts: Sequence[Part]) -> Iterator[str]:
    took = sum(part.seconds for part in parts) / 60
    yield from ("# Performance", "")
    yield (
        f"Written by `make bench`, in {took:.0f} minutes for all parts below; `python -m bench decode` measures one part again, "
        "and `python -m bench --help` lists the parts."
    )
    yield ""
    yield from ("| machine | |", "| --- | --- |")
    yield from (f"| {name} | {fact} |" for name, fact in facts.items())
    busy = [part.name for part in parts if not part.quiet]
    if busy:
        names = ", ".join(busy)
        yield from (
            "",
            f"**The machine was busy with other work** during these parts: {names}. For these, the page gives ratios but no times.",
        )
    failed = [part.name for part in parts if part.error]
    if failed:
        yield from ("", f"**These parts failed**: {', '.join(failed)}.")
    yield ""


def _expected(growing: Mapping[str, Sequence[Row]], quiet: bool) -> Iterator[str]:
    sentences = expectations([points[-1] for points in growing.values()], quiet)
    if sentences:
        yield from ("## What to expect", "", *sentences, "")


def _table(parts: Sequence[Part]) -> Iterator[str]:
    yield from ("## All figures", "")
    yield (
        "ctxr (ours) and the tool that it is compared with (theirs) were measured in the same run. A figure is the median of its runs, "
        "with the smallest and the largest in brackets; a figure without brackets was measured once. If a ratio has brackets, both were "
        "run in turn, and the ratio is computed from the pairs. A ratio below 1 means that ctxr is faster or uses less. Each part ran in "
        "its own process."
    )
    yield from ("", f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}")
    for part in parts:
        ran = f"{part.date}, {part.seconds:,.0f} s, {part.others:.0%} of the processors used by others"
        yield _line([f"**{part.name}** ({ran})", *[""] * 6, part.error and f"**failed**: {part.error}"])
        yield from (_line(cells(row, part.quiet)).replace("| NO |", "| **NO** |") for row in part.rows if not row.curve)
    yield ""


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(' '.join(text.split()).replace('|', '/') for text in texts)} |"


def _growth(growing: Mapping[str, Sequence[Row]], quiet: bool) -> Iterator[str]:
    if not growing:
        return
    yield from ("## Growth", "")
    hint = (
        "Other programs change processor seconds less than time."
        if quiet
        else "Time is relative to the smallest point."
    )
    yield (
        "The figures are for whole commands, including start-up. Longer videos are one clip repeated. Memory is the sum over all "
        f"processes of a command. {hint}"
    )
    yield from ("", f"![Time by size, each curve relative to its smallest point]({PLOT})", "")
    for name, points in growing.items():
        facts = list(dict.fromkeys(fact for row in points for fact in row.facts if quiet or fact != "processor s"))
        yield from (f"**{name}**" + (f": {points[-1].note}" if points[-1].note else ""), "")
        unit = name.partition(",")[0]
        each = [f"per {unit.split()[0].removesuffix('s')}"] if quiet else []
        yield _line([unit, "time", *each, *facts])
        yield f"|{' ---: |' * (2 + len(each) + len(facts))}"
        for row in points:
            figures = [_fact(row.facts[fact]) if fact in row.facts else "" for fact in facts]
            relative = f"{number(row.seconds / points[0].seconds)} x"
            times = [shown(row.seconds), shown(row.seconds / row.size)] if quiet else [relative]
            yield _line([number(row.size), *times, *figures])
        yield ""


def _fact(figure: float) -> str:
    """Counts have no digits behind the point."""
    return f"{figure:,}" if isinstance(figure, int) else number(figure)
