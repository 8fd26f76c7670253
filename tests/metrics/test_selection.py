"""The greedy walk: equal to the paper's procedure written out, and honest about what it drops."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxr.metrics.selection import NEAR_ENOUGH, Completed, FrameDecision, Rejection, SecantSearch, Walk, count_sets
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


def walk_all(walk: Walk, vectors: Vectors, shots: list[int]) -> tuple[list[FrameDecision], list[Completed]]:
    results = [walk.push(index, shots[index], vectors[index]) for index in range(len(vectors))]
    walk.finish()
    return [decision for decision, _ in results], [completed for _, completed in results if completed]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.floats(0.05, 0.9))
def test_the_walk_gives_the_sets_of_the_literal_procedure(seed: int, size: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    raw = np.cumsum(rng.normal(size=(80, 6)), 0)
    vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    shots = np.sort(rng.integers(0, 4, 80)).tolist()
    bad = set(rng.choice(80, 10, replace=False).tolist())
    walk = Walk(threshold, size, veto=lambda index: Rejection("low_quality", 1.0) if index in bad else None)
    _, completed = walk_all(walk, vectors, shots)
    assert [list(one.indices) for one in completed] == literal(vectors, shots, threshold, size, bad)
    clean = count_sets(vectors, shots, threshold, size)
    assert clean == len(literal(vectors, shots, threshold, size, set()))


def test_every_frame_has_its_reason() -> None:
    vectors = unit([0.0, 0.1, 0.5, 1.0, 1.5, 3.0])
    walk = Walk(0.35, 3, veto=lambda index: Rejection("low_quality", 0.9) if index == 3 else None)
    decisions, completed = walk_all(walk, vectors, [0] * 6)
    assert [decision.reason for decision in decisions] == [
        None,
        "too_close",
        None,
        "low_quality",
        None,
        "set_incomplete",
    ]
    assert [one.indices for one in completed] == [(0, 2, 4)]
    assert decisions[1].nearest == 0
    assert decisions[1].distance == pytest.approx(2 * np.sin(0.05), abs=1e-6)
    assert decisions[3].value == 0.9
    assert decisions[5].value == 1.0


def test_a_distance_equal_to_the_threshold_is_too_close() -> None:
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    decisions, _ = walk_all(Walk(float(np.sqrt(2.0))), vectors, [0, 0])
    assert decisions[1].reason == "too_close"


def test_a_set_never_spans_two_shots() -> None:
    vectors = unit([0, 1, 2, 3, 4, 5])
    _, completed = walk_all(Walk(0.35, 3), vectors, [0, 0, 1, 1, 1, 1])
    assert [(one.shot, one.number, one.indices) for one in completed] == [(1, 0, (2, 3, 4))]


def test_sets_are_numbered_in_each_shot_from_0() -> None:
    decisions, completed = walk_all(Walk(0.35, 2), unit([float(one) for one in range(8)]), [0] * 4 + [3] * 4)
    assert [(one.shot, one.number) for one in completed] == [(0, 0), (0, 1), (3, 0), (3, 1)]
    assert [one.set_number for one in decisions] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_quality_is_asked_only_about_frames_that_would_join() -> None:
    asked: list[int] = []

    def veto(index: int) -> None:
        asked.append(index)

    walk_all(Walk(0.35, 10, veto=veto), unit([0.0, 0.01, 0.02, 1.0]), [0] * 4)
    assert asked == [0, 3]


def test_a_distance_at_the_edge_of_the_margin_is_refined() -> None:
    asked: list[Sequence[int]] = []

    def refine(indices: Sequence[int]) -> Vectors:
        asked.append(indices)
        return np.array([[2.0], [0.0]], np.float32)

    walk = Walk(1.0, 10, margin=0.5, refine=refine)
    for index in (0, 1):
        walk.push(index, 0, np.array([0.5 * index], np.float32))
    assert (asked, walk.chosen()) == ([[1, 0]], [0, 1])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_refining_near_the_threshold_gives_the_sets_of_full_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = np.cumsum(rng.normal(size=(60, 4)), 0)
    exact = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    noise = rng.normal(size=exact.shape)
    coarse = (exact + 0.004 * noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
    refined: list[int] = []

    def refine(indices: list[int]) -> Vectors:
        refined.extend(indices)
        chosen: Vectors = exact[indices]
        return chosen

    # each vector is off by 0.004 at most, so a distance by 0.008
    walk = Walk(0.35, 4, margin=0.0081, refine=lambda indices: refine(list(indices)))
    _, completed = walk_all(walk, coarse, [0] * 60)
    _, truth = walk_all(Walk(0.35, 4), exact, [0] * 60)
    assert completed == truth
    assert len(set(refined)) < 60


def drift(seed: int, count: int = 120) -> Vectors:
    """A camera that moves at changing speed: unit vectors [count, 6]."""
    rng = np.random.default_rng(seed)
    raw = np.cumsum(rng.normal(size=(count, 6)) * rng.uniform(0, 1, (count, 1)), 0) + 4 * rng.normal(size=6)
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), np.float32)


def search_all(walk: Walk, vectors: Vectors, step: int, shots: Sequence[int]) -> tuple[list[int], list[Completed]]:
    """The frames that a search between every `step`-th frame embeds, in the order of the walk, and its sets."""
    seen: list[int] = []
    completed: list[Completed] = []

    def push(index: int, vector: Vectors) -> FrameDecision:
        seen.append(index)
        decision, full = walk.push(index, shots[index], vector)
        completed.extend([full] if full else [])
        return decision

    search, held = SecantSearch(walk, lambda index: vectors[index], push), list[int]()
    for index in range(len(vectors)):
        opens = not index or shots[index] != shots[index - 1]
        if opens or not index % step:
            search.run([] if opens else held, index, vectors[index])
            held = []
        else:
            held.append(index)
    return seen, completed


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(0.05, 0.6))
def test_the_embedded_frames_alone_give_the_sets_of_a_search(seed: int, step: int, threshold: float) -> None:
    vectors, shots = drift(seed), [index // 50 for index in range(120)]
    bad = set(np.random.default_rng(seed).choice(120, 12, replace=False).tolist())

    def walk() -> Walk:
        return Walk(threshold, 4, veto=lambda index: Rejection("low_quality", 1.0) if index in bad else None)

    seen, completed = search_all(walk(), vectors, step, shots)
    assert seen == sorted(set(seen))
    replayed = walk()
    assert [full for index in seen if (full := replayed.push(index, shots[index], vectors[index])[1])] == completed


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6))
def test_a_search_finds_the_first_frame_of_a_steady_motion(seed: int, threshold: float) -> None:
    angles = np.cumsum(np.random.default_rng(seed).uniform(0.001, 0.02, 150)).tolist()
    vectors, step = unit(angles), (NEAR_ENOUGH - 1) * threshold
    sets = literal(vectors, [0] * 150, threshold, 4, set())
    seen, completed = search_all(Walk(threshold, 4), vectors, 6, [0] * 150)
    assert len(completed) >= len(sets) - 1
    for full in completed:
        for first, second in zip(full.indices, full.indices[1:], strict=False):
            near, before = (float(np.linalg.norm(vectors[at] - vectors[first])) for at in (second, second - 1))
            assert near <= threshold + step + 1e-6 or before <= threshold + 1e-6
    assert len(seen) < 150


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6), st.sampled_from([0.004, 0.04]))
def test_a_search_in_low_precision_embeds_and_picks_what_full_precision_would(
    seed: int, threshold: float, error: float
) -> None:
    vectors, shots = drift(seed), [0] * 120
    noise = np.random.default_rng(seed).normal(size=vectors.shape)
    rough = (vectors + error * noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
    walk = Walk(threshold, 4, 2.1 * error, refine=lambda indices: vectors[list(indices)])
    assert search_all(walk, rough, 6, shots) == search_all(Walk(threshold, 4), vectors, 6, shots)


def test_after_rejected_frames_the_next_ones_are_tried_at_growing_distances() -> None:
    vectors = unit([0.05 * index for index in range(41)])
    walk = Walk(0.22, 2, veto=lambda index: Rejection("low_quality", 1.0) if 4 < index < 30 else None)
    seen, completed = search_all(walk, vectors, 40, [0] * 41)
    rejected = [index for index in seen if 4 < index < 30]
    gaps = np.diff(rejected)
    assert gaps.tolist() == [1, 1, 2, 2, 2, 3, 3, 3, 4, 4][: len(gaps)]
    (first, second) = completed[0].indices
    assert first == 0
    assert 30 <= second <= 34
    assert len(seen) < 25
