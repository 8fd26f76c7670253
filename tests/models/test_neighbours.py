"""Nearest neighbours against the slow and obvious sort of all distances."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ctxr.errors import DataError
from ctxr.models import neighbours
from ctxr.models.neighbours import (
    NO_MATCH,
    ExactSearch,
    best_matches,
    build_index,
    nearest,
    nearest_by_index,
)

Vectors = NDArray[np.float32]
ENGINES = {"fp32": False, "bf16": True, "auto": None}


def unit(vectors: NDArray[np.float64]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def scattered(count: int, width: int = 24, seed: int = 0) -> Vectors:
    return unit(np.random.default_rng(seed).standard_normal((count, width)))


def clustered(count: int, width: int = 64) -> Vectors:
    """Vectors as near one another as frames of one shot: products above 0.99, which bf16 cannot tell apart."""
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((5, width))
    return unit(centres[rng.integers(0, 5, count)] + 0.02 * rng.standard_normal((count, width)))


def repeated(count: int) -> Vectors:
    """Three of four vectors have duplicates, far apart in the order."""
    return scattered(count)[np.random.default_rng(2).integers(0, count // 4, count)]


def slow(vectors: Vectors, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    exact = vectors.astype(np.float64)
    indices, distances = [], []
    for row, vector in enumerate(exact):
        squared = np.square(exact - vector).sum(axis=1)
        squared[row] = np.inf
        order = np.argsort(squared, kind="stable")[:k]
        indices.append(order)
        distances.append(np.sqrt(squared[order]))
    return np.array(indices), np.array(distances, np.float32)


@pytest.mark.parametrize("coarse", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(
    "vectors",
    [scattered(300), clustered(400), repeated(300), scattered(33)],
    ids=["scattered", "clustered", "repeated", "few"],
)
@pytest.mark.parametrize(("k", "block"), [(9, 64), (32, 1000)])
def test_the_answer_is_that_of_sorting_all_distances(vectors: Vectors, k: int, block: int, coarse: bool | None) -> None:
    indices, distances = nearest(vectors, k, block=block, coarse=coarse)
    expected, lengths = slow(vectors, k)
    assert (indices == expected).all()
    assert distances == pytest.approx(lengths, abs=1e-6)
    assert indices.dtype == np.int64
    assert distances.dtype == np.float32


def on_a_grid(seed: int) -> Vectors:
    """Clusters, duplicates and near-ties whose distances float64 holds exactly: multiples of 2^-12, of length 1 to 1e-3."""
    rng = np.random.default_rng(seed)
    near = clustered(100, 32).astype(np.float64) + 2.0**-12 * rng.integers(-1, 2, (100, 32))
    vectors = np.concatenate([near, scattered(60, 32, seed), scattered(60, 32, seed)])[rng.permutation(220)]
    return np.asarray(np.round(vectors * 2**12) / 2**12, np.float32)


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_ids_and_distances_have_the_bits_of_a_stable_sort_whatever_the_block_and_the_stripe(
    seed: int, coarse: bool
) -> None:
    vectors = on_a_grid(seed)
    expected = b"".join(part.tobytes() for part in slow(vectors, 9))
    other = clustered(220)  # distances are rounded: all agree on the rounding
    rounded = nearest(other, 9)
    for block in (1, 7, 64, 512):
        assert b"".join(part.tobytes() for part in nearest(vectors, 9, block, coarse)) == expected
        stripes = [nearest(other, 9, block, coarse, slice(start, start + 50)) for start in range(0, 220, 50)]
        for part in range(2):
            assert np.concatenate([stripe[part] for stripe in stripes]).tobytes() == rounded[part].tobytes()


HALF = 2.0**-8
"""Half the distance from 1 to the next number in bf16."""


@pytest.mark.parametrize(
    ("left", "right", "coarse"),
    [
        (scattered(9, seed=5), scattered(9, seed=6), False),
        ([[1, 1]], [[1, HALF]], True),
        ([[1 + HALF, 2**-4]], [[1, 2**-4]], True),
        ([[1, 2**-4]], [[1 + HALF, 2**-4]], True),
    ],
    ids=["sums", "product", "query", "candidate"],
)
def test_no_product_errs_by_more_than_the_bound(left: Vectors, right: Vectors, coarse: bool) -> None:
    queries, pool = np.array(left, np.float32), np.array(right, np.float32)
    search = ExactSearch(queries, pool, coarse)
    rough = torch.mm(search.left, search.right[: len(pool)].T).float().numpy()
    error = np.abs(queries.astype(np.float64) @ pool.astype(np.float64).T - rough).max()
    assert 0 < error <= search.bound


def test_a_candidate_within_twice_the_bound_is_compared_exactly() -> None:
    pool = np.array([[2.0], [1.81]], np.float32)
    search = ExactSearch(
        np.ones((1, 1), np.float32),
        pool,
        False,
        exact=lambda _, right: np.where(right[:, 0] == 2, 1.9, 1.91),
        slack=0.1,
    )
    assert search.best(1, 8)[0].tolist() == [[1]]


def test_lengths_that_are_nearly_one_do_not_change_the_order() -> None:
    stretched = clustered(200) * np.random.default_rng(3).uniform(0.9995, 1.0005, (200, 1)).astype(np.float32)
    assert (nearest(stretched, 9, coarse=True)[0] == slow(stretched, 9)[0]).all()


def test_vectors_that_are_not_of_length_one_are_named() -> None:
    vectors = scattered(10)
    vectors[7] *= 2
    with pytest.raises(DataError, match="vector 7 has length 2, not 1"):
        nearest(vectors, 3)
    vectors[7] = np.nan
    with pytest.raises(DataError, match="vector 7 has length nan"):
        nearest(vectors, 3)
    with pytest.raises(DataError, match=r"shape \(10,\)"):
        nearest(np.ones(10, np.float32), 3)


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("size", [5, 70, 1500])
def test_matches_are_those_of_a_sort_of_all_products(coarse: bool | None, size: int) -> None:
    queries, pool = scattered(41, seed=1), scattered(size, seed=2)
    pool[size // 2 :: 7] = pool[0]  # equal products stand by index
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(0, 41, 60), rng.integers(0, size, 60)
    exact = queries.astype(np.float64) @ pool.astype(np.float64).T
    exact[:, size // 2 :: 7] = exact[:, :1]
    exact[rows, columns] = -np.inf
    expected = np.argsort(-exact, axis=1, kind="stable")[:, :12]
    scores = np.take_along_axis(exact, expected, 1)
    for block in (7, 512):
        matches = best_matches(queries, pool, 12, (rows, columns), block, coarse=coarse)
        assert (matches.indices == np.where(np.isneginf(scores), NO_MATCH, expected)).all()
        assert matches.scores == pytest.approx(scores, abs=1e-6)


def test_vectors_and_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="share one space"):
        best_matches(scattered(3), scattered(3, 8), 1)
    with pytest.raises(DataError, match="not finite"):
        best_matches(scattered(3) * np.float32(np.nan), scattered(3), 1)


@pytest.fixture
def faiss() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed: make peers")


@pytest.mark.usefixtures("faiss")
@pytest.mark.parametrize(("least", "perfect"), [(0.3, False), (1.0, True)])
def test_the_recall_of_an_index_is_that_against_sorting_all_distances(
    least: float, perfect: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LEAST_RECALL", least)
    vectors, rows = scattered(900), np.arange(900)
    index = build_index(vectors, 9, tmp_path / "index")
    found, distances = nearest_by_index(index, vectors, 9, rows)
    expected, _ = slow(vectors, 9)
    shared = [len({*mine.tolist()} & {*theirs.tolist()}) / 9 for mine, theirs in zip(found, expected, strict=True)]
    assert index.recall == pytest.approx(np.mean(np.array(shared)[index.sample]))
    # as many as there are, but those by which the number of lists was decided
    assert len(index.sample) == 600
    assert index.recall >= least if perfect else 0.1 < index.recall < 0.999
    assert not (found == rows[:, None]).any()
    exact = {(row, at): bits for row, at, bits in triples(*nearest(vectors, 300))}
    assert [bits for *_, bits in triples(found, distances)] == [
        exact[row, at] for row, at, _ in triples(found, distances)
    ]
    assert (np.diff(distances) >= 0).all()


def triples(found: NDArray[np.int64], distances: NDArray[np.floating]) -> list[tuple[int, int, bytes]]:
    places = [(row, rank) for row in range(len(found)) for rank in range(found.shape[1])]
    return [(row, int(found[row, rank]), distances[row, rank].tobytes()) for row, rank in places]


@pytest.mark.usefixtures("faiss")
def test_an_index_gives_the_same_bytes_again_and_by_parts(tmp_path: Path) -> None:
    vectors = clustered(600)
    one, other = (build_index(vectors, 9, tmp_path / name) for name in ("one", "other"))
    assert one.file.read_bytes() == other.file.read_bytes()
    assert one[1:3] == other[1:3]
    assert np.array_equal(one.sample, other.sample)
    whole = nearest_by_index(one, vectors, 9, np.arange(600))
    parts = [nearest_by_index(other, vectors, 9, np.arange(start, start + 200)) for start in (0, 200, 400)]
    for column in (0, 1):
        assert np.concatenate([part[column] for part in parts]).tobytes() == whole[column].tobytes()


@pytest.mark.usefixtures("faiss")
def test_vectors_whose_lists_are_too_short_are_searched_exactly(tmp_path: Path) -> None:
    vectors = scattered(900)
    index = build_index(vectors, 9, tmp_path / "index")._replace(probes=1)
    by_index = nearest_by_index(index, vectors, 300, np.arange(900))
    exact = nearest(vectors, 300)
    assert by_index.indices.tobytes() == exact.indices.tobytes()
    assert by_index.scores.tobytes() == exact.scores.tobytes()


@pytest.mark.parametrize("at_once", [1, 3000])
def test_the_answer_is_the_same_however_little_memory_products_have(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = scattered(300)
    whole = nearest(vectors, 9)
    monkeypatch.setattr(neighbours, "PRODUCTS_AT_ONCE", at_once)
    assert [part.tobytes() for part in nearest(vectors, 9)] == [part.tobytes() for part in whole]
