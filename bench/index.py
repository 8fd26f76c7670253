"""Neighbours by an index beside exact ones: seconds, and the share of the true ones that are found.

python -m bench index                 drawn vectors, scenes of ten in themes of five hundred, and crops of the real photos at hand, by
                                      ctxr-tiny; takes ten minutes, so `make bench` leaves it out
python -m bench.index 20000           so many drawn vectors
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.neighbours import WIDTH
from bench.table import Row
from ctxr.media.images import read_photo
from ctxr.models.encoders import load_encoder
from ctxr.models.neighbours import Matches, build_index, nearest, nearest_by_index
from ctxr.pipelines.curation.photos import NEIGHBOURS, STRIPE

CROPS = 12_000
"""Of the real photos together."""

SEARCHED = 2 * STRIPE
"""Vectors whose neighbours are searched, of more: the time for all is in proportion."""


def measure(counts: Sequence[int] = (20_000, 100_000)) -> list[Row]:
    """Both searches on drawn vectors, then on real ones if there are any."""
    rows = [compared(drawn(count), "drawn") for count in counts]
    if files := sorted(Path(os.environ.get("CTXR_REAL_DATA", "")).glob("photos/**/*.jpg")):
        rows.append(compared(crops(files), f"crops of {len(files)} photos"))
    return rows


def compared(vectors: NDArray[np.float32], kind: str) -> Row:
    """All neighbours by an index, which is built, beside exact ones."""
    rows = np.sort(np.random.default_rng(1).permutation(len(vectors))[:SEARCHED])
    stripes, share = [rows[start : start + STRIPE] for start in range(0, len(rows), STRIPE)], len(vectors) / len(rows)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        index = build_index(vectors, NEIGHBOURS, Path(folder) / "index")
        built = time.perf_counter() - start
        ours, taken = timed(partial(nearest_by_index, index, vectors, NEIGHBOURS), stripes)
    exact, exactly = timed(lambda stripe: nearest(vectors, NEIGHBOURS, rows=stripe), stripes)
    found = {most: recall(ours[:, :most], exact[:, :most]) for most in (9, NEIGHBOURS)}
    note = f"of this {built:.1f} s to build it; {index.probes} lists searched; recall measured by it {index.recall:.3f}; of all "
    note += ", ".join(f"{value:.3f} of {most}" for most, value in found.items())
    size = f"{len(vectors):,} x {vectors.shape[1]}, {kind}"
    return Row(f"{NEIGHBOURS} nearest of {size}", built + share * taken, "exact", share * exactly, note=note)


def drawn(count: int) -> NDArray[np.float32]:
    """Unit vectors in scenes of ten, which lie in themes of five hundred."""
    rng = np.random.default_rng(0)
    themes = rng.standard_normal((max(1, count // 500), WIDTH))
    scenes = themes[rng.integers(0, len(themes), max(1, count // 10))]
    scenes += 0.8 * rng.standard_normal(scenes.shape)
    vectors = rng.standard_normal(WIDTH) + 0.6 * scenes[rng.integers(0, len(scenes), count)]
    vectors += 0.5 * rng.standard_normal(vectors.shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def timed(
    search: Callable[[NDArray[np.int64]], Matches], stripes: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], float]:
    """What is found, and in how many seconds."""
    start = time.perf_counter()
    found = [search(stripe).indices for stripe in stripes]
    return np.concatenate(found), time.perf_counter() - start


def recall(found: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    """The share of the exact ones [N, K] that were found."""
    return float(np.mean([np.isin(theirs, mine).mean() for mine, theirs in zip(found, exact, strict=True)]))


def crops(files: Sequence[Path]) -> NDArray[np.float32]:
    """Vectors of parts of photos, each with a third to nine tenths of its sides."""
    rng, encoder, pictures = np.random.default_rng(0), load_encoder("ctxr-tiny"), [*map(read_photo, files)]
    blocks = []
    for start in range(0, CROPS, 64):
        batch = []
        for number in range(start, start + 64):
            picture, side = pictures[number % len(pictures)], rng.uniform(1 / 3, 0.9)
            high, wide = (int(side * length) for length in picture.shape[:2])
            top, left = rng.integers(0, picture.shape[0] - high), rng.integers(0, picture.shape[1] - wide)
            batch.append(np.ascontiguousarray(picture[top : top + high, left : left + wide]))
        blocks.append(encoder.encode_images(batch))
    return np.concatenate(blocks)


if __name__ == "__main__":
    from bench.__main__ import show

    show("neighbours by an index", measure([int(count) for count in sys.argv[1:]] or [20_000]))
