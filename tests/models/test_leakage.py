"""What two splits share, against the slow obvious comparison."""

import numpy as np
import pytest

from ctxr.models.leakage import Leak, near_duplicates, shared_things

ORDER = ("train", "valid", "test")


def alike(vectors: np.ndarray, names: list[str], splits: list[str], limit: float) -> list[Leak]:
    pictures = dict(zip(names, vectors, strict=True))
    uses = {name: [(split, "")] for name, split in zip(names, splits, strict=True)}
    return near_duplicates("look", pictures, uses, limit, ORDER)


def test_shared_things_are_counted_once_and_named() -> None:
    things = [("a", "train", "s1"), ("a", "train", "s2"), ("a", "test", "s3"), ("b", "test", "s4"), ("", "test", "s5")]
    (leak,) = shared_things("video", things, ORDER)
    assert (leak.splits, leak.shared, leak.of, leak.examples) == (
        ("train", "test"),
        1,
        2,
        ("s1 (train) and s3 (test)",),
    )


def test_an_unknown_key_is_no_leak() -> None:
    assert shared_things("file", [("", "train", "a"), ("", "test", "b")], ORDER) == []


def test_the_nearest_is_the_nearest_of_all_pairs() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(5070, 9)).astype(np.float32)
    splits = ["train"] * 5000 + ["test"] * 70
    slow = np.sqrt(((vectors[5000:, None].astype(float) - vectors[None, :5000].astype(float)) ** 2).sum(-1))
    limit = float(np.median(slow.min(1)))
    (leak,) = alike(vectors, [f"{row:04}" for row in range(5070)], splits, limit)
    assert leak.shared == int((slow.min(1) <= limit).sum())
    assert leak.nearest == pytest.approx(slow.min())
    image, copy = divmod(int(slow.argmin()), 5000)
    assert leak.examples[0].startswith(f"{copy:04} (train) and {5000 + image} (test), {slow.min():.4f}")


def test_equal_vectors_are_at_zero() -> None:
    vectors = np.repeat(np.random.default_rng(0).normal(size=(1, 512)).astype(np.float32), 2, axis=0)
    (leak,) = alike(vectors, ["a", "b"], ["train", "test"], 0.0)
    assert (leak.shared, leak.nearest) == (1, 0.0)


def test_only_images_of_another_split_count_as_alike() -> None:
    vectors = np.array([[0, 0], [0, 0.001], [5, 5], [5, 5.01], [9, 9]], np.float32)
    names, splits = ["a", "b", "c", "d", "e"], ["train", "train", "train", "test", "test"]
    (leak,) = alike(vectors, names, splits, 0.1)
    assert (leak.shared, leak.of) == (1, 2)
    assert leak.examples == ("c (train) and d (test), 0.0100 apart",)
    assert leak.nearest == pytest.approx(0.01, abs=1e-6)
    assert alike(vectors[:3], names[:3], splits[:3], 0.1) == []
