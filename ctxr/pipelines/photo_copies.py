"""Which photos of a pool show one picture."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ctxr.data.embeddings import Vectors

Positions = npt.NDArray[np.int64]
Distances = npt.NDArray[np.float32]

BLOCK = 256
"""Photos whose distances to the whole pool are taken at a time, where the neighbours at hand do not reach far enough."""


def deduplicate(
    contents: Sequence[str], vectors: Vectors, around: Positions, distances: Distances, duplicate: float
) -> Positions:
    """For each photo [N] the first photo of its group; photos of two groups are never copies of one another.

    Two photos are copies when their contents are equal or their distance lies below `duplicate`, and a group holds whatever
    such pairs connect. So groups grow along chains: where A is a copy of B and B of C, all three are one group, even if A and C
    lie further apart. Which photos make a group does not depend on their order.

    Args:
        contents: sha256 of each photo.
        vectors: [N, D].
        around: [N, K] nearest photos, nearest first, with `distances` [N, K].
        duplicate: on the scale of `distances`.
    """
    first: dict[str, int] = {}
    root = [first.setdefault(content, at) for at, content in enumerate(contents)]

    def find(at: int) -> int:
        while root[at] != at:
            root[at] = root[root[at]]
            at = root[at]
        return at

    close = distances < duplicate
    for at, other in zip(np.nonzero(close)[0].tolist(), around[close].tolist(), strict=True):
        one, two = find(at), find(other)
        root[max(one, two)] = min(one, two)
    # all neighbours at hand are copies: there may be more of them
    full = np.flatnonzero(close.all(axis=1)) if 0 < around.shape[1] < len(root) - 1 else np.zeros(0, np.int64)
    for start in range(0, len(full), BLOCK):
        for at, others in _all_close(vectors, full[start : start + BLOCK], duplicate):
            for other in others.tolist():
                one, two = find(at), find(other)
                root[max(one, two)] = min(one, two)
    return np.array([find(at) for at in range(len(root))], np.int64)


def _all_close(vectors: Vectors, rows: Positions, duplicate: float) -> list[tuple[int, Positions]]:
    """For each of `rows` every photo nearer than `duplicate`: found by products in float32, decided by differences in float64."""
    squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    slack = vectors.shape[1] * 2.0**-22 * float(squares.max(initial=0.0)) + 1e-9
    rough = squares[rows, None] + squares[None, :] - 2 * (vectors[rows] @ vectors.T)
    found = []
    for place, at in enumerate(rows.tolist()):
        near = np.flatnonzero(rough[place] < duplicate**2 + slack)
        difference = np.asarray(vectors[near], np.float64) - np.asarray(vectors[at], np.float64)
        exact = np.sqrt(np.einsum("nd,nd->n", difference, difference)).astype(np.float32)
        found.append((at, near[exact < duplicate]))
    return found
