"""Exact nearest neighbours among the vectors of a pool, for image sets made of photos (ImageCoDe, section 3.1)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ctxr.errors import DataError, UsageError
from ctxr.models.precision import cpu_matmul_precision, float32_matmul, has_bf16_units

Vectors = NDArray[np.float32]
Indices = NDArray[np.int64]
Doubles = NDArray[np.float64]
Found = tuple[Indices, NDArray[np.float32]]

ENGINES = ("auto", "bf16", "fp32", "faiss")
GROUP = 32  # columns looked at through their maximum first
PAIRS = 512  # pairs whose distance is taken at a time: 2 MiB at 512 dimensions stay in the cache
NORM_ERROR = 1e-3  # how far from length 1 a vector may be
BELOW_ALL = -4.0  # no product of unit vectors is as low
SPARE = 16  # candidates that faiss is asked for beyond k


def nearest(vectors: Vectors, k: int, block: int = 512, exclude_self: bool = True, engine: str = "auto") -> Found:
    """The `k` nearest neighbours of every vector, and how far they are: ([N, k] int64, [N, k] float32).

    Euclidean distances on unit vectors, 0 to 2, ascending; equal distances by index. The answer is that of a stable sort of all
    distances computed in float64 from the differences, whatever the engine: approximate products only choose which pairs are
    computed so, and a pair is left out only if the bound on their error rules it out. Memory does not grow with N beyond the
    vectors and `block` rows of products.

    Args:
        vectors: [N, D] float32, each of length 1.
        k: how many neighbours, at most N - 1 (N with itself).
        block: rows of products at a time, 4 bytes x N each (6 in bf16): 300 MB at the most for 100,000 vectors.
        exclude_self: a vector is not its own neighbour; its duplicates are.
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
    most = len(pool) - int(exclude_self)
    if not 1 <= k <= max(most, 0) or block < 1:
        raise UsageError(
            f"cannot take {k} neighbours of {len(pool)} vectors in blocks of {block}", hint=f"at most {most}"
        )
    lengths = np.sqrt(np.einsum("nd,nd->n", pool, pool))
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= NORM_ERROR))
    if wrong.size:
        raise DataError(f"vector {wrong[0]} has length {lengths[wrong[0]]:.4g}, not 1", hint="normalise the vectors")
    if engine == "faiss":
        return _by_faiss(pool, k, block, exclude_self)
    coarse = engine == "bf16" or (engine == "auto" and has_bf16_units())
    return _Pool(pool, "bf16" if coarse else "fp32", exclude_self).search(np.arange(len(pool)), k, block)


class _Pool:
    """Vectors, their copy in the number format of the products, and the bound on what that costs.

    For a query a and a candidate b with rounded a', b' and errors e = a - a', f = b - b': a·b - a'·b' = e·b + a'·f, which is at
    most |e||b| + |a'||f|. Added are the rounding of D sums in fp32, that of the product to bf16, and half the spread of |b|²/2,
    by which the order of products can differ from that of distances.
    """

    def __init__(self, pool: Vectors, precision: Literal["bf16", "fp32"], exclude_self: bool) -> None:
        import torch

        self.vectors = pool
        exact = torch.from_numpy(pool)
        self.exclude_self = exclude_self
        self.setting = cpu_matmul_precision()
        rounded = exact.bfloat16() if precision == "bf16" else exact
        self.rounded = torch.nn.functional.pad(rounded, (0, 0, 0, -len(pool) % GROUP))
        squares = exact.double().square().sum(1)
        longest = float(squares.max().sqrt())
        self.bound = float(squares.max() - squares.min()) / 4 + pool.shape[1] * 2**-23 * longest**2
        if precision == "bf16":
            lost = float((exact - rounded.float()).norm(dim=1).max())
            self.bound += lost * (2 * longest + lost) + 2**-8 * longest**2

    def search(self, rows: Indices, k: int, block: int) -> Found:
        """Neighbours of the vectors numbered `rows`."""
        import torch

        indices = np.empty((len(rows), k), np.int64)
        distances = np.empty((len(rows), k), np.float32)
        # written again for every block: fresh pages would cost more than the products
        coarse = torch.empty((min(block, len(rows)), len(self.rounded)), dtype=self.rounded.dtype)
        fine = torch.empty(coarse.shape) if coarse.dtype != torch.float32 else coarse
        for start in range(0, len(rows), block):
            chosen = rows[start : start + block]
            with torch.inference_mode(), float32_matmul(self.setting):
                torch.mm(self.rounded[torch.from_numpy(chosen)], self.rounded.T, out=coarse[: len(chosen)])
                if fine is not coarse:
                    fine.copy_(coarse)
            products = fine.numpy()[: len(chosen)]
            products[:, len(self.vectors) :] = -np.inf
            if self.exclude_self:
                products[np.arange(len(chosen)), chosen] = -np.inf
            query, candidate = self._candidates(products, k)
            squared = _squared(self.vectors, chosen[query], candidate)
            found = _first(query, candidate, squared, len(chosen), k)
            indices[start : start + block], distances[start : start + block] = found
        return indices, distances

    def _candidates(self, products: Vectors, k: int) -> tuple[Indices, Indices]:
        """Pairs (row, column) among which the k nearest of each row are sure to be.

        The k-th best true product of a row is at least the k-th best approximate one less the bound, and a column that reaches
        it has at least that less the bound again. Groups of columns are ruled out by their maximum.
        """
        groups = products.reshape(len(products), GROUP, -1)
        highest = groups.max(axis=1)
        floor = np.full(len(products), BELOW_ALL, np.float32)
        if highest.shape[1] >= k:
            # k groups hold a product each that is at least the k-th highest maximum
            kth = np.partition(highest, -k, axis=1)[:, -k]
            floor = np.maximum(kth - np.float32(2 * self.bound), floor)
        row, group = np.nonzero(highest >= floor[:, None])
        pair, place = np.nonzero(groups[row, :, group] >= floor[row, None])
        return row[pair], place * highest.shape[1] + group[pair]


def _squared(vectors: Vectors, left: Indices, right: Indices) -> Doubles:
    """Squared distances of pairs, in float64."""
    found = np.empty(len(left))
    for start in range(0, len(left), PAIRS):
        part = slice(start, start + PAIRS)
        difference = np.subtract(vectors[left[part]], vectors[right[part]], dtype=np.float64)
        np.vecdot(difference, difference, out=found[part])
    return found


def _first(query: Indices, candidate: Indices, squared: Doubles, rows: int, k: int) -> Found:
    """The first `k` candidates of each of `rows` queries by distance, then by index."""
    order = np.lexsort((candidate, squared, query))
    starts = np.searchsorted(query[order], np.arange(rows))
    taken = order[starts[:, None] + np.arange(k)]
    return candidate[taken], np.sqrt(squared[taken]).astype(np.float32)


def _by_faiss(pool: Vectors, k: int, block: int, exclude_self: bool) -> Found:
    """Candidates by faiss; rows in which one more could belong to the answer are searched again with products in fp32."""
    try:
        import faiss
    except ImportError as error:
        raise UsageError(
            "engine faiss is not installed", hint="pip install 'ctxr[faiss]', or use engine auto"
        ) from error
    exact = _Pool(pool, "fp32", exclude_self)
    index = faiss.IndexFlatIP(pool.shape[1])
    index.add(pool)
    indices = np.empty((len(pool), k), np.int64)
    distances = np.empty((len(pool), k), np.float32)
    wanted = min(len(pool), k + int(exclude_self) + SPARE)
    unsure: list[Indices] = []
    for start in range(0, len(pool), block):
        products, candidates = index.search(pool[start : start + block], wanted)
        rows = np.arange(start, start + len(products))
        others = candidates != (rows[:, None] if exclude_self else -1)
        kth = np.sort(np.where(others, products, -np.inf), axis=1)[:, -k]
        if wanted < len(pool):
            unsure.append(rows[products[:, -1] >= kth - 2 * exact.bound])
        query, place = np.nonzero(others)
        candidate = candidates[query, place]
        squared = _squared(pool, rows[query], candidate)
        indices[rows], distances[rows] = _first(query, candidate, squared, len(rows), k)
    again = np.concatenate([np.empty(0, np.int64), *unsure])
    indices[again], distances[again] = exact.search(again, k, block)
    return indices, distances
