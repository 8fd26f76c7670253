"""The greedy walk that picks minimally contrastive sets out of a shot (ImageCoDe, section 3.1).

The first frame of a shot opens a set; a following frame joins it if its distance to *every* chosen frame exceeds the
threshold; at `set_size` images the set is complete and the next frame that passes opens a new one; when the shot ends, an
incomplete set is given up. Frames that quality rules out are passed over as if they were not there.

The walk knows no pixels: it asks two questions back. `refine` takes a decision again in full precision when a distance is
within `margin` of the threshold: low-precision embeddings then pick the sets that fp32 would. `veto` answers why a frame
that would join must not, or None. Both are asked only about frames that matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ctxr.store.arrays import Vectors


@dataclass(frozen=True)
class Rejection:
    """Why quality rules a frame out: a snake_case reason and the figure behind it."""

    reason: str
    value: float


@dataclass
class FrameDecision:
    """What the walk made of one frame; `reason` None and `set_number` given = kept.

    Attributes:
        nearest: index of the nearest chosen frame at that moment, None when the set was empty.
        distance: Euclidean distance to it, 0..2.
    """

    index: int
    shot: int
    reason: str | None = None
    value: float | None = None
    nearest: int | None = None
    distance: float | None = None
    set_number: int | None = None


@dataclass(frozen=True)
class Completed:
    """A full set: number within its shot, from 0, and frame indices in temporal order."""

    shot: int
    number: int
    indices: tuple[int, ...]


@dataclass
class Walk:
    """One pass over the frames of one video, in order.

    Attributes:
        threshold: Euclidean distance on unit vectors that a frame must exceed to every chosen one; larger picks fewer,
            more different frames. The paper's value for CLIP is 0.35.
        set_size: images in a set; the paper's is 10.
        margin: half-width of the band around the threshold in which distances are taken again with `refine`; 0 = never.
        refine: indices -> their vectors [n, D] in full precision.
        veto: index of a frame that would join -> a Rejection, or None to let it in.
    """

    threshold: float
    set_size: int = 10
    margin: float = 0.0
    refine: Callable[[Sequence[int]], Vectors] | None = None
    veto: Callable[[int], Rejection | None] | None = None

    _shot: int | None = None
    _number: int = 0
    _chosen: list[FrameDecision] = field(default_factory=list)
    _vectors: list[Vectors] = field(default_factory=list)

    def chosen(self) -> list[int]:
        """Indices in the open set."""
        return [decision.index for decision in self._chosen]

    def push(self, index: int, shot: int, vector: Vectors) -> tuple[FrameDecision, Completed | None]:
        """Decide on the next frame; also the set that it completes, if it does.

        A decision can change once more: when its set stays incomplete, `reason` becomes `set_incomplete`.
        """
        if shot != self._shot:
            self.finish()
            self._shot, self._number = shot, 0
        decision = FrameDecision(index, shot)
        if self._chosen:
            nearest, distance = self._nearest(index, vector)
            decision.nearest, decision.distance = self._chosen[nearest].index, distance
            if distance <= self.threshold:
                decision.reason = "too_close"
                return decision, None
        rejection = self.veto(index) if self.veto else None
        if rejection:
            decision.reason, decision.value = rejection.reason, rejection.value
            return decision, None
        decision.set_number = self._number
        self._chosen.append(decision)
        self._vectors.append(vector)
        if len(self._chosen) < self.set_size:
            return decision, None
        completed = Completed(shot, self._number, tuple(self.chosen()))
        self._number += 1
        self._chosen, self._vectors = [], []
        return decision, completed

    def finish(self) -> None:
        """The shot is over: give up the open set, if any."""
        for decision in self._chosen:
            decision.reason, decision.value = "set_incomplete", float(len(self._chosen))
            decision.set_number = None
        self._chosen, self._vectors = [], []

    def _nearest(self, index: int, vector: Vectors) -> tuple[int, float]:
        """Position and distance of the nearest chosen frame; exact where the threshold is within the margin."""
        distances = _distances(np.stack(self._vectors), vector)
        if self.margin and self.refine and abs(distances.min() - self.threshold) <= self.margin:
            band = np.flatnonzero(np.abs(distances - self.threshold) <= self.margin)
            exact = self.refine([index, *(self._chosen[position].index for position in band)])
            distances[band] = _distances(exact[1:], exact[0])
        nearest = int(distances.argmin())
        return nearest, float(distances[nearest])


def _distances(rows: Vectors, vector: Vectors) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Distances by differences in float64: unlike sqrt(2 - 2 cos), exact near 0 and independent of the matrix shape."""
    difference = rows.astype(np.float64) - vector.astype(np.float64)
    lengths: np.ndarray[tuple[int], np.dtype[np.float64]] = np.sqrt(np.einsum("nd,nd->n", difference, difference))
    return lengths


def count_sets(vectors: Vectors, shots: Sequence[int], threshold: float, set_size: int = 10) -> int:
    """How many full sets a walk finds over vectors [N, D] whose frames lie in `shots`; no quality, no refinement."""
    walk = Walk(threshold, set_size)
    return sum(walk.push(index, shot, vectors[index])[1] is not None for index, shot in enumerate(shots))
