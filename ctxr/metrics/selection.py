"""The greedy picker of minimally contrastive sets out of a shot (ImageCoDe, section 3.1).

The first frame of a shot opens a set; a following frame joins it if its distance to *every* chosen frame exceeds the
threshold; at `set_size` images the set is complete and the next frame that passes opens a new one; when the shot ends, an
incomplete set is given up. Frames that quality rules out are passed over as if they were not there.

Where only samples of the frames are embedded, a search between two samples finds the frames at which a distance crosses the threshold.

A subclass gives what the picker asks for: vectors of frames that are not embedded yet, vectors in full precision where a distance is
within `margin` of the threshold (low-precision embeddings then pick the sets that fp32 would), and why quality rules a frame out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ctxr.metrics.votes import Doubles
from ctxr.store.arrays import Vectors


@dataclass(frozen=True)
class Rejection:
    """Why quality rules a frame out: a snake_case reason and the figure behind it."""

    reason: str
    value: float


@dataclass
class FrameDecision:
    """What was made of one frame; `reason` None and `set_number` given = kept. `nearest` is the nearest chosen frame at that moment,
    None when the set was empty, and `distance` the Euclidean distance to it, 0..2."""

    index: int
    shot: int
    reason: str | None = None
    value: float | None = None
    nearest: int | None = None
    distance: float | None = None
    set_number: int | None = None


@dataclass(frozen=True)
class PickedSet:
    """A full set: number within its shot, from 0, frame indices in temporal order, and their vectors [n, D]."""

    shot: int
    number: int
    indices: tuple[int, ...]
    vectors: Vectors = field(repr=False, compare=False)


NEAR_ENOUGH = 1.1
"""Multiple of the threshold up to which a frame that joins is not improved on by an earlier one."""


class GreedyPicker:
    """One pass over the frames of one video, in order.

    Attributes:
        threshold: Euclidean distance on unit vectors that a frame must exceed to every chosen one; larger picks fewer,
            more different frames. The paper's value for CLIP is 0.35.
        set_size: images in a set; the paper's is 10.
        margin: half-width of the band around the threshold in which distances are taken again with `refine`; 0 = never.
        decisions: on the frames that were pushed, by index.
    """

    def __init__(self, threshold: float, set_size: int = 10, margin: float = 0.0) -> None:
        self.threshold, self.set_size, self.margin = threshold, set_size, margin
        self.decisions: dict[int, FrameDecision] = {}
        self._shot: int | None = None
        self._number = self._rejections = 0
        self._chosen: list[FrameDecision] = []
        self._vectors: list[Vectors] = []
        self._low: tuple[int, Vectors] | None = None

    def embed(self, index: int) -> Vectors:
        """The vector [D] of a frame between two samples."""
        raise NotImplementedError

    def refine(self, indices: Sequence[int]) -> Vectors:
        """The vectors [n, D] of frames in full precision."""
        raise NotImplementedError

    def veto(self, index: int) -> Rejection | None:
        """Why a frame that would join must not; None lets it in."""
        return None

    def complete(self, full: PickedSet) -> None:
        """A set became full."""

    def chosen(self) -> list[int]:
        """Indices in the open set."""
        return [decision.index for decision in self._chosen]

    def push(self, index: int, shot: int, vector: Vectors) -> FrameDecision:
        """Decide on the next frame. A decision can change once more: when its set stays incomplete, `reason` becomes `set_incomplete`."""
        if shot != self._shot:
            self.finish()
            self._shot, self._number = shot, 0
        decision = self.decisions[index] = FrameDecision(index, shot)
        if self._chosen:
            gaps = self._gaps(index, vector, self.threshold)
            nearest = int(gaps.argmin())
            decision.nearest, decision.distance = self._chosen[nearest].index, float(gaps[nearest])
            if decision.distance <= self.threshold:
                decision.reason = "too_close"
                return decision
        if rejection := self.veto(index):
            decision.reason, decision.value = rejection.reason, rejection.value
            return decision
        decision.set_number = self._number
        self._chosen.append(decision)
        self._vectors.append(vector)
        if len(self._chosen) == self.set_size:
            self.complete(PickedSet(shot, self._number, tuple(self.chosen()), np.stack(self._vectors)))
            self._number += 1
            self._chosen, self._vectors = [], []
        return decision

    def finish(self) -> None:
        """The shot is over: give up the open set, if any."""
        for decision in self._chosen:
            decision.reason, decision.value = "set_incomplete", float(len(self._chosen))
            decision.set_number = None
        self._chosen, self._vectors = [], []

    def search(self, held: Sequence[int], sample: int, shot: int, vector: Vectors) -> None:
        """Push `sample`, and before it those of the frames `held`, since the last sample, that decide: the first that may join a set is
        found by a secant on the distances known so far.

        Over the frames that were embedded, pushing alone gives the same sets. Frames that quality rules out often follow each other:
        after every third in a row, one more frame is skipped before the next try.
        """
        frames = [*held, sample]
        vectors, waiting, low = {len(held): vector}, [len(held)], -1
        while waiting:
            high = waiting[-1]
            probe = self._probe(low, high, frames[high], vectors[high])
            if probe < high:
                vectors[probe] = self.embed(frames[probe])
                if not self._chosen or self._gaps(frames[probe], vectors[probe], self.threshold).min() > self.threshold:
                    waiting.append(probe)
                    continue
            low = probe if probe < high else waiting.pop()
            decision = self.push(frames[low], shot, vectors[low])
            rejected = decision.set_number is None and decision.reason != "too_close"
            self._rejections = self._rejections + 1 if rejected else 0
            self._low = (frames[low], vectors[low]) if decision.reason == "too_close" else None

    def _probe(self, low: int, high: int, index: int, vector: Vectors) -> int:
        """The position to look at next, after `low` and at most at `high`; at `high` if nothing before it is worth a look."""
        if high - low == 1:
            return high
        if not self._chosen or self._rejections:
            return min(low + 1 + self._rejections // 3, high)
        limit, margin = NEAR_ENOUGH * self.threshold, self.margin
        if (far := float(self._gaps(index, vector, limit).min())) <= limit:
            return high
        level = float(self._gaps(*self._low, self.threshold).min()) if self._low else 0.0

        def guess(error: float) -> int:
            place = ((self.threshold + limit) / 2 - level - error) / (far - level)
            return min(max(low + round((high - low) * place), low + 1), high - 1)

        # in full precision where that may decide: what is embedded does not depend on the precision
        if far - level <= 2 * margin or guess(-margin) != guess(margin):
            far = self._exact_gap(index, vector)
            level = self._exact_gap(*self._low) if self._low else 0.0
        return guess(0.0)

    def _exact_gap(self, index: int, vector: Vectors) -> float:
        """Distance to the nearest chosen frame in full precision."""
        distances = _distances(np.stack(self._vectors), vector)
        if self.margin:
            near = np.flatnonzero(distances <= distances.min() + 2 * self.margin)
            exact = self.refine([index, *(self._chosen[position].index for position in near)])
            distances = _distances(exact[1:], exact[0])
        return float(distances.min())

    def _gaps(self, index: int, vector: Vectors, mark: float) -> Doubles:
        """Distances to the chosen frames; the smallest is off by the margin at most, and on the right side of `mark`."""
        distances = _distances(np.stack(self._vectors), vector)
        if self.margin and abs(distances.min() - mark) <= self.margin:
            band = np.flatnonzero(np.abs(distances - mark) <= self.margin)
            exact = self.refine([index, *(self._chosen[position].index for position in band)])
            distances[band] = _distances(exact[1:], exact[0])
        return distances


def _distances(rows: Vectors, vector: Vectors) -> Doubles:
    """Distances by differences in float64: unlike sqrt(2 - 2 cos), exact near 0 and independent of the matrix shape."""
    difference = rows.astype(np.float64) - vector.astype(np.float64)
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", difference, difference)))
