"""Plots as inline SVG: bars and lines on labelled axes, with the current limit as a line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.metrics.votes import Doubles

LEFT, RIGHT, TOP, BOTTOM = 56, 12, 32, 46
WIDTH, HEIGHT = 520, 260
"""Box of a plot and the room for its axes, in SVG units; a unit is about a pixel."""

BOX = {
    "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM, "width": WIDTH, "height": HEIGHT
}  # fmt: skip
"""What the template draws the axes by."""


@dataclass(frozen=True)
class Axis:
    """A linear axis in SVG units, `low` at `start` and `high` at `end`; `values` are marked, positions have so many `digits`."""

    low: float
    high: float
    start: float
    end: float
    values: Sequence[float]
    digits: int = 2

    def at(self, value: float) -> float:
        """The position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return float(round(self.start + share * (self.end - self.start), self.digits))


@dataclass(frozen=True)
class Bar:
    """A bar in SVG units; `series` decides its colour, `title` is shown when it is pointed at."""

    x: float
    y: float
    width: float
    height: float
    series: str
    title: str


@dataclass(frozen=True)
class Plot:
    """Everything the template draws, in SVG units. Ticks and the limit are (position, label).

    Attributes:
        line: (x, y, title) of its dots, hollow where the title has a "~".
        series: names of the colours used, with what they mean.
        says: the plot in one sentence, for those who do not see it.
    """

    title: str
    x_label: str
    y_label: str
    says: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    limit: tuple[float, str] | None
    bars: Sequence[Bar] = ()
    line: Sequence[tuple[float, float, str]] = ()
    series: Sequence[tuple[str, str]] = ()
    note: str = ""


def axis_number(value: float) -> str:
    """A number for an axis: no needless zeros, thousands apart.

    >>> axis_number(0.5), axis_number(12000.0)
    ('0.5', '12,000')
    """
    return f"{value:,.0f}" if abs(value - round(value)) < 1e-9 else f"{value:.6g}"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most `most` + 1 round values from `low` to `high`: steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0, 1, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) + 0.0 for number in range(first, last + 1)]


def histogram(
    title: str,
    x_label: str,
    y_label: str,
    values: Sequence[tuple[str, str, Sequence[float] | Doubles]],
    limit: tuple[float, str] | None = None,
    *,
    percent: bool = False,
    note: str = "",
) -> Plot:
    """Bars of equal width, the series stacked. `values` are (colour, meaning, list or array of numbers); empty series are left out.
    The axis reaches from 0, or a smaller value, to the largest and takes in the limit."""
    filled = [(name, meaning, np.asarray(numbers, np.float64)) for name, meaning, numbers in values if len(numbers)]
    everything = np.concatenate([numbers for _, _, numbers in filled]) if filled else np.zeros(0)
    ends = [0.0, *((float(everything.min()), float(everything.max())) if len(everything) else (1.0,))]
    ends += [limit[0]] if limit else []
    start = min(ends)
    x_values = ticks(start, max(ends) if max(ends) - start > 1e-6 else start + 1, 6)
    step = x_values[1] - x_values[0] if len(x_values) > 1 else (max(ends) - start or 1.0)
    start = math.floor(start / step + 1e-9) * step
    end = math.ceil(max(*ends, start + step) / step - 1e-9) * step
    # bars are a whole fraction of a tick's step, so that their edges are round numbers
    per_step = min((1, 2, 4, 5, 10, 20), key=lambda parts: abs(parts - 40 * step / (end - start)))
    edges = np.linspace(start, end, round((end - start) / step) * per_step + 1)
    # rounding may put the last edge a hair below the largest value
    counts = [np.histogram(np.clip(numbers, edges[0], edges[-1]), edges)[0] for _, _, numbers in filled]
    x_axis = Axis(start, end, LEFT, WIDTH - RIGHT, ticks(start, end, 6))
    y_axis = _count_axis(int(np.sum(counts, axis=0).max()) if counts else 1)
    scale = 100 if percent else 1
    bars = []
    below = np.zeros(len(edges) - 1)
    for (name, meaning, _), heights in zip(filled, counts, strict=True):
        for at in np.flatnonzero(heights).tolist():
            left, right = x_axis.at(edges[at]), x_axis.at(edges[at + 1])
            y, foot = y_axis.at(below[at] + heights[at]), y_axis.at(below[at])
            interval = f"{axis_number(round(edges[at] * scale, 6))} to {axis_number(round(edges[at + 1] * scale, 6))}"
            count = f"{interval}{' %' if percent else ''}: {axis_number(float(heights[at]))} {meaning}"
            bars.append(Bar(left + 0.5, y, round(max(right - left - 1, 0.5), 2), round(foot - y, 2), name, count))
        below += heights
    says = f"{title}: {len(everything)} values"
    if len(everything):
        says += f"; half of them are below {axis_number(round(float(np.median(everything)) * scale, 4))}"
    x_ticks = [(x_axis.at(value), axis_number(value * scale)) for value in x_axis.values]
    y_ticks = [(y_axis.at(value), axis_number(value)) for value in y_axis.values]
    series = [(name, meaning) for name, meaning, _ in filled]
    line = limit and (x_axis.at(limit[0]), limit[1])
    return Plot(title, x_label, y_label, f"{says}.", x_ticks, y_ticks, line, bars, series=series, note=note)


def curve(
    title: str, x_label: str, y_label: str, points: Sequence[tuple[float, float, str]], limit: tuple[float, str] | None
) -> Plot:
    """A line through `points` (x, y, "~ " where it is not exact), on a logarithmic x axis, with a dot at each."""
    xs, ys, marks = ([*column] for column in zip(*points, strict=True))
    low, high = math.log2(min(xs)), math.log2(max(xs))
    x_axis = Axis(low, high if high > low else low + 1, LEFT, WIDTH - RIGHT, xs[:: max(1, (len(xs) - 1) // 4)])
    y_axis = _count_axis(max(ys))
    note = "~ (hollow): counted on the embedded frames; a build mostly finds more, seldom fewer." if any(marks) else ""
    says = f"{title}: from {axis_number(ys[0])} at {xs[0]:.2g} to {axis_number(ys[-1])} at {xs[-1]:.2g}."
    x_ticks = [(x_axis.at(math.log2(x)), f"{x:.2g}") for x in x_axis.values]
    y_ticks = [(y_axis.at(value), axis_number(value)) for value in y_axis.values]
    line = [(x_axis.at(math.log2(x)), y_axis.at(y), f"{x:.4g}: {mark}{axis_number(y)} sets") for x, y, mark in points]
    mark = limit and (x_axis.at(math.log2(limit[0])), limit[1])
    return Plot(title, x_label, y_label, says, x_ticks, y_ticks, mark, line=line, note=note)


def _count_axis(most: float) -> Axis:
    """An upright axis of counts up to `most`, with integer ticks, that ends at the last of them."""
    values = [value for value in ticks(0, max(most, 1), 5) if value == int(value)]
    step = values[1] - values[0]
    while values[-1] < most:
        values.append(values[-1] + step)
    return Axis(0, values[-1], HEIGHT - BOTTOM, TOP, values)
