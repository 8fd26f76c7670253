"""A project that an earlier version wrote (`scripts.old_project`) still opens, and is finished."""

import hashlib
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from scripts.old_project import COMMANDS, TARGET

runner = CliRunner()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(TARGET, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def said(line: str) -> dict[str, Any]:
    result = runner.invoke(app, [*shlex.split(line), "--json"])
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def bytes_of(project: Path) -> dict[str, str]:
    files = [file for file in project.rglob("*") if file.is_file() and ".ctxr-cache" not in file.parts]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def values(file: Path) -> list[float]:
    return [json.loads(line)["probability"] for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_that_wrote_it_has_nothing_to_do(line: str, project: Path) -> None:
    before = bytes_of(project)
    report = said(line)
    assert report.get("up_to_date", report.get("did") == "up to date")
    assert bytes_of(project) == before


def test_its_scores_are_evaluated_as_they_were(project: Path) -> None:
    again = said(
        "eval clip-zero-shot blip-module --dataset benchmark -w . -o again --compare --resamples 20 --permutations 20"
    )
    assert not again["up_to_date"]
    results = project / "results" / "clip-zero-shot-vs-blip-module" / "figures.json"
    now, before = (
        json.loads((file).read_text(encoding="utf-8")) for file in (project / "again" / "figures.json", results)
    )
    assert now["figures"] == before["figures"]


def test_its_classifier_judges_as_it_did(project: Path) -> None:
    said("eval entailment-tiny --dataset dataset -w . -o again --resamples 20")
    before = values(project / "results" / "entailment-tiny" / "probabilities.jsonl")
    assert values(project / "again" / "probabilities.jsonl") == pytest.approx(before, abs=1e-4)


def test_its_round_of_labels_is_planned_on_taken_back_and_put_in_force_again(project: Path) -> None:
    assert said("revise-labels -w .")["facts"]["rounds"] == "1 (30 added by entailment-tiny)"
    before = bytes_of(project)
    said("revise-labels -w . --undo")
    assert bytes_of(project) != before
    said("revise-labels -w . --redo")
    assert bytes_of(project) == before


def test_its_benchmark_is_described(project: Path) -> None:
    assert said("stats benchmark -w . --skip-pictures")


def test_all_of_it_is_sound(project: Path) -> None:
    assert said("doctor . -w .")
