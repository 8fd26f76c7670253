"""Copies: which pictures are one, in groups, between sources and in sets of photos."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations, permutations, product
from pathlib import Path

import cv2
import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image as Pillow

from ctxr.engine.engines import Engine
from ctxr.engine.progress import Silent
from ctxr.media.images import Pixels, perceptual_hash
from ctxr.media.likeness import Sketch
from ctxr.media.sources import InputSource
from ctxr.media.video import TURNS, turned
from ctxr.pipelines.curation import copies
from ctxr.pipelines.curation.copies import CopyRule, SourceHashes, deduplicate, find_copies, shared_footage
from ctxr.pipelines.curation.photos import (
    PhotoPicking,
    PhotoPool,
    PickedPhotos,
    PooledPhoto,
    album_unit,
    pick_photos,
    with_copies,
)
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, PickingRules, UnitContext
from ctxr.store.arrays import Vectors
from ctxr.store.records import Image, ImageSet, Kind, LedgerRow
from ctxr.store.tables import read_table, write_table
from ctxr.store.units import SourceUnit, UnitKeys, read_unit
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.footage import sample_album
from tests.footage import write_clip
from tests.pictures import cropped, greyed, saved, scaled
from tests.pipelines.curation.test_build_sets import build

BITS = 10  # places in which hashes of one picture differ, saved in most ways


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
        greyed,
    ],
    ids=["quarter", "half q40", "q20", "thumbnail", "crop 2", "crop 5 q40", "border", "grey"],
)
def test_nearly_all_variants_of_a_photo_have_its_hash(photos: list[Pixels], make: Callable[[Pixels], Pixels]) -> None:
    found = [differing(perceptual_hash(rgb), perceptual_hash(make(rgb))) <= BITS for rgb in photos]
    assert np.mean(found) >= 0.85


def test_photos_that_differ_by_one_drawn_thing_differ_by_hash(photos: list[Pixels]) -> None:
    hashes = [perceptual_hash(rgb) for rgb in photos]
    assert min(differing(one, other) for one, other in combinations(hashes, 2)) > BITS


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


@cache
def turned_hash(phash: str, turn: int) -> list[str]:
    """The four hashes after a turn, out of their waves, one bit at a time."""
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(phash), np.uint8)).reshape(4, 16, 16)
    places = product(range(4), range(16), range(16))
    after = np.empty_like(bits)
    for view, down, across in places:
        bit = bits[view, across, down] if turn & 4 else bits[view, down, across]
        after[view, down, across] = bit ^ (down % 2 and turn >> 1 & 1) ^ (across % 2 and turn & 1)
    return [np.packbits(view).tobytes().hex() for view in after]


@pytest.mark.parametrize("turn", range(TURNS))
def test_a_hash_turns_with_its_picture(photos: list[Pixels], turn: int) -> None:
    for rgb in photos[:8]:
        expected, whole = turned_hash(perceptual_hash(rgb), turn)[0], perceptual_hash(turned(rgb, turn))[:64]
        assert (int(expected, 16) ^ int(whole, 16)).bit_count() <= 4


def alike_by_hash(one: str, other: str, bits: int) -> bool:
    """Whether hashes differ in at most `bits` places: any two as they are, the first of each after any turn."""
    if not (one and other):
        return False
    left = [int(one[at : at + 64], 16) for at in range(0, 256, 64)]
    right = [int(words, 16) for words in turned_hash(other, 0)]
    found = min((mine ^ theirs).bit_count() for mine, theirs in product(left, right))
    after = [int(turned_hash(other, turn)[0], 16) for turn in range(1, TURNS)]
    return min(found, *((left[0] ^ words).bit_count() for words in after)) <= bits


def numbered(at: int) -> Pixels:
    """A picture that tells its number."""
    return np.full((9, 9, 3), (at % 256, at // 256, 0), np.uint8)


def number_of(sketch: Sketch) -> int:
    return int(sketch.picture[0, 0, 0]) + 256 * int(sketch.picture[0, 0, 1])


def closure(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """For each of `count`, the first of those that pairs connect it with; the slow way."""
    reach = np.eye(count, dtype=np.int64)
    for one, other in pairs:
        reach[one, other] = reach[other, one] = 1
    for _ in range(count):
        reach = np.minimum(reach @ reach, 1)
    return [int(np.flatnonzero(row)[0]) for row in reach]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, 2, 40, pytest.param(150, marks=pytest.mark.prove)])
def test_groups_are_what_verdicts_on_all_candidates_connect(
    monkeypatch: pytest.MonkeyPatch, seed: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    hashes = hashes_around(rng, count)
    contents = [str(at) for at in rng.integers(0, 2 * count, count)]
    verdicts = rng.random((count, count)) < 0.5
    verdicts |= verdicts.T
    asked: list[tuple[int, int]] = []

    def verdict(one: Sketch, other: Sketch, limit: float) -> bool:
        assert limit == 7
        asked.append((number_of(one), number_of(other)))
        return bool(verdicts[asked[-1]])

    monkeypatch.setattr("ctxr.pipelines.curation.copies.same_picture", verdict)
    around = np.array([[other for other in rng.permutation(count).tolist() if other != at] for at in range(count)])
    around = around.reshape(count, count - 1)[:, :20].astype(np.int64)
    found = find_copies(contents, around, numbered, CopyRule(1000, 7, 7), hashes=hashes)
    first = [contents.index(content) for content in contents]
    # pictures of one tone have no features, so of neighbours those without a hash are looked at
    near = {(first[at], first[other]) for at in range(count) for other in around[at].tolist() if at == first[at]}
    candidates = {tuple(sorted(pair)) for pair in near if not any(hashes[at] for at in pair)} | {
        pair for pair in combinations(sorted(set(first)), 2) if alike_by_hash(hashes[pair[0]], hashes[pair[1]], 7)
    }
    assert {tuple(sorted(pair)) for pair in asked} <= candidates
    pairs = [*enumerate(first), *(pair for pair in candidates if verdicts[pair])]
    slow = closure(count, pairs)
    assert [slow[at] for at in found.tolist()] == slow
    assert len(set(found.tolist())) == len(set(slow))
    assert count < 40 or 1 < len(set(slow)) < len(set(first))


def test_no_photo_has_more_candidates_than_the_rule_says_unless_they_are_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, asked = 60, list[tuple[int, int]]()

    def verdict(one: Sketch, other: Sketch, limit: float) -> bool:
        asked.append((number_of(one), number_of(other)))
        return max(asked[-1]) < 30

    monkeypatch.setattr("ctxr.pipelines.curation.copies.same_picture", verdict)
    around = np.array([sorted({*range(count)} - {at}, key=lambda other: abs(at - other)) for at in range(count)])
    names = [str(at) for at in range(count)]
    groups = find_copies(names, around, numbered, CopyRule(neighbours=3), hashes=[""] * count).tolist()
    assert len(set(groups[:30])) == 1
    assert len(set(groups)) == 31
    of_others = [pair for pair in asked if min(pair) >= 30]
    assert len(of_others) == len(set(of_others)) <= 3 * 30


def are_shared(one: str, other: str, distance: float) -> bool:
    return bool(one and other) and differing(one, other) <= copies.FOOTAGE_BITS and distance < copies.FOOTAGE_DISTANCE


def test_a_distance_equal_to_the_limit_is_no_shared_footage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "FOOTAGE_DISTANCE", 0.5)
    vectors, same = np.array([[0], [0.5]], np.float32), ["ab" * 128]
    parts = [SourceHashes(name, "photos", [name], same, vectors[at : at + 1]) for at, name in enumerate("ab")]
    assert shared_footage(parts) == []


@pytest.mark.parametrize(("kind", "count"), [("video", 0), ("photos", 1)])
def test_one_frame_that_two_videos_share_is_a_still(kind: Kind, count: int) -> None:
    parts = [SourceHashes(name, kind, [name], ["ab" * 128], np.ones((1, 1), np.float32)) for name in "ab"]
    assert len(shared_footage(parts)) == count


@pytest.mark.parametrize("seed", range(3))
def test_shared_footage_is_that_of_every_pair(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(copies, "FOOTAGE_BITS", 12)
    monkeypatch.setattr(copies, "FOOTAGE_DISTANCE", 0.4)
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
        if owner[one] != owner[other] and are_shared(hashes[one], hashes[other], distance):
            sources = f"s{owner[one]}", f"s{owner[other]}"
            slow.setdefault(sources, set()).add(other)
            closest[sources] = min(closest.get(sources, (np.inf, 0, 0)), (distance, one, other))
    found = shared_footage(reversed(parts))
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
    found = {(one.first, one.second): one for one in shared_footage(shared)}
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


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_chain_of_copies_is_one_group_in_every_order(order: tuple[int, ...]) -> None:
    (texture,) = pan(5, 1)
    pictures = [texture, scaled(texture, 0.7), saved(cropped(texture, 0.06)), pan(6, 1)[0]]
    pictures = [pictures[at] for at in order]
    around = np.array([[other for other in range(4) if other != at] for at in range(4)])
    hashes = [perceptual_hash(rgb) for rgb in pictures]
    groups = find_copies([*"abcd"], around, pictures.__getitem__, CopyRule(), hashes=hashes).tolist()
    assert len({groups[order.index(at)] for at in range(3)}) == 1
    assert groups.count(groups[order.index(3)]) == 1


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_equal_contents_are_copies_whatever_their_neighbours(order: tuple[int, ...]) -> None:
    contents = [["same", "other", "same"][at] for at in order]
    around = np.array([[contents.index("other")] if content == "same" else [0] for content in contents])
    around[contents.index("other")] = contents.index("same")
    groups = find_copies(
        contents, around, lambda at: numbered(99 * (contents[at] == "same")), CopyRule(), hashes=[""] * 3
    )
    assert [groups[at] == groups[contents.index("same")] for at in range(3)] == [one == "same" for one in contents]


@pytest.mark.parametrize("seed", range(3))
def test_the_lowest_rank_stands_for_a_group(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, ranks = rng.integers(0, 9, 40), rng.permutation(40)
    best = [min(np.flatnonzero(groups == group).tolist(), key=ranks.__getitem__) for group in groups]
    assert deduplicate(groups, ranks).tolist() == best


def pooled(file: Path, position: int, width: int, height: int, sha256: str = "") -> PooledPhoto:
    """A photo of the album `album`."""
    image = Image(f"album/{file.name}", f"images/album/{file.name}", sha256 or file.name, "album", width, height)
    return PooledPhoto("album", position, file, image, position, "")


def pick(
    folder: Path, vectors: Vectors, tones: Sequence[int], choice: PhotoPicking, contents: list[tuple[int, int]]
) -> tuple[list[PooledPhoto], SourceUnit]:
    """Sets of four (of two among few) out of photos with such vectors, each of one tone; `contents`: side in pixels, and bytes that
    follow the picture, of each."""
    count = len(vectors)
    files = tuple(folder / f"p{at:02}.png" for at in range(count))
    for file, tone, (_, size) in zip(files, tones, contents, strict=True):
        Pillow.new("L", (9, 9), 8 * tone).save(file)
        file.write_bytes(file.read_bytes().ljust(200 + size, b"x"))
    hashes = tuple(file.name for file in files)
    album = InputSource("album", "photos", folder, "0" * 64, 0, files, hashes)
    sides = [side for side, _ in contents]
    photos = [pooled(files[at], at, sides[at], sides[at]) for at in range(count)]
    picking = PickingRules(0.0, 4 if count > 9 else 2, 0.0, QualityGate(QualityLimits(), "live", "auto"))
    context = UnitContext(folder / "sets", picking, Embedder("none"))
    pool = with_copies(folder, PhotoPool(photos, vectors, {}), choice, Engine(), Silent())
    picked = PickedPhotos()
    assert pick_photos(context, pool, choice, {}, picked) == len(picked.sets)
    return photos, album_unit(album, pool, picked, UnitKeys("scan", "select", {}))


ALL = PhotoPicking(CopyRule(), "all", 0)


@pytest.mark.parametrize(
    ("contents", "best"), [([(8, 9), (9, 5), (9, 7), (9, 7)], 2), ([(9, 5), (9, 5), (8, 9), (9, 4)], 0)]
)
def test_of_copies_the_one_with_most_pixels_then_bytes_then_the_first_stands(
    tmp_path: Path, contents: list[tuple[int, int]], best: int
) -> None:
    vectors = np.eye(6, dtype=np.float32)
    _, unit = pick(tmp_path, vectors, (0, 0, 0, 0, 1, 2), ALL, [*contents, (9, 9), (9, 9)])
    assert [row.index for row in unit.ledger if row.reason != "duplicate"] == [best, 4, 5]


@pytest.mark.parametrize("sample", [0, 1, 2])
def test_no_more_sets_are_picked_than_asked_for(tmp_path: Path, sample: int) -> None:
    choice = PhotoPicking(CopyRule(), str(sample), 0)
    _, unit = pick(tmp_path, np.eye(4, dtype=np.float32), range(4), choice, [(9, 9)] * 4)
    assert len(unit.sets) == sample


def test_the_last_photo_is_found_beyond_the_neighbours_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.pipelines.curation.photos.NEIGHBOURS", 2)
    turn = np.array([0, 0.001, 0.002, 1])
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    _, unit = pick(tmp_path, vectors, (0, 0, 0, 1), ALL, [(9, 9)] * 4)
    assert {one.images for one in unit.sets} == {("album/p00.png", "album/p03.png"), ("album/p03.png", "album/p00.png")}


@pytest.mark.parametrize("seed", range(4))
def test_no_two_photos_of_a_set_are_copies_of_one_another(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 30
    turn = rng.permutation(np.linspace(0, 1.5, count) ** 2 / 1.5)
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    tones = (turn / 0.07).astype(int).tolist()
    photos, unit = pick(tmp_path, vectors, tones, PhotoPicking(CopyRule(), "all", seed), [(9, 9)] * count)
    assert unit.sets
    assert any(row.reason == "duplicate" for row in unit.ledger)
    places = {photo.image.id: photo.position for photo in photos}
    for one in unit.sets:
        assert len({tones[places[image]] for image in one.images}) == len(one.images)
