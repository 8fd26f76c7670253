"""Filtering equals building with limits; footage that changed, moved or broke costs one video, and is named."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import cv2
import numpy as np
import pytest

from ctxr.engine.progress import Progress, Silent
from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.brisque import Brisque
from ctxr.media.decoder_process import ChildFrameReader
from ctxr.media.images import decode_jpeg
from ctxr.media.scan import ScanOptions
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.filter import FilterStage, run
from ctxr.pipelines.curation.quality import FactCache
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import CACHE, last_path, remember_paths
from ctxr.store.records import Facts, Failure, ImageSet
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, read_unit
from tests.footage import shot, two_shot_clip, write_clip
from tests.pipelines.conftest import LIMIT, THRESHOLD
from tests.pipelines.curation.test_build_sets import build, same_tree


def refilter(sets: Path, out: Path, **options: Any) -> SetsReport:
    return run(Filter(input=sets, out=out, **options))


@pytest.mark.parametrize("kind", [pytest.param("videos", marks=pytest.mark.prove), "photos"])
def test_building_then_filtering_equals_building_with_the_limits(footage: Path, tmp_path: Path, kind: str) -> None:
    clip = two_shot_clip(tmp_path / "clip0.mp4", 0, frames=40)
    sources, size = {"videos": ((str(clip),), 10), "photos": ((str(footage / "photos"),), 5)}[kind]
    build(footage, tmp_path / "all", sources=sources, set_size=size, brisque=2.0)
    values = sorted(row.brisque or 0.0 for row in read_table(tmp_path / "all" / "facts.jsonl", Facts))
    limit = values[2 * len(values) // 3]
    build(footage, tmp_path / "plain", sources=sources, set_size=size)
    two = refilter(tmp_path / "plain", tmp_path / "two", brisque=limit, max_text=0.05)
    one = build(footage, tmp_path / "one", sources=sources, set_size=size, brisque=limit, max_text=0.05)
    assert one.counts == two.counts
    assert two.counts["reasons"]["low_quality"] > 0
    for table in ("sets.jsonl", "images.jsonl", "facts.jsonl"):
        assert (tmp_path / "one" / table).read_bytes() == (tmp_path / "two" / table).read_bytes()
    name = {"videos": "clip0", "photos": "album"}[kind]
    assert read_unit(tmp_path / "one", name).ledger == read_unit(tmp_path / "two", name).ledger


@pytest.fixture(scope="module")
def mixed(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, ...], Path]:
    """Three videos, of which the first is small, and two albums; and the sets of these."""
    folder = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(4)
    small = [np.asarray(cv2.resize(frame, (96, 72), interpolation=cv2.INTER_AREA)) for frame in shot(rng, 60)]
    write_clip(folder / "small.mp4", small)
    titled = [
        cv2.putText(np.kron(frame, np.ones((3, 3, 1), np.uint8)), "SUBSCRIBE NOW", (20, 150), 0, 2, (255,) * 3, 8)
        for frame in shot(rng, 60)
    ]
    write_clip(folder / "titled.mp4", titled)
    for album in ("one", "two"):
        shutil.copytree(footage / "photos" / "album", folder / album)
        shutil.copy(folder / "one" / "p1.png", folder / album / f"{album}.png")
    names = [
        folder / "small.mp4",
        folder / "titled.mp4",
        *sorted((footage / "videos").glob("*.mp4"))[:2],
        folder / "one",
        folder / "two",
    ]
    sources = tuple(map(str, names))
    build(footage, folder / "sets", sources=sources, set_size=5, brisque=2.0)
    build(footage, folder / "plain", sources=sources, set_size=5)
    return sources, folder


@pytest.mark.parametrize(
    "name", ["min_size", *(pytest.param(name, marks=pytest.mark.prove) for name in ("brisque", "max_text"))]
)
def test_a_limit_that_empties_a_video_deals_no_other_source_otherwise(
    footage: Path, mixed: tuple[tuple[str, ...], Path], tmp_path: Path, name: str
) -> None:
    sources, folder = mixed
    values = [row.brisque or 0.0 for row in read_table(folder / "sets" / "facts.jsonl", Facts) if row.source == "small"]
    limit = {"brisque": min(values) - 1e-6, "max_text": 0.0, "min_size": 80}[name]
    two = refilter(folder / "plain", tmp_path / "two", **{name: limit})
    one = build(footage, tmp_path / "one", sources=sources, set_size=5, **{name: limit})
    assert one.counts == two.counts
    emptied = "titled" if name == "max_text" else "small"
    assert not read_unit(tmp_path / "one", emptied).sets
    assert read_unit(folder / "plain", emptied).sets
    for table in ("sets.jsonl", "images.jsonl", "splits.jsonl", "groups.jsonl"):
        assert (tmp_path / "one" / table).read_bytes() == (tmp_path / "two" / table).read_bytes()
    assert (folder / "plain" / "splits.jsonl").read_bytes() == (tmp_path / "one" / "splits.jsonl").read_bytes()


def test_filtered_sets_hold_no_image_beyond_the_limit_and_their_sets_are_left_alone(
    built: Path, filtered: Path
) -> None:
    facts = {row.path: row for row in read_table(filtered / "facts.jsonl", Facts)}
    kept = [row for path, row in facts.items() if path.startswith("images/")]
    dropped = [row for path, row in facts.items() if path.startswith("dropped/")]
    assert len(kept) == 10 * len(read_table(filtered / "sets.jsonl", ImageSet)) > 0
    assert all((row.brisque or 0) <= LIMIT for row in kept)
    assert any((row.brisque or 0) > LIMIT for row in dropped)
    assert all((filtered / row.path).is_file() for row in [*kept, *dropped])
    assert same_tree(filtered.parent / "sets", built)


def test_a_fact_can_be_measured_again_on_the_saved_file(filtered: Path) -> None:
    row = read_table(filtered / "facts.jsonl", Facts)[0]
    again = Brisque("live").score(decode_jpeg((filtered / row.path).read_bytes()))
    assert again == pytest.approx(row.brisque, abs=1e-6)


def test_the_way_back_to_a_filter_gives_its_bytes_and_needs_no_decode_and_no_instrument(
    filtered: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refilter(project / "sets", project / "filtered", brisque=2.0)
    assert not same_tree(project / "filtered", filtered)
    monkeypatch.setattr("ctxr.media.brisque.Brisque.score", None)
    monkeypatch.setattr("ctxr.media.decoder_process.ChildFrameReader.read", None)
    refilter(project / "sets", project / "filtered", brisque=LIMIT)
    assert same_tree(project / "filtered", filtered)
    assert refilter(project / "sets", project / "filtered", brisque=LIMIT).up_to_date


def test_limits_that_another_filter_leaves_out_are_named_once_it_works(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(Silent, "note", lambda _, text: notes.append(text))
    out = project / "again"
    refilter(project / "sets", out, brisque=2.0, min_size=1)
    with monkeypatch.context() as patched:
        patched.setattr("ctxr.pipelines.curation.filter.QualityGate", Mock(side_effect=DataError("no OCR")))
        with pytest.raises(DataError, match="no OCR"):
            refilter(project / "sets", out, min_size=2)
    assert not any("replacing" in text for text in notes)
    refilter(project / "sets", out, min_size=2)
    (note,) = [text for text in notes if "replacing" in text]
    assert "(brisque 2.0, min_size 1)" in note


class Steps(Progress):
    """Keeps the steps of all tasks, and what was said before the first."""

    def __init__(self) -> None:
        self.steps, self.said = list[float](), list[str]()

    def advance(self, steps: float = 1) -> None:
        self.steps.append(steps)

    def say(self, text: str) -> None:
        self.said += [] if self.steps else [text]


def test_progress_moves_within_a_video(built: Path, tmp_path: Path) -> None:
    heard = Steps()
    report = run(Filter(input=built, out=tmp_path / "small", min_size=60, jobs=1), heard)
    videos = report.counts["videos"]
    assert heard.said[0] == "clip0"
    assert sum(heard.steps) == pytest.approx(videos)
    assert len(heard.steps) > 5 * videos
    assert max(heard.steps) < 0.5


def test_small_images_fall_out(built: Path, tmp_path: Path) -> None:
    report = refilter(built, tmp_path / "filtered", min_size=97)
    assert report.counts["sets"] == 0
    assert set(report.counts["reasons"]) <= {"too_small", "near_still"}


def test_a_limit_that_the_sets_were_built_with_is_not_dropped_silently(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets", sources=(str(footage / "photos"),), brisque=2.0)
    with pytest.raises(DataError, match=r"--brisque 2\.0"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)


def test_filtering_needs_a_limit_and_finished_sets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to filter"):
        run(Filter(workdir=tmp_path))
    with pytest.raises(UnfinishedError, match="does not exist"):
        run(Filter(workdir=tmp_path, brisque=0.65))


def test_a_set_keeps_its_split_when_it_is_filtered(footage: Path, project: Path) -> None:
    (project / "s.csv").write_text("clip0,test\nclip1,valid\nclip2,test\n")
    build(footage, project / "sets", splits=project / "s.csv")
    refilter(project / "sets", project / "filtered", brisque=LIMIT)
    build(footage, project / "sets", splits=project / "s.csv", brisque=LIMIT)
    rows = (project / "filtered" / "splits.jsonl").read_text()
    assert '"group":"clip1","split":"valid"' in rows
    assert rows == (project / "sets" / "splits.jsonl").read_text()


def test_every_threshold_of_a_manifest_is_the_one_that_ran(filtered: Path) -> None:
    for folder in (filtered, filtered.parent / "sets"):
        models = open_artifact(folder).manifest.models
        assert models["encoder"]["threshold"] == models["selection"]["threshold"] == float(THRESHOLD)


def test_a_split_that_lost_all_its_sets_is_named_and_one_that_had_none_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = SimpleNamespace(manifest=SimpleNamespace(counts={"splits": {"train": 3, "test": 2}}))
    monkeypatch.setattr("ctxr.pipelines.curation.filter.open_artifact", lambda path: built)
    stage = FilterStage(Filter(input=tmp_path, brisque=0.5))
    report = SetsReport(tmp_path, False, "ctxr-tiny", 0.3, {"sets": 3, "splits": {"train": 3}}, [])
    (remark,) = stage.remarks(report)
    assert "test" in remark
    assert "train" not in remark
    assert "valid" not in remark


@pytest.fixture
def own(footage: Path, sets: Path, tmp_path: Path) -> Path:
    """Footage that a test may harm, which `sets` beside it were built from."""
    shutil.copytree(footage, tmp_path / "own")
    remember_paths(sets, {sha256_file(clip): clip for clip in (tmp_path / "own" / "videos").iterdir()})
    return tmp_path / "own"


def append(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"!")


def failures(artifact: Path) -> dict[str, Failure]:
    return {row.source: row for row in read_table(artifact / "failures.jsonl", Failure)}


def test_a_video_that_changed_costs_only_itself_and_is_tried_again_when_mended(
    own: Path, filtered: Path, tmp_path: Path
) -> None:
    clip = own / "videos" / "clip1.mp4"
    content = clip.read_bytes()
    append(clip)
    report = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    assert report.counts["videos"] == 2
    assert list(failures(tmp_path / "filtered")) == ["clip1"]
    assert "sets were built" in failures(tmp_path / "filtered")["clip1"].message
    # what failed stays a parent
    names = {parent.name for parent in open_artifact(report.artifact).manifest.parents}
    assert names == {"image_sets", "clip0", "clip1", "clip2"}
    clip.write_bytes(content)
    mended = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    assert not mended.up_to_date
    assert mended.counts["videos"] == 3
    assert same_tree(tmp_path / "filtered", filtered)
    assert refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT).up_to_date


def test_a_filter_in_which_every_video_fails_says_why(own: Path, tmp_path: Path) -> None:
    for clip in (own / "videos").iterdir():
        append(clip)
    with pytest.raises(DataError, match=r"clip\d\.mp4 has changed .* 2 more"):
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)


def test_a_video_is_compared_once_and_only_if_a_frame_of_it_is_wanted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def count(path: Path) -> str:
        hashed.append(path.name)
        return sha256_file(path)

    monkeypatch.setattr("ctxr.media.footage.sha256_file", count)
    refilter(project / "sets", project / "b", brisque=LIMIT)
    assert hashed == []
    for memory in (project / CACHE).glob("clip*"):
        shutil.rmtree(memory)
    refilter(project / "sets", project / "c", brisque=LIMIT)
    assert sorted(set(hashed)) == sorted(hashed)
    assert hashed


def test_a_decoder_that_crashes_while_filtering_costs_one_video(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = (sys.executable, "-c", "import os, sys; sys.stdin.readline(); os.abort()")
    real = ChildFrameReader.__init__

    def crashing(self: ChildFrameReader, path: Path, decoder: str, options: ScanOptions | None) -> None:
        real(self, path, decoder, options)
        if path.name == "clip0.mp4":
            self.command = crash

    monkeypatch.setattr(ChildFrameReader, "__init__", crashing)
    report = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    (failure,) = report.failures
    assert failure["source"] == "clip0"
    assert failure["reason"] == "decoder_crashed"
    assert "SIGABRT" in failure["message"]


@pytest.mark.parametrize("harm", ["changed", "gone", "swapped"])
def test_an_album_of_which_a_photo_is_another_is_refused(footage: Path, tmp_path: Path, harm: str) -> None:
    shutil.copytree(footage / "photos", tmp_path / "own")
    album = tmp_path / "own" / "album"
    build(footage, tmp_path / "sets", sources=(str(tmp_path / "own"),), sample="1", set_size=2)
    used = {image.id.rpartition("/")[2] for image in read_unit(tmp_path / "sets", "album").images}
    photo = next(file for file in sorted(album.iterdir()) if file.name not in used)
    content = photo.read_bytes()
    photo.unlink()
    if harm == "changed":
        photo.write_bytes(content + b"!")
    elif harm == "swapped":
        photo.write_bytes((album / "p7.png").read_bytes() if photo.name != "p7.png" else b"x")
    with pytest.raises(DataError, match="cannot be read" if harm == "gone" else "sets were built"):
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)


def test_filtering_what_was_filtered_is_refused_with_the_way_round(filtered: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="by ctxr filter") as caught:
        refilter(filtered, tmp_path / "twice", min_size=20)
    assert "all limits" in caught.value.hint


def test_sources_that_nobody_has_seen_are_asked_for(own: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / CACHE)
    with pytest.raises(DataError, match=r"clip\d \(clip\d\.mp4\) is unknown, and 2 more") as caught:
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    assert "--videos DIR" in caught.value.hint


def test_building_again_from_where_the_sources_moved_remembers_the_place(own: Path, tmp_path: Path) -> None:
    clip, moved = own / "videos" / "clip1.mp4", own / "moved" / "clip1.mp4"
    build(own, tmp_path / "one", sources=(str(clip),))
    clip.parent.rename(moved.parent)
    assert build(own, tmp_path / "one", sources=(str(moved),)).up_to_date
    assert last_path(tmp_path / "one", sha256_file(moved)) == moved


def test_an_album_that_moved_is_found_by_its_photos(footage: Path, tmp_path: Path) -> None:
    shutil.copytree(footage / "photos", tmp_path / "own")
    build(footage, tmp_path / "sets", sources=(str(tmp_path / "own"),))
    refilter(tmp_path / "sets", tmp_path / "a", brisque=LIMIT)
    (tmp_path / "moved").mkdir()
    (tmp_path / "own" / "album").rename(tmp_path / "moved" / "album")
    shutil.rmtree(tmp_path / CACHE)
    with pytest.raises(DataError, match=r"album \(album\) is unknown"):
        refilter(tmp_path / "sets", tmp_path / "b", brisque=LIMIT)
    refilter(tmp_path / "sets", tmp_path / "b", brisque=LIMIT, videos=tmp_path / "moved")
    assert same_tree(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("name", ["../sets/sources/clip1", "/etc", ".."])
def test_a_parent_whose_name_leads_elsewhere_is_refused(sets: Path, tmp_path: Path, name: str) -> None:
    manifest = sets / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "clip1"', f'"name": "{name}"'))
    with pytest.raises(DataError, match="a valid name"):
        refilter(sets, tmp_path / "filtered", min_size=10)


@pytest.mark.parametrize("name", ["../../secret.png", "/etc/passwd", ".."])
def test_a_photo_whose_name_leads_elsewhere_is_refused(footage: Path, tmp_path: Path, name: str) -> None:
    build(footage, tmp_path / "sets", sources=(str(footage / "photos"),))
    ledger = tmp_path / "sets" / "sources" / "album" / "ledger.jsonl"
    before = sha256_file(ledger)
    ledger.write_text(ledger.read_text().replace('"name":"p1.png"', f'"name":"{name}"'))
    manifest = tmp_path / "sets" / "manifest.json"
    # whoever forges a table can forge its hash
    manifest.write_text(manifest.read_text().replace(before, sha256_file(ledger)))
    with pytest.raises(DataError, match="names the photo"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)


@pytest.fixture
def measured(project: Path) -> tuple[SourceUnit, FactCache]:
    unit = read_unit(project / "filtered", "clip0")
    return unit, FactCache(project / CACHE / f"clip0-{unit.source.sha256[:12]}")


def test_what_one_instrument_measured_is_known_when_another_joins(measured: tuple[SourceUnit, FactCache]) -> None:
    unit, cache = measured
    known = cache.load(unit.stamp.measures | {"text": "another"})
    assert {index: facts.brisque for index, (facts, _) in known.items()} == {
        facts.index: facts.brisque for facts in unit.facts
    }
    assert cache.load({"brisque": "other weights"}) == {}
    assert {facts.text_share for facts, _ in known.values()} == {None}


def test_instruments_of_two_runs_are_merged_in_memory(measured: tuple[SourceUnit, FactCache], project: Path) -> None:
    unit, cache = measured
    first = min(unit.facts, key=lambda facts: facts.index)
    text = Facts(first.source, first.index, first.path, first.sha256, first.width, first.height, None, 0.25, 3, 90.0)
    stamp = type(unit.stamp)(unit.stamp.scan, unit.stamp.select, {"text": "t"})
    cache.store(replace(unit, stamp=stamp, facts=[text]), project / "filtered")
    facts, _ = cache.load(unit.stamp.measures | {"text": "t"})[first.index]
    assert (facts.brisque, facts.text_share, facts.text_words) == (first.brisque, 0.25, 3)


def test_a_remembered_picture_that_was_changed_is_forgotten_and_healed(
    measured: tuple[SourceUnit, FactCache], project: Path
) -> None:
    unit, cache = measured
    index, (_, file) = next(iter(cache.load(unit.stamp.measures).items()))
    file.unlink()
    file.write_bytes(b"another picture")
    assert index not in cache.load(unit.stamp.measures)
    cache.store(unit, project / "filtered")
    assert index in cache.load(unit.stamp.measures)


def test_a_table_that_was_edited_is_not_filtered_as_if_it_had_been_written_so(
    footage: Path, sets: Path, tmp_path: Path
) -> None:
    ledger = sets / "sources" / "clip1" / "ledger.jsonl"
    whole = ledger.read_text()
    lines = whole.splitlines(keepends=True)
    ledger.write_text("".join(lines[:3] + lines[4:]))
    with pytest.raises(DataError, match=r"ledger\.jsonl was changed"):
        refilter(sets, tmp_path / "filtered", min_size=10)
    assert not build(footage, sets).up_to_date
    assert ledger.read_text() == whole
    refilter(sets, tmp_path / "filtered", min_size=10)
