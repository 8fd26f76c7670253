"""What the candidates attended to, in the report: computed from the run's own weights, kept, and absent without error."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Silent
from ctxr.pipelines.inspection.config import Report, ReportPage
from ctxr.pipelines.inspection.pages.results import EvaluationRows, attention_shares, find_scored
from ctxr.pipelines.inspection.report import run
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run as train
from tests.models.encoder_folder import make_folder
from tests.pipelines.evaluated import at_random, describe_sets, evaluate, write_scores
from tests.pipelines.modelling.training.conftest import SMALL_HEAD
from tests.pipelines.opened import Open, data_of
from tests.pipelines.report_artifacts import project


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a trained context module, a run without a head, and a file of scores, all evaluated."""
    work = project(tmp_path_factory.mktemp("attention") / "work")
    encoder = f"encoder=local-dir:{make_folder(tmp_path_factory.mktemp('encoder') / 'one')}"
    dataset = describe_sets(work, sides=("train", "test"))
    for image in read_dataset(dataset).images.values():
        (dataset / image.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(work / "filtered" / image.path, dataset / image.path)
    train(Train("clip-temporal", dataset, changes=(encoder, *SMALL_HEAD), workdir=work))
    train(Train("clip-zero-shot", dataset, changes=(encoder,), workdir=work))
    outside = write_scores(work / "scores" / "outside.jsonl", dataset, at_random(1), ("test",))
    evaluate(dataset, "clip-temporal", "clip-zero-shot", outside, workdir=work)
    return work


def scored_of(work: Path) -> EvaluationRows:
    (found,) = find_scored(work)
    return found


def queries_of(written: ReportPage) -> list[dict[str, Any]]:
    queries: list[dict[str, Any]] = data_of(written.page)["results"]["queries"]
    return queries


def test_only_the_run_with_a_head_has_attention_and_its_rows_add_up(work: Path) -> None:
    scored = scored_of(work)
    queries = sorted({row.query for row in scored.rows})
    found = attention_shares(work, scored, queries, Silent())
    assert scored.notes == []
    assert sorted(found) == [("clip-temporal", query) for query in queries]
    sizes = {one.id: len(one.images) for one in read_dataset(work / "dataset").sets}
    for (_, query), shares in found.items():
        size = sizes[query.rpartition("/")[0]]
        assert np.shape(shares) == (size, size)
        assert np.abs(np.sum(shares, axis=1) - 100).max() <= size / 2  # whole percents


def test_attention_is_computed_once(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = scored_of(work)
    queries = [row.query for row in scored.rows][:3]
    first = attention_shares(work, scored, queries, Silent())

    def again(*_: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("ctxr.problems.contextual.learner.attend_all", again)
    assert attention_shares(work, scored, queries, Silent()) == first


def test_a_run_that_is_gone_or_was_trained_again_shows_nothing(work: Path, tmp_path: Path) -> None:
    copy = tmp_path / "work"
    shutil.copytree(work, copy)
    manifest = copy / "runs" / "clip-temporal" / "manifest.json"
    manifest.write_text(manifest.read_text() + "\n")
    scored = scored_of(copy)
    assert (attention_shares(copy, scored, ["x"], Silent()), scored.notes) == ({}, [])
    shutil.rmtree(copy / "runs")
    assert all("attention" not in one for row in queries_of(run(Report(workdir=copy))) for one in row["runs"])


def test_a_missing_picture_is_told_and_the_page_is_written(work: Path, tmp_path: Path) -> None:
    copy = tmp_path / "work"
    shutil.copytree(work, copy)
    shutil.rmtree(copy / ".ctxr-cache")
    asked = next(row for row in scored_of(copy).rows)
    dataset = read_dataset(copy / "dataset")
    file = dataset.picture(dataset.images[asked.candidates[0]])
    assert file is not None
    file.unlink()
    assert "attention of clip-temporal is" in run(Report(workdir=copy)).page.read_text()


def test_a_reader_opens_the_squares_and_reads_a_row(show: Open, work: Path) -> None:
    tab = show(run(Report(workdir=work)).page).tab
    card = tab.locator(".miss").first
    folds = card.locator("details.attended")
    expect(folds).to_have_count(1)
    expect(card.locator(".share")).to_have_count(0)
    folds.locator("summary").click()
    size = card.locator(".strip > li").count()
    expect(card.locator(".share")).to_have_count(size * size)
    expect(card.locator(".seen.target")).to_have_count(2)
    expect(card.locator(".told-of")).to_contain_text(", the target, looks at")
    card.locator(".share").nth(size + 1).hover()
    expect(card.locator(".told-of")).to_contain_text(re.compile(r"^2(, the \w+,)? looks at"))


def test_a_dataset_outside_of_the_project_has_its_attention_as_well(work: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(work, copy)
    (copy / "dataset").rename(tmp_path / "mine")
    inside = queries_of(run(Report(workdir=work)))
    outside = queries_of(run(Report(workdir=copy, input=tmp_path / "mine")))
    assert [query["runs"] for query in outside] == [query["runs"] for query in inside]
    assert any("attention" in one for query in outside for one in query["runs"])
