"""The order of frames by their looks: a drift that was scrambled is accused; what shows no order, and what comes back, is noted."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from ctxr.data.embeddings import pairwise_distances
from ctxr.metrics.orders import arch_test, displaced, neighbour_test, seam_test
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.order_check import judged

Order = Callable[[int], npt.NDArray[np.int64]]


def walk(rng: np.random.Generator, order: Order | None = None) -> Doubles:
    """Distances of ten frames that drift away from the first, in another order if one is given."""
    steps = (rng.standard_normal((10, 16)).cumsum(axis=0) + 0.5 * rng.standard_normal((10, 16))).astype(np.float32)
    return np.asarray(pairwise_distances(steps if order is None else steps[order(10)]), np.float64)


def turned(rng: np.random.Generator) -> Order:
    """The order of ten frames that crossed a power of ten and were sorted as text."""
    return lambda count: np.roll(np.arange(count), int(rng.integers(1, count)))


def test_a_sound_order_is_hardly_ever_accused() -> None:
    states = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        states.append(judged([walk(rng) for _ in range(20)], "made up", rng).state)
    assert "problem" not in states
    assert states.count("note") <= 6


def test_tests_on_orders_without_meaning_hold_their_level() -> None:
    rng = np.random.default_rng(1)
    neighbours, seams = [], []
    for _ in range(200):
        sets = [np.asarray(pairwise_distances(rng.standard_normal((6, 4), np.float32))) for _ in range(8)]
        neighbours.append(neighbour_test(sets, rng, 99).p)
        seams.append(seam_test(sets, rng, 99))
    for found in (neighbours, seams):
        assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10


def test_shuffled_sets_look_shuffled_and_are_counted() -> None:
    rng = np.random.default_rng(2)
    found = judged([walk(rng, rng.permutation) for _ in range(40)], "made up", rng)
    assert (found.state, "look shuffled" in found.detail) == ("problem", True)


def test_some_sets_out_of_order_are_counted_and_noted() -> None:
    rng = np.random.default_rng(7)
    orders: list[Callable[[], Order]] = [lambda: rng.permutation, lambda: turned(rng)]
    for make in orders:
        half = [walk(rng, make() if number % 2 else None) for number in range(200)]
        assert 70 <= displaced(half) <= 140
        assert judged(half, "made up", rng).state == "note"


def test_sets_that_start_in_the_middle_are_told_from_shuffled_ones() -> None:
    rng = np.random.default_rng(3)
    found = judged([walk(rng, turned(rng)) for _ in range(30)], "made up", rng)
    assert found.state == "problem"
    assert "put together the wrong way round" in found.detail


def test_too_few_sets_accuse_nobody() -> None:
    rng = np.random.default_rng(4)
    assert judged([walk(rng, rng.permutation) for _ in range(5)], "made up", rng).state == "ok"
    assert neighbour_test([np.zeros((4, 4))], rng, 19).p == 1.0


def between(points: npt.NDArray[np.float64]) -> Doubles:
    """Distances of points, with a little noise."""
    return np.asarray(pairwise_distances(points.astype(np.float32)), np.float64)


def alike(rng: np.random.Generator) -> Doubles:
    return np.zeros((10, 10))


def scattered(rng: np.random.Generator) -> Doubles:
    return between(rng.standard_normal((10, 5)))


def flickering(rng: np.random.Generator) -> Doubles:
    return between(rng.standard_normal((10, 1)))


def panned_and_returned(rng: np.random.Generator) -> Doubles:
    there_and_back = np.array([0, 1, 2, 3, 4, 5, 4, 3, 2, 1])[:, None] * rng.standard_normal(16)
    return between(there_and_back + 0.3 * rng.standard_normal((10, 16)))


def turned_round_once(rng: np.random.Generator) -> Doubles:
    angles = 2 * np.pi * (np.arange(10) / 10 + rng.random())
    return between(np.c_[np.cos(angles), np.sin(angles), 0.1 * rng.standard_normal((10, 14))])


def shown_twice(rng: np.random.Generator) -> Doubles:
    """A scene, another one, and the first again."""
    first, last = sorted(1 + rng.permutation(9)[:2])
    other = (np.arange(10) >= first) & (np.arange(10) < last)
    return between(other[:, None] + 0.1 * rng.standard_normal((10, 16)))


@pytest.mark.parametrize("draw", [alike, scattered, flickering, panned_and_returned, turned_round_once, shown_twice])
def test_an_order_that_cannot_be_seen_is_noted_and_not_accused(draw: Callable[[np.random.Generator], Doubles]) -> None:
    states = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        states.append(judged([draw(rng) for _ in range(25)], "made up", rng).state)
    assert "problem" not in states
    assert "note" in states


def test_what_accuses_is_found_in_every_scrambled_copy() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        orders: list[Callable[[], Order]] = [lambda: rng.permutation, lambda: turned(rng)]  # noqa: B023
        for make in orders:
            assert judged([walk(rng, make()) for _ in range(25)], "made up", rng).state == "problem"


def test_points_without_structure_seldom_bend_like_an_arch() -> None:
    rng = np.random.default_rng(6)
    found = [arch_test([scattered(rng) for _ in range(8)], rng, 99) for _ in range(200)]
    assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10
