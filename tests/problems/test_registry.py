"""Which problem an evaluation is about: what --problem names, else what runs were trained for, else what the dataset asks."""

from pathlib import Path
from typing import ClassVar

import pytest

from ctxr.errors import UsageError
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run as report
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run
from ctxr.pipelines.modelling.train import run as train
from ctxr.problems import registry
from ctxr.problems.links.question import LinkEvaluation, Links
from ctxr.problems.results import PER_QUERY, QueryResult
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.kinds import SET_KINDS, SetKind
from ctxr.store.tables import read_table
from tests.models.encoder_folder import make_folder
from tests.pipelines.documents import documents_project
from tests.pipelines.galleries import draw


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
def test_trained_runs_say_which_of_the_questions_about_a_dataset_they_answer(project: Path, scores: Path) -> None:
    for variant, problem in (("other", "other"), ("links-ap", "links"), ("zero-shot", "contextual")):
        folder = project / "runs" / variant
        folder.mkdir(parents=True)
        (folder / "scores.jsonl").write_text(scores.read_text().replace("links-ap", variant))
        content = Content(["scores.jsonl"], {}, {})
        finish(folder, kind="run", verb="listen", config={"variant": variant}, parents=[], content=content)
        assert evaluated(project, variant) == problem
    with pytest.raises(UsageError, match="links, contextual"):
        evaluated(project, "links-ap", "zero-shot")


def test_a_run_with_a_head_over_sets_is_refused_on_galleries_of_any_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SET_KINDS, "shelf", SetKind())
    dataset, encoder = draw(tmp_path / "dataset"), f"local-dir:{make_folder(tmp_path / 'encoder')}"
    (dataset / "sets.jsonl").write_text((dataset / "sets.jsonl").read_text().replace('"photos"', '"shelf"'))
    old = open_artifact(dataset).manifest
    content = Content([*old.files], {}, {})
    finish(dataset, kind=old.kind, verb=old.verb, config=old.config, parents=old.parents, content=content)
    small = ("start=", "batch=8", "epochs=1", "layers=1", "inner=16", f"encoder={encoder}")
    train(Train("clip-module", dataset, changes=small, workdir=tmp_path, device="cpu"))
    assert evaluated(tmp_path, encoder) == "gallery"
    (results,) = tmp_path.glob(f"results/*/{PER_QUERY}")
    assert {row.kind for row in read_table(results, QueryResult)} == {"shelf"}
    assert evaluated(tmp_path, "clip-module") == "contextual"
    with pytest.raises(UsageError, match="clip-module") as caught:
        evaluated(tmp_path, "clip-module", problem="gallery")
    assert "--problem contextual" in str(caught.value.hint)


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
