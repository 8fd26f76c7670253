"""Figures of an evaluation as a paper prints them: one column of 8 cm, readable in grey, equal bytes for equal data."""

import warnings
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from io import BytesIO
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from ctxr.metrics.compare import Interval
from ctxr.problems.evaluation import Evaluation
from ctxr.problems.figures import people_on
from ctxr.problems.runs import EPOCHS, HistoryRow
from ctxr.store.tables import grouped, read_table

STYLE = ["default", str(Path(__file__).with_name("paper.mplstyle"))]
"""Fonts, colours, markers and dashes, whatever the user's own settings are."""

MOST_ROWS, LONGEST, CM = 6, 28, 1 / 2.54
"""Rows that styles tell apart, shown characters of a name, and a centimetre in inches."""

VIEWS = {"position": "position of the target, from 0", "length": "length of the text, tokens",
         "noise": "noise of the trace, share of the image", "words": "first words of the text"}  # fmt: skip
"""Views that have a figure, and what their parts are."""


@dataclass(frozen=True)
class Chart:
    """What a figure shows.

    Attributes:
        measure: of the values, with its unit. cells: values by the names of row and place. scale: a value of 1 in that unit.
        across: what the places are, which then stand side by side and are joined; else they stand below one another.
        lines: known values to compare with, by name. bars: what the ends of intervals are.
    """

    measure: str
    cells: Mapping[tuple[str, str], Interval]
    across: str = ""
    lines: Mapping[str, Interval] = field(default_factory=dict)
    scale: float = 100
    bars: str = "95 % bootstrap intervals"


def charts_of(evaluation: Evaluation[Any, Any]) -> dict[str, Chart]:
    """The figures that there is something for: `learning`, `agreement`, `accuracy`, and those of `VIEWS`."""
    crowd = evaluation.findings.people
    alphas = {("", name): one.alpha for name, one in crowd.items() if one.alpha.value is not None}
    charts = {"learning": _learning(evaluation), "agreement": Chart("Krippendorff's alpha", alphas, scale=1)}
    if (reported := evaluation.reported()) is not None:
        split, guesses, found = reported
        measure, guess = next(iter(guesses.items()))
        label, chance = f"{measure} on {split}, %", {} if guess is None else {"chance": Interval(guess)}
        people = {name: reached[measure] for name, reached in people_on(crowd, split).items() if measure in reached}
        cells = {("", run): one.interval for (run, of), one in found.items() if of == measure}
        charts["accuracy"] = Chart(label, cells, lines=chance | people)
        for view, across in VIEWS.items():
            own = [
                one
                for one in evaluation.findings.figures
                if (one.split, one.view, one.measure) == (split, view, measure)
            ]
            cells = {(one.run, one.part.removesuffix(" tokens")): one.interval for one in own}
            charts[view] = Chart(label, cells, across, chance)
    return {name: one for name, one in charts.items() if one.cells}


def _learning(evaluation: Evaluation[Any, Any]) -> Chart:
    """What chose the epoch of each run, by epoch: mean, lowest and highest of its seeds."""
    cells, measure = dict[tuple[str, str], Interval](), ""
    for artifact in {run.artifact.path: run.artifact for run in evaluation.runs if run.artifact}.values():
        history = read_table(artifact.path / EPOCHS, HistoryRow) if (artifact.path / EPOCHS).is_file() else []
        epochs = grouped((row.epoch, row.accuracy) for row in history if row.accuracy is not None)
        for epoch, seeds in epochs.items() if len(epochs) > 1 else ():
            cells[artifact.path.name, str(epoch)] = Interval(mean(seeds), min(seeds), max(seeds))
            counts = artifact.manifest.counts
            measure = f"{counts.get('measure', 'accuracy')} on {counts.get('judged_on', 'valid')}, %"
    ordered = dict(sorted(cells.items(), key=lambda cell: int(cell[0][1])))
    return Chart(measure, ordered, "epoch", bars="lowest and highest seed")


def plot_chart(chart: Chart, figure: Any) -> Any:
    """Draw a chart into an empty figure of matplotlib, with a legend where it has several rows, or lines; its axes."""
    from matplotlib import style

    rows, places = (list(dict.fromkeys(key[part] for key in chart.cells)) for part in (0, 1))
    shown, step = rows[:MOST_ROWS], -(-len(places) // 10) if chart.across else 1
    with style.context(STYLE):
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for number, row in enumerate(shown):
            own = [chart.cells.get((row, place), Interval(None)) for place in places]
            value, low, high = chart.scale * np.array([astuple(one)[:3] for one in own], np.float64).T
            at = np.arange(len(places)) + 0.6 * ((number + 0.5) / len(shown) - 0.5)
            ends = np.clip([value - low, high - value], 0, None)
            given = {"x": at, "y": value, "yerr": ends, "markevery": step}
            if not chart.across:
                given = {"x": value, "y": at, "xerr": ends, "linestyle": "none"}
            axes.errorbar(**given, label=_label(row), elinewidth=0.6)
        line, span, ticks = axes.axvline, axes.axvspan, axes.set_yticks
        if chart.across:
            line, span, ticks = axes.axhline, axes.axhspan, axes.set_xticks
        for (name, level), dashes in zip(chart.lines.items(), (":", "--"), strict=False):
            value, low, high, *_ = astuple(level)
            line(chart.scale * value, color="0.4", linestyle=dashes, label=_label(name), zorder=0)
            if low is not None:
                span(chart.scale * low, chart.scale * high, color="0.9", linewidth=0, zorder=-1)
        ticks(range(0, len(places), step), [_label(place) for place in places[::step]])
        axes.set(xlabel=chart.across or chart.measure, ylabel=chart.measure if chart.across else "")
        if any(one.low is not None for one in chart.cells.values()):
            band = " and band" * any(one.low is not None for one in chart.lines.values())
            axes.set_title(f"bars{band}: {chart.bars}", loc="right", fontsize=6, color="0.4")
        if not chart.across:
            axes.set_ylim(len(places) - 0.5, -0.5)
        named = axes.get_legend_handles_labels()[1]
        if named:
            title = f"the first {MOST_ROWS} of {len(rows)}" if rows[MOST_ROWS:] else None
            figure.legend(loc="outside lower center", title=title, ncols=2)
        height = 5.4 if chart.across else 1.7 + 0.6 * len(places)
        figure.set_size_inches(8 * CM, CM * (height + 0.4 * -(-len(named) // 2)))
    return axes


def _label(name: str) -> str:
    """A name that is not too long, has no signs that nothing can draw, and is not kept out of legends as `_NAME` is."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in name)
    plain = plain if len(plain) <= LONGEST else f"{plain[: LONGEST // 2]}…{plain[1 - LONGEST // 2 :]}"
    return f" {plain}" if plain.startswith("_") else plain


def drawn(charts: Mapping[str, Chart]) -> dict[str, bytes]:
    """The files of figures by name: SVG for pages, PDF for LaTeX; no clock is in them."""
    from matplotlib import figure, style

    files = {}
    with style.context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about signs that the font lacks
        for name, chart in charts.items():
            plot_chart(chart, whole := figure.Figure())
            for kind, clock in (("svg", "Date"), ("pdf", "CreationDate")):
                whole.savefig(stream := BytesIO(), format=kind, metadata={clock: None})
                whole.set_layout_engine("none")  # once is enough
                files[f"figures/{name}.{kind}"] = stream.getvalue()
    return files
