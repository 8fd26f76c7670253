"""Photos: what a killed or repeated run keeps, and neighbours beyond those looked up at once."""

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from ctxr.cli import views
from ctxr.cli.render import Summary
from ctxr.engine import engines
from ctxr.engine.engines import Engine, map_things
from ctxr.engine.progress import SILENT, Silent
from ctxr.engine.units import KILLED, WorkUnit
from ctxr.errors import CtxrError, UsageError
from ctxr.media import images
from ctxr.media.images import Pixels
from ctxr.media.sources import InputSource, find_sources
from ctxr.models import neighbours
from ctxr.models.encoders import Encoder
from ctxr.models.neighbours import Matches, nearest
from ctxr.pipelines.curation import build_sets, copies, image_sets
from ctxr.pipelines.curation import photos as photo_pool
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.copies import CopyRule
from ctxr.pipelines.curation.filter import run as filter_sets
from ctxr.pipelines.curation.photos import (
    EmbedPhotos,
    PhotoPicking,
    PhotoPool,
    PickedPhotos,
    album_shards,
    gather_pool,
    pick_photos,
    with_copies,
    with_neighbours,
)
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, PickingRules, UnitContext
from ctxr.store.arrays import Vectors
from ctxr.store.artifacts import open_artifact, package_versions
from ctxr.store.records import Failure, ImageSet
from ctxr.store.tables import grouped, read_table
from ctxr.store.units import read_unit
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.pipelines.curation.test_copies import pooled


class Means:
    """An encoder of a few numbers per picture, that can break down after so many pictures."""

    def __init__(self, lasts: int = 10**9) -> None:
        self.lasts, self.seen = lasts, 0

    def encode_images(self, pictures: Sequence[Pixels], exact: bool = False) -> Vectors:
        if self.seen + len(pictures) > self.lasts:
            raise RuntimeError("killed")
        self.seen += len(pictures)
        vectors = np.stack([picture[::24, ::24].reshape(-1).astype(np.float32) for picture in pictures])
        return cast("Vectors", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    def embedder(self) -> Embedder:
        embedder = Embedder("means")
        embedder.loaded = cast("Encoder", self)
        return embedder


def embed(artifact: Path, albums: Sequence[InputSource], encoder: Means, scan: str = "scan") -> PhotoPool:
    scans = {album.name: scan for album in albums}
    job, units = EmbedPhotos(artifact, encoder.embedder()), album_shards(albums, scans)
    made = map_things(job, units, Engine(), SILENT, "embedding photos")
    shards = grouped((unit.payload[0], shard) for unit, shard in zip(units, made, strict=True))
    return gather_pool(albums, {}, shards)


@pytest.fixture
def album(footage: Path, tmp_path: Path) -> Path:
    """Fifteen photos, of which one shows another again, and a broken and an empty file among them."""
    folder = tmp_path / "album"
    folder.mkdir()
    for photo in (footage / "photos" / "album").iterdir():
        (folder / photo.name).write_bytes(photo.read_bytes())
    (folder / "p3broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a photo")
    (folder / "p5empty.jpg").write_bytes(b"")
    return folder


def found(*typed: Path) -> tuple[InputSource, ...]:
    return find_sources([str(path) for path in typed]).found


@pytest.mark.parametrize("lasts", [4, 7])
def test_a_killed_embedding_goes_on_after_its_last_whole_shard(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasts: int
) -> None:
    monkeypatch.setattr(photo_pool, "SHARD", 4)
    whole = embed(tmp_path / "whole", found(album), Means())
    killed, rest = Means(lasts), Means()
    with pytest.raises(RuntimeError, match="killed"):
        embed(tmp_path / "killed", found(album), killed)
    assert killed.seen > 0
    resumed = embed(tmp_path / "killed", found(album), rest)
    assert killed.seen + rest.seen == len(whole.photos) == 15
    assert np.array_equal(resumed.vectors, whole.vectors)
    assert resumed == PhotoPool(whole.photos, resumed.vectors, whole.unreadable)
    again = Means(0)
    assert np.array_equal(embed(tmp_path / "killed", found(album), again).vectors, whole.vectors)


def test_a_shard_whose_head_belongs_to_another_matrix_is_made_again(album: Path, tmp_path: Path) -> None:
    whole = embed(tmp_path / "a", found(album), Means())
    shards = tmp_path / "a" / "sources"
    (matrix,) = shards.glob("*.npy")
    other = np.array(whole.vectors[::-1])
    np.save(matrix, other)
    assert np.array_equal(embed(tmp_path / "a", found(album), Means()).vectors, whole.vectors)


def test_shards_of_a_finished_run_are_tidied_away(album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photo_pool, "SHARD", 4)
    monkeypatch.setattr(photo_pool, "STRIPE", 4)
    build(album, tmp_path / "sets", sources=(str(album),))
    assert [path.name for path in (tmp_path / "sets" / "sources").iterdir()] == ["album"]


@pytest.mark.parametrize("second", [{}, {"sample": "3"}, {"retry_failed": True}])
def test_unreadable_photos_are_failures_of_every_run(album: Path, tmp_path: Path, second: dict[str, Any]) -> None:
    out, sources = tmp_path / "a" / "sets", (str(tmp_path / "more" / "album"),)
    shutil.copytree(album, tmp_path / "more" / "album")
    moving = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    moving[0].save(tmp_path / "more" / "album" / "p9moving.png", save_all=True, append_images=moving[1:])
    assert build(album, out, sources=sources).counts["photo_sets"] == 14
    before = read_table(out / "failures.jsonl", Failure)
    broken, empty, animated = before
    assert "of 2 frames" in animated.message
    assert "p3broken.jpg is not" in broken.message
    assert empty.message.endswith("p5empty.jpg is empty")
    if not second.get("retry_failed"):
        (out / "manifest.json").unlink()
    report = build(album, out, sources=sources, **second)
    assert not report.up_to_date
    assert report.counts["failed"] == 3
    assert [row.message for row in read_table(out / "failures.jsonl", Failure)] == [row.message for row in before]
    build(album, tmp_path / "b" / "sets", sources=sources, **second)
    assert same_tree(out, tmp_path / "b" / "sets")


@dataclass
class Poisoned(EmbedPhotos):
    """The photo p4.png ends the process that reads it."""

    def kills(self, unit: WorkUnit) -> bool:
        album, start, files = unit.payload
        tried = {file.name for at, file in enumerate(files, start) if f"{album}.shard{at}" not in self.deadly}
        return "p4.png" in tried

    def __call__(self, unit: WorkUnit) -> photo_pool.Shard:
        if self.kills(unit):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(unit)


@pytest.mark.parametrize("engine", ["losing", pytest.param("processes", marks=pytest.mark.prove)])
def test_a_photo_that_kills_its_processes_is_one_failure_which_only_a_retry_reads_again(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setitem(engines.ENGINES, "losing", "tests.pipelines.losing:run_losing")
    monkeypatch.setattr(photo_pool, "SHARD", 8)
    settings: dict[str, Any] = {"sources": (str(album),), "splits": whole(tmp_path)}
    out, read, reading = tmp_path / "a" / "sets", list[str](), images.read_photo
    with monkeypatch.context() as patched:
        patched.setattr(build_sets, "EmbedPhotos", Poisoned)
        build(album, out, engine=engine, jobs=2, **settings)

    def failed(folder: Path) -> dict[str, str]:
        return {Path(row.path).name: row.reason for row in read_table(folder / "failures.jsonl", Failure)}

    expected = {"p3broken.jpg": "unreadable", "p4.png": "worker_died", "p5empty.jpg": "unreadable"}
    assert failed(out) == expected
    ledger = {row.name: row.reason for row in read_unit(out, "album").ledger}
    assert len(ledger) == 17
    assert {name: ledger.pop(name) for name in expected} == expected
    assert not {"unreadable", "worker_died"} & {*ledger.values()}
    (row,) = (row for row in read_table(out / "failures.jsonl", Failure) if row.reason == "worker_died")
    assert row.message == f"{album / 'p4.png'}: {KILLED}"

    def listed(path: Path) -> Pixels:
        read.append(path.name)
        return reading(path)

    monkeypatch.setattr(photo_pool, "read_photo", listed)
    build(album, out, sample="3", **settings)
    filter_sets(Filter(input=out, out=tmp_path / "filtered", brisque=1.0))
    assert failed(out) == failed(tmp_path / "filtered") == expected
    assert {row.name: row.reason for row in read_unit(tmp_path / "filtered", "album").ledger}["p4.png"] == "worker_died"
    assert {*read} == {"p3broken.jpg", "p5empty.jpg"}
    build(album, out, retry_failed=True, **settings)
    build(album, tmp_path / "b" / "sets", retry_failed=True, **settings)
    assert failed(out).keys() == expected.keys() - {"p4.png"}
    assert same_tree(out, tmp_path / "b" / "sets")


def test_where_workers_die_at_every_photo_no_photo_is_to_blame(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[str]()

    def kills(_: Poisoned, unit: WorkUnit) -> bool:
        tried.append(unit.name)
        return True

    monkeypatch.setitem(engines.ENGINES, "losing", "tests.pipelines.losing:run_losing")
    monkeypatch.setattr(Poisoned, "kills", kills)
    monkeypatch.setattr(build_sets, "EmbedPhotos", Poisoned)
    with pytest.raises(CtxrError, match="two worker processes"):
        build(album, tmp_path / "sets", engine="losing", jobs=2, sources=(str(album),))
    assert len(tried) == 1 + engines.DEADLY


def whole(folder: Path) -> Path:
    """A file of splits by which the album stays whole: what is dealt depends on what was dealt before."""
    (folder / "splits.csv").write_text("album,train\n", encoding="utf-8")
    return folder / "splits.csv"


def test_a_video_beside_photos_leaves_their_failures(footage: Path, album: Path, tmp_path: Path) -> None:
    clip = str(footage / "videos" / "clip0.mp4")
    splits = whole(tmp_path)
    build(album, tmp_path / "a" / "sets", sources=(str(album),), splits=splits)
    build(album, tmp_path / "a" / "sets", sources=(str(album), clip), splits=splits)
    build(album, tmp_path / "b" / "sets", sources=(str(album), clip), splits=splits)
    assert same_tree(tmp_path / "a" / "sets", tmp_path / "b" / "sets")


@pytest.mark.parametrize("second", [{"sample": "5", "seed": 3}, {"brisque": 0.9}, {"set_size": 4}])
def test_photos_are_picked_again_without_being_embedded_and_equal_a_fresh_build(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, Any]
) -> None:
    settings: dict[str, Any] = {"sources": (str(album),), "splits": whole(tmp_path)}
    build(album, tmp_path / "again" / "sets", **settings)
    monkeypatch.setattr(Embedder, "embed", None)
    build(album, tmp_path / "again" / "sets", **settings, **second)
    monkeypatch.undo()
    build(album, tmp_path / "fresh" / "sets", **settings, **second)
    assert read_table(tmp_path / "fresh" / "sets" / "sets.jsonl", ImageSet)
    assert same_tree(tmp_path / "again" / "sets", tmp_path / "fresh" / "sets")


def test_another_album_costs_only_its_own_photos_and_the_result_is_a_fresh_one(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    for number in range(4):
        content = (album / f"p{number}.png").read_bytes()
        (more / f"q{number}.png").write_bytes(content if number else content + b"the same picture, another file")
    splits = whole(tmp_path)
    build(album, tmp_path / "again" / "sets", sources=(str(album),), splits=splits)
    embedded: list[int] = []
    real = Embedder.embed

    def counting(self: Embedder, pictures: Any, exact: bool = False) -> Vectors:
        embedded.append(len(pictures))
        return real(self, pictures, exact)

    monkeypatch.setattr(Embedder, "embed", counting)
    build(album, tmp_path / "again" / "sets", sources=(str(album), str(more)), splits=splits)
    assert sum(embedded) == 4
    build(album, tmp_path / "fresh" / "sets", sources=(str(album), str(more)), splits=splits)
    assert same_tree(tmp_path / "again" / "sets", tmp_path / "fresh" / "sets")


def test_a_pool_reopened_from_some_files_of_a_folder_has_their_names_and_places(album: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("a b.png", "a_b-2.png", "a_b.png", "A_B.PNG")):
        (album / name).write_bytes((album / f"p{number}.png").read_bytes())
    typed = [
        album / name for name in ("p9.png", "a_b.png", "p3broken.jpg", "a b.png", "a_b-2.png", "A_B.PNG", "p0.png")
    ]
    sources = tuple(map(str, typed))
    build(album, tmp_path / "sets", sources=sources, set_size=3)
    unit = read_unit(tmp_path / "sets", "album")
    (again,) = found(*reversed(typed))
    fresh = embed(tmp_path / "fresh", [again], Means())
    reopened = gather_pool([again], {"album": unit}, {})
    assert reopened.photos == fresh.photos
    assert reopened.unreadable == fresh.unreadable
    names = [photo.image.path.lower() for photo in fresh.photos]
    assert len(set(names)) == len(names) == 6
    assert np.array_equal(reopened.vectors, unit.vectors)
    assert {image.id for image in unit.images} <= {photo.image.id for photo in reopened.photos}


def units_of(rng: np.random.Generator, count: int, width: int) -> Vectors:
    """Random unit vectors, a fifth of them equal to an earlier one and some within float32 of another."""
    vectors = rng.normal(size=(count, width)).astype(np.float32)
    for at in range(5, count, 5):
        vectors[at] = vectors[at - 3]
        vectors[at - 1] = vectors[at - 2] + rng.normal(size=width).astype(np.float32) * 1e-6
    return cast("Vectors", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@pytest.mark.parametrize("width", [2, 3, 48])
@pytest.mark.parametrize("block", [1, 7, 256])
def test_a_ranking_is_the_stable_sort_of_all_exact_distances(
    monkeypatch: pytest.MonkeyPatch, width: int, block: int
) -> None:
    monkeypatch.setattr(copies, "DISTANCE_BLOCK", block)
    vectors = units_of(np.random.default_rng(width), 300, width)
    order = copies.PhotoRanking(vectors)
    for anchor in range(0, 300, 23):
        difference = vectors.astype(np.float64) - vectors[anchor].astype(np.float64)
        slow = np.argsort(np.einsum("nd,nd->n", difference, difference), kind="stable").tolist()
        assert list(order.around(anchor)) == slow


def test_a_ranking_takes_exact_distances_only_as_far_as_it_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "DISTANCE_BLOCK", 20)
    vectors = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    taken: list[int] = []
    original = copies._squares

    def counted(left: Vectors, right: Vectors) -> npt.NDArray[np.float64]:
        taken.append(len(left))
        return original(left, right)

    monkeypatch.setattr(copies, "_squares", counted)
    order = copies.PhotoRanking(vectors).around(7)
    assert next(order) == 7
    for _ in range(50):
        next(order)
    assert 51 <= sum(taken) <= 100


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (1, 2))])
def test_sets_do_not_depend_on_how_many_neighbours_are_looked_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    count = 240
    vectors = rng.normal(size=(count, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    files = [tmp_path / f"p{at}.png" for at in range(count)]
    for at, file in enumerate(files):
        Image.new("RGB", (6, 6), (at % 200, 0, 0)).save(file)
    hashes = [f"{at % 200}" for at in range(count)]
    # nine of ten photos are too small
    sides = np.where(rng.random(count) < 0.9, 10, 100).tolist()
    photos = [pooled(files[at], at, sides[at], 200, hashes[at]) for at in range(count)]
    sets = []
    for looked_up in (20, count):
        monkeypatch.setattr(photo_pool, "NEIGHBOURS", looked_up)
        picking = PickingRules(0.0, 5, 0.0, QualityGate(QualityLimits(min_size=50), "live", "auto"))
        context = UnitContext(tmp_path / f"out{looked_up}", picking, Means().embedder())
        choice = PhotoPicking(CopyRule(), "all", seed)
        pool = PhotoPool(photos, vectors, {})
        pool = with_copies(tmp_path, pool, choice, Engine(), Silent())
        picked = PickedPhotos()
        pick_photos(context, pool, choice, {}, picked)
        sets.append(picked.sets)
    assert sets[0]
    assert sets[0] == sets[1]


def pools_of(folder: Path, *counts: int) -> list[PhotoPool]:
    """Pools of so many photos, every third of which is a duplicate of another."""
    rng, pools = np.random.default_rng(4), []
    for count in counts:
        vectors = rng.normal(size=(count, 8)).astype(np.float32)
        vectors[::3] = vectors[rng.integers(0, count, len(vectors[::3]))]
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        photos = [pooled(folder / f"{at}.png", at, 9, 9) for at in range(count)]
        pools.append(PhotoPool(photos, vectors, {}))
    return pools


def searched(
    folder: Path, pools: Sequence[PhotoPool], workers: int = 1, engine: str = "threads", index: bool = False
) -> list[tuple[bytes, bytes]]:
    """Ids and distances, as bytes."""
    complete = with_neighbours(folder, pools, Engine(engine, workers), Silent(), index=index)
    return [(around.tobytes(), distances.tobytes()) for around, distances in (pool.neighbours for pool in complete)]


def test_stripes_by_any_number_of_workers_are_one_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = pools_of(tmp_path, 150, 5, 1, 64)
    expected = [nearest(pool.vectors, min(64, len(pool.photos) - 1)) for pool in pools if len(pool.photos) > 1]
    expected.insert(2, Matches(np.zeros((1, 0), np.int64), np.zeros((1, 0), np.float32)))
    whole = [(around.tobytes(), distances.tobytes()) for around, distances in expected]
    assert searched(tmp_path / "one", pools) == whole
    monkeypatch.setattr(photo_pool, "STRIPE", 16)
    assert searched(tmp_path / "1", pools) == whole
    assert searched(tmp_path / "4", pools, workers=4) == whole
    assert searched(tmp_path / "others", pools, engine="processes") == whole


class Search:
    """`nearest`, that breaks down after so many stripes."""

    def __init__(self, lasts: int = 10**9) -> None:
        self.lasts, self.made = lasts, 0

    def __call__(self, *given: Any, **more: Any) -> Any:
        if self.made == self.lasts:
            raise RuntimeError("killed")
        self.made += 1
        return nearest(*given, **more)


def test_a_killed_search_goes_on_after_its_last_whole_stripe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photo_pool, "STRIPE", 16)
    pools, rest = pools_of(tmp_path, 70, 40), Search()
    whole = searched(tmp_path / "whole", pools)
    monkeypatch.setattr(photo_pool, "nearest", Search(lasts=5))
    with pytest.raises(RuntimeError, match="killed"):
        searched(tmp_path / "killed", pools)
    monkeypatch.setattr(photo_pool, "nearest", rest)
    assert searched(tmp_path / "killed", pools) == whole
    assert rest.made == 8 - 5
    damaged = min((tmp_path / "killed" / "sources").glob(".*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
    assert searched(tmp_path / "killed", pools) == whole
    assert rest.made == 8 - 5 + 1
    assert searched(tmp_path / "killed", pools[::-1]) == whole[::-1]


def test_a_build_that_was_killed_between_stripes_resumes_to_the_same_bytes(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = (str(album),)
    build(album, tmp_path / "whole" / "sets", sources=sources)
    monkeypatch.setattr(photo_pool, "STRIPE", 4)
    with monkeypatch.context() as once:
        once.setattr(photo_pool, "nearest", Search(lasts=2))
        with pytest.raises(RuntimeError, match="killed"):
            build(album, tmp_path / "killed" / "sets", sources=sources)
    assert len(list((tmp_path / "killed" / "sets" / "sources").glob(".*.shard*.npy"))) == 3
    monkeypatch.setattr(Embedder, "embed", None)
    build(album, tmp_path / "killed" / "sets", sources=sources, jobs=4)
    assert same_tree(tmp_path / "killed" / "sets", tmp_path / "whole" / "sets")


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of ten photos are enough for an index, which misses many neighbours."""
    pytest.importorskip("faiss", reason="faiss is not installed: make peers")
    monkeypatch.setattr(photo_pool, "LEAST_INDEXED", 10)
    monkeypatch.setattr(neighbours, "LEAST_RECALL", 0.2)


@pytest.mark.prove
@pytest.mark.usefixtures("indexed")
def test_stripes_by_an_index_are_those_of_one_worker_and_no_exact_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = pools_of(tmp_path, 2000, 9)
    whole, exact = searched(tmp_path / "one", pools, index=True), searched(tmp_path / "one", pools)
    assert whole[0] != exact[0]
    assert whole[1] == exact[1]  # too few photos
    monkeypatch.setattr(photo_pool, "STRIPE", 300)
    assert searched(tmp_path / "4", pools, workers=4, index=True) == whole
    assert searched(tmp_path / "others", pools, engine="processes", index=True) == whole
    assert searched(tmp_path / "others", pools) == exact
    assert not [*tmp_path.rglob("*.vectors")]


def test_positions_of_photos_are_kept_beyond_those_that_float32_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = np.array([[2**24 + 1, 2**31 - 1]])
    monkeypatch.setattr(photo_pool, "nearest", lambda *_, **__: Matches(far, np.zeros((1, 2), np.float32)))
    for _ in range(2):  # found, then read
        (pool,) = with_neighbours(tmp_path, pools_of(tmp_path, 5), Engine(), Silent())
        assert pool.neighbours[0].tolist() == far.tolist()


@pytest.mark.usefixtures("indexed")
def test_sets_by_an_index_say_so_with_its_recall(album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photo_pool, "NEIGHBOURS", 3)
    monkeypatch.setattr(image_sets, "RECALLED", 3)
    sources, splits = (str(album),), whole(tmp_path)
    one, other = (
        build(album, tmp_path / name / "sets", sources=sources, splits=splits, neighbours="index", set_size=3)
        for name in ("one", "other")
    )
    assert same_tree(tmp_path / "one" / "sets", tmp_path / "other" / "sets")
    manifest = open_artifact(one.artifact).manifest
    # one list, whose candidates are all photos
    said = {"by": "index", "recall": 1.0, "of": 3, "photos": 10, **package_versions("faiss-cpu")}
    assert manifest.models["selection"]["neighbours"] == one.neighbours == other.neighbours == said
    assert manifest.config["neighbours"] == "index"
    summary, *_ = views.image_sets(one)
    assert isinstance(summary, Summary)
    assert summary.rows["neighbours"] == "index, recall 1.000 of 3 on 10 photos"
    # whether units are there or not
    (one.artifact / "manifest.json").unlink()
    build(album, one.artifact, sources=sources, splits=splits, neighbours="index", set_size=3)
    assert same_tree(one.artifact, other.artifact)
    filtered = filter_sets(Filter(input=one.artifact, out=tmp_path / "filtered", min_size=1))
    assert filtered.neighbours == said
    added = build(album, one.artifact, sources=sources, splits=splits, set_size=3, add=True)
    assert added.up_to_date
    exact = build(album, one.artifact, sources=sources, splits=splits, set_size=3, yes=True)
    assert not exact.up_to_date
    assert not exact.neighbours
    assert open_artifact(one.artifact).manifest.config["neighbours"] == "exact"
    with pytest.raises(UsageError, match="--neighbours exact"):
        build(album, one.artifact, sources=sources, splits=splits, add=True, neighbours="index")


def test_too_few_photos_for_an_index_are_searched_exactly(album: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed: make peers")
    report = build(album, tmp_path / "index" / "sets", sources=(str(album),), neighbours="index")
    build(album, tmp_path / "exact" / "sets", sources=(str(album),))
    assert not report.neighbours
    tables = [(tmp_path / name / "sets" / "sets.jsonl").read_bytes() for name in ("index", "exact")]
    assert tables[0] == tables[1]


def test_an_index_without_faiss_is_refused_and_exact_sets_need_none(
    album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError, match="faiss") as caught:
        build(album, tmp_path / "sets", sources=("https://nowhere.invalid/a.jpg",), neighbours="index")
    assert caught.value.hint == "pip install faiss-cpu"
    assert not (tmp_path / "sets").exists()
    assert build(album, tmp_path / "sets", sources=(str(album),)).counts["sets"]


def test_an_album_of_broken_photos_alone_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    album = tmp_path / "album"
    album.mkdir()
    for number in range(3):
        (album / f"p{number}.jpg").write_bytes(b"no photo %d" % number)
    Image.new("RGB", (40, 30)).save(album / "p3.png")
    out, sources = tmp_path / "sets", (str(album),)
    build(album, out, sources=sources)
    before = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (out / "manifest.json").unlink()
    build(album, out, sources=sources)
    assert before == {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
