"""Exact best matches of vectors of one kind among those of another: captions of pictures, pictures of captions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxr.errors import DataError, UsageError
from ctxr.models.precision import cpu_matmul_precision, float32_matmul, has_bf16_units

Vectors = NDArray[np.float32]
Indices = NDArray[np.int64]

ENGINES = ("auto", "bf16", "fp32")
GROUP = 32  # columns looked at through their maximum first
PAIRS = 512  # pairs whose product is taken at a time: 2 MiB at 512 dimensions stay in the cache
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Matches:
    """The best k of each of Q queries.

    Attributes:
        indices: [Q, k] int64 best first, `NOBODY` where fewer are left. scores: [Q, k] float32, -inf there.
    """

    indices: Indices
    scores: Vectors


def best_matches(
    queries: Vectors,
    pool: Vectors,
    k: int,
    without: tuple[Indices, Indices] | None = None,
    block: int = 512,
    engine: str = "auto",
) -> Matches:
    """The `k` candidates of the highest dot product for every query, equal ones by index.

    The answer is that of a stable sort of all products in float64, whatever the engine and the block: approximate products only
    choose which pairs are computed so. Memory does not grow with Q x M: `block` rows of products are held at a time.

    Args:
        queries: [Q, D] float32. pool: [M, D] float32.
        k: how many, at least 1; cut to M.
        without: parallel columns (query, candidate) of pairs that are left out.
        engine: `bf16` or `fp32` products, or `auto`: bf16 where this processor has units for it.

    Raises UsageError for an unknown engine, or `k` or `block` below 1; DataError for vectors that do not fit or are not finite.
    """
    if engine not in ENGINES:
        raise UsageError(f"unknown engine {engine!r}", hint=f"choose one of {', '.join(ENGINES)}")
    if k < 1 or block < 1:
        raise UsageError(f"cannot take {k} matches in blocks of {block}", hint="1 or more of each")
    if queries.ndim != 2 or pool.ndim != 2 or queries.shape[1] != pool.shape[1]:
        raise DataError(f"vectors of shapes {queries.shape} and {pool.shape} do not share one space")
    if not (np.isfinite(queries).all() and np.isfinite(pool).all()):
        raise DataError("a vector is not finite", hint="look at the pictures and the weights that it was made of")
    wanted = min(k, len(pool))
    indices = np.full((len(queries), wanted), NOBODY, np.int64)
    scores = np.full((len(queries), wanted), -np.inf, np.float32)
    if wanted and len(queries):
        coarse = engine == "bf16" or (engine == "auto" and has_bf16_units())
        _Search(queries, pool, coarse, without).fill(indices, scores, block)
    return Matches(indices, scores)


class _Search:
    """Rounded copies for the products, and the bound on what rounding costs (as in `ctxr.models.neighbours`)."""

    def __init__(self, queries: Vectors, pool: Vectors, coarse: bool, without: tuple[Indices, Indices] | None) -> None:
        import torch

        self.queries, self.pool = np.ascontiguousarray(queries), np.ascontiguousarray(pool)
        self.setting = cpu_matmul_precision()
        asked, held = torch.from_numpy(self.queries), torch.from_numpy(self.pool)
        longest = float(asked.norm(dim=1).max()), float(held.norm(dim=1).max())
        self.bound = pool.shape[1] * 2**-23 * longest[0] * longest[1]
        self.asked, rounded = (asked.bfloat16(), held.bfloat16()) if coarse else (asked, held)
        if coarse:
            lost = (
                float((asked - self.asked.float()).norm(dim=1).max()),
                float((held - rounded.float()).norm(dim=1).max()),
            )
            self.bound += lost[0] * longest[1] + (longest[0] + lost[0]) * lost[1] + 2**-8 * longest[0] * longest[1]
        self.held: Any = torch.nn.functional.pad(rounded, (0, 0, 0, -len(pool) % GROUP))
        rows, columns = without or (np.zeros(0, np.int64), np.zeros(0, np.int64))
        order = np.argsort(rows, kind="stable")
        self.left_out = rows[order], columns[order]

    def fill(self, indices: Indices, scores: Vectors, block: int) -> None:
        """Matches of every query, into the two tables."""
        import torch

        count = len(self.queries)
        # written again for every block: fresh pages would cost more than the products
        coarse = torch.empty((min(block, count), len(self.held)), dtype=self.held.dtype)
        fine = torch.empty(coarse.shape) if coarse.dtype != torch.float32 else coarse
        for start in range(0, count, block):
            stop = min(start + block, count)
            with torch.inference_mode(), float32_matmul(self.setting):
                torch.mm(self.asked[start:stop], self.held.T, out=coarse[: stop - start])
                if fine is not coarse:
                    fine.copy_(coarse)
            products = fine.numpy()[: stop - start]
            products[:, len(self.pool) :] = -np.inf
            first, last = np.searchsorted(self.left_out[0], [start, stop])
            products[self.left_out[0][first:last] - start, self.left_out[1][first:last]] = -np.inf
            row, column = self._candidates(products, indices.shape[1])
            exact = self._exact(row + start, column)
            self._put(row, column, exact, indices[start:stop], scores[start:stop])

    def _candidates(self, products: Vectors, k: int) -> tuple[Indices, Indices]:
        """Pairs among which the k best of each row are sure to be: what reaches the k-th best less twice the bound.

        k groups of columns hold a product each that is at least the k-th highest maximum, so most groups need no second look.
        """
        groups = products.reshape(len(products), GROUP, -1)
        highest = groups.max(axis=1)
        known = highest if highest.shape[1] >= k else products
        floor = np.partition(known, -k, axis=1)[:, -k] - np.float32(2 * self.bound)
        # a row that has fewer than k left takes all of them, and none that was left out
        floor = np.maximum(floor, np.finfo(np.float32).min)
        row, group = np.nonzero(highest >= floor[:, None])
        pair, place = np.nonzero(groups[row, :, group] >= floor[row, None])
        return row[pair], place * highest.shape[1] + group[pair]

    def _exact(self, rows: Indices, columns: Indices) -> NDArray[np.float64]:
        found = np.empty(len(rows))
        for start in range(0, len(rows), PAIRS):
            part = slice(start, start + PAIRS)
            left, right = (np.asarray(one, np.float64) for one in (self.queries[rows[part]], self.pool[columns[part]]))
            np.vecdot(left, right, out=found[part])
        return found

    @staticmethod
    def _put(row: Indices, column: Indices, exact: NDArray[np.float64], indices: Indices, scores: Vectors) -> None:
        order = np.lexsort((column, -exact, row))
        row, column, exact = row[order], column[order], exact[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        kept = rank < indices.shape[1]
        indices[row[kept], rank[kept]] = column[kept]
        scores[row[kept], rank[kept]] = exact[kept]
