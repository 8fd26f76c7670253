"""The photos of a pool by exact distance from one of them, beyond the neighbours that were looked up for all."""

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from ctxr.store.arrays import Vectors

Positions = npt.NDArray[np.int64]
Distances = npt.NDArray[np.float32]

DISTANCE_BLOCK = 256
"""Exact distances taken at a time beyond those neighbours."""


class PhotoRanking:
    """The photos of a pool by distance from one of them, as far as somebody asks.

    Products in float32 give the order up to `slack`, a bound on what they can be wrong by; exact distances (float64, from the
    differences) are taken of a block of photos at a time, and a photo is given out once no later one can be nearer.
    """

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self._squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
        self.slack = vectors.shape[1] * 2.0**-22 * float(self._squares.max(initial=0.0)) + 1e-9

    def around(self, anchor: int) -> Iterator[int]:
        """All photos by distance from `anchor`, itself included; equal distances by position."""
        rough = self._rough(anchor)
        order = np.argsort(rough)
        waiting: list[tuple[float, int]] = []
        for stop in range(DISTANCE_BLOCK, len(order) + DISTANCE_BLOCK, DISTANCE_BLOCK):
            block = order[stop - DISTANCE_BLOCK : stop]
            for pair in zip(self.squared(anchor, block).tolist(), block.tolist(), strict=True):
                heappush(waiting, pair)
            sure = float(rough[order[stop]]) - self.slack if stop < len(order) else np.inf
            while waiting and waiting[0][0] < sure:
                yield heappop(waiting)[1]

    def within(self, anchor: int, distance: float) -> list[int]:
        """The photos nearer to `anchor` than `distance`."""
        near = np.flatnonzero(self._rough(anchor) < distance**2 + self.slack)
        close: list[int] = near[np.sqrt(self.squared(anchor, near)).astype(np.float32) < distance].tolist()
        return close

    def _rough(self, anchor: int) -> npt.NDArray[np.float64]:
        twice = 2 * (self.vectors @ self.vectors[anchor])
        rough: npt.NDArray[np.float64] = self._squares + self._squares[anchor] - twice
        return rough

    def squared(self, anchor: int, rows: Positions) -> npt.NDArray[np.float64]:
        """Exact squared distances of the photos `rows` from `anchor`."""
        difference = np.asarray(self.vectors[rows], np.float64) - np.asarray(self.vectors[anchor], np.float64)
        squares: npt.NDArray[np.float64] = np.einsum("nd,nd->n", difference, difference)
        return squares
