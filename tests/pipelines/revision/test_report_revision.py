"""The report's part on revised labels: of a project of captions alone, and beside image sets."""

import re
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ctxr.datasets.rounds import AuditVerdict, folder_of, read_audit, read_figures, read_rounds
from ctxr.engine.report import Table
from ctxr.errors import DataError
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.pages.revision import fates_of, round_verdict
from ctxr.pipelines.inspection.report import run as report
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from ctxr.store.artifacts import Content, finish
from ctxr.store.tables import read_table, write_table
from tests.pipelines.report_artifacts import project
from tests.pipelines.revision.stand_in import StandIn, ledger_of
from tests.pipelines.revision.test_auditing import answer_all, revised

DONE = ("added", "unsure", "rejected")
LICENCE = {
    "passed": False, "reason": "it may stand in for 1 of 3 people", "judge": "b", "epsilon": 0.1, "threshold": 0.8,
    "omega": 1 / 3, "rho": 0.7, "people": [], "items": 120,
}  # fmt: skip
NAMES = ("accuracy", "precision", "recall", "F0.5", "majority")


def test_a_project_of_captions_has_a_page_with_pictures_and_what_was_added(workdir: Path) -> None:
    revised(workdir, sample=60)
    written = report(Report(workdir=workdir))
    content = written.page.read_text(encoding="utf-8")
    assert written.chain == [workdir / "dataset", workdir / "revised"]
    assert 'id="revision"' in content
    assert "not been audited" in content
    assert content.count('<img src="data:image/jpeg;base64,') == content.count('class="link-card"') > 3
    assert "its own captions" in content
    answer_all(workdir)
    run(ReviseLabels(workdir=workdir, audit=True))
    content = report(Report(workdir=workdir)).page.read_text(encoding="utf-8")
    assert "audited by people" in content
    assert "Fleiss&#39; kappa 1.00" in content
    said = re.search(r'<b class="(good|half)">([0-9.]+)', content)
    assert said is not None
    precision = read_audit(workdir / "revision-audit" / "001")["revision"]["precision"]  # type: ignore[index]
    assert said[1] == round_verdict(precision, 0.8)
    assert ("target of 80 %" in content) == (said[1] == "half")
    assert ">threshold 0.5, the judge&#39;s own</th>" in content
    assert 'class="note bad"' not in content
    run(ReviseLabels(workdir=workdir, undo=True))
    assert "Round 1 (undone)" in report(Report(workdir=workdir)).page.read_text(encoding="utf-8")


def test_a_round_of_which_less_than_half_is_right_is_warned_of_and_the_strata_end_at_the_threshold(
    workdir: Path,
) -> None:
    judge = StandIn(workdir / "dataset", specificity=0.2)
    run(ReviseLabels(workdir=workdir, entail=True, retriever="hashed", sample=60, threshold=0.3), classifier=judge)
    answer_all(workdir)
    run(ReviseLabels(workdir=workdir, audit=True))
    content = report(Report(workdir=workdir)).page.read_text(encoding="utf-8")
    assert "captions are right." in content
    assert "ctxr revise-labels --undo --round 1" in content
    (made,) = read_rounds(workdir / "revised")
    rows = read_figures(workdir / "revised" / folder_of(1))["bands"]
    unanswered = {"stratum": "unsure, p unknown, rank above 10", "pairs": 3, "probability": None}
    (doubts,) = fates_of([unanswered], made, None)
    assert (doubts["done"], doubts["rows"][0]["name"]) == ("unsure", "no answer, rank above 10")
    between = [{"stratum": f"{done}, p 0.1 to 0.5, rank above 10", "pairs": 1, "probability": 0.3} for done in DONE]
    names = {one["done"]: one["rows"][0]["name"] for one in fates_of(between, replace(made, unsure_below=0.2), None)}
    assert names["unsure"].startswith("0.2 to 0.3, ")
    assert names["rejected"].startswith("0.1 to 0.2, ")
    groups = {one["done"]: [row["name"] for row in one["rows"]] for one in fates_of(rows, made, None)}
    assert groups["added"][-1].startswith("0.3 to 0.5, rank ")
    assert groups["rejected"][0].startswith("0.1 to 0.3, rank ")
    assert sum(map(len, groups.values())) == len(rows)


def test_the_page_shows_three_verdicts_what_is_not_in_force_and_what_people_overruled(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset", sensitivity=0.8, specificity=0.8)
    run(ReviseLabels(workdir=workdir, entail=True, retriever="hashed", sample=200), classifier=judge)
    answer_all(workdir)
    run(ReviseLabels(workdir=workdir, audit=True))
    folder, audit = workdir / "revised", workdir / "revision-audit" / "001"
    (made,) = read_rounds(folder)
    changes = {"toy": True, "unlicensed": True, "pending": 7, "unsure": 11, "judges": ("a", "b")}
    write_table(folder / "rounds.jsonl", [replace(made, **changes)])
    counts = {"asked": 1_100, "entailed": 310, "not": 420, "unsure": 370}
    cascade = [{"name": name, "toy": name == "dear", "low": 0.1, "high": 0.9, **counts} for name in ("cheap", "dear")]
    for file, more in (
        (folder / folder_of(1) / "figures.json", {"judges": cascade}),
        (audit / "figures.json", {"licence": LICENCE}),
    ):
        file.write_bytes(msgspec.json.encode(msgspec.json.decode(file.read_bytes()) | more))
    content = report(Report(workdir=workdir)).page.read_text(encoding="utf-8")
    for name in ("toy", "unlicensed", "no licence"):
        assert f'<span class="mark">{name}</span>' in content
    assert "<b>7 pairs" in content
    # people cannot license a toy
    assert "<code>ctxr export-tasks entail</code>" not in content
    assert "<code>ctxr revise-labels --entail --unlicensed</code>" in content
    write_table(folder / "rounds.jsonl", [replace(made, **changes | {"toy": False})])
    content = report(Report(workdir=workdir)).page.read_text(encoding="utf-8")
    assert "<code>ctxr export-tasks entail</code>" in content
    assert f"<b>{made.added + made.capped + 7:,}</b> entailed" in content
    assert "<b>11</b> unsure" in content
    assert content.count('<td class="n">1,100</td>') == 2
    assert "ω 0.33" in content
    people = {(row.image, row.caption): row.entailed for row in read_table(audit / "looked.jsonl", AuditVerdict)}
    wrong = {
        row.image
        for row in ledger_of(workdir)
        if people.get((row.image, row.caption), row.decision == "added") != (row.decision == "added")
    }
    said = content.partition(">What people overruled<")[2].partition('<h3 class="browse">')[0]
    cards = set(re.findall(r'class="link-card" aria-label="([^"]+)"', said))
    assert cards <= wrong
    assert len(cards) == min(12, len(wrong)) > 3
    assert "judge: entailed, people: not" in said
    assert "judge: not, people: entailed" in said


def test_classifiers_have_a_part_and_a_page_where_there_is_nothing_else(workdir: Path) -> None:
    tables = {
        "test/quality": Table("", (), (*(("judge", "all", name, 0.5, 0.25, 0.75, 8) for name in NAMES),)),
        "test/calibration": Table("", (), (("judge", "all", 0.125, 0.25, 0.5, 0.625),)),
    }
    alone = workdir.parent / "alone"
    for home in (workdir, alone):
        folder = home / "results" / "judge"
        folder.mkdir(parents=True)
        (folder / "tables.json").write_bytes(msgspec.json.encode(tables))
        content = Content(["tables.json"], {"problem": "entailment", "split": "test"}, {})
        finish(folder, kind="classifier_results", verb="eval", config={}, parents=[], content=content)
        page = report(Report(workdir=home)).page.read_text(encoding="utf-8")
        assert 'id="tables"' in page
        assert "50.0 (25.0–75.0)" in page
        assert "always giving" in page
        assert "results/judge" in page
        assert ('id="summary"' in page) == (home is workdir)
    (alone / "results" / "judge" / "tables.json").write_text("{}")
    with pytest.raises(DataError, match=r"judge/tables\.json is damaged"):
        report(Report(workdir=alone))


def test_image_sets_keep_their_page_and_gain_the_part(workdir: Path, tmp_path: Path) -> None:
    sets = project(tmp_path / "sets", videos=1, sets=1, photos=0)
    assert 'id="revision"' not in report(Report(workdir=sets)).page.read_text(encoding="utf-8")
    judge = StandIn(workdir / "dataset", trained_on=frozenset(["test/00000-0"]))
    config = ReviseLabels(workdir=workdir, entail=True, retriever="hashed", split="test", allow_leak=True)
    run(config, classifier=judge)
    shutil.copytree(workdir / "dataset", sets / "dataset")
    shutil.copytree(workdir / "revised", sets / "revised")
    content = report(Report(workdir=sets, input=sets / "sets")).page.read_text(encoding="utf-8")
    assert 'id="sets"' in content
    assert 'id="revision"' in content
    assert "on 1 of these" in content
