"""The greedy picker of minimally contrastive sets out of a shot (ImageCoDe, section 3.1).

The first frame of a shot opens a set; a following frame joins it if its distance to *every* chosen frame exceeds the
threshold; at `set_size` images the set is complete and the next frame that passes opens a new one; when the shot ends, an
incomplete set is given up. Frames that quality rules out are passed over as if they were not there.

Where only samples of the frames are embedded, a search embeds frames between two samples: first, whatever the sets are, halfway
between two embedded frames that are too far apart; then, as the set grows, where a distance crosses the threshold or may exceed it.

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


SPACING = 0.7
"""Multiple of the threshold beyond which two embedded frames are too far apart: one between them is embedded."""

SWERVE = 0.5
"""Share of the distance of two embedded frames by which a frame between them may be farther from the chosen ones than they are on
average."""


@dataclass(frozen=True)
class Gap:
    """A sample, its vector [D], and the frames since the sample before it that can be embedded, in order; none at the start of a shot."""

    held: Sequence[int]
    sample: int
    shot: int
    vector: Vectors = field(repr=False)


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
        self._sample: tuple[int, int] | None = None
        self._known: dict[int, Vectors] = {}

    def embed(self, indices: Sequence[int]) -> Vectors:
        """The vectors [n, D] of frames between samples."""
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
            gaps = self._gaps(index, vector)
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

    def search(self, gaps: Sequence[Gap]) -> None:
        """Push the samples of consecutive gaps, and before each those of its held frames that the search embeds.

        Pushing the embedded frames alone gives the same sets. Frames that quality rules out often follow each other: after every third
        in a row, one more frame is skipped before the next try.
        """
        spans = []
        for gap in gaps:
            before = [self._sample[0]] if self._sample and self._sample[1] == gap.shot else []
            spans.append([*before, *gap.held, gap.sample])
            self._known[gap.sample], self._sample = gap.vector, (gap.sample, gap.shot)
        self._scout(spans)
        for gap, frames in zip(gaps, spans, strict=True):
            self._walk(frames, gap.shot, 0 if len(frames) > len(gap.held) + 1 else -1)
        self._known = {gap.sample: gap.vector for gap in gaps[-1:]}

    def _learn(self, frames: Sequence[int]) -> None:
        self._known.update(zip(frames, self.embed(frames), strict=True))

    def _scout(self, spans: Sequence[Sequence[int]]) -> None:
        """Embed frames halfway, and halfway again, until neighbours are near enough; those of all spans together."""
        parts = [(frames, 0, len(frames) - 1) for frames in spans]
        while parts := [part for part in parts if part[2] - part[1] > 1 and self._too_far_apart(*part)]:
            self._learn([frames[(low + high) // 2] for frames, low, high in parts])
            halves = ((frames, low, (low + high) // 2, high) for frames, low, high in parts)
            parts = [part for frames, *ends in halves for part in ((frames, *ends[:2]), (frames, *ends[1:]))]

    def _too_far_apart(self, frames: Sequence[int], low: int, high: int) -> bool:
        first, second = frames[low], frames[high]
        apart, mark = self._apart(first, second), SPACING * self.threshold
        unsure = self.margin and abs(apart - mark) <= self.margin
        return (self._apart(first, second, exact=True) if unsure else apart) > mark

    def _walk(self, frames: Sequence[int], shot: int, low: int) -> None:
        """Push what is known of the frames after position `low`, and what the set asks for."""
        waiting = [at for at in range(len(frames) - 1, low, -1) if frames[at] in self._known]
        while waiting:
            probe = self._probe(frames, low, waiting[-1])
            if probe < waiting[-1]:
                self._learn([frames[probe]])
                waiting.append(probe)
                continue
            low = waiting.pop()
            decision = self.push(frames[low], shot, self._known[frames[low]])
            rejected = decision.set_number is None and decision.reason != "too_close"
            self._rejections = self._rejections + 1 if rejected else 0

    def _probe(self, frames: Sequence[int], low: int, high: int) -> int:
        """The position to look at next, after `low` and at most at `high`; at `high` if nothing before it is worth a look."""
        if high - low == 1:
            return high
        if not self._chosen or self._rejections:
            return min(low + 1 + self._rejections // 3, high)
        ends = frames[low], frames[high]

        def guess(level: float, far: float, apart: float, error: float) -> int:
            if far > self.threshold:  # by a secant, where it is crossed
                place = (self.threshold - level - error) / (far - level)
                return min(max(low + round((high - low) * place), low + 1), high - 1)
            return (low + high) // 2 if (level + far + SWERVE * apart) / 2 + error > self.threshold else high

        level, far = (float(_distances(np.stack(self._vectors), self._known[end]).min()) for end in ends)
        known = level, far, self._apart(*ends)
        # in full precision where that may decide: what is embedded does not depend on the precision
        error = (1 + SWERVE / 2) * self.margin
        if self.margin and (abs(far - self.threshold) <= error or guess(*known, -error) != guess(*known, error)):
            known = self._exact_gap(ends[0]), self._exact_gap(ends[1]), self._apart(*ends, exact=True)
        return guess(*known, 0.0)

    def _apart(self, first: int, second: int, exact: bool = False) -> float:
        """Distance of two known frames."""
        one, other = self.refine([first, second]) if exact else (self._known[first], self._known[second])
        return float(_distances(one[None], other)[0])

    def _exact_gap(self, index: int) -> float:
        """Distance of a known frame to the nearest chosen one in full precision."""
        distances = _distances(np.stack(self._vectors), self._known[index])
        if self.margin:
            near = np.flatnonzero(distances <= distances.min() + 2 * self.margin)
            exact = self.refine([index, *(self._chosen[position].index for position in near)])
            distances = _distances(exact[1:], exact[0])
        return float(distances.min())

    def _gaps(self, index: int, vector: Vectors) -> Doubles:
        """Distances to the chosen frames; the smallest is off by the margin at most, and on the right side of the threshold."""
        distances = _distances(np.stack(self._vectors), vector)
        if self.margin and abs(distances.min() - self.threshold) <= self.margin:
            band = np.flatnonzero(np.abs(distances - self.threshold) <= self.margin)
            exact = self.refine([index, *(self._chosen[position].index for position in band)])
            distances[band] = _distances(exact[1:], exact[0])
        return distances


def _distances(rows: Vectors, vector: Vectors) -> Doubles:
    """Distances by differences in float64: unlike sqrt(2 - 2 cos), exact near 0 and independent of the matrix shape."""
    difference = rows.astype(np.float64) - vector.astype(np.float64)
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", difference, difference)))
