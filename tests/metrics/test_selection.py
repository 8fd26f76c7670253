"""The greedy picker: equal to the paper's procedure written out, and honest about what it drops."""

from collections.abc import Container, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxr.metrics.selection import SPACING, FrameDecision, GreedyPicker, PickedSet, Rejection
from ctxr.store.arrays import Vectors


def unit(angles: list[float]) -> Vectors:
    """Unit vectors in the plane: distance between two is 2 sin(difference / 2)."""
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def literal(vectors: Vectors, shots: list[int], threshold: float, size: int, bad: set[int]) -> list[list[int]]:
    """Section 3.1 word by word: no state beyond the set, every distance by numpy.linalg.norm."""
    sets: list[list[int]] = []
    current: list[int] = []
    for frame in range(len(vectors)):
        if frame and shots[frame] != shots[frame - 1]:
            current = []
        if frame in bad:
            continue
        gaps = [np.linalg.norm(vectors[frame].astype(float) - vectors[other].astype(float)) for other in current]
        if all(gap > threshold for gap in gaps):
            current = [*current, frame]
        if len(current) == size:
            sets, current = [*sets, current], []
    return sets


class Picker(GreedyPicker):
    """Over `vectors`, with `exact` ones, and frames that quality rules out; remembers what it was asked and gave."""

    def __init__(
        self,
        threshold: float,
        size: int = 10,
        margin: float = 0.0,
        *,
        exact: Vectors | None = None,
        bad: Container[int] = (),
        value: float = 1.0,
    ) -> None:
        super().__init__(threshold, size, margin)
        self.vectors, self.exact, self.bad, self.value = np.zeros((0, 0), np.float32), exact, bad, value
        self.vetoed, self.refined, self.seen = list[int](), list[Sequence[int]](), list[int]()
        self.embedded = list[list[int]]()
        self.full: list[PickedSet] = []

    def embed(self, indices: Sequence[int]) -> Vectors:
        self.embedded.append([*indices])
        vectors: Vectors = self.vectors[list(indices)]
        return vectors

    def refine(self, indices: Sequence[int]) -> Vectors:
        assert self.exact is not None
        self.refined.append(indices)
        vectors: Vectors = self.exact[list(indices)]
        return vectors

    def veto(self, index: int) -> Rejection | None:
        self.vetoed.append(index)
        return Rejection("low_quality", self.value) if index in self.bad else None

    def complete(self, full: PickedSet) -> None:
        self.full.append(full)

    def push(self, index: int, shot: int, vector: Vectors) -> FrameDecision:
        self.seen.append(index)
        return super().push(index, shot, vector)

    def push_all(self, vectors: Vectors, shots: list[int]) -> list[FrameDecision]:
        decisions = [self.push(index, shots[index], vectors[index]) for index in range(len(vectors))]
        self.finish()
        return decisions

    def search_all(self, vectors: Vectors, step: int, shots: Sequence[int], waiting: int = 1) -> None:
        """Search between every `step`-th frame and the ends of shots, while so many gaps wait."""
        self.vectors, held = vectors, list[int]()
        for index in range(len(vectors)):
            opens = not index or shots[index] != shots[index - 1]
            closes = index + 1 == len(vectors) or shots[index] != shots[index + 1]
            if opens or closes or not index % step:
                if self.queue(held, index, shots[index]) == waiting:
                    self.search(waiting - 1)
                held = []
            else:
                held.append(index)
        self.search()
        self.finish()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.floats(0.05, 0.9))
def test_the_picker_gives_the_sets_of_the_literal_procedure(seed: int, size: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    raw = np.cumsum(rng.normal(size=(80, 6)), 0)
    vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    shots = np.sort(rng.integers(0, 4, 80)).tolist()
    bad = set(rng.choice(80, 10, replace=False).tolist())
    picker = Picker(threshold, size, bad=bad)
    picker.push_all(vectors, shots)
    assert [list(one.indices) for one in picker.full] == literal(vectors, shots, threshold, size, bad)
    clean = Picker(threshold, size)
    clean.push_all(vectors, shots)
    assert [list(one.indices) for one in clean.full] == literal(vectors, shots, threshold, size, set())


def test_every_frame_has_its_reason() -> None:
    vectors = unit([0.0, 0.1, 0.5, 1.0, 1.5, 3.0])
    picker = Picker(0.35, 3, bad=[3], value=0.9)
    decisions = picker.push_all(vectors, [0] * 6)
    reasons = [None, "too_close", None, "low_quality", None, "set_incomplete"]
    assert [decision.reason for decision in decisions] == reasons
    assert [one.indices for one in picker.full] == [(0, 2, 4)]
    assert decisions[1].nearest == 0
    assert decisions[1].distance == pytest.approx(2 * np.sin(0.05), abs=1e-6)
    assert decisions[3].value == 0.9
    assert decisions[5].value == 1.0


def test_a_distance_equal_to_the_threshold_is_too_close() -> None:
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    decisions = Picker(float(np.sqrt(2.0))).push_all(vectors, [0, 0])
    assert decisions[1].reason == "too_close"


def test_sets_are_numbered_in_each_shot_from_0() -> None:
    picker = Picker(0.35, 2)
    decisions = picker.push_all(unit([float(one) for one in range(8)]), [0] * 4 + [3] * 4)
    assert [(one.shot, one.number) for one in picker.full] == [(0, 0), (0, 1), (3, 0), (3, 1)]
    assert [one.set_number for one in decisions] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_quality_is_asked_only_about_frames_that_would_join() -> None:
    picker = Picker(0.35)
    picker.push_all(unit([0.0, 0.01, 0.02, 1.0]), [0] * 4)
    assert picker.vetoed == [0, 3]


def test_a_distance_at_the_edge_of_the_margin_is_refined() -> None:
    picker = Picker(1.0, margin=0.5, exact=np.array([[0.0], [2.0]], np.float32))
    for index in (0, 1):
        picker.push(index, 0, np.array([0.5 * index], np.float32))
    assert (picker.refined, picker.chosen()) == ([[1, 0]], [0, 1])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_refining_near_the_threshold_gives_the_sets_of_full_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = np.cumsum(rng.normal(size=(60, 4)), 0)
    exact = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    noise = rng.normal(size=exact.shape)
    coarse = (exact + 0.004 * noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
    # each vector is off by 0.004 at most, so a distance by 0.008
    rough, truth = Picker(0.35, 4, 0.0081, exact=exact), Picker(0.35, 4)
    rough.push_all(coarse, [0] * 60)
    truth.push_all(exact, [0] * 60)
    assert rough.full == truth.full
    assert len({index for indices in rough.refined for index in indices}) < 60


def drift(seed: int, count: int = 120) -> Vectors:
    """A camera that moves at changing speed: unit vectors [count, 6]."""
    rng = np.random.default_rng(seed)
    raw = np.cumsum(rng.normal(size=(count, 6)) * rng.uniform(0, 1, (count, 1)), 0) + 4 * rng.normal(size=6)
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), np.float32)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(0.05, 0.6))
def test_the_embedded_frames_alone_give_the_sets_of_a_search(seed: int, step: int, threshold: float) -> None:
    vectors, shots = drift(seed), [index // 50 for index in range(120)]
    bad = set(np.random.default_rng(seed).choice(120, 12, replace=False).tolist())

    picker, replayed = (Picker(threshold, 4, bad=bad) for _ in range(2))
    picker.search_all(vectors, step, shots)
    assert picker.seen == sorted(set(picker.seen))
    for index in picker.seen:
        replayed.push(index, shots[index], vectors[index])
    assert replayed.full == picker.full


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(0.05, 0.6), st.integers(2, 16))
def test_gaps_that_wait_fill_passes_and_change_nothing(seed: int, step: int, threshold: float, batch: int) -> None:
    vectors, shots = drift(seed), [index // 50 for index in range(120)]
    alone, filled = Picker(threshold, 4), Picker(threshold, 4)
    filled.batch = batch
    alone.search_all(vectors, step, shots)
    filled.search_all(vectors, step, shots, waiting=8)
    assert (filled.seen, filled.full) == (alone.seen, alone.full)
    together = [index for part in filled.embedded for index in part]
    assert sorted(together) == sorted(index for part in alone.embedded for index in part) == alone.seen
    assert len(filled.embedded) < len(alone.embedded)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0.05, 0.6))
def test_frames_halfway_between_two_that_are_too_far_apart_are_embedded(seed: int, step: int, threshold: float) -> None:
    vectors = drift(seed)

    def halves(low: int, high: int) -> set[int]:
        if high - low < 2 or np.linalg.norm(vectors[low].astype(float) - vectors[high]) <= SPACING * threshold:
            return {low, high}
        return halves(low, (low + high) // 2) | halves((low + high) // 2, high)

    picker = Picker(threshold, 4)
    picker.search_all(vectors, step, [0] * 120)
    samples = sorted({*range(0, 120, step), 119})
    assert set(picker.seen) >= {at for pair in pairwise(samples) for at in halves(*pair)}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6))
def test_a_search_finds_the_first_frame_of_a_steady_motion(seed: int, threshold: float) -> None:
    angles = np.cumsum(np.random.default_rng(seed).uniform(0.001, 0.02, 150)).tolist()
    vectors = unit(angles)
    sets = literal(vectors, [0] * 150, threshold, 4, set())
    picker = Picker(threshold, 4)
    picker.search_all(vectors, 6, [0] * 150)
    assert [list(full.indices) for full in picker.full] == sets
    assert len(picker.seen) < 150


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6), st.sampled_from([0.004, 0.04]))
def test_a_search_in_low_precision_embeds_and_picks_what_full_precision_would(
    seed: int, threshold: float, error: float
) -> None:
    vectors, shots = drift(seed), [0] * 120
    noise = np.random.default_rng(seed).normal(size=vectors.shape)
    rough = (vectors + error * noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
    low, full = Picker(threshold, 4, 2.1 * error, exact=vectors), Picker(threshold, 4)
    low.search_all(rough, 6, shots)
    full.search_all(vectors, 6, shots)
    assert (low.seen, low.full) == (full.seen, full.full)


def test_after_rejected_frames_the_next_ones_are_tried_at_growing_distances() -> None:
    vectors = unit([0.02 * index for index in range(101)])
    picker = Picker(1.2, 2, bad=range(65, 95))
    picker.search_all(vectors, 100, [0] * 101)
    rejected = [index for index in picker.seen if 65 <= index < 95]
    assert np.diff(rejected).tolist()[:4] == [1, 1, 2, 2]
    assert len(rejected) < 16
    (first, second) = picker.full[0].indices
    assert first == 0
    assert 95 <= second <= 100
