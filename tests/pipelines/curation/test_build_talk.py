"""What building says where a user may be surprised."""

import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.cli.render import Terminal
from ctxr.models import hub
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.inspection.config import Check, Doctor
from ctxr.pipelines.inspection.doctor import run as look
from ctxr.store.records import Failure, Source
from ctxr.store.tables import read_table
from tests.media.clips import break_packet, pictures, write_clip
from tests.pipelines.conftest import THRESHOLD


def talk_of(capsys: pytest.CaptureFixture[str], out: Path, *sources: Path, threshold: float = float(THRESHOLD)) -> str:
    names = tuple(map(str, sources))
    run(BuildSets(sources=names, out=out, encoder="ctxr-tiny", threshold=threshold, yes=True), Terminal())
    return capsys.readouterr().err


def test_no_set_at_all_has_a_cure(footage: Path, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = talk_of(capsys, sets, footage / "videos", threshold=1.5)
    assert "--threshold below 1.5" in said


def test_a_damaged_video_says_how_its_rest_can_be_used(
    footage: Path, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write_clip(tmp_path / "clip.mp4", pictures((1, 40)), options={"g": "10", "bf": "0"})
    said = talk_of(capsys, sets, break_packet(whole, 13), footage / "videos" / "clip1.mp4")
    assert "33 of 40 promised" in said
    assert "--keep-damaged" in said
    (failure,) = read_table(sets / "failures.jsonl", Failure)
    assert failure.reason == "truncated"
    options = shlex.split(failure.retry)
    assert "--keep-damaged" in options
    assert CliRunner().invoke(app, [*options[1:], "--out", str(sets), "--yes"]).exit_code == 0
    damaged = {row.name: row.damage for row in read_table(sets / "sources.jsonl", Source)}
    assert str(damaged["clip"]).startswith("33 of 40 ")
    assert damaged["clip1"] is None
    assert read_table(sets / "failures.jsonl", Failure) == []


def test_the_last_line_counts_what_failed_and_names_the_retry(footage: Path, tmp_path: Path) -> None:
    videos, out = tmp_path / "my videos", tmp_path / "work" / "sets"
    shutil.copytree(footage / "videos", videos)
    (videos / "round.mp4").symlink_to(videos / "round.mp4")
    (videos / "gone.mp4").symlink_to(videos / "nowhere.mp4")
    command = ["build-sets", str(videos), "--encoder", "ctxr-tiny", "--threshold", THRESHOLD, "--out", str(out)]
    for flags in ([], ["--yield-curve"]):
        result = CliRunner().invoke(app, [*command, *flags])
        assert result.exit_code == 0
        last = result.stdout.strip().splitlines()[-1]
        assert last.startswith(f"2 files failed: reasons in {out / 'failures.jsonl'}; retry: ctxr build-sets")
        assert {row.reason for row in read_table(out / "failures.jsonl", Failure)} == {"no_such_file", "unreadable"}
    (videos / "gone.mp4").unlink()
    (videos / "round.mp4").unlink()
    shutil.copy(videos / "clip0.mp4", videos / "gone.mp4")
    with (videos / "gone.mp4").open("ab") as file:
        file.write(b"other content")
    again = CliRunner().invoke(app, shlex.split(last.partition("retry: ctxr ")[2]))
    assert again.exit_code == 0
    assert "failed" not in again.stdout


def test_a_video_that_is_used_in_part_is_told_of(
    footage: Path, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write_clip(tmp_path / "clip.mp4", pictures((1, 200)), options={"g": "10", "bf": "0"})
    break_packet(whole, 199)
    said = talk_of(capsys, sets, whole, footage / "videos" / "clip1.mp4")
    assert "in part: 199 of 200" in said


def test_sets_that_a_fallback_picked_say_so_again_when_nothing_is_to_do(
    footage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "cached_weights", lambda *_: None)
    monkeypatch.setattr(hub, "can_reach", lambda *_: False)
    config = BuildSets(
        sources=(str(footage / "videos" / "clip0.mp4"),), out=tmp_path / "sets", threshold=float(THRESHOLD)
    )
    assert run(config, Terminal()).encoder == "ctxr-tiny"
    capsys.readouterr()
    assert run(config, Terminal()).up_to_date
    assert "picked with ctxr-tiny" in capsys.readouterr().err


def test_the_curve_is_about_videos(footage: Path, tmp_path: Path) -> None:
    names = (str(footage / "photos"),)
    config = BuildSets(sources=names, out=tmp_path / "sets", encoder="ctxr-tiny", yield_curve=True)
    assert run(config).curve is None


def test_a_project_folder_is_looked_at_artifact_by_artifact(project: Path) -> None:
    checks = look(Doctor(artifact=project)).checks
    assert Check(str(project / "filtered"), "note", "") in checks
    assert all(check.state != "problem" for check in checks)
    shutil.rmtree(project / "filtered" / "images")
    assert look(Doctor(artifact=project)).problems
