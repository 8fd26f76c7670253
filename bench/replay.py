"""Filtering again after a threshold changed: no decode, no model."""

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

from bench.table import Row, in_turns
from ctxr.media.images import encode_jpeg
from ctxr.metrics.selection import GreedyPicker
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, PickingRules, UnitContext, pick_from_ledger
from ctxr.store.records import Facts, LedgerRow, Source
from ctxr.store.units import SourceUnit, UnitKeys

FRAMES = 10_000
THRESHOLD = 0.35


def measured_unit(artifact: Path) -> SourceUnit:
    """A made-up video of 10,000 embedded frames, all measured: shots of 200 frames, each of which shows one of 40 views."""
    rng = np.random.default_rng(0)
    views = rng.normal(size=(FRAMES // 200, 40, 64))
    raw = views[np.arange(FRAMES) // 200, rng.integers(0, 40, FRAMES)] + 0.05 * rng.normal(size=(FRAMES, 64))
    vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    (artifact / "dropped" / "clip").mkdir(parents=True)
    content = encode_jpeg(np.full((8, 8, 3), 99, np.uint8))
    facts = []
    for index in range(FRAMES):
        path = f"dropped/clip/img{index}.jpg"
        (artifact / path).write_bytes(content)
        facts.append(Facts("clip", index, path, "", 8, 8, brisque=float(rng.uniform(0, 1)), text_share=0.0))
    ledger = [LedgerRow("clip", index, Fraction(index, 5), index // 200, row=index) for index in range(FRAMES)]
    stamp = UnitKeys("scan", "select", QualityGate(QualityLimits(0.5, 0.1)).stamps())
    source = Source("clip", "video", "clip.mp4", "00", 0, decoder="pyav")
    return SourceUnit(stamp, source, [], ledger, facts, [], [], vectors, np.zeros((0, 64), np.float32))


def measure() -> list[Row]:
    """Picking again over 10,000 measured frames."""
    with tempfile.TemporaryDirectory() as folder:
        origin, out = Path(folder) / "sets", Path(folder) / "filtered"
        unit = measured_unit(origin)

        quality = QualityGate(QualityLimits(0.65, 0.1))
        stamp = UnitKeys("scan", "other", quality.stamps())
        embedder = Embedder("none")  # is not loaded
        context = UnitContext(out, PickingRules(THRESHOLD, 10, 0.0, quality), embedder)

        def again() -> SourceUnit:
            return pick_from_ledger(context, unit, origin, Path("absent.mp4"), stamp, show=lambda _: None)

        made = again()
        shots, vectors = [row.shot or 0 for row in unit.ledger], np.asarray(unit.vectors)

        def walk() -> None:
            picker = GreedyPicker(THRESHOLD)
            for index, shot in enumerate(shots):
                picker.push(index, shot, vectors[index])

        seconds, walking = in_turns(again, walk)
    note = f"{len(made.sets)} sets written, {len(made.facts)} frames judged; the walk alone is beside it"
    return [Row("filter 10,000 measured frames again", seconds, "the walk alone", walking, "< 1 s", seconds < 1, note)]
