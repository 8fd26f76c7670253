"""Exact nearest neighbours among the vectors of a pool, for image sets made of photos (ImageCoDe, section 3.1)."""

import numpy as np
from numpy.typing import NDArray

from ctxr.errors import DataError, UsageError
from ctxr.models.matches import Doubles, ExactSearch, Indices, Vectors, is_coarse

Neighbours = tuple[Indices, NDArray[np.float32]]

ENGINES = ("auto", "bf16", "fp32", "faiss")
NORM_ERROR = 1e-3  # how far from length 1 a vector may be
SPARE = 16  # candidates that faiss is asked for beyond k


def nearest(vectors: Vectors, k: int, block: int = 512, engine: str = "auto") -> Neighbours:
    """The `k` nearest neighbours of every vector, its duplicates among them, and how far they are: ([N, k] int64, [N, k] float32).

    Euclidean distances on unit vectors, 0 to 2, ascending; equal distances by index. The answer is that of a stable sort of all
    distances computed in float64 from the differences, whatever the engine: approximate products only choose which pairs are
    computed so, and a pair is left out only if the bound on their error rules it out. Memory does not grow with N beyond the
    vectors and `block` rows of products.

    Args:
        vectors: [N, D] float32, each of length 1.
        k: how many neighbours, at most N - 1.
        block: rows of products at a time, 4 bytes x N each (6 in bf16): 300 MB at the most for 100,000 vectors.
        engine: `bf16` or `fp32` products by torch, `faiss` (exact flat index, an optional extra), or `auto`: bf16 where this
            processor has units for it, else fp32.

    Raises:
        UsageError: unknown engine, faiss not installed, or `k` or `block` out of range.
        DataError: not [N, D], or a vector whose length is not 1 (or not finite).
    """
    if engine not in ENGINES:
        raise UsageError(f"unknown engine {engine!r}", hint=f"choose one of {', '.join(ENGINES)}")
    pool = np.ascontiguousarray(vectors, np.float32)
    if pool.ndim != 2:
        raise DataError(f"vectors have shape {pool.shape}, not [N, D]")
    most = len(pool) - 1
    if not 1 <= k <= max(most, 0) or block < 1:
        raise UsageError(
            f"cannot take {k} neighbours of {len(pool)} vectors in blocks of {block}", hint=f"at most {most}"
        )
    lengths = np.sqrt(np.einsum("nd,nd->n", pool, pool))
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= NORM_ERROR))
    if wrong.size:
        raise DataError(f"vector {wrong[0]} has length {lengths[wrong[0]]:.4g}, not 1", hint="normalise the vectors")
    if engine == "faiss":
        return _by_faiss(pool, k, block)
    found = _search(pool, np.arange(len(pool)), is_coarse(engine)).best(k, block)
    return _as_distances(*found)


def _search(pool: Vectors, rows: Indices, coarse: bool) -> ExactSearch:
    """The search for what is nearest to the vectors numbered `rows`."""
    squares = np.einsum("nd,nd->n", pool, pool, dtype=np.float64)
    queries = pool if len(rows) == len(pool) else pool[rows]
    # half the spread of |b|²/2, by which the order of products can differ from that of distances
    return ExactSearch(
        queries, pool, coarse, (np.arange(len(rows)), rows), _minus_squares, float(squares.max() - squares.min()) / 4
    )


def _minus_squares(left: Vectors, right: Vectors) -> Doubles:
    """Squared distances of pairs, in float64, below zero: the nearest is the best."""
    difference = np.subtract(left, right, dtype=np.float64)
    found: Doubles = -np.vecdot(difference, difference)
    return found


def _as_distances(indices: Indices, values: Doubles) -> Neighbours:
    return indices, np.sqrt(-values).astype(np.float32)


def _by_faiss(pool: Vectors, k: int, block: int) -> Neighbours:
    """Candidates by faiss; rows in which one more could belong to the answer are searched again with products in fp32."""
    try:
        import faiss
    except ImportError as error:
        raise UsageError(
            "engine faiss is not installed", hint="pip install 'ctxr[faiss]', or use engine auto"
        ) from error
    exact = _search(pool, np.arange(len(pool)), False)
    index = faiss.IndexFlatIP(pool.shape[1])
    index.add(pool)
    indices, values = np.empty((len(pool), k), np.int64), np.empty((len(pool), k))
    wanted = min(len(pool), k + 1 + SPARE)
    unsure: list[Indices] = []
    for start in range(0, len(pool), block):
        products, candidates = index.search(pool[start : start + block], wanted)
        rows = np.arange(start, start + len(products))
        others = candidates != rows[:, None]
        kth = np.sort(np.where(others, products, -np.inf), axis=1)[:, -k]
        if wanted < len(pool):
            unsure.append(rows[products[:, -1] >= kth - 2 * exact.bound])
        query, place = np.nonzero(others)
        indices[rows], values[rows] = exact.ranked(rows, query, candidates[query, place], k)
    again = np.concatenate([np.empty(0, np.int64), *unsure])
    if len(again):
        indices[again], values[again] = _search(pool, again, False).best(k, block)
    return _as_distances(indices, values)
