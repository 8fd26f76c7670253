"""The doctor: finds what is wrong, names it, and says how to mend it."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.pipelines.inspection.artifact_check import _check_source, _cure
from ctxr.pipelines.inspection.config import Check, Doctor
from ctxr.pipelines.inspection.doctor import _answer, check_machine, run
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import remember_paths
from ctxr.store.records import Source
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.pipelines.curation.test_filter import refilter

runner = CliRunner()


@pytest.fixture(scope="module")
def healthy(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy")
    shutil.copytree(footage, folder / "footage", ignore=shutil.ignore_patterns("clip2.mp4"))
    build(folder / "footage", folder / "sets", sources=(str(folder / "footage"),))
    return folder


@pytest.fixture
def project(healthy: Path, tmp_path: Path) -> Iterator[Path]:
    """The healthy project, to be harmed; put back in its place, where its sources are remembered, from `saved`."""
    shutil.copytree(healthy, tmp_path / "saved")
    yield healthy
    shutil.rmtree(healthy)
    shutil.copytree(tmp_path / "saved", healthy)


def problems(artifact: Path) -> list[Check]:
    return [check for check in run(Doctor(artifact=artifact)).checks if check.state == "problem"]


def test_a_fresh_artifact_is_whole_up_to_its_sources(healthy: Path) -> None:
    checks = run(Doctor(artifact=healthy / "sets")).checks
    assert [check for check in checks if check.state != "ok"] == []
    assert {"manifest", "tables", "sets", "pictures", "source clip0", "source album"} <= {one.name for one in checks}


def test_a_project_folder_is_looked_at_artifact_by_artifact(healthy: Path, tmp_path: Path) -> None:
    shutil.copytree(healthy / "sets", tmp_path / "sets")
    assert Check(str(tmp_path / "sets"), "note", "") in run(Doctor(artifact=tmp_path)).checks
    assert not problems(tmp_path)
    shutil.rmtree(tmp_path / "sets" / "images")
    assert problems(tmp_path)


def append(file: Path, text: str = "!") -> None:
    """Add to a file, of which a hard link may lie elsewhere."""
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content + text.encode())


def picture(folder: Path) -> Path:
    return next((folder / "sets" / "images").rglob("*.jpg"))


def replace_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


PHOTO = Path("footage/photos/album/p3.png")
Harm = Callable[[Path], object]


def flip(folder: Path) -> None:
    """Another digit in what the manifest says of the encoder."""
    file = folder / "sets" / "manifest.json"
    file.write_text(file.read_text().replace('"threshold": 0.', '"threshold": 1.', 1))


CURABLE: list[tuple[Harm, str, str]] = [
    (flip, "manifest", "was changed"),
    (lambda folder: append(folder / "sets/sets.jsonl", "\n"), "tables", "sets.jsonl was changed"),
    (lambda folder: append(picture(folder)), "pictures", "was changed"),
    (lambda folder: (folder / "sets/sources/clip0/facts.jsonl").unlink(), "tables", "clip0/facts.jsonl is missing"),
]
OTHER: list[tuple[Harm, str, str]] = [
    (lambda folder: (folder / "sets/shots.jsonl").unlink(), "tables", "shots.jsonl is missing"),
    (lambda folder: picture(folder).unlink(), "pictures", "is missing"),
    (lambda folder: append(folder / "sets/sources/clip1/ledger.jsonl", "\n"), "tables", "ledger.jsonl was changed"),
    (lambda folder: replace_by_a_folder(folder / "sets/sets.jsonl"), "tables", "sets.jsonl cannot be read"),
    (lambda folder: link_to_itself(picture(folder)), "pictures", "cannot be read"),
    (lambda folder: append(folder / PHOTO), "source album", "p3.png has changed since"),
    (lambda folder: (folder / PHOTO).unlink(), "source album", "p3.png cannot be read: No such file"),
    (lambda folder: append(folder / "footage/videos/clip0.mp4"), "source clip0", "has changed since"),
    (lambda folder: (folder / "sets/manifest.json").unlink(), "manifest", "has no manifest.json"),
]


@pytest.mark.parametrize(("harm", "name", "detail"), [*CURABLE, *OTHER])
def test_harm_is_found_and_named_and_its_cure_cures(
    project: Path, tmp_path: Path, harm: Harm, name: str, detail: str
) -> None:
    harm(project)
    (found,) = problems(project / "sets")
    assert found.name == name
    assert detail in found.detail
    assert found.cure
    if (harm, name, detail) not in CURABLE:
        return
    if name == "pictures":
        command, _, then = found.cure.partition("   then ")
        assert "ctxr build-sets" in then
        subprocess.run(shlex.split(command), check=True)
    else:
        assert found.cure == open_artifact(project / "sets").cure
    build(project / "footage", project / "sets", sources=(str(project / "footage"),))
    assert problems(project / "sets") == []
    assert same_tree(project / "sets", tmp_path / "saved" / "sets")


def test_a_source_that_moved_is_a_note_not_a_problem(healthy: Path, tmp_path: Path) -> None:
    shutil.copytree(healthy / "sets", tmp_path / "elsewhere" / "sets")
    checks = {check.name: check for check in run(Doctor(artifact=tmp_path / "elsewhere" / "sets")).checks}
    assert checks["source clip1"].state == "note"
    assert "--videos" in checks["source clip1"].cure


def test_findings_have_their_exit_code(healthy: Path, tmp_path: Path) -> None:
    assert runner.invoke(app, ["doctor", str(healthy / "sets")]).exit_code == 0
    assert runner.invoke(app, ["doctor", str(healthy / "none")]).exit_code == 2
    (tmp_path / "unfinished").mkdir()
    result = runner.invoke(app, ["doctor", str(tmp_path / "unfinished"), "--json"])
    assert result.exit_code == 5
    assert json.loads(result.stdout)["problems"] == 1


def test_the_machine_is_looked_at_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    checks = {check.name: check for check in check_machine(tmp_path)}
    assert checks["devices"].state == "ok"
    assert checks["tesseract"].state == "problem"
    assert checks["tesseract"].cure == "apt-get install tesseract-ocr"
    assert checks["ffmpeg"].state == "note"
    assert checks["encoder ctxr-tiny"].state == "ok"
    assert checks["disk"].state in {"ok", "problem"}


def test_the_sets_behind_a_filter_are_looked_at_where_they_stand_beside(healthy: Path, tmp_path: Path) -> None:
    for name in ("sets", ".ctxr-cache"):
        shutil.copytree(healthy / name, tmp_path / name)
    refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)
    names = {check.name: check.state for check in run(Doctor(artifact=tmp_path / "filtered")).checks}
    assert names["parent sets: pictures"] == "ok"
    picture(tmp_path).unlink()
    assert [check.name for check in problems(tmp_path / "filtered")] == ["parent sets: pictures"]
    (tmp_path / "sets").rename(tmp_path / "far")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "filtered").rename(tmp_path / "elsewhere" / "filtered")
    checks = {check.name: check for check in run(Doctor(artifact=tmp_path / "elsewhere" / "filtered")).checks}
    assert checks["parent"].state == "note"
    assert "skipped" in checks["parent"].detail


def test_what_may_not_be_read_is_a_finding(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("ctxr.pipelines.inspection.artifact_check.sha256_file", refuse)
    found = problems(healthy / "sets")
    assert "Permission denied" in found[0].detail
    assert found[0].cure
    monkeypatch.setattr("ctxr.pipelines.inspection.artifact_check.open_artifact", refuse)
    (manifest,) = problems(healthy / "sets")
    assert "Permission denied" in manifest.detail


def test_damage_has_a_cure(healthy: Path, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"")
    source = Source("a", "video", "a.mp4", sha256_file(tmp_path / "a.mp4"), 0, damage="3 frames")
    remember_paths(tmp_path / "sets", {source.sha256: tmp_path / "a.mp4"})
    check = _check_source(tmp_path / "sets", source)
    assert (check.state, check.detail) == ("note", "damaged: 3 frames")
    assert "build-sets again" in check.cure


@pytest.mark.parametrize("error", [RuntimeError("torchvision::nms does not exist"), ImportError("x"), OSError()])
def test_packages_that_do_not_fit_are_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("ctxr.models.precision.devices", fail)
    monkeypatch.setattr("ctxr.models.hub.cached_weights", fail)
    checks = {check.name: check for check in check_machine(tmp_path)}
    for name in ("torch", "encoders"):
        assert checks[name].state == "problem"
        assert "force-reinstall" in checks[name].cure
    monkeypatch.setattr("ctxr.models.hub.cached_weights", lambda *_: None)
    monkeypatch.setattr("ctxr.models.encoders.load_encoder", fail)
    checks = {check.name: check for check in check_machine(tmp_path)}
    assert checks["encoder ctxr-tiny"].state == "problem"


@pytest.mark.parametrize("script", ["exit 0", "exit 1", "printf '\\377\\n'; exit 1", "echo"])
def test_a_program_that_says_nothing_is_a_finding(tmp_path: Path, script: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    check = _answer("tesseract", [str(program), "--version"], "problem", "apt-get install tesseract")
    assert (check.state, check.cure) == ("problem", "apt-get install tesseract")


def test_a_picture_that_may_not_be_read_is_opened_and_not_deleted(
    healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact, closed = open_artifact(healthy / "sets"), picture(healthy)
    name = closed.relative_to(healthy / "sets").as_posix()
    assert _cure(artifact, [name, "images/none.jpg"]).startswith("find ")
    monkeypatch.setattr("os.access", lambda file, _: file != closed)
    assert _cure(artifact, [name]) == f"chmod -R u+rX {closed.parent}"
