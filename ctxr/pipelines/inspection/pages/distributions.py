"""Sections on timelines of videos, and on how distances, quality and yield are distributed."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import isfinite

import numpy as np

from ctxr.datasets.image_sets import yield_curve
from ctxr.errors import plural
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.inspection.pages.chain import Distances, number
from ctxr.pipelines.inspection.pages.edition import REASONS, Edition, time_code
from ctxr.pipelines.inspection.pages.plots import BOX, Plot, axis_number, curve, histogram, ticks
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.records import LedgerReason, LedgerRow
from ctxr.store.units import SourceUnit

OPEN = 6
"""Videos whose line is open when the page is; the others open with a key or a click."""

WIDE = 10_000
"""Units of a lane's width: finer than any screen."""


def make_timelines(edition: Edition) -> Mapping[str, object] | None:
    """Timelines of all videos; those with most sets first. None without a ledger."""
    if edition.chain.without_ledger:
        return None
    videos = [unit for unit in edition.chain.units if unit.source.kind == "video"]
    if not videos:
        return {"lines": []}
    edition.data["ledger"] = edition.ledger
    ordered = sorted(videos, key=lambda unit: (-len(unit.sets), unit.source.name))
    return {"lines": [_line(edition, unit, index < OPEN) for index, unit in enumerate(ordered)]}


def _line(edition: Edition, unit: SourceUnit, opened: bool) -> dict[str, object]:
    """One video's line: times in seconds, positions in percent of the line, lanes in a box `WIDE` wide and 10 high."""
    rows = sorted((row for row in unit.ledger if row.time is not None), key=lambda row: row.index)
    times = {f"{unit.source.name}/img{row.index}": row.time or Fraction(0) for row in rows}
    start = min([*(shot.start_time for shot in unit.shots), *times.values()], default=Fraction(0))
    end = max([*(shot.end_time for shot in unit.shots), *times.values()], default=start)
    length = float(end - start) or 1.0

    def percent(time: Fraction) -> float:
        return round(100 * float(time - start) / length, 3)

    def span(first: Fraction, last: Fraction, name: str, title: str) -> dict[str, object]:
        width = round(percent(last) - percent(first), 3)
        return {"start": percent(first), "width": width, "name": name, "title": title}

    shots, sets = [], []
    for shot in unit.shots:
        between = f"{time_code(shot.start_time)} to {time_code(shot.end_time)}"
        title = f"shot {shot.shot}: {between}, frames {shot.start_index} to {shot.end_index - 1}"
        shots.append(span(shot.start_time, shot.end_time, str(shot.shot), title))
    for image_set in unit.sets:
        if shown := [times[name] for name in image_set.images if name in times]:
            first, last = min(shown), max(shown)
            between = f"{time_code(first)} to {time_code(last)}, mean distance {image_set.mean_distance:.3f}"
            sets.append(span(first, last, image_set.id, f"{image_set.id}: {between}"))
    seconds = ticks(float(start), float(end), 8)
    step = seconds[1] - seconds[0] if len(seconds) > 1 else length
    marks = []
    for at in seconds:
        whole, left = divmod(at, 60)
        label = (
            axis_number(at)
            if at < 120
            else f"{int(whole)}:{left:04.1f}"
            if step < 1
            else f"{int(whole)}:{int(left):02}"
        )
        marks.append((round(100 * (at - float(start)) / length, 3), label))
    return {
        "source": edition.source_numbers[unit.source.name],
        "name": unit.source.name,
        "facts": _facts(unit),
        "open": opened,
        "shots": shots,
        "cuts": [shot["start"] for shot in shots[1:]],
        "sets": sets,
        "lanes": _lanes(edition, rows, lambda time: round(WIDE * float(time - start) / length)),
        "marks": marks,
        "start": round(float(start), 6),
        "length": round(length, 6),
        "damage": unit.source.damage,
    }


def _lanes(edition: Edition, rows: Sequence[LedgerRow], x_of: Callable[[Fraction], int]) -> list[dict[str, object]]:
    """Ticks of the frames of each fate; `path` draws them."""
    by_fate: dict[LedgerReason | None, list[int]] = {}
    for row in rows:
        by_fate.setdefault(row.reason, []).append(x_of(row.time or Fraction(0)))
    return [
        {
            "key": fate or "kept",
            "name": REASONS[fate][0] if fate else "in a set",
            "count": len(by_fate[fate]),
            # several frames on one spot are one tick
            "path": "".join(f"M{at} 0V10" for at in sorted(set(by_fate[fate]))),
        }
        for fate in (None, *REASONS)
        if fate in by_fate
    ]


def _facts(unit: SourceUnit) -> str:
    source = unit.source
    facts = [
        time_code(source.duration) if source.duration is not None else "",
        f"{source.width} × {source.height}" if source.width and source.height else "",
        f"{axis_number(round(float(source.rate), 2))} frames/s" if source.rate else "",
        plural(source.shots or len(unit.shots), "shot"),
        f"{source.considered} of {source.frames} frames considered",
        plural(len(unit.sets), "set"),
    ]
    return " · ".join(filter(None, facts))


def make_distributions(edition: Edition) -> Mapping[str, object] | None:
    """The plots there is something for, and of image sets a sentence for each that there is nothing for.

    None of a dataset that tells nothing of this, and of results alone.
    """
    chain, missing = edition.chain, list[str]()
    plots = list(_distances(edition, missing))
    videos = [unit for unit in chain.units if unit.source.kind == "video" and len(unit.vectors)]
    if chain.threshold and number(chain.last.model("selection", "set_size")) and videos:
        points = [(float(threshold), float(sets)) for threshold, sets in yield_curve(chain.root, videos).items()]
        now = (chain.threshold, f"threshold {chain.threshold:g}")
        labels = "threshold (log scale)", "video sets, without limits of quality"
        plots.append(curve("Sets that other thresholds would give", *labels, points, now))
    facts = list(edition.facts.values())
    for name, title, label, values in (
        ("brisque", "Blur", "BRISQUE / 100 (higher is worse)", [row.brisque for row in facts]),
        ("max_text", "Text", "share of the area covered by words, %", [row.text_share for row in facts]),
    ):
        measured = np.array([value for value in values if value is not None])
        if len(measured):
            plots.append(_measured(title, label, measured, chain.limit(name), name == "max_text"))
        else:
            option = "--brisque 0.65" if name == "brisque" else "--max-text 0.02"
            missing.append(f"{title}: not measured (ctxr filter {option}).")
    gates = [row.gate for unit in chain.units for row in unit.ledger if row.gate is not None]
    if gates:
        limit = chain.limit("gate")
        shown = _parted(np.array(gates), limit, "embedded", "near-still, skipped", keep_above=True)
        line = (limit, f"gate {limit:g}") if limit else None
        labels = "mean luma difference, 0..255", "frames"
        plots.append(histogram("Change since the last embedded frame", *labels, shown, line))
    if chain.last.kind != IMAGE_SETS:
        missing = []
    return {"plots": plots, "missing": missing, "plot_box": BOX} if plots or missing else None


def _distances(edition: Edition, missing: list[str]) -> Iterator[Plot]:
    pairs: dict[str, list[Distances]] = defaultdict(list)
    means: dict[str, list[float]] = defaultdict(list)
    for image_set, distances in edition.chain.distances():
        if isfinite(image_set.mean_distance):
            means[image_set.kind].append(image_set.mean_distance)
        if distances is not None:
            pairs[image_set.kind].append(distances)
    if not means["video"] and not means["photos"]:
        missing.append("Distances: there is no set to take them from.")
        return
    named = (("video", "from video"), ("photos", "from photos"))
    threshold = edition.chain.threshold
    limit = (threshold, f"threshold for video {threshold:g}") if threshold and means["video"] else None
    values = [(kind, f"pairs {label}", np.concatenate(pairs[kind]) if pairs[kind] else ()) for kind, label in named]
    if pairs["video"] or pairs["photos"] or not edition.chain.without_ledger:
        label = "Euclidean distance of unit vectors, 0..2"
        yield histogram("Distances between two images of a set", label, "pairs", values, limit)
    shown = [(kind, f"sets {label}", means[kind]) for kind, label in named]
    yield histogram("How hard the sets are", "mean distance in a set (smaller is harder)", "sets", shown)


def _measured(title: str, label: str, measured: Doubles, limit: float | None, text: bool) -> Plot:
    shown = measured[measured > 0] if text else measured
    without = f"{len(measured) - len(shown)} of {len(measured)} measured images"
    note = f"{without} have no recognised word and are not drawn." if text else ""
    line = None if limit is None else (limit, f"limit {axis_number(limit * 100)} %" if text else f"limit {limit:g}")
    values = _parted(shown, limit, "within the limit", "above it, dropped", keep_above=False)
    return histogram(f"{title} of measured images", label, "images", values, line, percent=text, note=note)


def _parted(
    values: Doubles, limit: float | None, kept: str, dropped: str, keep_above: bool
) -> list[tuple[str, str, Doubles]]:
    if limit is None:
        return [("kept", "measured", values)]
    inside = values >= limit if keep_above else values <= limit
    return [("kept", kept, values[inside]), ("dropped", dropped, values[~inside])]
