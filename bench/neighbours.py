"""Nearest photos: ours against faiss's exact flat index, on vectors as spread as photos are.

python -m bench neighbours            6,000 and 20,000 vectors
python -m bench.neighbours 100000     as many as given, once
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from bench.table import Row
from ctxr.models.neighbours import nearest
from ctxr.models.precision import has_bf16_units

WIDTH = 512
NEIGHBOURS = 9


def measure(counts: Sequence[int] = (6_000, 20_000), repeat: int = 3) -> list[Row]:
    """Nine nearest of so many vectors of 512 numbers, in bf16 (where the processor has units for it) and in fp32."""
    rows = []
    for count in counts:
        vectors = photos(count)
        limits = {"bf16": 1.0, "fp32": 1.7} if has_bf16_units() else {"fp32": 1.7}
        calls: dict[str, Callable[[], object]] = {
            engine: partial(nearest, vectors, NEIGHBOURS, coarse=engine == "bf16") for engine in limits
        }
        note = "faiss is not installed: make peers"
        if find_spec("faiss"):
            ours, theirs = nearest(vectors, NEIGHBOURS)[0], by_faiss(vectors)
            note = f"{(np.sort(ours) == np.sort(theirs)).mean():.4%} of neighbours the same"
            calls["faiss flat"] = partial(by_faiss, vectors)
        seconds = in_turn(calls, repeat)
        flat = seconds.get("faiss flat")
        rows += [
            Row(
                figure=f"{NEIGHBOURS} nearest of {count:,} x {WIDTH}, {engine}",
                seconds=seconds[engine],
                against="faiss flat" if flat else "",
                against_seconds=flat,
                target=f"<= {limit} x faiss flat",
                met=None if flat is None else seconds[engine] <= limit * flat,
                note=note,
            )
            for engine, limit in limits.items()
        ]
    return rows


def in_turn(calls: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Median wall-clock seconds of each call, one after the other `repeat` times."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def photos(count: int) -> NDArray[np.float32]:
    """Unit vectors [count, 512] in clusters of ten, with products of 0.5 between strangers, as image embeddings have."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal(WIDTH)
    scenes = rng.standard_normal((max(1, count // 10), WIDTH))
    vectors = common + 0.8 * scenes[rng.integers(0, len(scenes), count)] + 0.6 * rng.standard_normal((count, WIDTH))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def by_faiss(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Neighbours by faiss's flat index, without the vector itself where it is among the first."""
    import faiss

    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    found = index.search(vectors, NEIGHBOURS + 1)[1]
    own = found == np.arange(len(vectors))[:, None]
    own[:, -1] |= ~own.any(axis=1)
    return np.asarray(found[~own].reshape(len(vectors), NEIGHBOURS), np.int64)


if __name__ == "__main__":
    from bench.__main__ import show

    show("nearest neighbours", measure([int(count) for count in sys.argv[1:]] or (6_000, 20_000), repeat=1))
