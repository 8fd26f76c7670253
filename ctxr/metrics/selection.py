"""The greedy walk that picks minimally contrastive sets out of a shot (ImageCoDe, section 3.1).

The first frame of a shot opens a set; a following frame joins it if its distance to *every* chosen frame exceeds the
threshold; at `set_size` images the set is complete and the next frame that passes opens a new one; when the shot ends, an
incomplete set is given up. Frames that quality rules out are passed over as if they were not there.

Where only samples of the frames are embedded, `SecantSearch` finds the frames between them at which a distance crosses the threshold.

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

    def gap(self, index: int, vector: Vectors, mark: float | None = None) -> float:
        """Distance to the nearest chosen frame, off by the margin at most; on the right side of `mark`, by default the threshold."""
        return self._nearest(index, vector, mark)[1]

    def exact_gap(self, index: int, vector: Vectors) -> float:
        """The same in full precision."""
        distances = _distances(np.stack(self._vectors), vector)
        if self.margin and self.refine:
            near = np.flatnonzero(distances <= distances.min() + 2 * self.margin)
            exact = self.refine([index, *(self._chosen[position].index for position in near)])
            distances = _distances(exact[1:], exact[0])
        return float(distances.min())

    def _nearest(self, index: int, vector: Vectors, mark: float | None = None) -> tuple[int, float]:
        """Position and distance of the nearest chosen frame; exact where `mark`, or the threshold, is within the margin."""
        mark = self.threshold if mark is None else mark
        distances = _distances(np.stack(self._vectors), vector)
        if self.margin and self.refine and abs(distances.min() - mark) <= self.margin:
            band = np.flatnonzero(np.abs(distances - mark) <= self.margin)
            exact = self.refine([index, *(self._chosen[position].index for position in band)])
            distances[band] = _distances(exact[1:], exact[0])
        nearest = int(distances.argmin())
        return nearest, float(distances[nearest])


NEAR_ENOUGH = 1.1
"""Multiple of the threshold up to which a frame that joins is not improved on by an earlier one."""


@dataclass
class SecantSearch:
    """Finds, between two samples, the first frame that may join a set, by a secant on the distances known so far.

    The walk then takes the frames that were embedded, in order; over the same frames without a search it gives the same sets.
    Frames that quality rules out often follow each other: after every third in a row, one more frame is skipped before the next try.

    Attributes:
        embed: index of a frame between two samples -> its vector [D].
        push: gives the walk a frame and its vector.
    """

    walk: Walk
    embed: Callable[[int], Vectors]
    push: Callable[[int, Vectors], FrameDecision]

    _low: tuple[int, Vectors] | None = None
    _rejections: int = 0

    def run(self, held: Sequence[int], sample: int, vector: Vectors) -> None:
        """Let the walk see `sample`, and of the frames `held` before it, since the last sample, those that decide."""
        frames = [*held, sample]
        vectors, waiting, low = {len(held): vector}, [len(held)], -1
        while waiting:
            high = waiting[-1]
            probe = self._probe(low, high, frames[high], vectors[high])
            if probe < high:
                vectors[probe] = self.embed(frames[probe])
                if not self.walk.chosen() or self.walk.gap(frames[probe], vectors[probe]) > self.walk.threshold:
                    waiting.append(probe)
                    continue
            low = probe if probe < high else waiting.pop()
            self._take(frames[low], vectors[low])

    def _probe(self, low: int, high: int, index: int, vector: Vectors) -> int:
        """The position to look at next, after `low` and at most at `high`; at `high` if nothing before it is worth a look."""
        if high - low == 1:
            return high
        if not self.walk.chosen() or self._rejections:
            return min(low + 1 + self._rejections // 3, high)
        limit, margin = NEAR_ENOUGH * self.walk.threshold, self.walk.margin
        if (far := self.walk.gap(index, vector, limit)) <= limit:
            return high
        level = self.walk.gap(*self._low) if self._low else 0.0

        def guess(error: float) -> int:
            place = ((self.walk.threshold + limit) / 2 - level - error) / (far - level)
            return min(max(low + round((high - low) * place), low + 1), high - 1)

        # in full precision where that may decide: what is embedded does not depend on the precision
        if far - level <= 2 * margin or guess(-margin) != guess(margin):
            far = self.walk.exact_gap(index, vector)
            level = self.walk.exact_gap(*self._low) if self._low else 0.0
        return guess(0.0)

    def _take(self, index: int, vector: Vectors) -> None:
        decision = self.push(index, vector)
        rejected = decision.set_number is None and decision.reason != "too_close"
        self._rejections = self._rejections + 1 if rejected else 0
        self._low = (index, vector) if decision.reason == "too_close" else None


def _distances(rows: Vectors, vector: Vectors) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Distances by differences in float64: unlike sqrt(2 - 2 cos), exact near 0 and independent of the matrix shape."""
    difference = rows.astype(np.float64) - vector.astype(np.float64)
    lengths: np.ndarray[tuple[int], np.dtype[np.float64]] = np.sqrt(np.einsum("nd,nd->n", difference, difference))
    return lengths


def count_sets(vectors: Vectors, shots: Sequence[int], threshold: float, set_size: int = 10) -> int:
    """How many full sets a walk finds over vectors [N, D] whose frames lie in `shots`; no quality, no refinement."""
    walk = Walk(threshold, set_size)
    return sum(walk.push(index, shot, vectors[index])[1] is not None for index, shot in enumerate(shots))
