"""The doctor: finds what is wrong, names it, and says how to mend it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.pipelines.doctor import Check, Doctor, check_machine, run
from tests.pipelines.test_build_sets import build

runner = CliRunner()


@pytest.fixture(scope="module")
def healthy(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy")
    shutil.copytree(footage, folder / "footage")
    build(folder / "footage", folder / "sets", sources=(str(folder / "footage"),))
    return folder


def problems(artifact: Path) -> list[Check]:
    return [check for check in run(Doctor(artifact=artifact)) if check.state == "problem"]


def test_a_fresh_artifact_is_whole_up_to_its_sources(healthy: Path) -> None:
    checks = run(Doctor(artifact=healthy / "sets"))
    assert [check for check in checks if check.state != "ok"] == []
    assert {"manifest", "tables", "sets", "pictures", "source clip0", "source album"} <= {one.name for one in checks}


def edit_table(folder: Path) -> None:
    with (folder / "sets" / "sets.jsonl").open("a") as table:
        table.write("\n")


def lose_table(folder: Path) -> None:
    (folder / "sets" / "shots.jsonl").unlink()


def change_picture(folder: Path) -> None:
    picture = next((folder / "sets" / "images").rglob("*.jpg"))
    content = picture.read_bytes()
    picture.unlink()
    picture.write_bytes(content + b"!")


def lose_picture(folder: Path) -> None:
    next((folder / "sets" / "images").rglob("*.jpg")).unlink()


def change_source(folder: Path) -> None:
    with (folder / "footage" / "videos" / "clip0.mp4").open("ab") as clip:
        clip.write(b"!")


def lose_manifest(folder: Path) -> None:
    (folder / "sets" / "manifest.json").unlink()


@pytest.mark.parametrize(
    ("harm", "name", "detail"),
    [
        (edit_table, "tables", "sets.jsonl was changed"),
        (lose_table, "tables", "shots.jsonl is missing"),
        (change_picture, "pictures", "was changed"),
        (lose_picture, "pictures", "is missing"),
        (change_source, "source clip0", "has changed since"),
        (lose_manifest, "manifest", "has no manifest.json"),
    ],
)
def test_harm_is_found_named_and_has_a_cure(
    healthy: Path, tmp_path: Path, harm: Callable[[Path], None], name: str, detail: str
) -> None:
    shutil.copytree(healthy / "footage", tmp_path / "footage")
    build(tmp_path / "footage", tmp_path / "sets", sources=(str(tmp_path / "footage"),))
    harm(tmp_path)
    (found,) = problems(tmp_path / "sets")
    assert found.name == name
    assert detail in found.detail
    assert found.cure


def test_a_source_that_moved_is_a_note_not_a_problem(healthy: Path, tmp_path: Path) -> None:
    shutil.copytree(healthy / "sets", tmp_path / "elsewhere" / "sets")
    checks = {check.name: check for check in run(Doctor(artifact=tmp_path / "elsewhere" / "sets"))}
    assert checks["source clip1"].state == "note"
    assert "--videos" in checks["source clip1"].cure


def test_findings_have_their_exit_code(healthy: Path) -> None:
    assert runner.invoke(app, ["doctor", str(healthy / "sets")]).exit_code == 0
    result = runner.invoke(app, ["doctor", str(healthy / "none"), "--json"])
    assert result.exit_code == 5
    assert '"problems": 1' in result.stdout


def test_the_machine_is_looked_at_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    checks = {check.name: check for check in check_machine(tmp_path)}
    assert checks["devices"].state == "ok"
    assert checks["tesseract"].state == "problem"
    assert checks["tesseract"].cure == "apt-get install tesseract-ocr"
    assert checks["ffmpeg"].state == "note"
    assert checks["encoder ctxr-tiny"].state == "ok"
    assert checks["disk"].state in {"ok", "problem"}
