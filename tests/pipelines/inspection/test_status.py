"""`ctxr status`: what is there, in few words, and what to know before figures are published."""

import os
from pathlib import Path

import pytest

from ctxr.errors import UnfinishedError
from ctxr.pipelines.inspection.config import Status
from ctxr.pipelines.inspection.status import run
from ctxr.store.artifacts import MARKER
from tests.engine.test_next_step import Project


def test_each_artifact_says_what_it_holds_and_how_fresh_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.make("sets", "build-sets", "image_sets", encoder="ctxr-tiny", counts={"images": 1200, "leaking_images": 2})
    project.make("dataset", "aggregate", "dataset", "sets")
    project.make("runs/m", "train", "run", "dataset", counts={"measure": "AUC", "valid": 0.5, "test": None})
    project.make("results/k", "eval", "results", "dataset", counts={"names": ["k", "l"]})
    project.make("dataset", "aggregate", "dataset", "sets", salt="other")
    (project.workdir / "filtered").mkdir()
    (project.workdir / "filtered" / MARKER).touch()
    report = run(Status(workdir=project.workdir))
    rows = {row["artifact"]: (row["by"], row["holds"], row["condition"].partition(":")[0]) for row in report.artifacts}
    assert rows == {
        "sets": ("build-sets", "3 sets, 1,200 images, 4 answers", ""),
        "dataset": ("aggregate", "3 sets, 4 answers", ""),
        "runs/m": ("train", "AUC valid 0.500", "stale"),
        "results/k": ("eval", "k, l", "stale"),
        "filtered": ("", "", "unfinished"),
    }
    leaks, encoder, runs = report.notes
    assert (leaks.split()[:2], encoder.split()[:2]) == (["sets:", "splits"], ["sets:", "ctxr-tiny"])
    assert runs.endswith(": m")
    project.make(
        "sets", "build-sets", "image_sets", words=["build-sets", "--encoder", "ctxr-tiny"], encoder="ctxr-tiny"
    )
    assert not any("ctxr-tiny" in note for note in run(Status(workdir=project.workdir)).notes)


def test_a_page_is_older_than_what_was_made_since(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.make("sets", "build-sets", "image_sets")
    project.make("runs/m", "train", "run", "sets")
    assert not any("report.html" in note for note in run(Status(workdir=project.workdir)).notes)
    page = project.workdir / "report.html"
    page.touch()
    for seconds, names in ((9e9, []), (1, ["sets"])):
        os.utime(page, (seconds, seconds))
        notes = [note for note in run(Status(workdir=project.workdir)).notes if "report.html" in note]
        assert [note.split()[-1] for note in notes] == names


def test_a_folder_without_artifacts_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match=tmp_path.name):
        run(Status(workdir=tmp_path))
