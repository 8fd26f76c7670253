"""Exact nearest neighbours and best matches of vectors, block by block (ImageCoDe, section 3.1); and an index of faiss.

`ExactSearch` is behind the first two: approximate products choose the candidates, whose exact ones are then computed in float64.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ctxr.errors import CtxrError, DataError, first_line
from ctxr.models.precision import cpu_matmul_precision, float32_matmul, has_bf16_units

Vectors = NDArray[np.float32]
Indices = NDArray[np.int64]
Doubles = NDArray[np.float64]
Pairs = tuple[Indices, Indices]
Neighbours = tuple[Indices, Vectors]

GROUP = 32  # columns looked at through their maximum first
PAIRS = 512  # pairs whose value is taken at a time: 2 MiB at 512 dimensions stay in the cache
PRODUCTS_AT_ONCE = 2**26
NO_MATCH = -1
RECALLED, LEAST_RECALL = 9, 0.98  # nearest, as in a set, of which an index has to find so many, where it can
PRODUCTS = Lock()  # held while multiplying: torch uses all cores, and its precision is a setting of the process


class Matches(NamedTuple):
    """The best k of each of Q queries, best first, [Q, k]; `NO_MATCH` and -inf if fewer."""

    indices: Indices
    scores: NDArray[np.floating[Any]]


def best_matches(
    queries: Vectors,
    pool: Vectors,
    k: int,
    without: Pairs | None = None,
    block: int = 512,
    *,
    coarse: bool | None = None,
) -> Matches:
    """The `k` candidates of the highest dot product for every query, equal ones by index.

    The answer is that of a stable sort of all products in float64, whatever the block and `coarse`. `block` rows of products are in
    memory at a time. Raises DataError for vectors of different widths, or that are not finite.

    Args:
        queries: [Q, D] float32. pool: [M, D] float32. k: how many, at least 1; cut to M.
        without, coarse: see `ExactSearch`.
    """
    if queries.ndim != 2 or pool.ndim != 2 or queries.shape[1] != pool.shape[1]:
        raise DataError(f"vectors of shapes {queries.shape} and {pool.shape} do not share one space")
    if not (np.isfinite(queries).all() and np.isfinite(pool).all()):
        raise DataError("a vector is not finite", hint="look at the pictures and the weights that it was made of")
    found = ExactSearch(queries, pool, coarse, without).best(min(k, len(pool)), block)
    return found._replace(scores=found.scores.astype(np.float32))


def products(left: Vectors, right: Vectors) -> Doubles:
    """Dot products of pairs [n, D], in float64."""
    return cast("Doubles", np.vecdot(np.asarray(left, np.float64), np.asarray(right, np.float64)))


def minus_squares(left: Vectors, right: Vectors) -> Doubles:
    """Squared distances of pairs [n, D], in float64; negative, so the nearest is the best."""
    difference = np.subtract(left, right, dtype=np.float64)
    return cast("Doubles", -np.vecdot(difference, difference))


def ranked(
    exact: Callable[[Vectors, Vectors], Doubles], queries: Vectors, pool: Vectors, pairs: Pairs, k: int
) -> Matches:
    """The best `k` of each query [Q, D] among `pairs` with rows of the pool, by their exact values; equal ones by index."""
    row, column = pairs
    values = np.empty(len(row))
    for start in range(0, len(row), PAIRS):
        part = slice(start, start + PAIRS)
        values[part] = exact(queries[row[part]], pool[column[part]])
    order = np.lexsort((column, -values, row))
    row, column, values = row[order], column[order], values[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = rank < k
    matches = Matches(np.full((len(queries), k), NO_MATCH, np.int64), np.full((len(queries), k), -np.inf))
    matches.indices[row[kept], rank[kept]], matches.scores[row[kept], rank[kept]] = column[kept], values[kept]
    return matches


class ExactSearch:
    """The best of a pool for each query: approximate products rule pairs out, exact values order the rest.

    For a query a and a candidate b with rounded a', b' and errors e = a - a', f = b - b': a·b - a'·b' = e·b + a'·f, which is at
    most |e||b| + |a'||f|. `bound` adds the rounding of D sums in fp32 and that of the product to bf16.

    Args:
        coarse: products in bf16, else in fp32; None: in bf16 where this processor has units for it.
        without: parallel columns (query, candidate) of pairs that are left out.
        exact: values of pairs, two times [n, D] -> [n]; higher is better.
        slack: by which the order of products can differ from that of `exact`.
    """

    def __init__(
        self,
        queries: Vectors,
        pool: Vectors,
        coarse: bool | None = None,
        without: Pairs | None = None,
        exact: Callable[[Vectors, Vectors], Doubles] = products,
        *,
        slack: float = 0.0,
    ) -> None:
        import torch

        self.queries, self.pool, self.exact = np.ascontiguousarray(queries), np.ascontiguousarray(pool), exact
        self.setting = cpu_matmul_precision()
        left, right = torch.from_numpy(self.queries), torch.from_numpy(self.pool)
        coarse = has_bf16_units() if coarse is None else coarse
        self.left, rounded = (left.bfloat16(), right.bfloat16()) if coarse else (left, right)
        self.right: Any = torch.nn.functional.pad(rounded, (0, 0, 0, -len(pool) % GROUP))
        self.bound = slack
        if len(queries) and len(pool):
            longest = float(left.norm(dim=1).max()), float(right.norm(dim=1).max())
            self.bound += pool.shape[1] * 2**-23 * longest[0] * longest[1]
            if coarse:
                rounding = (left, self.left), (right, rounded)
                lost = [float((exact - coarser.float()).norm(dim=1).max()) for exact, coarser in rounding]
                self.bound += lost[0] * longest[1] + (longest[0] + lost[0]) * lost[1] + 2**-8 * longest[0] * longest[1]
        rows, columns = without or (np.zeros(0, np.int64), np.zeros(0, np.int64))
        order = np.argsort(rows, kind="stable")
        self.left_out = rows[order], columns[order]

    def best(self, k: int, block: int) -> Matches:
        """The best `k` of every query with their values in float64."""
        import torch

        count = len(self.queries)
        indices, values = np.full((count, k), NO_MATCH, np.int64), np.full((count, k), -np.inf)
        if not k:
            return Matches(indices, values)
        # written again for every block: fresh pages would cost more than the products
        coarse = torch.empty((min(block, count), len(self.right)), dtype=self.right.dtype)
        fine = torch.empty(coarse.shape) if coarse.dtype != torch.float32 else coarse
        for start in range(0, count, block):
            stop = min(start + block, count)
            with PRODUCTS, torch.inference_mode(), float32_matmul(self.setting):
                torch.mm(self.left[start:stop], self.right.T, out=coarse[: stop - start])
                if fine is not coarse:
                    fine.copy_(coarse)
            scores = fine.numpy()[: stop - start]
            scores[:, len(self.pool) :] = -np.inf
            first, last = np.searchsorted(self.left_out[0], [start, stop])
            scores[self.left_out[0][first:last] - start, self.left_out[1][first:last]] = -np.inf
            pairs = self._candidates(scores, k)
            indices[start:stop], values[start:stop] = ranked(self.exact, self.queries[start:stop], self.pool, pairs, k)
        return Matches(indices, values)

    def _candidates(self, scores: Vectors, k: int) -> Pairs:
        """Pairs that reach the k-th best of their row less twice the bound: the k best of each row are among them.

        The k-th best exact value of a row is at least the k-th best approximate one less the bound, and a pair that reaches it
        has at least that less the bound again. The maxima of groups of columns rule most groups out.
        """
        groups = scores.reshape(len(scores), GROUP, -1)
        highest = groups.max(axis=1)
        enough = highest if highest.shape[1] >= k else scores
        floor = np.partition(enough, -k, axis=1)[:, -k] - np.float32(2 * self.bound)
        # a row that has fewer than k left takes all of them, and none that was left out
        floor = np.maximum(floor, np.finfo(np.float32).min)
        row, group = np.nonzero(highest >= floor[:, None])
        pair, member = np.nonzero(groups[row, :, group] >= floor[row, None])
        return row[pair], member * highest.shape[1] + group[pair]


NORM_ERROR = 1e-3  # how far from length 1 a vector may be


def nearest(
    vectors: Vectors, k: int, block: int = 512, coarse: bool | None = None, rows: slice | Indices = slice(None)
) -> Matches:
    """The `k` nearest neighbours of every vector, duplicates among them, with distances, 0 to 2, as scores.

    The answer is that of a stable sort of all distances in float64, whatever the block and `coarse`.
    Raises DataError for what is not [N, D], or a vector whose length is not 1 (or not finite).

    Args:
        vectors: [N, D] float32, each of length 1. k: at most N - 1. rows: of the vectors whose neighbours are found.
        block: rows of products at a time, 4 bytes x N each (6 in bf16), and fewer where that is more than 400 MB.
    """
    pool = np.ascontiguousarray(vectors, np.float32)
    if pool.ndim != 2:
        raise DataError(f"vectors have shape {pool.shape}, not [N, D]")
    lengths = np.sqrt(np.einsum("nd,nd->n", pool, pool))
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= NORM_ERROR))
    if wrong.size:
        raise DataError(f"vector {wrong[0]} has length {lengths[wrong[0]]:.4g}, not 1", hint="normalise the vectors")
    stripe = np.arange(len(pool))[rows]
    block = max(1, min(block, PRODUCTS_AT_ONCE // len(pool)))
    indices, values = euclidean_search(pool[stripe], pool, coarse, (np.arange(len(stripe)), stripe)).best(k, block)
    return Matches(indices, np.sqrt(-values).astype(np.float32))


def euclidean_search(
    queries: Vectors, pool: Vectors, coarse: bool | None = None, without: Pairs | None = None
) -> ExactSearch:
    """The search for the nearest of each query; values are negative squared distances."""
    squares = np.einsum("nd,nd->n", pool, pool, dtype=np.float64)
    # half the spread of |b|²/2, by which the order of products can differ from that of distances
    slack = float(squares.max() - squares.min()) / 4
    return ExactSearch(queries, pool, coarse, without, minus_squares, slack=slack)


class VectorIndex(NamedTuple):
    """A file of lists of vectors that lie together, 8 bits a number; of how many lists each search takes candidates; and the share, 0..1,
    of the `RECALLED` nearest of the vectors `sample` that it finds then."""

    file: Path
    probes: int
    recall: float
    sample: Indices


def build_index(vectors: Vectors, k: int, file: Path) -> VectorIndex:
    """Write an index of vectors [N, D]. Searches for `k` double their lists until they find the `RECALLED` nearest of
    a sample; recall is that of another sample.

    Raises DataError as `nearest`.
    """
    import faiss

    rng, count = np.random.default_rng(0), len(vectors)
    # as faiss advises, with as many vectors of each to train on
    lists = max(1, min(round(4 * count**0.5), count // 40))
    drawn = np.sort(rng.choice(count, min(40 * lists, count), replace=False))
    # how many lists are searched is decided on other vectors than recall is reported on
    chosen = rng.choice(count, min(1500, count), replace=False)
    tuned, sample = np.sort(chosen[: len(chosen) // 3]), np.sort(chosen[len(chosen) // 3 :])
    index = faiss.index_factory(vectors.shape[1], f"IVF{lists},SQ8")
    with PRODUCTS:
        index.train(vectors[drawn])
        index.add(vectors)
    try:
        faiss.write_index(index, str(file))
    except RuntimeError as error:  # of a full disk, for example
        problem = f"the index {file} cannot be written: {first_line(error)}"
        raise CtxrError(problem, "free space on this disk, then run the same command again") from error
    del index
    true, reached = nearest(vectors, min(k, RECALLED), rows=tuned), 0.0
    found = VectorIndex(file, 4, 0.0, sample)
    while reached < LEAST_RECALL and found.probes < max(8, lists):
        found = found._replace(probes=2 * found.probes)
        reached = _recall(true, nearest_by_index(found, vectors, k, tuned))
    true = nearest(vectors, min(k, RECALLED), rows=sample)
    return found._replace(recall=_recall(true, nearest_by_index(found, vectors, k, sample)))


def _recall(true: Matches, found: Matches) -> float:
    same = found.indices[:, None, :RECALLED] == true.indices[:, :, None]
    return float(same.any(axis=2).mean())


def nearest_by_index(index: VectorIndex, vectors: Vectors, k: int, rows: Indices) -> Matches:
    """As `nearest`, the best `k` of twice as many candidates for some rows; of all where their lists hold fewer than `k`."""
    import faiss

    lists: Any = faiss.read_index(str(index.file), faiss.IO_FLAG_MMAP)
    lists.nprobe = index.probes
    with PRODUCTS:
        candidates = lists.search(vectors[rows], 2 * k + 1)[1]
    row, place = np.nonzero((candidates != NO_MATCH) & (candidates != rows[:, None]))
    found, values = ranked(minus_squares, vectors[rows], vectors, (row, candidates[row, place]), k)
    distances = np.sqrt(-values).astype(np.float32)
    if few := np.flatnonzero(found[:, -1] == NO_MATCH).tolist():
        found[few], distances[few] = nearest(vectors, k, rows=rows[few])
    return Matches(found, distances)
