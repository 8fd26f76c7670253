"""Each video as a line of time: shots and cuts, where sets lie, and one lane for every fate of a considered frame."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ctxr.data.records import LedgerRow
from ctxr.data.units import SourceUnit
from ctxr.errors import plural
from ctxr.pipelines.reporting import ledger
from ctxr.pipelines.reporting.edition import REASONS, Edition, Section, time_code
from ctxr.pipelines.reporting.plots import plain, ticks

OPEN = 6
"""Videos whose line is open when the page is; the others open with a key or a click."""

WIDE = 10_000
"""Units of a lane's width: finer than any screen."""


@dataclass(frozen=True)
class Lane:
    """Ticks of one fate: `path` draws them in a box `WIDE` wide and 10 high."""

    key: str
    name: str
    count: int
    path: str


@dataclass(frozen=True)
class Span:
    """A stretch of time in percent of the line: a shot, or a set."""

    start: float
    width: float
    name: str
    title: str


@dataclass(frozen=True)
class Timeline:
    """One video's line; `source` is its number in the scripts' data, `marks` are labelled times in percent."""

    source: int
    name: str
    facts: str
    open: bool
    shots: list[Span]
    cuts: list[float]
    sets: list[Span]
    lanes: list[Lane]
    marks: list[tuple[float, str]]
    start: float
    length: float
    damage: str | None


def make(edition: Edition) -> Mapping[str, Any] | None:
    """The lines of all videos; those with most sets first. None where nobody wrote down what became of their frames."""
    if edition.chain.bare:
        return None
    videos = [unit for unit in edition.chain.units if unit.source.kind == "video"]
    if not videos:
        return {"lines": []}
    ledger.fill(edition)
    ordered = sorted(videos, key=lambda unit: (-len(unit.sets), unit.source.name))
    return {"lines": [_line(edition, unit, place < OPEN) for place, unit in enumerate(ordered)]}


def _line(edition: Edition, unit: SourceUnit, opened: bool) -> Timeline:
    rows = sorted((row for row in unit.ledger if row.time is not None), key=lambda row: row.index)
    start = min(
        [shot.start_time for shot in unit.shots] + [row.time or Fraction(0) for row in rows], default=Fraction(0)
    )
    end = max([shot.end_time for shot in unit.shots] + [row.time or Fraction(0) for row in rows], default=start)
    length = float(end - start) or 1.0

    def percent(time: Fraction) -> float:
        return round(100 * float(time - start) / length, 3)

    times = {f"{unit.source.name}/img{row.index}": row.time for row in rows}
    shots = [
        Span(
            percent(shot.start_time),
            round(percent(shot.end_time) - percent(shot.start_time), 3),
            str(shot.shot),
            f"shot {shot.shot}: {time_code(shot.start_time)} to {time_code(shot.end_time)}, "
            f"frames {shot.start_index} to {shot.end_index - 1}",
        )
        for shot in unit.shots
    ]
    sets = []
    for image_set in unit.sets:
        known = [time for name in image_set.images if (time := times.get(name)) is not None]
        if known:
            first, last = min(known), max(known)
            told = (
                f"{image_set.id}: {time_code(first)} to {time_code(last)}, mean distance {image_set.mean_distance:.3f}"
            )
            sets.append(Span(percent(first), round(percent(last) - percent(first), 3), image_set.id, told))
    seconds = ticks(float(start), float(end), 8)
    step = seconds[1] - seconds[0] if len(seconds) > 1 else length
    return Timeline(
        source=edition.source_numbers[unit.source.name],
        name=unit.source.name,
        facts=_facts(unit),
        open=opened,
        shots=shots,
        cuts=[shot.start for shot in shots[1:]],
        sets=sets,
        lanes=_lanes(edition, rows, lambda time: round(WIDE * float(time - start) / length)),
        marks=[(round(100 * (at - float(start)) / length, 3), _mark(at, step)) for at in seconds],
        start=round(float(start), 6),
        length=round(length, 6),
        damage=unit.source.damage,
    )


def _mark(seconds: float, step: float) -> str:
    """A label of the axis: plain seconds under two minutes, minutes and seconds above."""
    if seconds < 120:
        return plain(seconds)
    return f"{int(seconds // 60)}:{seconds % 60:04.1f}" if step < 1 else f"{int(seconds // 60)}:{int(seconds % 60):02}"


def _lanes(edition: Edition, rows: Sequence[LedgerRow], place: Callable[[Fraction], int]) -> list[Lane]:
    by_fate: dict[str, list[int]] = {}
    for row in rows:
        by_fate.setdefault(row.reason or "", []).append(place(row.time or Fraction(0)))
    order = ["", *REASONS, *sorted(by_fate.keys() - REASONS.keys() - {""})]
    return [
        Lane(
            key=fate if fate in REASONS else "other" if fate else "kept",
            name=edition.data["reasons"][edition.reason_number(fate)]["name"] if fate else "in a set",
            count=len(places),
            # several frames on one spot are one tick
            path="".join(f"M{at} 0V10" for at in sorted(set(places))),
        )
        for fate in order
        if (places := by_fate.get(fate, []))
    ]


def _facts(unit: SourceUnit) -> str:
    source = unit.source
    told = []
    if source.duration is not None:
        told.append(time_code(source.duration))
    if source.width and source.height:
        told.append(f"{source.width} × {source.height}")
    if source.rate:
        told.append(f"{plain(round(float(source.rate), 2))} frames/s")
    shots, sets = source.shots or len(unit.shots), len(unit.sets)
    told.append(plural(shots, "shot"))
    told.append(f"{source.considered} of {source.frames} frames considered")
    told.append(plural(sets, "set"))
    return " · ".join(told)


SECTION = Section("timelines", "Timelines", make)
