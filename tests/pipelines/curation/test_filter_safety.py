"""Filtering footage that changed, moved, broke or went away: said in a sentence, and at the cost of that video alone."""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxr.errors import DataError, UsageError
from ctxr.media.decoder_process import CHILD, ChildFrameReader
from ctxr.media.scan import ScanOptions
from ctxr.media.sources import find_sources
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.filter import run
from ctxr.pipelines.curation.quality import FactCache
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import CACHE, remember_paths
from ctxr.store.records import Facts, Failure
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, read_unit
from tests.pipelines.conftest import LIMIT
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.pipelines.curation.test_filter import refilter


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
        real(self, path, decoder, options, crash if path.name == "clip0.mp4" else CHILD)

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
    build(footage, tmp_path / "sets", sources=(str(tmp_path / "own"),), sample=1, set_size=2)
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


def test_no_number_of_workers_is_half_the_cores(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ctxr.engine import units

    asked: list[int] = []

    def watched(workers: int) -> Any:
        asked.append(workers)
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(units, "ThreadPoolExecutor", watched)
    refilter(built, tmp_path / "filtered", min_size=10)
    assert asked == [3]


def test_a_folder_of_moved_videos_is_searched_once(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []

    def count(typed: list[str], progress: Any) -> Any:
        searched.append(typed)
        return find_sources(typed, progress)

    monkeypatch.setattr("ctxr.media.footage.find_sources", count)
    own.rename(tmp_path / "moved")
    report = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT, videos=tmp_path / "moved")
    assert len(searched) == 1
    assert report.counts["measured"] > 0


def test_what_a_folder_holds_under_a_videos_name_is_said(own: Path, tmp_path: Path) -> None:
    append(own / "videos" / "clip1.mp4")
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT, videos=own / "videos")
    failure = failures(tmp_path / "filtered")["clip1"]
    assert failure.reason == "changed"
    assert "clip1.mp4 has this name" in failure.message


def test_sources_that_nobody_has_seen_are_asked_for(own: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / CACHE)
    with pytest.raises(DataError, match=r"clip\d \(clip\d\.mp4\) is unknown, and 2 more") as caught:
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    assert "--videos DIR" in caught.value.hint


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
    return unit, FactCache(project / "filtered", "clip0", unit.source.sha256)


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


def test_a_source_that_failed_stays_a_parent_of_a_filter_and_is_tried_again(own: Path, tmp_path: Path) -> None:
    (own / "videos" / "clip2.mp4").unlink()
    report = run(Filter(input=tmp_path / "sets", out=tmp_path / "filtered", brisque=LIMIT))
    assert failures(tmp_path / "filtered")["clip2"].reason == "no_such_file"
    names = {parent.name for parent in open_artifact(report.artifact).manifest.parents}
    assert names == {"image_sets", "clip0", "clip1", "clip2"}
    assert not run(Filter(input=tmp_path / "sets", out=tmp_path / "filtered", brisque=LIMIT)).up_to_date


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


def test_a_result_that_was_edited_is_made_again(filtered: Path, project: Path) -> None:
    for name in ("sources.jsonl", "sources/clip2/ledger.jsonl"):
        (project / "filtered" / name).write_text("")
        assert not refilter(project / "sets", project / "filtered", brisque=LIMIT).up_to_date
        assert same_tree(project / "filtered", filtered)
