"""`ctxr status`: what is there, in few words, and what to know before figures are published."""

import json
import os
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.annotation.journal.identities import Identities
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.launch import private_folder
from ctxr.annotation.pseudonyms import read_key
from ctxr.cli.app import app
from ctxr.errors import UnfinishedError
from ctxr.pipelines.inspection.config import Status
from ctxr.pipelines.inspection.status import run
from ctxr.store.artifacts import MARKER
from tests.annotation.journal.study import leased
from tests.annotation.web.crowd import SET, START, UNITS
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


def test_answers_of_people_are_summed_up_while_they_come(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.make("sets", "build-sets", "image_sets")
    assert run(Status(workdir=project.workdir)).study is None
    private = private_folder(project.workdir)
    with closing(Identities(private, read_key(private))) as identities:
        ada = identities.worker("local", "team/Ada")
    with closing(open_journal(project.workdir / "crowd" / "answers.sqlite", [UNITS["entail"]], [SET])) as journal:
        journal.enrol(ada, "local", START)
        lease = leased(journal, ada, START)
        journal.submit(lease.token, ada, {"verdict": ("neutral",)}, START + timedelta(seconds=36))
        journal.pause(True, START)
    study = run(Status(workdir=project.workdir)).study
    assert study is not None
    assert study.progress.rows == (("entail", "any", 1, 1, 0, 0, 1, 36.0),)
    assert study.money.rows == (("USD", 0.1, None),)
    ((name, state, _, answers, *rest),) = study.people.rows
    assert (name, state, answers, rest[:2]) == ("Ada", "active", 1, [None, 0])
    ((name, task, right, _, seconds, text),) = study.latest.rows
    assert (name, task, right, seconds, text) == ("Ada", "entail", None, 36.0, "cannot be told")
    assert (study.paused, study.stuck) == ("2026-11-21T12:00:00.000Z", ())
    shown = CliRunner().invoke(app, ["status", "-w", str(project.workdir), "--json"])
    document = json.loads(shown.stdout)
    assert document["study"]["progress"]["rows"] == [["entail", "any", 1, 1, 0, 0, 1, 36.0]]
    assert "paused since 2026" in CliRunner().invoke(app, ["status", "-w", str(project.workdir)]).stdout
    (project.workdir / "crowd" / "database").write_text("postgresql://a:***@host/b\n")
    assert run(Status(workdir=project.workdir)).study is None
