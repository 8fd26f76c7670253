"""The report's part on revised labels: of a project of captions alone, and beside image sets."""

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from ctxr.datasets.rounds import folder_of, read_figures, read_rounds
from ctxr.engine.report import Table
from ctxr.errors import DataError
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.pages.revision import find_revised, strata_of, verdict
from ctxr.pipelines.inspection.report import run as report
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from ctxr.store.artifacts import Content, finish
from tests.pipelines.report_artifacts import project
from tests.pipelines.revision.stand_in import StandIn
from tests.pipelines.revision.test_auditing import answer_all, revised

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
    assert said[1] == verdict(float(said[2]) / 100, 0.8)
    assert ("target of 80 %" in content) == (said[1] == "half")
    assert ">threshold 0.5, the classifier&#39;s own</th>" in content
    assert 'class="note bad"' not in content
    run(ReviseLabels(workdir=workdir, undo=True))
    assert "Round 1 (undone)" in report(Report(workdir=workdir)).page.read_text(encoding="utf-8")


def test_a_round_of_which_less_than_half_is_right_is_warned_of_and_the_strata_end_at_the_threshold(
    workdir: Path,
) -> None:
    judge = StandIn(workdir / "dataset", specificity=0.2)
    run(ReviseLabels(workdir=workdir, entail=True, by="hashed", sample=60, threshold=0.3), classifier=judge)
    answer_all(workdir)
    run(ReviseLabels(workdir=workdir, audit=True))
    content = report(Report(workdir=workdir)).page.read_text(encoding="utf-8")
    assert "captions are right." in content
    assert "ctxr revise-labels --undo --round 1" in content
    (made,) = read_rounds(workdir / "revised")
    rows = read_figures(workdir / "revised" / folder_of(1))["bands"]
    groups = {one["done"]: [row["name"] for row in one["rows"]] for one in strata_of(rows, made, None)}
    assert groups["added"][-1].startswith("0.3 to 0.5, rank ")
    assert groups["rejected"][0].startswith("0.1 to 0.3, rank ")
    assert sum(map(len, groups.values())) == len(rows)


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
        content = Content(["tables.json"], {}, {})
        finish(folder, kind="classifier_results", verb="eval", config={"split": "test"}, parents=[], content=content)
        page = report(Report(workdir=home)).page.read_text(encoding="utf-8")
        assert 'id="tables"' in page
        assert "50.0 (25.0–75.0)" in page
        assert "who always gives" in page
        assert "results/judge" in page
        assert ('id="summary"' in page) == (home is workdir)
    (alone / "results" / "judge" / "tables.json").write_text("{}")
    with pytest.raises(DataError, match=r"judge/tables\.json is damaged"):
        report(Report(workdir=alone))


def test_image_sets_keep_their_page_and_gain_the_part(workdir: Path, tmp_path: Path) -> None:
    sets = project(tmp_path / "sets", videos=1, sets=1, photos=0)
    assert find_revised(sets / "filtered") is None
    assert 'id="revision"' not in report(Report(workdir=sets)).page.read_text(encoding="utf-8")
    judge = StandIn(workdir / "dataset", trained_on=frozenset(["test/00000-0"]))
    config = ReviseLabels(workdir=workdir, entail=True, by="hashed", split="test", allow_leak=True)
    run(config, classifier=judge)
    shutil.copytree(workdir / "dataset", sets / "dataset")
    shutil.copytree(workdir / "revised", sets / "revised")
    content = report(Report(workdir=sets)).page.read_text(encoding="utf-8")
    assert 'id="sets"' in content
    assert 'id="revision"' in content
    assert "on 1 of these" in content
