"""What building says where a user may be surprised."""

import shutil
from pathlib import Path

import pytest

from ctxr.cli.render import Terminal
from ctxr.models import encoders as loading
from ctxr.models import hub
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.inspection.config import Check, Doctor
from ctxr.pipelines.inspection.doctor import run as look
from tests.media.clips import break_packet, pictures, write_clip
from tests.pipelines.conftest import THRESHOLD


def talk_of(capsys: pytest.CaptureFixture[str], out: Path, *sources: Path, threshold: float = float(THRESHOLD)) -> str:
    names = tuple(map(str, sources))
    run(BuildSets(sources=names, out=out, encoder="ctxr-tiny", threshold=threshold), Terminal())
    return capsys.readouterr().err


def test_sources_that_leave_are_named(footage: Path, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "removes" not in talk_of(capsys, sets, footage / "videos", threshold=0.03)
    assert "held 3 sources; this run removes 2: clip1, clip2" in talk_of(capsys, sets, footage / "videos" / "clip0.mp4")


def test_no_set_at_all_has_a_cure(footage: Path, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = talk_of(capsys, sets, footage / "videos", threshold=1.5)
    assert "no image set could be built: try a --threshold below 1.5" in said


def test_a_damaged_video_says_how_its_rest_can_be_used(
    footage: Path, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write_clip(tmp_path / "clip.mp4", pictures((1, 40)), options={"g": "10", "bf": "0"})
    said = talk_of(capsys, sets, break_packet(whole, 13), footage / "videos" / "clip1.mp4")
    assert "33 of 40 promised frames could be decoded (--keep-damaged takes what can be decoded)" in said


def test_sets_that_a_fallback_picked_say_so_again_when_nothing_is_to_do(
    footage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (hub, loading):
        monkeypatch.setattr(module, "cached_weights", lambda *_: None)
    monkeypatch.setattr(hub, "answers", lambda *_: False)
    config = BuildSets(
        sources=(str(footage / "videos" / "clip0.mp4"),), out=tmp_path / "sets", threshold=float(THRESHOLD)
    )
    assert run(config, Terminal()).encoder == "ctxr-tiny"
    capsys.readouterr()
    assert run(config, Terminal()).up_to_date
    assert "picked with ctxr-tiny because CLIP was not available" in capsys.readouterr().err


def test_the_curve_is_about_videos(footage: Path, tmp_path: Path) -> None:
    names = (str(footage / "photos"),)
    config = BuildSets(sources=names, out=tmp_path / "sets", encoder="ctxr-tiny", yield_curve=True)
    assert run(config).curve is None


def test_a_project_folder_is_looked_at_artifact_by_artifact(project: Path) -> None:
    checks = look(Doctor(artifact=project))
    assert Check(str(project / "filtered"), "note", "") in checks
    assert all(check.state != "problem" for check in checks)
    shutil.rmtree(project / "filtered" / "images")
    assert any(check.state == "problem" for check in look(Doctor(artifact=project)))
