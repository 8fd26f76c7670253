"""What was changed in an artifact is noticed before anything is built on it, and made again by the command that made it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ctxr.errors import CtxrError, DataError, UnfinishedError
from ctxr.media.text_area import TextReader
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.curation.videos import pick_from_ledger
from ctxr.store.records import Failure, Image, Split
from ctxr.store.tables import read_table
from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.pipelines.curation.test_filter import refilter


def first_picture(artifact: Path) -> Path:
    return artifact / read_table(artifact / "images.jsonl", Image)[0].path


def overwrite(picture: Path) -> None:
    picture.write_bytes(b"junk")


def link(picture: Path) -> None:
    secret = picture.parents[3] / "secret.txt"
    secret.write_text("not for you")
    picture.unlink()
    picture.symlink_to(secret)


def link_folder(picture: Path) -> None:
    elsewhere = picture.parents[3] / "elsewhere"
    shutil.move(picture.parent, elsewhere)
    picture.parent.symlink_to(elsewhere)


HARMS = [Path.unlink, overwrite, link, link_folder]


@pytest.mark.parametrize("harm", HARMS)
def test_a_changed_picture_is_refused_by_filter_and_mended_by_building_again(
    footage: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    build(footage, tmp_path / "fresh" / "sets")
    build(footage, tmp_path / "own" / "sets")
    harm(first_picture(tmp_path / "own" / "sets"))
    with pytest.raises(DataError, match=r"img\d+\.jpg was changed since it was written"):
        refilter(tmp_path / "own" / "sets", tmp_path / "own" / "filtered", min_size=10)
    assert not build(footage, tmp_path / "own" / "sets").up_to_date
    assert same_tree(tmp_path / "own" / "sets", tmp_path / "fresh" / "sets")
    assert not first_picture(tmp_path / "own" / "sets").parent.is_symlink()
    assert build(footage, tmp_path / "own" / "sets").up_to_date


@pytest.mark.parametrize("harm", HARMS[:3])
def test_a_changed_picture_of_a_filtered_artifact_is_made_again(
    footage: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    build(footage, tmp_path / "sets")
    refilter(tmp_path / "sets", tmp_path / "fresh", brisque=2.0)
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=2.0)
    picture = first_picture(tmp_path / "filtered")
    content = picture.read_bytes()
    picture.unlink()  # the sets link the same file, and only this one is to be harmed
    picture.write_bytes(content)
    harm(picture)
    assert not refilter(tmp_path / "sets", tmp_path / "filtered", brisque=2.0).up_to_date
    assert same_tree(tmp_path / "filtered", tmp_path / "fresh")


def test_a_copy_of_an_artifact_is_as_it_was_written(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets")
    shutil.copytree(tmp_path / "sets", tmp_path / "copy", copy_function=shutil.copyfile)
    assert build(footage, tmp_path / "copy").up_to_date


def test_a_refused_run_leaves_the_damaged_artifact_as_it_is(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets")
    ledger = tmp_path / "sets" / "sources" / "clip1" / "ledger.jsonl"
    ledger.write_text(ledger.read_text() + " ")
    before = sorted(path for path in (tmp_path / "sets").rglob("*"))
    with pytest.raises(CtxrError):
        build(footage, tmp_path / "sets", encoder="local-dir:nowhere")
    assert sorted(path for path in (tmp_path / "sets").rglob("*")) == before


def test_trying_failed_sources_again_deals_the_same_splits(footage: Path, tmp_path: Path) -> None:
    (tmp_path / "splits.csv").write_text("clip0,test\nclip1,test\nclip2,test\n")
    (tmp_path / "broken.mp4").write_text("no video")
    sources = (str(footage / "videos"), str(tmp_path / "broken.mp4"))
    build(footage, tmp_path / "sets", sources=sources, splits=tmp_path / "splits.csv")
    (failure,) = read_table(tmp_path / "sets" / "failures.jsonl", Failure)
    assert f"--splits {tmp_path / 'splits.csv'}" in failure.retry
    assert {row.split for row in read_table(tmp_path / "sets" / "splits.jsonl", Split)} == {"test"}


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_a_frame_that_cannot_be_measured_costs_its_video_and_is_named(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TextReader.measure

    def failing(self: TextReader, rgb: object) -> object:
        failing.calls += 1  # type: ignore[attr-defined]
        if failing.calls == 1:  # type: ignore[attr-defined]
            raise DataError("Tesseract could not read a picture: timeout")
        return real(self, rgb)  # type: ignore[arg-type]

    failing.calls = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(TextReader, "measure", failing)
    config = BuildSets(
        sources=(str(footage / "videos"),), out=tmp_path / "sets", encoder="ctxr-tiny", threshold=float(THRESHOLD)
    )
    report = run(BuildSets(**{**vars(config), "max_text": 0.5, "workers": 1}))
    (failure,) = report.failures
    assert failure["reason"] == "unmeasurable"
    assert failure["message"].startswith("clip0/img")
    assert report.counts["videos"] == 2


def test_sets_that_are_made_anew_while_they_are_filtered_are_not_mixed(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(footage, tmp_path / "sets")

    def meanwhile(*given: object, **named: object) -> object:
        os.utime(tmp_path / "sets" / "manifest.json")
        manifest = tmp_path / "sets" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))
        return pick_from_ledger(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("ctxr.pipelines.curation.filter_stage.pick_from_ledger", meanwhile)
    with pytest.raises(UnfinishedError, match="was rebuilt in the meantime"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)
    assert not (tmp_path / "filtered" / "manifest.json").exists()


def test_a_folder_of_videos_is_asked_only_for_frames_that_nobody_saved(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets")
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(footage / "videos" / "clip1.mp4", tmp_path / "elsewhere")
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=2.0)
    report = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=1.9, videos=tmp_path / "elsewhere")
    assert report.failures == []
