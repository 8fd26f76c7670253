"""Exact nearest neighbours among unit vectors, block by block in constant memory."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ctxr.data.embeddings import Vectors
from ctxr.errors import UsageError
from ctxr.models.precision import float32_matmul

BLOCK = 1024
"""Rows compared with all others at once: 1,024 x 100,000 similarities are 400 MB."""

SPARE = 16
"""Candidates taken beyond k, so that rounding seldom puts a row's answer in doubt."""

ROUNDING = 4e-6
"""Bound on the error of a float32 dot product of unit vectors of up to 4,096 numbers, summed in blocks."""


def nearest(
    vectors: Vectors, k: int, block: int = BLOCK, exclude_self: bool = True, engine: str = "auto"
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """For each row its `k` nearest rows: indices [N, k] and Euclidean distances [N, k], ascending, ties by index.

    Candidates come from a float32 matrix product; their distances are taken again in float64 by differences, and a row whose
    answer the rounding could have changed is compared with all rows. So the answer is that of the slow, obvious way.

    Args:
        vectors: unit vectors, float32 [N, D].
        k: 1..N-1, or ..N when a row may be its own neighbour.
        engine: `auto`, `torch`, or `faiss`, which needs the extra of that name.

    Raises:
        UsageError: `k` out of range, an unknown engine, or faiss is not installed.
    """
    count = len(vectors)
    if not 1 <= k <= count - exclude_self:
        raise UsageError(f"{k} neighbours were asked for among {count} vectors", hint="give more vectors")
    if engine not in ("auto", "torch", "faiss"):
        raise UsageError(f"unknown engine {engine!r}", hint="choose auto, torch or faiss")
    wanted = min(count, k + exclude_self + SPARE)
    search = _faiss(vectors) if engine == "faiss" else _torch(vectors)
    indices = np.empty((count, k), np.int64)
    distances = np.empty((count, k), np.float32)
    for start in range(0, count, block):
        rows = np.arange(start, min(start + block, count))
        similar, candidates = search(vectors[rows], wanted)
        for row, likeness, near in zip(rows, similar, candidates, strict=True):
            indices[row], distances[row] = _settle(vectors, int(row), near, float(likeness.min()), k, exclude_self)
    return indices, distances


def _settle(
    vectors: Vectors, row: int, near: npt.NDArray[np.int64], weakest: float, k: int, exclude_self: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The row's neighbours from its candidates, or from all rows when the candidates are not proven to hold them."""
    chosen, exact = _ranked(vectors, row, near, k, exclude_self)
    # a row that is no candidate is at most as similar as the weakest one, up to rounding
    out_of_reach = np.sqrt(max(0.0, 2 - 2 * (weakest + 2 * ROUNDING)))
    if len(near) < len(vectors) and (len(chosen) < k or exact[-1] >= out_of_reach):
        chosen, exact = _ranked(vectors, row, np.arange(len(vectors)), k, exclude_self)
    return chosen, exact


def _ranked(
    vectors: Vectors, row: int, near: npt.NDArray[np.int64], k: int, exclude_self: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    others = near[near != row] if exclude_self else near
    difference = vectors[others].astype(np.float64) - vectors[row].astype(np.float64)
    distances = np.sqrt(np.einsum("nd,nd->n", difference, difference))
    order = np.lexsort((others, distances))[:k]
    return others[order], distances[order]


def _torch(vectors: Vectors) -> Any:
    import torch

    every = torch.from_numpy(np.array(vectors, np.float32)).T.contiguous()

    def search(rows: Vectors, wanted: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        with float32_matmul("highest"):
            similar = torch.from_numpy(np.array(rows, np.float32)) @ every
        found = torch.topk(similar, wanted, sorted=False)
        return found.values.numpy(), found.indices.numpy()

    return search


def _faiss(vectors: Vectors) -> Any:
    try:
        import faiss
    except ImportError as error:
        raise UsageError("faiss is not installed", hint='pip install "ctxr[faiss]"') from error
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, np.float32))

    def search(rows: Vectors, wanted: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        similar, candidates = index.search(np.ascontiguousarray(rows, np.float32), wanted)
        return similar, candidates.astype(np.int64)

    return search
