"""How distances, quality and yield are spread, each with the limit in force."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np

from ctxr.pipelines.reporting.edition import Edition, Section
from ctxr.pipelines.reporting.plots import Plot, curve, histogram, plain
from ctxr.pipelines.reporting.stages import number
from ctxr.pipelines.sets_report import KIND, yield_curve


def make(edition: Edition) -> Mapping[str, Any] | None:
    """The plots there is something for, and of image sets a sentence for each that there is nothing for.

    None of a dataset that tells nothing of this, and of results alone.
    """
    missing: list[str] = []
    plots = list(_plots(edition, missing))
    if edition.chain.last.kind != KIND:
        missing = []
    return {"plots": plots, "missing": missing} if plots or missing else None


def _plots(edition: Edition, missing: list[str]) -> Iterator[Plot]:
    chain = edition.chain
    yield from _distances(edition, missing)
    if chain.threshold and number(chain.last.model("selection", "set_size")) and _has_embedded_frames(edition):
        found = yield_curve(chain.root)
        points = [(float(threshold), float(sets)) for threshold, sets in found.items()]
        now = (chain.threshold, f"in force {chain.threshold:g}")
        yield curve(
            "Sets that other thresholds would give", "threshold (log scale)", "video sets, before quality", points, now
        )
    facts = list(edition.facts.values())
    for name, title, label, values in (
        ("brisque", "Blur", "BRISQUE / 100 (higher is worse)", [row.brisque for row in facts]),
        ("max_text", "Text", "share of the area covered by words, %", [row.text_share for row in facts]),
    ):
        known = np.array([value for value in values if value is not None])
        if len(known):
            yield _measured(title, label, known, chain.limit(name), name == "max_text")
        else:
            missing.append(
                f"{title}: nobody measured it (ctxr filter {'--brisque 0.65' if name == 'brisque' else '--max-text 0.02'})."
            )
    gates = [row.gate for unit in chain.units for row in unit.ledger if row.gate is not None]
    if gates:
        limit = chain.limit("gate")
        yield histogram(
            "Change since the last embedded frame",
            "mean luma difference, 0..255",
            "frames",
            _parted(np.array(gates), limit, "embedded", "near-still, skipped", keep_above=True),
            (limit, f"gate {limit:g}") if limit else None,
        )


def _has_embedded_frames(edition: Edition) -> bool:
    return any(unit.source.kind == "video" and len(unit.vectors) for unit in edition.chain.units)


def _distances(edition: Edition, missing: list[str]) -> Iterator[Plot]:
    pairs: dict[str, list[np.ndarray[Any, Any]]] = {"video": [], "photos": []}
    means: dict[str, list[float]] = {"video": [], "photos": []}
    for image_set, distances in edition.chain.distances():
        if isfinite(image_set.mean_distance):
            means[image_set.kind].append(image_set.mean_distance)
        if distances is not None:
            pairs[image_set.kind].append(distances[np.triu_indices(len(distances), 1)])
    if not means["video"] and not means["photos"]:
        missing.append("Distances: there is no set to take them from.")
        return
    named = (("video", "from video"), ("photos", "from photos"))
    threshold = edition.chain.threshold
    limit = (threshold, f"threshold for video {threshold:g}") if threshold and means["video"] else None
    values = [(kind, f"pairs {told}", np.concatenate(pairs[kind]) if pairs[kind] else ()) for kind, told in named]
    if pairs["video"] or pairs["photos"] or not edition.chain.bare:
        yield histogram(
            "Distances between two images of a set",
            "Euclidean distance of unit vectors, 0..2",
            "pairs",
            values,
            limit,
        )
    yield histogram(
        "How hard the sets are",
        "mean distance in a set (smaller is harder)",
        "sets",
        [(kind, f"sets {told}", means[kind]) for kind, told in named],
    )


def _measured(title: str, label: str, known: "np.ndarray[Any, Any]", limit: float | None, text: bool) -> Plot:
    note = ""
    shown = known
    if text:
        shown = known[known > 0]
        note = f"{len(known) - len(shown)} of {len(known)} measured images have no recognised word and are not drawn."
    told = None if limit is None else (limit, f"limit {plain(limit * 100)} %" if text else f"limit {limit:g}")
    values = _parted(shown, limit, "within the limit", "above it, dropped", keep_above=False)
    return histogram(f"{title} of measured images", label, "images", values, told, percent=text, note=note)


def _parted(
    values: "np.ndarray[Any, Any]", limit: float | None, kept: str, dropped: str, keep_above: bool
) -> list[tuple[str, str, "np.ndarray[Any, Any]"]]:
    if limit is None:
        return [("kept", "measured", values)]
    above = values >= limit if keep_above else values > limit
    inside = above if keep_above else ~above
    return [("kept", kept, values[inside]), ("dropped", dropped, values[~inside])]


SECTION = Section("distributions", "Distributions", make)
