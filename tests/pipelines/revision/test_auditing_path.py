"""An audit as a user runs it: a round, its sample exported, people at the pages or on a platform, what they say of the round."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ctxr.annotation.artifacts import read_tasks
from ctxr.annotation.config import ExportTasks
from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import SetConflict, read_rounds
from ctxr.engine.next_step import next_step
from ctxr.engine.progress import Silent
from ctxr.errors import UsageError
from ctxr.pipelines.crowd.config import Serve
from ctxr.pipelines.crowd.export_tasks import run as export_tasks
from ctxr.pipelines.crowd.serve import run as serve
from ctxr.pipelines.inspection.project_state import project_state
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from ctxr.store.artifacts import open_artifact
from ctxr.store.tables import read_table
from scripts.rehearse_audit import rehearse_audit
from tests.pipelines.revision.stand_in import StandIn, ledger_of, truth_of
from tests.pipelines.revision.test_revise_labels_releases import LikesImg9
from tests.releases import TRAIN, VALID, draw_sets, write_release

runner = CliRunner()


def ctxr(workdir: Path, *words: str, code: int = 0) -> str:
    """What a command says when it is typed."""
    result = runner.invoke(app, [*words, "-w", str(workdir)])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def revised(workdir: Path, **changes: Any) -> ReviseLabels:
    """A round of all sides, by somebody who errs."""
    judge = StandIn(workdir / "dataset", sensitivity=0.9, specificity=0.93)
    config = ReviseLabels(workdir=workdir, entail=True, retriever="hashed", sample=16, top_k=10, **changes)
    run(config, classifier=judge)
    return config


def test_a_round_is_audited_by_the_commands_that_a_user_types(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revised(workdir)
    assert "hint: ctxr export-tasks entail" in ctxr(workdir, "revise-labels", "--audit", code=4)
    (workdir / "x.json").write_text("[]")
    wants = ("import-answers", str(workdir / "x.json"), "--from", "label-studio")
    assert "hint: ctxr export-tasks entail" in ctxr(workdir, *wants, code=4)
    assert "units" in ctxr(workdir, "export-tasks", "entail")
    assert "hint: ctxr export-tasks entail --backend label-studio" in ctxr(workdir, *wants, code=4)
    assert "hint: ctxr serve --invite 3" in ctxr(workdir, "revise-labels", "--audit", code=4)
    units = read_tasks(workdir / "tasks" / "entail").units
    # three people fill all votes, whatever sides the pictures are on
    assert rehearse_audit(workdir, workdir / "dataset", 5, Silent()) == 3 * len(units)
    with monkeypatch.context() as patch:
        patch.setattr("ctxr.pipelines.crowd.serve.answer_requests", lambda *_, **__: None)
        assert serve(Serve(workdir=workdir, port=0)).answers == 0
    assert next_step(project_state(workdir)) == f"ctxr revise-labels --audit -w {workdir}"
    assert f"new {3 * len(units)}" in ctxr(workdir, "import-answers")
    told = json.loads(runner.invoke(app, ["revise-labels", "--audit", "--json", "-w", str(workdir)]).stdout)
    assert told["notes"] == []
    ledger = ledger_of(workdir)
    truth = truth_of(workdir)
    right = [row.image in truth[row.caption].holds for row in ledger if row.decision == "added"]
    figures = json.loads((workdir / "revision-audit" / "001" / "figures.json").read_bytes())
    found = figures["revision"]["precision"]
    # people err too, so a little beyond the interval is no surprise
    assert found["low"] - 0.1 <= np.mean(right) <= found["high"] + 0.1
    assert figures["between"]["Fleiss' kappa"]["value"] > 0.5
    assert figures["with_people"]["value"] > 0.3


def test_answers_about_a_round_leave_the_dataset_as_it_was(workdir: Path, tmp_path: Path) -> None:
    revised(workdir)
    on_a_platform(workdir, lambda unit: "entailment")
    before = open_artifact(workdir / "dataset").sha256
    assert "hint: ctxr revise-labels --audit" in ctxr(workdir, "aggregate", code=3)
    assert "audited" in ctxr(workdir, "revise-labels", "--audit")
    # pairs of one's own are no audit: they become a dataset with whole sets, which is not put over another command's
    pair = {"image": "test/00000-0", "statement": "own", "text": "Something can be seen."}
    own = tmp_path / "own.jsonl"
    own.write_text(json.dumps(pair) + "\n", encoding="utf-8")
    on_a_platform(workdir, lambda unit: "entailment", "own", candidates=own, input=workdir / "dataset")
    assert "ctxr world-captions wrote" in ctxr(workdir, "aggregate", code=2)
    assert open_artifact(workdir / "dataset").sha256 == before
    ctxr(workdir, "aggregate", "--out", str(tmp_path / "other"))
    made = read_dataset(tmp_path / "other")
    assert list(made.queries) == ["entail/test/00000-0/own"]
    assert [len(one.images) for one in made.sets] == [24]


def test_a_second_round_is_asked_about_beside_the_first(workdir: Path) -> None:
    config = revised(workdir, threshold=0.9)
    ctxr(workdir, "export-tasks", "entail")
    first = {unit.id for unit in read_tasks(workdir / "tasks" / "entail").units}
    on_a_platform(workdir, lambda unit: "entailment")
    run(replace(config, threshold=0.6), classifier=StandIn(workdir / "dataset", sensitivity=0.9, specificity=0.93))
    # pairs that stand in both samples were answered already
    assert "ctxr export-tasks entail" in ctxr(workdir, "revise-labels", "--audit")
    ctxr(workdir, "export-tasks", "entail")
    both = {unit.id for unit in read_tasks(workdir / "tasks" / "entail").units}
    assert first < both
    assert "audited" in ctxr(workdir, "revise-labels", "--audit", "--round", "1")
    assert "undone" in ctxr(workdir, "revise-labels", "--undo")
    assert "round 1" in ctxr(workdir, "revise-labels", "--audit")
    assert "redone" in ctxr(workdir, "revise-labels", "--redo")
    assert [one.active for one in read_rounds(workdir / "revised")] == [True, True]


def on_a_platform(workdir: Path, says: Any, folder: str = "label-studio", **more: Any) -> None:
    """Export to Label Studio beside what is there, let everybody label everything, and import their projects."""
    out = workdir / "tasks" / folder
    base = "https://pictures.example.org"
    export_tasks(ExportTasks(task="entail", workdir=workdir, out=out, backend="label-studio", image_base=base, **more))
    units = {unit.id: unit for unit in read_tasks(out).units}
    for file in sorted(out.rglob("rater-*/tasks.json")):
        tasks = json.loads(file.read_bytes())
        for place, task in enumerate(tasks):
            chosen = {"from_name": "verdict", "value": {"choices": [says(units[task["data"]["ctxr_unit"]])]}}
            given = {"id": place, "created_at": "2026-11-21T10:00:00Z", "result": [chosen]}
            task["annotations"] = [given | {"completed_by": task["data"]["ctxr_slot"]}]
        answers = workdir / f"{folder}-{file.parent.name}.json"
        answers.write_text(json.dumps(tasks), encoding="utf-8")
        ctxr(workdir, "import-answers", str(answers), "--from", "label-studio", "--tasks", folder)


def test_descriptions_of_ten_image_sets_are_audited_by_people(tmp_path: Path) -> None:
    release = write_release(tmp_path / "release", test=None)
    draw_sets(release, [*TRAIN, *VALID])
    work = tmp_path / "work"
    run(ReviseLabels(release, workdir=work, entail=True, retriever="hashed", sample=500), classifier=LikesImg9())
    ctxr(work, "export-tasks", "entail")
    # the hat is on two pictures, and nothing else holds for another one
    on_a_platform(
        work, lambda unit: "entailment" if unit.statement == "A red hat." and "img9" in unit.images[0] else "neutral"
    )
    also = read_table(work / "revised" / "rounds" / "001" / "also.jsonl", SetConflict)
    report = run(ReviseLabels(workdir=work, audit=True))
    shown = {(row[0], row[2]): row[3] for row in report.tables["also"].rows}
    assert len(shown) == len(also)
    assert sorted(shown.values(), reverse=True) == ["yes"] + ["no"] * (len(also) - 1)
    told = json.loads((work / "revision-audit" / "001" / "figures.json").read_bytes())["revision"]
    assert told["precision"]["value"] == pytest.approx(1 / len(also))
    assert told["recall"]["value"] == pytest.approx(1.0)
    assert "undone" in ctxr(work, "revise-labels", "--undo")
    with pytest.raises(UsageError, match="round is undone"):
        run(ReviseLabels(workdir=work, audit=True))
    with pytest.raises(UsageError, match=r"pairs .* judged"):
        export_tasks(ExportTasks(task="entail", workdir=work))
    ctxr(work, "revise-labels", "--redo")
    assert run(ReviseLabels(workdir=work, audit=True)).did == "audited"
