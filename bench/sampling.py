"""What sampling costs: other rates and gates against `--every-frame` with ctxr-tiny, in sets, in frames near those of its sets, in time."""

import bisect
import tempfile
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from bench.footage import footage, real_videos
from bench.table import Row
from ctxr.engine.report import SetsReport
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets
from ctxr.store.records import Image, ImageSet
from ctxr.store.tables import read_table

EVERY = 1000.0
"""A rate that leaves no frame out: only the gate does."""

DEFAULT = (BuildSets().rate, BuildSets().gate)

SETTINGS = (DEFAULT, (10.0, 2.0), (15.0, 4.0), (15.0, 2.0), (EVERY, 4.0))
"""Rates and gates that are tried."""

NEAR = Fraction(1, 5)
"""Seconds that a frame may lie beside one that every frame would have given."""


def build(config: BuildSets) -> tuple[SetsReport, float]:
    """A build and its seconds."""
    start = time.perf_counter()
    report = run(config)
    return report, time.perf_counter() - start


def frame_times(artifact: Path) -> dict[str, list[Fraction]]:
    """Times of the frames in sets, by video."""
    images = {image.id: image for image in read_table(artifact / "images.jsonl", Image)}
    found: dict[str, list[Fraction]] = {}
    for image_set in read_table(artifact / "sets.jsonl", ImageSet):
        times = [images[name].time or Fraction(0) for name in image_set.images]
        found[image_set.source] = sorted(found.get(image_set.source, []) + times)
    return found


def share_within(wanted: dict[str, list[Fraction]], given: dict[str, list[Fraction]], step: Fraction) -> float:
    """Share of the wanted times that have a given one at most `step` away."""
    near = total = 0
    for source, times in wanted.items():
        others = given.get(source, [])
        for at in times:
            place = bisect.bisect_left(others, at)
            near += any(abs(other - at) <= step for other in others[max(0, place - 1) : place + 1])
            total += 1
    return near / total if total else 1.0


def measure() -> list[Row]:
    """A row for each rate and gate; takes half a minute."""
    videos = real_videos() or [footage()]
    with tempfile.TemporaryDirectory(prefix="ctxr-bench-") as name:
        every = BuildSets(
            sources=tuple(map(str, videos)), out=Path(name, "every"), encoder="ctxr-tiny", every_frame=True
        )
        whole, whole_seconds = build(every)
        wanted = frame_times(whole.artifact)
        rows = []
        for rate, gate in SETTINGS:
            sampled = replace(every, out=Path(name, f"{rate:g}-{gate:g}"), every_frame=False, rate=rate, gate=gate)
            report, seconds = build(sampled)
            share = share_within(wanted, frame_times(report.artifact), NEAR)
            note = f"{report.counts['sets']} sets of {whole.counts['sets']}; {share:.0%} of its frames within {float(NEAR)} s; "
            note += f"{report.counts['embedded']} embedded of {whole.counts['embedded']}"
            rows.append(Row(_named(rate, gate), seconds, "--every-frame", whole_seconds, note=note))
        return rows


def _named(rate: float, gate: float) -> str:
    frames = "every frame" if rate == EVERY else f"rate {rate:g}"
    return f"{frames}, gate {gate:g}" + (" (default)" if (rate, gate) == DEFAULT else "")
