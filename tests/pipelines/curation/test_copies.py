"""Copies: which pictures are one, in groups, between sources and in sets of photos."""

from collections.abc import Callable
from io import BytesIO
from itertools import combinations, permutations
from pathlib import Path

import cv2
import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image as Pillow

from ctxr.engine.progress import Silent
from ctxr.engine.units import Engine
from ctxr.media.images import Pixels, perceptual_hash
from ctxr.media.sources import InputSource
from ctxr.pipelines.curation.copies import (
    CopyRule,
    PhotoRanking,
    Positions,
    SourceHashes,
    deduplicate,
    find_copies,
    shared_footage,
)
from ctxr.pipelines.curation.photos import PhotoPicking, PhotoPool, PooledPhoto, pick_photos, with_neighbours
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, PickingRules, UnitContext
from ctxr.store.arrays import Vectors
from ctxr.store.records import Image, ImageSet, Kind, LedgerRow
from ctxr.store.tables import read_table, write_table
from ctxr.store.units import SourceUnit, UnitKeys, read_unit
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.footage import sample_album
from tests.footage import write_clip
from tests.pipelines.curation.test_build_sets import build

RULE = CopyRule(0.05, 1.2, 10)


def scaled(rgb: Pixels, share: float) -> Pixels:
    size = round(rgb.shape[1] * share), round(rgb.shape[0] * share)
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def saved(rgb: Pixels, quality: int = 40) -> Pixels:
    content = BytesIO()
    Pillow.fromarray(rgb).save(content, "JPEG", quality=quality)
    return np.asarray(Pillow.open(content))


def cropped(rgb: Pixels, share: float) -> Pixels:
    down, right = round(rgb.shape[0] * share), round(rgb.shape[1] * share)
    return np.ascontiguousarray(rgb[down : rgb.shape[0] - down, right : rgb.shape[1] - right])


@pytest.fixture(scope="module")
def photos() -> list[Pixels]:
    """Forty drawn photos; most differ from another by one thing alone."""
    album = [one for one in sample_album(np.random.default_rng(3), 44) if not one.copy]
    return [render(one.scene, one.width, one.height) for one in album]


def differing(one: str, other: str) -> int:
    """The least number of places in which two hashes of two pictures differ; the slow way."""
    left, right = ([int(phash[at : at + 64], 16) for at in range(0, 256, 64)] for phash in (one, other))
    compared = [(mine, theirs) for mine in range(4) for theirs in range(4) if mine != theirs or not mine]
    return min((left[mine] ^ right[theirs]).bit_count() for mine, theirs in compared)


@pytest.mark.parametrize(
    "make",
    [
        lambda rgb: scaled(rgb, 0.25),
        lambda rgb: saved(scaled(rgb, 0.5)),
        lambda rgb: saved(rgb, 20),
        lambda rgb: saved(scaled(rgb, 64 / max(rgb.shape)), 85),
        lambda rgb: cropped(rgb, 0.02),
        lambda rgb: saved(cropped(rgb, 0.05)),
        lambda rgb: np.pad(rgb, ((12, 12), (12, 12), (0, 0))),
        lambda rgb: np.repeat(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[:, :, None], 3, axis=2),
    ],
    ids=["quarter", "half q40", "q20", "thumbnail", "crop 2", "crop 5 q40", "border", "grey"],
)
def test_nearly_all_variants_of_a_photo_have_its_hash(photos: list[Pixels], make: Callable[[Pixels], Pixels]) -> None:
    found = [differing(perceptual_hash(rgb), perceptual_hash(make(rgb))) <= RULE.bits for rgb in photos]
    assert np.mean(found) >= 0.85


def test_photos_that_differ_by_one_drawn_thing_differ_by_hash(photos: list[Pixels]) -> None:
    hashes = [perceptual_hash(rgb) for rgb in photos]
    assert min(differing(one, other) for one, other in combinations(hashes, 2)) > RULE.bits


@pytest.mark.parametrize("height", [1, 3, 60, 700])
def test_a_flat_picture_has_no_hash(height: int) -> None:
    rng = np.random.default_rng(height)
    noise = rng.normal(0, 3, (height, height + 5, 3))
    ramp = np.linspace(20, 220, height + 5)[None, :, None]
    for tone in (0, 128, ramp):
        assert perceptual_hash(np.clip(tone + noise, 0, 255).astype(np.uint8)) == ""


def test_a_ledger_holds_hashes_of_no_other_form(tmp_path: Path) -> None:
    row = LedgerRow("clip", 1, None, None)
    write_table(tmp_path / "ledger.jsonl", [msgspec.structs.replace(row, phash="a" * 256)])
    assert read_table(tmp_path / "ledger.jsonl", LedgerRow)[0].phash == "a" * 256
    write_table(tmp_path / "ledger.jsonl", [msgspec.structs.replace(row, phash="xyz")])
    with pytest.raises(Exception, match="phash"):
        read_table(tmp_path / "ledger.jsonl", LedgerRow)


def hashes_around(rng: np.random.Generator, count: int) -> list[str]:
    """Hashes in clusters, up to twenty places apart; those of flat pictures empty."""
    centres = rng.integers(0, 256, (max(1, count // 8), 128), np.uint8)
    hashes = []
    for _ in range(count):
        bits = np.unpackbits(centres[rng.integers(len(centres))])
        bits[rng.integers(0, 1024, rng.integers(0, 50))] ^= 1
        hashes.append(np.packbits(bits).tobytes().hex())
    for at in rng.permutation(count)[: count // 5].tolist():
        hashes[at] = ""
    return hashes


def vectors_around(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    rows = rng.integers(-1, 2, (count, 5)) + 0.01 * rng.normal(size=(count, 5)) + 1.2
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def are_copies(rule: CopyRule, one: str, other: str, distance: float, bits: int | None = None) -> bool:
    alike = bool(one and other) and differing(one, other) <= (rule.bits if bits is None else bits)
    return alike and distance < rule.loose


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [1, 2, 40, 300])
def test_copies_are_those_of_every_pair(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, hashes = vectors_around(rng, count), hashes_around(rng, count)
    contents = [str(at) for at in rng.integers(0, 2 * count, count)]
    rule = CopyRule(0.02, 0.4, 14)
    apart = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    order = np.argsort(apart + 9 * np.eye(count), axis=1, kind="stable")[:, : count - 1]
    found = find_copies(
        contents, vectors, order, np.take_along_axis(apart, order, 1).astype(np.float32), rule, hashes=hashes
    )
    first = {content: contents.index(content) for content in contents}
    slow = {(at, first[contents[at]]) for at in range(count)}
    for one, other in combinations(range(count), 2):
        by_hash = first[contents[one]] == one and first[contents[other]] == other
        if apart[one, other] < rule.strict or (
            by_hash and are_copies(rule, hashes[one], hashes[other], apart[one, other])
        ):
            slow.add((one, other))
    assert {tuple(sorted(pair)) for pair in found.tolist()} == {tuple(sorted(pair)) for pair in slow}
    assert count < 40 or len(slow) > count


def test_a_distance_equal_to_a_limit_is_no_copy() -> None:
    vectors, around, half = np.array([[0], [0.5]], np.float32), np.array([[1], [0]]), np.full((2, 1), 0.5, np.float32)
    alone = [[0, 0], [1, 1]]
    assert find_copies(["a", "b"], vectors, around, half, CopyRule(0.5), hashes=["", ""]).tolist() == alone
    same, loose = ["ab" * 128] * 2, CopyRule(0.1, 0.5, 10)
    assert find_copies(["a", "b"], vectors, around, half, loose, hashes=same).tolist() == alone
    parts = [SourceHashes(name, "photos", [name], same[:1], vectors[at : at + 1]) for at, name in enumerate("ab")]
    assert shared_footage(parts, loose) == []
    assert PhotoRanking(vectors).within(0, 0.5) == [0]


@pytest.mark.parametrize(("kind", "count"), [("video", 0), ("photos", 1)])
def test_one_frame_that_two_videos_share_is_a_still(kind: Kind, count: int) -> None:
    parts = [SourceHashes(name, kind, [name], ["ab" * 128], np.ones((1, 1), np.float32)) for name in "ab"]
    assert len(shared_footage(parts, RULE)) == count


@pytest.mark.parametrize("seed", range(3))
def test_shared_footage_is_that_of_every_pair(seed: int) -> None:
    rng, rule = np.random.default_rng(seed), CopyRule(0.02, 0.4, 4)
    count, vectors, hashes = 240, vectors_around(rng, 240), hashes_around(rng, 240)
    owner = np.sort(rng.integers(0, 9, count))
    parts = []
    for source in set(owner.tolist()):
        own = np.flatnonzero(owner == source).tolist()
        ids, some = [f"s{source}/{at}" for at in own], [hashes[at] for at in own]
        parts.append(SourceHashes(f"s{source}", "photos", ids, some, vectors[own]))
    slow: dict[tuple[str, str], set[int]] = {}
    closest: dict[tuple[str, str], tuple[float, int, int]] = {}
    for one, other in combinations(range(count), 2):
        distance = float(np.linalg.norm(vectors[one].astype(np.float64) - vectors[other]))
        if owner[one] != owner[other] and are_copies(rule, hashes[one], hashes[other], distance, 3 * rule.bits):
            sources = f"s{owner[one]}", f"s{owner[other]}"
            slow.setdefault(sources, set()).add(other)
            closest[sources] = min(closest.get(sources, (np.inf, 0, 0)), (distance, one, other))
    found = shared_footage(reversed(parts), rule)
    assert {(one.first, one.second): one.shared for one in found} == {key: len(rows) for key, rows in slow.items()}
    assert slow
    for row in found:
        assert row.of == sum(hashes[at] != "" for at in np.flatnonzero(owner == int(row.second[1:])))
        distance, one, other = closest[row.first, row.second]
        assert (row.example, row.distance) == ((f"{row.first}/{one}", f"{row.second}/{other}"), round(distance, 6))


def pan(seed: int, frames: int = 75) -> list[Pixels]:
    """A camera that wanders over a texture."""
    rng = np.random.default_rng(seed)
    grains = [rng.integers(0, 255, (7 * fine, 12 * fine, 3)).astype(np.uint8) for fine in (1, 2, 4, 8)]
    layers = [cv2.resize(grain, (960, 560), interpolation=cv2.INTER_CUBIC) for grain in grains]
    texture = np.mean(layers, axis=0).astype(np.uint8)
    right, down = rng.uniform(0.6, 1.2), rng.uniform(0.2, 0.4)
    at = [(int(20 + down * step), int(20 + right * step)) for step in range(frames)]
    return [np.ascontiguousarray(texture[row : row + 192, column : column + 320]) for row, column in at]


def test_no_photo_saved_again_stands_in_a_set_with_its_copy(tmp_path: Path) -> None:
    album = tmp_path / "album"
    album.mkdir()
    for at in range(16):
        (rgb,) = pan(at, 1)
        Pillow.fromarray(rgb).save(album / f"p{at:02}.png")
        Pillow.fromarray(scaled(rgb, 0.5)).save(album / f"a{at:02}.jpg", quality=40)
        Pillow.fromarray(scaled(rgb, 64 / max(rgb.shape))).save(album / f"z{at:02}.jpg", quality=85)
    out = tmp_path / "sets"
    build(album, out, sources=(str(album),))
    ledger = read_unit(out, "album").ledger
    names = {row.name: row for row in ledger}
    members = {image.split("/")[1] for one in read_table(out / "sets.jsonl", ImageSet) for image in one.images}
    duplicates = {row.name for row in ledger if row.reason == "duplicate"}
    assert members == {f"p{at:02}.png" for at in range(16)}
    assert duplicates == {f"{kind}{at:02}.jpg" for at in range(16) for kind in "az"}
    for name in duplicates:
        best = ledger[names[name].nearest or 0]
        assert best.name == f"p{str(name)[1:3]}.png"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[SourceHashes]:
    """Clips that share a title and black frames; a compilation of two, re-encoded at half size; a cropped one; an album."""
    folder = tmp_path_factory.mktemp("shared")
    shots = [pan(seed) for seed in range(4)]
    title = np.zeros((192, 320, 3), np.uint8)
    cv2.putText(title, "TITLE 7", (40, 110), cv2.FONT_HERSHEY_SIMPLEX, 2, (255, 255, 255), 4)
    start = [np.zeros_like(title)] * 10 + [title] * 20
    for at, pictures in enumerate(shots):
        write_clip(folder / "videos" / f"clip{at}.mp4", [*start, *pictures])
    half = [scaled(rgb, 0.5) for rgb in (*shots[0][13:60], *shots[1][7:50])]
    write_clip(folder / "videos" / "compilation.mp4", half)
    inner = [cropped(rgb, 0.05)[:172, :288] for rgb in shots[2][11:70]]
    write_clip(folder / "videos" / "cropped.mp4", inner)
    (folder / "stills").mkdir()
    Pillow.fromarray(scaled(shots[3][20], 0.5)).save(folder / "stills" / "one.jpg", quality=40)
    build(folder, folder / "sets", sources=(str(folder / "videos"), str(folder / "stills")))
    names = sorted(path.name for path in (folder / "sets" / "sources").iterdir())
    return [SourceHashes.of(read_unit(folder / "sets", name)) for name in names]


def test_footage_is_found_in_a_compilation_a_crop_and_a_still(shared: list[SourceHashes]) -> None:
    found = {(one.first, one.second): one for one in shared_footage(shared, CopyRule.of_encoder(0.1569))}
    assert list(found) == [
        ("clip0", "compilation"),
        ("clip1", "compilation"),
        ("clip2", "cropped"),
        ("clip3", "stills"),
    ]
    ids = {name for part in shared for name in part.ids}
    for one in found.values():
        assert ids.issuperset(one.example)
        assert 0 < one.shared <= one.of
        assert 0 <= one.distance < 1


def test_a_rule_reads_back_from_a_manifest() -> None:
    rule = CopyRule.of_encoder(0.35)
    assert CopyRule.recorded(rule.record()) == rule


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
    picking = PickingRules(0.0, 4 if count > 9 else 2, 0.0, QualityGate(QualityLimits(), "live", "auto"))
    context = UnitContext(folder / "sets", picking, Embedder("none"))
    (pool,) = with_neighbours(folder, [PhotoPool(photos, vectors, {})], Engine(), Silent())
    stamps = {"album": UnitKeys("scan", "select", {})}
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
