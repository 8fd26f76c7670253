"""Sections on timelines of videos, and on how distances, quality and yield are distributed."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from ctxr.datasets.image_sets import exact_thresholds, yield_curve
from ctxr.errors import plural
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.inspection.pages.edition import REASONS, PageBuilder, time_code
from ctxr.pipelines.inspection.pages.plots import BOX, Plot, axis_number, curve, histogram, ticks
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import SET_KINDS
from ctxr.store.tables import grouped
from ctxr.store.units import SourceUnit

OPEN = 6
"""Videos whose line is open when the page is; the others open with a key or a click."""

WIDE = 10_000
"""Units of a lane's width: finer than any screen."""


def make_timelines(edition: PageBuilder) -> Mapping[str, object] | None:
    """Timelines of all videos; those with most sets first. None without a ledger."""
    if edition.chain.without_ledger:
        return None
    videos = [unit for unit in edition.chain.units if unit.source.kind == "video"]
    if not videos:
        return {"lines": []}
    edition.data["ledger"] = edition.ledger
    ordered = sorted(videos, key=lambda unit: (-len(unit.sets), unit.source.name))
    return {"lines": [_line(edition, unit, index < OPEN) for index, unit in enumerate(ordered)]}


def _line(edition: PageBuilder, unit: SourceUnit, opened: bool) -> dict[str, object]:
    """One video's line: times in seconds, positions in percent of the line."""
    source = unit.source
    rows = sorted((row for row in unit.ledger if row.time is not None), key=lambda row: row.index)
    times = {f"{source.name}/img{row.index}": row.time or Fraction(0) for row in rows}
    start = min([*(shot.start_time for shot in unit.shots), *times.values()], default=Fraction(0))
    end = max([*(shot.end_time for shot in unit.shots), *times.values()], default=start)
    length = float(end - start) or 1.0

    def span(first: Fraction, last: Fraction, name: str, title: str) -> dict[str, object]:
        left, right = (round(100 * float(time - start) / length, 3) for time in (first, last))
        return {"start": left, "width": round(right - left, 3), "name": name, "title": title}

    shots, sets = [], []
    by_fate = grouped((row.reason, round(WIDE * float((row.time or 0) - start) / length)) for row in rows)
    for shot in unit.shots:
        between = f"{time_code(shot.start_time)} to {time_code(shot.end_time)}"
        title = f"shot {shot.shot}: {between}, frames {shot.start_index} to {shot.end_index - 1}"
        shots.append(span(shot.start_time, shot.end_time, str(shot.shot), title))
    for image_set in unit.sets:
        if shown := [times[name] for name in image_set.images if name in times]:
            between = f"{time_code(min(shown))} to {time_code(max(shown))}"
            title = f"{image_set.id}: {between}, mean distance {image_set.mean_distance:.3f}"
            sets.append(span(min(shown), max(shown), image_set.id, title))
    facts = [
        time_code(source.duration) if source.duration is not None else "",
        f"{source.width} × {source.height}" if source.width and source.height else "",
        f"{axis_number(round(float(source.rate), 2))} frames/s" if source.rate else "",
        plural(source.shots or len(unit.shots), "shot"),
        f"{source.considered} of {source.frames} frames considered",
        plural(len(unit.sets), "set"),
    ]
    return {
        "source": edition.source_numbers[source.name],
        "name": source.name,
        "facts": " · ".join(filter(None, facts)),
        "open": opened,
        "shots": shots,
        "cuts": [shot["start"] for shot in shots[1:]],
        "sets": sets,
        # `path` draws ticks in a box `WIDE` wide and 10 high, several on one spot as one
        "lanes": [
            {
                "key": fate or "kept",
                "name": REASONS[fate][0] if fate else "in a set",
                "count": len(by_fate[fate]),
                "path": "".join(f"M{at} 0V10" for at in sorted(set(by_fate[fate]))),
            }
            for fate in (None, *REASONS)
            if fate in by_fate
        ],
        "marks": _time_marks(float(start), float(end), length),
        "start": round(float(start), 6),
        "length": round(length, 6),
        "damage": source.damage,
    }


def _time_marks(start: float, end: float, length: float) -> list[tuple[float, str]]:
    """Round times from `start` to `end`: their positions in percent, and their labels."""
    seconds = ticks(start, end, 8)
    fine = len(seconds) > 1 and seconds[1] - seconds[0] < 1
    marks = []
    for at in seconds:
        label = axis_number(at)
        if at >= 120:
            minutes, left = divmod(at, 60)
            label = f"{int(minutes)}:{left:04.1f}" if fine else f"{int(minutes)}:{int(left):02}"
        marks.append((round(100 * (at - start) / length, 3), label))
    return marks


def make_distributions(edition: PageBuilder) -> Mapping[str, object] | None:
    """Plots, and for image sets a sentence for each one missing. None without a dataset or anything to plot."""
    chain, missing = edition.chain, list[str]()
    plots = list(_distances(edition, missing))
    videos = [unit for unit in chain.units if unit.source.kind == "video" and len(unit.vectors)]
    if chain.threshold and chain.built and chain.built.number("models", "selection", "set_size") and videos:
        sets = yield_curve(chain.root, videos)
        exact = exact_thresholds(open_artifact(chain.root).manifest, sets)
        points = [(float(name), float(count), "" if name in exact else "~ ") for name, count in sets.items()]
        now = (chain.threshold, f"threshold {chain.threshold:g}")
        labels = "threshold (log scale)", "video sets, without limits of quality"
        plots.append(curve("Sets that other thresholds give", *labels, points, now))
    facts = list(edition.facts.values())
    for name, title, label, values in (
        ("brisque", "Blur", "BRISQUE / 100 (higher is worse)", [row.brisque for row in facts]),
        ("max_text", "Text", "share of the area covered by words, %", [row.text_share for row in facts]),
    ):
        measured = [value for value in values if value is not None]
        limit, is_text = chain.limit(name), name == "max_text"
        if not measured:
            option = "--max-text 0.02" if is_text else "--brisque 0.65"
            missing.append(f"{title}: not measured (ctxr filter {option}).")
            continue
        shown = [value for value in measured if value > 0] if is_text else measured
        without = f"{len(measured) - len(shown)} of {len(measured)} measured images"
        note = f"{without} have no recognised word and are not drawn." if is_text else ""
        line = None
        if limit is not None:
            line = limit, f"limit {axis_number(limit * 100)} %" if is_text else f"limit {limit:g}"
        series = _series(shown, limit, "within the limit", "above it, dropped", keep_above=False)
        title = f"{title} of measured images"
        plots.append(histogram(title, label, "images", series, line, percent=is_text, note=note))
    if gates := [row.gate for unit in chain.units for row in unit.ledger if row.gate is not None]:
        limit = (
            chain.limit("still_below")
            if any(unit.reason == "near_still" for one in chain.units for unit in one.ledger)
            else None
        )
        series = _series(gates, limit, "embedded", "near-still, skipped", keep_above=True)
        line = (limit, f"gate {limit:g}") if limit else None
        labels = "mean luma difference of the block that changed most, 0..255", "frames"
        plots.append(histogram("Change since the last embedded sample", *labels, series, line))
    if chain.built is None:
        missing = []
    return {"plots": plots, "missing": missing, "plot_box": BOX} if plots or missing else None


def _distances(edition: PageBuilder, missing: list[str]) -> Iterator[Plot]:
    # how near the images of a document are says nothing of how hard it is
    measured = list(edition.chain.distances()) if edition.subject.similar else []
    means = grouped((one.kind, one.mean_distance) for one, _ in measured if one.mean_distance is not None)
    pairs = grouped((one.kind, distances) for one, distances in measured if distances is not None)
    if not means:
        missing.append("Distances: there is no set to take them from.")
        return
    threshold = edition.chain.threshold
    limit = (threshold, f"threshold for video {threshold:g}") if threshold and "video" in means else None
    if pairs or not edition.chain.without_ledger:
        values = [(kind, f"pairs from {kind}", np.concatenate(pairs[kind])) for kind in SET_KINDS if kind in pairs]
        label = "Euclidean distance of unit vectors, 0..2"
        yield histogram("Distances between two images of a set", label, "pairs", values, limit)
    shown = [(kind, f"sets from {kind}", means[kind]) for kind in SET_KINDS if kind in means]
    yield histogram("How hard the sets are", "mean distance in a set (smaller is harder)", "sets", shown)


def _series(
    values: Sequence[float], limit: float | None, kept: str, dropped: str, keep_above: bool
) -> list[tuple[str, str, Doubles]]:
    """The values that a limit keeps and drops, as two series of a histogram; else one."""
    numbers = np.array(values, np.float64)
    if limit is None:
        return [("kept", "measured", numbers)]
    inside = numbers >= limit if keep_above else numbers <= limit
    return [("kept", kept, numbers[inside]), ("dropped", dropped, numbers[~inside])]
