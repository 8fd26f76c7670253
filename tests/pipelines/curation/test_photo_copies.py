"""Copies among photos: groups that no order changes."""

from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest

from ctxr.media.sources import InputSource
from ctxr.pipelines.curation.copies import CopyRule, deduplicate, find_copies
from ctxr.pipelines.curation.photos import PhotoPicking, PhotoPool, PooledPhoto, pick_photos
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.ranking import Positions
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext
from ctxr.store.arrays import Vectors
from ctxr.store.units import Stamp

LIMIT = 0.1


def groups(vectors: Vectors, k: int, contents: list[str] | None = None) -> Positions:
    """Labels of the photos, out of their `k` nearest neighbours as `models.neighbours` gives them."""
    apart = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    around = np.argsort(apart, axis=1, kind="stable")[:, :k].astype(np.int64)
    distances = np.take_along_axis(apart, around, axis=1).astype(np.float32)
    names = contents or [str(at) for at in range(len(vectors))]
    hashes = [None] * len(vectors)
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


@pytest.mark.parametrize("seed", range(4))
def test_no_two_photos_of_a_set_are_copies_of_one_another(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 30
    turn = rng.permutation(np.linspace(0, 1.5, count) ** 2 / 1.5)
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    files = tuple(tmp_path / f"p{at:02}.png" for at in range(count))
    for file in files:
        file.write_text(file.name)
    hashes = tuple(file.name for file in files)
    album = InputSource("album", "photos", tmp_path, "0" * 64, 0, files, hashes)
    photos = [PooledPhoto(album, at, files[at], hashes[at], files[at].name, 9, 9, at) for at in range(count)]
    picking = Picking(0.0, 4, 0.0, QualityGate(QualityLimits(), "live", "auto"))
    context = UnitContext(tmp_path / "sets", picking, Embedder(lambda: pytest.fail("no encoder is needed")))
    pool, stamps = PhotoPool(photos, vectors, []), {"album": Stamp("scan", "select", {})}
    (unit,) = pick_photos(
        context, pool, [album], stamps, PhotoPicking(CopyRule(0.07), None, seed), facts={}, watch=lambda count: None
    )
    assert unit.sets
    assert any(row.reason == "duplicate" for row in unit.ledger)
    places = {photo.id: photo.position for photo in photos}
    for one in unit.sets:
        for first, second in combinations(one.images, 2):
            assert np.linalg.norm(vectors[places[first]] - vectors[places[second]]) >= 0.07
