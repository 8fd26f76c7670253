"""What was changed in an artifact is noticed before anything is built on it, and made again by the command that made it."""

import importlib.metadata
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import Mock

import pytest

from ctxr.errors import CtxrError, DataError, UnfinishedError
from ctxr.media.text_area import NO_TEXT, TextReader
from ctxr.pipelines.curation.videos import pick_from_ledger
from ctxr.store.artifacts import package_versions
from ctxr.store.records import Failure, Image, Split
from ctxr.store.tables import read_table
from tests.pipelines.conftest import LIMIT
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
    footage: Path, built: Path, sets: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    harm(first_picture(sets))
    with pytest.raises(DataError, match=r"img\d+\.jpg was (changed|removed)"):
        refilter(sets, tmp_path / "filtered", min_size=10)
    assert not build(footage, sets).up_to_date
    assert same_tree(sets, built)
    assert not first_picture(sets).parent.is_symlink()
    assert build(footage, sets).up_to_date


def test_what_was_changed_in_a_filtered_artifact_is_made_again(filtered: Path, project: Path) -> None:
    out = project / "filtered"
    for harm, file in ((link, first_picture(out)), (overwrite, out / "sources" / "clip2" / "ledger.jsonl")):
        harm(file)
        assert not refilter(project / "sets", out, brisque=LIMIT).up_to_date
        assert same_tree(out, filtered)


def test_a_copy_of_an_artifact_is_as_it_was_written(footage: Path, built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "copy", copy_function=shutil.copyfile)
    assert build(footage, tmp_path / "copy").up_to_date


def test_a_refused_run_leaves_the_damaged_artifact_as_it_is(
    footage: Path, sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise CtxrError("no weights")

    monkeypatch.setattr("ctxr.pipelines.curation.videos.load_encoder", unreachable)
    ledger = sets / "sources" / "clip1" / "ledger.jsonl"
    ledger.write_text(ledger.read_text() + " ")
    before = sorted(sets.rglob("*"))
    with pytest.raises(CtxrError, match="no weights"):
        build(footage, sets)
    assert sorted(sets.rglob("*")) == before


def test_trying_failed_sources_again_deals_the_same_splits(footage: Path, sets: Path, tmp_path: Path) -> None:
    (tmp_path / "splits.csv").write_text("clip0,test\nclip1,test\nclip2,test\n")
    (tmp_path / "broken.mp4").write_text("no video")
    sources = (str(footage / "videos"), str(tmp_path / "broken.mp4"))
    build(footage, sets, sources=sources, splits=tmp_path / "splits.csv")
    (failure,) = read_table(sets / "failures.jsonl", Failure)
    assert f"--splits {tmp_path / 'splits.csv'}" in failure.retry
    assert {row.split for row in read_table(sets / "splits.jsonl", Split)} == {"test"}


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_a_frame_that_cannot_be_measured_costs_its_video_and_is_named(
    footage: Path, sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeout = DataError("Tesseract could not read a picture: timeout")
    monkeypatch.setattr(TextReader, "measure", Mock(side_effect=chain([timeout], repeat(NO_TEXT))))
    clips = tuple(str(footage / "videos" / f"clip{number}.mp4") for number in range(2))
    report = build(footage, sets, sources=clips, max_text=0.5, jobs=1, yes=True)
    (failure,) = report.failures
    assert failure["reason"] == "unmeasurable"
    assert failure["message"].startswith("clip0/img")
    assert report.counts["videos"] == 1


def test_sets_that_are_made_anew_while_they_are_filtered_are_not_mixed(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*given: object, **named: object) -> object:
        manifest = sets / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))
        return pick_from_ledger(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("ctxr.pipelines.curation.filter.pick_from_ledger", meanwhile)
    with pytest.raises(UnfinishedError, match="in the meantime"):
        refilter(sets, tmp_path / "filtered", min_size=10)
    assert not (tmp_path / "filtered" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("package", "decides"),
    [
        *((package, False) for package in ("piq", "lapjv", "scenedetect", "pillow", "torchvision")),
        *((package, True) for package in ("av", "torch", "open_clip_torch", "opencv-python")),
    ],
)
def test_another_version_of_a_package_costs_a_scan_only_where_it_decides_its_bytes(
    footage: Path, sets: Path, monkeypatch: pytest.MonkeyPatch, package: str, decides: bool
) -> None:
    real = importlib.metadata.version
    (sets / "manifest.json").unlink()
    monkeypatch.setattr("ctxr.pipelines.curation.build_sets.scan_video", scanned := Mock(side_effect=CtxrError("scan")))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0" if name == package else real(name))
    package_versions.cache_clear()
    try:
        with nullcontext() if not decides else pytest.raises(CtxrError, match="scan"):
            assert not build(footage, sets).up_to_date
    finally:
        package_versions.cache_clear()
    assert scanned.called == decides
