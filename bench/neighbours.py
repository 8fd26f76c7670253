"""Nearest photos: ours against faiss's exact flat index, on vectors as spread as photos are.

python -m bench neighbours            20,000 vectors
python -m bench.neighbours 100000     as many as given, once
"""

import sys
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from bench.table import Row, median_seconds
from ctxr.models.neighbours import nearest
from ctxr.models.precision import has_bf16_units

WIDTH = 512
NEIGHBOURS = 9


def measure(count: int = 20_000, repeat: int = 3) -> list[Row]:
    """Nine nearest of `count` vectors of 512 numbers, in bf16 (where the processor has units for it) and in fp32."""
    vectors = photos(count)
    flat = median_seconds(lambda: by_faiss(vectors), repeat) if find_spec("faiss") else None
    if find_spec("faiss"):
        ours, theirs = nearest(vectors, NEIGHBOURS)[0], by_faiss(vectors)
        agreed = f"{(np.sort(ours) == np.sort(theirs)).mean():.4%} of neighbours the same"
    else:
        agreed = "faiss is not installed: pip install faiss-cpu"
    rows = []
    for engine, limit in (("bf16", 1.0), ("fp32", 1.7)):
        if engine == "bf16" and not has_bf16_units():
            continue
        seconds = median_seconds(lambda engine=engine: nearest(vectors, NEIGHBOURS, engine=engine), repeat)  # type: ignore[misc]
        rows.append(
            Row(
                figure=f"9 nearest of {count:,} x {WIDTH}, {engine}",
                seconds=seconds,
                against="faiss flat" if flat else "",
                against_seconds=flat,
                target=f"<= {limit} x faiss flat",
                met=None if flat is None else seconds <= limit * flat,
                note=agreed,
            )
        )
    return rows


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

    show("nearest neighbours", measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, repeat=1))
