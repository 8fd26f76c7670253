"""The gate before Tesseract leaves torch as it found it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
import torch

from ctxr.media.text_area import TextGate, _one_thread

LONG = 20.0  # seconds after which a test that hangs gives up


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("first_out", ["a", "b"])
def test_uses_that_overlap_leave_every_thread_as_many_as_before(three_threads: None, first_out: str) -> None:
    inside = {name: Event() for name in "ab"}
    leave = {name: Event() for name in "ab"}
    second_out = "b" if first_out == "a" else "a"

    def use(name: str) -> int:
        with _one_thread():
            during = torch.get_num_threads()
            inside[name].set()
            assert leave[name].wait(LONG)
        return during

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two, ThreadPoolExecutor(1) as fresh:
        a = one.submit(use, "a")
        assert inside["a"].wait(LONG)
        b = two.submit(use, "b")
        assert inside["b"].wait(LONG)
        uses = {"a": a, "b": b}
        for name in (first_out, second_out):
            leave[name].set()
            assert uses[name].result(LONG) == 1
        assert [pool.submit(torch.get_num_threads).result(LONG) for pool in (one, two, fresh)] == [3, 3, 3]
    assert torch.get_num_threads() == 3


def test_a_use_that_fails_leaves_as_many_as_before(three_threads: None) -> None:
    with pytest.raises(ValueError, match="broken"), _one_thread():
        raise ValueError("broken")
    assert torch.get_num_threads() == 3


def test_scores_at_the_same_time_are_those_one_after_the_other(three_threads: None) -> None:
    gate = TextGate()
    pictures = [np.random.default_rng(seed).integers(0, 256, (96, 160)).astype(np.uint8) for seed in range(12)]
    alone = [gate.heat(picture) for picture in pictures]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(gate.heat, pictures))
        assert set(pool.map(lambda _: torch.get_num_threads(), range(8))) == {3}
    assert np.array_equal(together, alone)
    assert torch.get_num_threads() == 3
