"""Which problem an evaluation is about: what --problem names, else what runs were trained for, else what the dataset asks."""

from pathlib import Path
from typing import ClassVar

import pytest

from ctxr.errors import UsageError
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run as report
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import run
from ctxr.problems import registry
from ctxr.problems.links.question import LinkEvaluation, Links
from ctxr.store.artifacts import Content, finish, open_artifact
from tests.pipelines.documents import documents_project


class OtherEvaluation(LinkEvaluation):
    PROBLEM: ClassVar[str] = "other"


class Other(Links):
    """A second question about documents."""

    VARIANTS: ClassVar[tuple[str, ...]] = ("other",)
    evaluation = OtherEvaluation


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return documents_project(tmp_path_factory.mktemp("documents") / "work")


@pytest.fixture
def scores(project: Path) -> Path:
    return project / "scores" / "links-ap.jsonl"


def evaluated(work: Path, *runs: str, problem: str = "") -> str:
    options = Eval(runs, work / "dataset", work, resamples=20, permutations=9, problem=problem)
    return str(open_artifact(run(options).results).manifest.counts["problem"])


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PROBLEMS", {"other": f"{__name__}:Other", **registry.PROBLEMS})


@pytest.mark.usefixtures("two")
def test_a_file_of_scores_about_a_dataset_with_two_questions_needs_the_name_of_one(project: Path, scores: Path) -> None:
    with pytest.raises(UsageError, match="other, links") as caught:
        evaluated(project, str(scores))
    assert caught.value.hint == "--problem other"
    assert evaluated(project, str(scores), problem="other") == "other"


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(("variant", "problem"), [("other", "other"), ("links-ap", "links")])
def test_a_trained_run_says_which_of_two_questions_it_answers(
    project: Path, scores: Path, variant: str, problem: str
) -> None:
    folder = project / "runs" / variant
    folder.mkdir(parents=True)
    (folder / "scores.jsonl").write_text(scores.read_text().replace("links-ap", variant))
    content = Content(["scores.jsonl"], {}, {})
    finish(folder, kind="run", verb="listen", config={"variant": variant}, parents=[], content=content)
    assert evaluated(project, variant) == problem


def test_an_unknown_problem_is_refused_by_name(project: Path, scores: Path) -> None:
    with pytest.raises(UsageError, match="no problem 'galery'") as caught:
        evaluated(project, str(scores), problem="galery")
    assert "gallery" in str(caught.value.hint)


def test_a_page_shows_every_question_that_a_dataset_was_asked(tmp_path: Path) -> None:
    work = documents_project(tmp_path / "work")
    assert evaluated(work, str(work / "scores" / "links-ap.jsonl"), problem="contextual") == "contextual"
    page = report(Report(workdir=work)).page.read_text()
    assert '<section id="documents"' in page
    assert 'id="r-controls"' in page
    assert "Accuracy on test" in page
