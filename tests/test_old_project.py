"""A project that an earlier version wrote (`scripts.old_project`) still opens, and is finished.

What `LATER` made was added to it by the same version, in this order. `gallery` was drawn by `write_captions` (train 4, test 24,
side 32, one or two captions); four simulated workers answered `tasks/describe` at the pages of `ctxr serve`; and a server in a
thread replied to `ctxr listen` with a number of a picture, once with words. Neither is there any more.
"""

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
LATER = (
    "export-tasks describe -w . --targets 1 --disjoint none",
    "import-answers -w .",
    "aggregate -w . --out aggregated --resamples 20",
    "listen benchmark -w . --endpoint http://127.0.0.1:8765/v1 --model listener --split test --shifts 3 --at-once 1",
    "train --recipe retrieval-blip --dataset gallery -w . --set encoder=random:blip-tiny --set start= --set epochs=1"
    " --set batch=4 --set rerank=4 --set rerank_by=ctxr-tiny",
    "eval retrieval-blip --dataset gallery -w . --resamples 20",
    "eval listener --dataset benchmark -w . --resamples 20",
)


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


def contents(artifact: Path) -> dict[str, bytes]:
    """What is in an artifact, but for its manifest, which says when it was written."""
    files = [file for file in artifact.rglob("*") if file.is_file() and file.name != "manifest.json"]
    return {str(file.relative_to(artifact)): file.read_bytes() for file in files}


def rounded(figures: bytes) -> Any:
    return json.loads(figures, parse_float=lambda digits: round(float(digits), 12))


def values(file: Path) -> list[float]:
    return [json.loads(line)["probability"] for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("line", [*COMMANDS, *LATER])
def test_the_command_that_wrote_it_has_nothing_to_do(line: str, project: Path) -> None:
    before = bytes_of(project)
    report = said(line)
    assert report.get("up_to_date", report.get("did") == "up to date")
    assert bytes_of(project) == before


@pytest.mark.parametrize(
    ("line", "results"),
    [
        (
            "eval clip-zero-shot blip-module --dataset benchmark --compare --resamples 20 --permutations 20",
            "clip-zero-shot-vs-blip-module",
        ),
        ("eval retrieval-blip --dataset gallery --resamples 20", "retrieval-blip"),
        ("eval listener --dataset benchmark --resamples 20", "listener"),
    ],
)
def test_its_runs_are_evaluated_as_they_were(line: str, results: str, project: Path) -> None:
    assert not said(f"{line} -w . -o again")["up_to_date"]
    now, before = (
        json.loads((folder / "figures.json").read_text(encoding="utf-8"))
        for folder in (project / "again", project / "results" / results)
    )
    assert now["figures"]
    assert now["figures"] == before["figures"]


def test_its_answers_are_imported_and_decided_on_as_they_were(project: Path) -> None:
    said("import-answers -w . -o again/judgments")
    assert contents(project / "again" / "judgments") == contents(project / "judgments")
    said("aggregate -w . --input judgments -o again/aggregated --resamples 20")
    before, now = (contents(folder / "aggregated") for folder in (project, project / "again"))
    # intervals of accuracy are exact now, and one sentence was reworded
    told, as_told = rounded(now.pop("figures.json")), rounded(before.pop("figures.json"))
    for row in told["accuracy"] + as_told["accuracy"]:
        row |= {"low": None, "high": None, "crowd_low": None, "crowd_high": None}
    assert told == as_told
    workers = before["workers.jsonl"].replace(b"too few answers to be sure", b"too few answers to decide")
    assert now == before | {"workers.jsonl": workers}


def test_the_replies_it_kept_are_a_run_again_without_anybody_to_ask(project: Path) -> None:
    before = contents(project / "runs" / "listener")
    for name in ("manifest.json", "replies.jsonl", "scores.jsonl"):
        (project / "runs" / "listener" / name).unlink()
    assert not said(LATER[3])["up_to_date"]
    assert contents(project / "runs" / "listener") == before


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


@pytest.mark.parametrize("dataset", ["benchmark", "aggregated", "gallery"])
def test_its_datasets_are_described(dataset: str, project: Path) -> None:
    assert said(f"stats {dataset} -w . --skip-pictures")


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ("gallery", "retrieval-blip"),
        ("benchmark", "listener"),
        ("aggregated", "boat number 9"),
    ],
)
def test_a_page_is_made_of_it(dataset: str, words: str, project: Path) -> None:
    assert words in Path(said(f"report -w . --input {dataset}")["page"]).read_text(encoding="utf-8")


def test_all_of_it_is_sound(project: Path) -> None:
    assert said("doctor . -w .")
