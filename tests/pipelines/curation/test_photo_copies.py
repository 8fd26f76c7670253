"""Copies among photos: groups that no order changes."""

from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest

from ctxr.engine.progress import Silent
from ctxr.engine.units import Engine
from ctxr.media.sources import InputSource
from ctxr.pipelines.curation.copies import CopyRule, Positions, deduplicate, find_copies
from ctxr.pipelines.curation.photos import PhotoPicking, PhotoPool, PooledPhoto, pick_photos, with_neighbours
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext
from ctxr.store.arrays import Vectors
from ctxr.store.records import Image
from ctxr.store.units import SourceUnit, Stamp

LIMIT = 0.1


def groups(vectors: Vectors, k: int, contents: list[str] | None = None) -> Positions:
    """Labels of the photos, out of their `k` nearest neighbours as `models.neighbours` gives them."""
    apart = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    around = np.argsort(apart, axis=1, kind="stable")[:, :k].astype(np.int64)
    distances = np.take_along_axis(apart, around, axis=1).astype(np.float32)
    names = contents or [str(at) for at in range(len(vectors))]
    hashes = [""] * len(vectors)
    copies = find_copies(names, vectors, around, distances, CopyRule(LIMIT), hashes=hashes)
    return deduplicate(copies, np.arange(len(vectors)))


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("k", [1, 2])
def test_a_chain_of_copies_is_one_group_in_every_order(order: tuple[int, ...], k: int) -> None:
    chain = np.array([[0.0], [0.08], [0.16]], np.float32)[list(order)]
    assert groups(chain, k).tolist() == [0, 0, 0]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_equal_contents_are_copies_wherever_their_vectors_lie(order: tuple[int, ...]) -> None:
    vectors = np.array([[0.0], [5.0], [9.0]], np.float32)[list(order)]
    contents = [["same", "other", "same"][at] for at in order]
    first, last = sorted(at for at in range(3) if contents[at] == "same")
    assert groups(vectors, 2, contents)[last] == first
    assert len(set(groups(vectors, 2, contents).tolist())) == 2


def test_groups_are_those_of_every_pair_even_where_neighbours_at_hand_are_few() -> None:
    rng = np.random.default_rng(0)
    # clouds that hold more copies than the two neighbours that are looked up
    vectors = (rng.integers(0, 12, (80, 1)) + rng.normal(0, 0.05, (80, 3))).astype(np.float32)
    close = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2).astype(np.float32) < LIMIT
    reach = close.astype(np.int64)
    for _ in range(len(vectors)):
        reach = np.minimum(reach @ close, 1)
    expected = [int(np.flatnonzero(row)[0]) for row in reach]
    for k in (2, 5, 79):
        assert groups(vectors, k).tolist() == expected
    assert 12 < len(set(expected)) < 80


def pooled(file: Path, position: int, width: int, height: int, sha256: str = "") -> PooledPhoto:
    """A photo of the album `album`."""
    image = Image(f"album/{file.name}", f"images/album/{file.name}", sha256 or file.name, "album", width, height)
    return PooledPhoto("album", position, file, image, position, "")


def pick(
    folder: Path, vectors: Vectors, choice: PhotoPicking, contents: list[tuple[int, int]]
) -> tuple[list[PooledPhoto], SourceUnit]:
    """Sets of four (of two among few) out of photos with such vectors; `contents`: side in pixels, and bytes, of each."""
    count = len(vectors)
    files = tuple(folder / f"p{at:02}.png" for at in range(count))
    for file, (_, size) in zip(files, contents, strict=True):
        file.write_bytes(b"x" * size)
    hashes = tuple(file.name for file in files)
    album = InputSource("album", "photos", folder, "0" * 64, 0, files, hashes)
    sides = [side for side, _ in contents]
    photos = [pooled(files[at], at, sides[at], sides[at]) for at in range(count)]
    picking = Picking(0.0, 4 if count > 9 else 2, 0.0, QualityGate(QualityLimits(), "live", "auto"))
    context = UnitContext(folder / "sets", picking, Embedder("none"))
    (pool,) = with_neighbours(folder, [PhotoPool(photos, vectors, {})], Engine(), Silent())
    stamps = {"album": Stamp("scan", "select", {})}
    (unit,) = pick_photos(context, pool, [album], stamps, choice, facts={}, task=Silent())
    return photos, unit


@pytest.mark.parametrize(
    ("contents", "best"), [([(8, 9), (9, 5), (9, 7), (9, 7)], 2), ([(9, 5), (9, 5), (8, 9), (9, 4)], 0)]
)
def test_of_copies_the_one_with_most_pixels_then_bytes_then_the_first_stands(
    tmp_path: Path, contents: list[tuple[int, int]], best: int
) -> None:
    turn = np.array([0, 0.001, 0.002, 0.003, 0.5, 1])
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    _, unit = pick(tmp_path, vectors, PhotoPicking(CopyRule(0.07), None, 0), [*contents, (9, 9), (9, 9)])
    assert [row.index for row in unit.ledger if row.reason != "duplicate"] == [best, 4, 5]


@pytest.mark.parametrize("sample", [0, 1, 2])
def test_no_more_sets_are_picked_than_asked_for(tmp_path: Path, sample: int) -> None:
    _, unit = pick(tmp_path, np.eye(4, dtype=np.float32), PhotoPicking(CopyRule(0.07), sample, 0), [(9, 9)] * 4)
    assert len(unit.sets) == sample


def test_the_last_photo_is_found_beyond_the_neighbours_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.pipelines.curation.photos.NEIGHBOURS", 2)
    turn = np.array([0, 0.001, 0.002, 1])
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    _, unit = pick(tmp_path, vectors, PhotoPicking(CopyRule(0.07), None, 0), [(9, 9)] * 4)
    assert {one.images for one in unit.sets} == {("album/p00.png", "album/p03.png"), ("album/p03.png", "album/p00.png")}


@pytest.mark.parametrize("seed", range(4))
def test_no_two_photos_of_a_set_are_copies_of_one_another(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 30
    turn = rng.permutation(np.linspace(0, 1.5, count) ** 2 / 1.5)
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    photos, unit = pick(tmp_path, vectors, PhotoPicking(CopyRule(0.07), None, seed), [(9, 9)] * count)
    assert unit.sets
    assert any(row.reason == "duplicate" for row in unit.ledger)
    places = {photo.image.id: photo.position for photo in photos}
    for one in unit.sets:
        for first, second in combinations(one.images, 2):
            assert np.linalg.norm(vectors[places[first]] - vectors[places[second]]) >= 0.07
