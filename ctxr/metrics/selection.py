"""The greedy picker of minimally contrastive sets out of a shot (ImageCoDe, section 3.1).

The first frame of a shot opens a set; a following frame joins it if its distance to *every* chosen frame exceeds the
threshold; at `set_size` images the set is complete and the next frame that passes opens a new one; when the shot ends, an
incomplete set is given up. Frames that quality rules out are passed over as if they were not there.

Where only samples of the frames are embedded, a search embeds frames between two samples: first, whatever the sets are, halfway
between two embedded frames that are too far apart; then, as the set grows, where a distance crosses the threshold or may exceed it.

A subclass gives what the picker asks for: vectors of frames that are not embedded yet, vectors in full precision where a distance is
within `margin` of the threshold (low-precision embeddings then pick the sets that fp32 would), and why quality rules a frame out.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from ctxr.metrics.votes import Doubles
from ctxr.store.arrays import Vectors


@dataclass(frozen=True)
class Rejection:
    """Why quality rules a frame out: a snake_case reason, and its figure if there is one."""

    reason: str
    value: float | None = None


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

SWERVE = 0.6
"""Share of two embedded frames' distance by which one between may exceed their mean distance to chosen frames."""


@dataclass(frozen=True)
class Gap:
    """A sample, last of `frames`, and before it the frames of its shot that can be embedded, in order: the sample before, which is pushed
    already, if `follows`, and those between the two."""

    frames: Sequence[int]
    shot: int
    follows: bool


class GreedyPicker:
    """One pass over the frames of one video, in order.

    Attributes:
        threshold: Euclidean distance on unit vectors that a frame must exceed to every chosen one; larger picks fewer,
            more different frames. The paper's value for CLIP is 0.35.
        set_size: images in a set; the paper's is 10.
        margin: half-width of the band around the threshold in which distances are taken again with `refine`; 0 = never.
        batch: frames that cost as much as one when they are embedded together.
        decisions: on the frames that were pushed, by index.
    """

    def __init__(self, threshold: float, set_size: int = 10, margin: float = 0.0, batch: int = 1) -> None:
        self.threshold, self.set_size, self.margin, self.batch = threshold, set_size, margin, batch
        self.decisions: dict[int, FrameDecision] = {}
        self._shot: int | None = None
        self._number = self._rejections = 0
        self._chosen: list[FrameDecision] = []
        self._vectors: list[Vectors] = []
        self._sample: tuple[int, int] | None = None
        self._gaps = deque[Gap]()
        self._known: dict[int, Vectors] = {}

    def embed(self, indices: Sequence[int]) -> Vectors:
        """The vectors [n, D] of samples and of frames between them."""
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
            distances = self._exact_distances(index, vector)
            nearest = int(distances.argmin())
            decision.nearest, decision.distance = self._chosen[nearest].index, float(distances[nearest])
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

    def queue(self, held: Sequence[int], sample: int, shot: int) -> int:
        """Take the next sample, and the frames between it and the one before, for `search`. Returns how many samples wait."""
        before = [self._sample[0]] if self._sample and self._sample[1] == shot else []
        self._gaps.append(Gap([*before, *held, sample], shot, bool(before)))
        self._sample = sample, shot
        return len(self._gaps)

    def search(self, keep: int = 0) -> None:
        """Push the samples that wait, but the last `keep`, and before each the frames between that the search embeds.

        What is embedded, and so the sets, does not depend on what waits: that only fills up what is embedded together. Pushing the
        embedded frames alone gives the same sets. Frames that quality rules out often follow each other: after every third in a row, one
        more frame is skipped before the next try.
        """
        while len(self._gaps) > keep:
            gap = self._gaps.popleft()
            while wanted := [*self._wanted(gap)]:
                self._learn(wanted)
            self._walk(gap)
            for frame in gap.frames[:-1]:
                self._known.pop(frame, None)

    def _learn(self, frames: Sequence[int]) -> None:
        """Embed frames, and with them what waiting gaps want."""
        waiting = chain.from_iterable(map(self._wanted, self._gaps))
        frames = [*frames, *islice(waiting, -len(frames) % self.batch)]
        self._known.update(zip(frames, self.embed(frames), strict=True))

    def _wanted(self, gap: Gap) -> Iterator[int]:
        """What is to be embedded whatever the sets are: the sample, then frames halfway between two that are too far apart."""
        frames, last = gap.frames, len(gap.frames) - 1
        if frames[last] not in self._known:
            yield frames[last]
        parts = [(0, last)] if self._known.keys() >= {frames[0], frames[last]} else []
        while parts:
            low, high = parts.pop()
            if high - low > 1 and self._too_far_apart(frames[low], frames[high]):
                middle = (low + high) // 2
                if frames[middle] in self._known:
                    parts += [(middle, high), (low, middle)]
                else:
                    yield frames[middle]

    def _too_far_apart(self, first: int, second: int) -> bool:
        apart, mark = self._apart(first, second), SPACING * self.threshold
        unsure = self.margin and abs(apart - mark) <= self.margin
        return (self._apart(first, second, exact=True) if unsure else apart) > mark

    def _walk(self, gap: Gap) -> None:
        """Push what is known of a gap, and what the set asks for."""
        frames, low = gap.frames, 0 if gap.follows else -1
        waiting = [at for at in range(len(frames) - 1, low, -1) if frames[at] in self._known]
        while waiting:
            probe = self._probe(frames, low, waiting[-1])
            if probe < waiting[-1]:
                self._learn([frames[probe]])
                waiting.append(probe)
                continue
            low = waiting.pop()
            decision = self.push(frames[low], gap.shot, self._known[frames[low]])
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
        near = np.flatnonzero(distances <= distances.min() + 2 * self.margin)
        exact = self.refine([index, *(self._chosen[position].index for position in near)])
        return float(_distances(exact[1:], exact[0]).min())

    def _exact_distances(self, index: int, vector: Vectors) -> Doubles:
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
