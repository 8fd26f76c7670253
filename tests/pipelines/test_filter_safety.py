"""Filtering footage that changed, moved, broke or went away: said in a sentence, and at the cost of that video alone."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ctxr.data.artifacts import open_artifact
from ctxr.data.records import Facts, Failure
from ctxr.data.sources import find_sources
from ctxr.data.tables import read_table
from ctxr.data.units import Unit, read_unit
from ctxr.data.video import FrameReader, VideoError
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.filter import Filter, run
from ctxr.pipelines.filter_run import _Recorded
from tests.pipelines.test_build_sets import build, same_tree
from tests.pipelines.test_filter import refilter

LIMIT = 0.4
"""A BRISQUE limit that some frames exceed, so that others are decoded."""


@pytest.fixture
def own(footage: Path, tmp_path: Path) -> Path:
    """Footage that a test may harm, with `sets` built from its videos."""
    shutil.copytree(footage, tmp_path / "own")
    build(footage, tmp_path / "sets", sources=(str(tmp_path / "own" / "videos"),))
    return tmp_path / "own"


def append(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"!")


def failures(artifact: Path) -> dict[str, Failure]:
    return {row.source: row for row in read_table(artifact / "failures.jsonl", Failure)}


def test_a_video_that_changed_costs_only_itself_and_is_tried_again_when_mended(own: Path, tmp_path: Path) -> None:
    clip = own / "videos" / "clip1.mp4"
    content = clip.read_bytes()
    append(clip)
    report = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    assert report.counts["videos"] == 2
    assert list(failures(tmp_path / "filtered")) == ["clip1"]
    assert "has changed since the sets were built" in failures(tmp_path / "filtered")["clip1"].message
    clip.write_bytes(content)
    mended = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    assert not mended.up_to_date
    assert mended.counts["videos"] == 3
    refilter(tmp_path / "sets", tmp_path / "fresh", brisque=LIMIT)
    assert same_tree(tmp_path / "filtered", tmp_path / "fresh")
    assert refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT).up_to_date


def test_a_filter_in_which_every_video_fails_says_why(own: Path, tmp_path: Path) -> None:
    for clip in (own / "videos").iterdir():
        append(clip)
    with pytest.raises(DataError, match=r"clip\d\.mp4 has changed since the sets were built \(and 2 more\)"):
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)


def test_a_video_is_compared_once_and_only_if_a_frame_of_it_is_wanted(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def count(path: Path) -> str:
        hashed.append(path.name)
        return "ab" * 32

    refilter(tmp_path / "sets", tmp_path / "a", brisque=LIMIT)
    monkeypatch.setattr("ctxr.pipelines.filter_run.sha256_file", count)
    refilter(tmp_path / "sets", tmp_path / "b", brisque=LIMIT)
    assert hashed == []
    video = _Recorded(own / "videos" / "clip0.mp4")
    video.sha256 = "ab" * 32
    unit = read_unit(tmp_path / "sets", "clip0")
    times = {row.index: row.time for row in unit.ledger}
    with FrameReader(video) as reader:
        for index in sorted(times)[5:0:-1]:
            reader.read(index, times[index] or 0)  # type: ignore[arg-type]
    assert hashed == ["clip0.mp4"]
    video = _Recorded(own / "videos" / "clip0.mp4")
    video.sha256 = "cd" * 32
    with FrameReader(video) as reader, pytest.raises(VideoError, match="has changed"):
        reader.read(0, times[0] or 0)  # type: ignore[arg-type]


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
    with pytest.raises(DataError, match="cannot be read" if harm == "gone" else "changed since the sets were built"):
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)


def test_filtering_what_was_filtered_is_refused_with_the_way_round(own: Path, tmp_path: Path) -> None:
    refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)
    with pytest.raises(UsageError, match="was made by ctxr filter") as caught:
        refilter(tmp_path / "filtered", tmp_path / "twice", min_size=20)
    assert "all limits" in caught.value.hint


@pytest.mark.parametrize("workers", [-1, 257])
def test_a_number_of_workers_out_of_range_is_refused(own: Path, tmp_path: Path, workers: int) -> None:
    with pytest.raises(UsageError, match=f"--workers {workers} is out of range"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10, workers=workers)


def test_no_number_of_workers_is_half_the_cores(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ctxr.pipelines import filter_run

    asked: list[int] = []

    def watched(workers: int) -> Any:
        asked.append(workers)
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(filter_run, "ThreadPoolExecutor", watched)
    refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)
    assert asked == [3]


def test_a_folder_of_moved_videos_is_searched_once(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []

    def count(typed: list[str]) -> Any:
        searched.append(typed)
        return find_sources(typed)

    monkeypatch.setattr("ctxr.pipelines.filter_run.find_sources", count)
    own.rename(tmp_path / "moved")
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT, videos=tmp_path / "moved")
    assert len(searched) == 1


@pytest.mark.parametrize("name", ["../sets/sources/clip1", "/etc", ".."])
def test_a_parent_whose_name_leads_elsewhere_is_refused(own: Path, tmp_path: Path, name: str) -> None:
    manifest = tmp_path / "sets" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "clip1"', f'"name": "{name}"'))
    with pytest.raises(DataError, match="is no name of a source"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)


@pytest.mark.parametrize("name", ["../../secret.png", "/etc/passwd", ".."])
def test_a_photo_whose_name_leads_elsewhere_is_refused(footage: Path, tmp_path: Path, name: str) -> None:
    build(footage, tmp_path / "sets", sources=(str(footage / "photos"),))
    ledger = tmp_path / "sets" / "sources" / "album" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"name":"p1.png"', f'"name":"{name}"'))
    with pytest.raises(DataError, match="names the photo"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)


def measured(own: Path, tmp_path: Path) -> tuple[Unit, FactCache]:
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=LIMIT)
    unit = read_unit(tmp_path / "filtered", "clip0")
    return unit, FactCache.beside(tmp_path / "filtered", "clip0", unit.source.sha256)


def test_what_one_instrument_measured_is_known_when_another_joins(own: Path, tmp_path: Path) -> None:
    unit, cache = measured(own, tmp_path)
    known = cache.load(unit.stamp.measures | {"text": "another"})
    assert {index: facts.brisque for index, (facts, _) in known.items()} == {
        facts.index: facts.brisque for facts in unit.facts
    }
    assert cache.load({"brisque": "other weights"}) == {}
    assert {facts.text_share for facts, _ in known.values()} == {None}


def test_instruments_of_two_runs_are_merged_in_memory(own: Path, tmp_path: Path) -> None:
    unit, cache = measured(own, tmp_path)
    first = min(unit.facts, key=lambda facts: facts.index)
    text = Facts(first.source, first.index, first.path, first.sha256, first.width, first.height, None, 0.25, 3, 90.0)
    stamp = type(unit.stamp)(unit.stamp.scan, unit.stamp.select, {"text": "t"})
    cache.store(Unit(**{**vars(unit), "stamp": stamp, "facts": [text]}), tmp_path / "filtered")
    facts, _ = cache.load(unit.stamp.measures | {"text": "t"})[first.index]
    assert (facts.brisque, facts.text_share, facts.text_words) == (first.brisque, 0.25, 3)


def test_a_remembered_picture_that_was_changed_is_forgotten_and_healed(own: Path, tmp_path: Path) -> None:
    unit, cache = measured(own, tmp_path)
    index, (_, file) = next(iter(cache.load(unit.stamp.measures).items()))
    file.unlink()
    file.write_bytes(b"another picture")
    assert index not in cache.load(unit.stamp.measures)
    cache.store(unit, tmp_path / "filtered")
    assert index in cache.load(unit.stamp.measures)


def test_only_used_sources_are_parents_of_a_filter(own: Path, tmp_path: Path) -> None:
    (own / "videos" / "clip2.mp4").unlink()
    report = run(Filter(input=tmp_path / "sets", out=tmp_path / "filtered", brisque=LIMIT))
    assert failures(tmp_path / "filtered")["clip2"].reason == "no_such_file"
    names = {parent.name for parent in open_artifact(report.artifact).manifest.parents}
    assert names == {"image_sets", "clip0", "clip1"}
