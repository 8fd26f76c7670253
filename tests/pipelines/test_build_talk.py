"""What building says where a user may be surprised."""

import shutil
from pathlib import Path

import pytest

from ctxr.cli.render import Terminal
from ctxr.pipelines.build_sets import BuildSets, run
from ctxr.pipelines.check_artifact import Check
from ctxr.pipelines.doctor import Doctor
from ctxr.pipelines.doctor import run as look
from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.test_build_sets import build
from tests.pipelines.test_filter import refilter


def talk_of(capsys: pytest.CaptureFixture[str], out: Path, *sources: Path, threshold: float = float(THRESHOLD)) -> str:
    names = tuple(map(str, sources))
    run(BuildSets(sources=names, out=out, encoder="ctxr-tiny", threshold=threshold), Terminal())
    return capsys.readouterr().err


def test_sources_that_leave_are_named(footage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "leave" not in talk_of(capsys, tmp_path / "sets", footage / "videos")
    assert "held 3 sources, of which 2 leave it now: clip1, clip2" in talk_of(
        capsys, tmp_path / "sets", footage / "videos" / "clip0.mp4"
    )


def test_no_set_at_all_has_a_cure(footage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = talk_of(capsys, tmp_path / "sets", footage / "videos", threshold=1.5)
    assert "no set came about: try a --threshold below 1.5" in said


def test_a_damaged_video_says_how_its_rest_can_be_used(
    footage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = (footage / "videos" / "clip0.mp4").read_bytes()
    (tmp_path / "cut.mkv").write_bytes(clip[: len(clip) // 2])
    said = talk_of(capsys, tmp_path / "sets", tmp_path / "cut.mkv", footage / "videos" / "clip1.mp4")
    assert "cut.mkv" in said


def test_an_interrupted_shot_of_sets_made_by_a_fallback_is_said_again(
    footage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxr.models.loading.can_be_fetched", lambda *_: False, raising=False)
    config = BuildSets(sources=(str(footage / "videos"),), out=tmp_path / "sets", threshold=float(THRESHOLD))
    first = run(config, Terminal())
    if first.encoder != "ctxr-tiny":
        pytest.skip("CLIP's weights are on this machine")
    capsys.readouterr()
    assert run(config, Terminal()).up_to_date
    assert "picked with ctxr-tiny, because CLIP could not be had" in capsys.readouterr().err


def test_the_curve_is_about_videos(footage: Path, tmp_path: Path) -> None:
    names = (str(footage / "photos"),)
    config = BuildSets(sources=names, out=tmp_path / "sets", encoder="ctxr-tiny", yield_curve=True)
    assert run(config).curve is None


def test_a_project_folder_is_looked_at_artifact_by_artifact(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets")
    refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)
    checks = look(Doctor(artifact=tmp_path))
    assert Check(str(tmp_path / "filtered"), "note", "") in checks
    assert all(check.state != "problem" for check in checks)
    shutil.rmtree(tmp_path / "filtered" / "images")
    assert any(check.state == "problem" for check in look(Doctor(artifact=tmp_path)))
