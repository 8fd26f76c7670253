"""The report's part on revised labels: of a project of captions alone, and beside image sets."""

import shutil
from pathlib import Path

from ctxr.pipelines.report import Report
from ctxr.pipelines.report import run as report
from ctxr.pipelines.reporting.revision import find_revised
from ctxr.pipelines.revise_labels import ReviseLabels, run
from tests.pipelines.report_artifacts import project
from tests.pipelines.revising.stand_in import StandIn
from tests.pipelines.revising.test_auditing import answer_all, revised


def test_a_project_of_captions_has_a_page_with_pictures_and_what_was_added(workdir: Path) -> None:
    revised(workdir, sample=60)
    written = report(Report(workdir=workdir))
    content = written.page.read_text(encoding="utf-8")
    assert written.chain == [workdir / "dataset", workdir / "revised"]
    assert 'id="revision"' in content
    assert "Nobody has looked at this round yet" in content
    assert content.count('<img src="data:image/jpeg;base64,') == content.count('class="link-card"') > 3
    assert "its own captions" in content
    answer_all(workdir)
    run(ReviseLabels(workdir=workdir, audit=True))
    content = report(Report(workdir=workdir)).page.read_text(encoding="utf-8")
    assert "pairs that people looked at" in content
    assert "Fleiss&#39; kappa 1.00" in content
    run(ReviseLabels(workdir=workdir, undo=True))
    assert "Round 1 (taken back)" in report(Report(workdir=workdir)).page.read_text(encoding="utf-8")


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
    assert "The classifier was trained on 1 of these pictures" in content
