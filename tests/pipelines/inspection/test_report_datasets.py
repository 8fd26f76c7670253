"""Reports on what holds no image sets of ours: a drawn or described dataset, a published release, results alone."""

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.inspection.config import Report, ReportPage
from ctxr.pipelines.inspection.report import run
from tests.pipelines.evaluated import TEST, VALID, at_random, evaluate, evaluated_project, release, write_scores
from tests.pipelines.opened import Open, data_of
from tests.pipelines.report_artifacts import project
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import draw_sets

runner = CliRunner()


def parts_of(written: ReportPage) -> list[str]:
    return re.findall(r'<section id="(\w+)"', written.page.read_text(encoding="utf-8"))


def evaluated_release(base: Path, pictured: bool) -> Path:
    """A release `base/release`, evaluated in the project `base/work`, which is returned."""
    folder = release(base / "release")
    if pictured:
        draw_sets(folder, [*VALID, *TEST])
    evaluate(folder, write_scores(base / "outside.jsonl", folder, at_random(1)), workdir=base / "work")
    return base / "work"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that holds nothing but a drawn dataset and an evaluation of it."""
    work = tmp_path_factory.mktemp("drawn") / "work"
    dataset = write_world_dataset(work / "dataset", 3)
    evaluate(dataset, write_scores(work / "plain.jsonl", dataset, at_random(1), ("valid",)), workdir=work)
    return work


def test_a_drawn_dataset_is_shown_with_descriptions_splits_and_results(drawn: Path) -> None:
    written = run(Report(workdir=drawn))
    assert [path.name for path in written.chain] == ["dataset"]
    assert (written.sets, written.pictures, written.missing, written.notes) == (4, 40, [], [])
    assert parts_of(written) == ["summary", "sets", "results", "steps", "distributions", "provenance"]
    page, data = written.page.read_text(encoding="utf-8"), data_of(written.page)
    assert "7 descriptions: 3 of 2 sets on train, 4 of 2 sets on valid." in page
    assert sorted(one["split"] for one in data["sets"]) == ["train", "train", "valid", "valid"]
    assert sorted(len(one["texts"]) for one in data["sets"]) == [1, 2, 2, 2]
    assert all(0 <= place < 10 and text for one in data["sets"] for (place,), text in one["texts"])
    assert {len(rows) for rows in data["results"]["sets"].values()} == {10}
    assert all(number >= 0 for rows in data["results"]["sets"].values() for _, number, *_ in rows)


def test_a_described_dataset_stands_behind_the_image_sets_that_it_was_made_from(tmp_path: Path) -> None:
    work = evaluated_project(project(tmp_path / "work", videos=1, sets=1, photos=0))
    written = run(Report(workdir=work, input=work / "dataset"))
    assert [path.name for path in written.chain] == ["sets", "filtered", "dataset"]
    assert {"timelines", "dropped", "results"} <= {*parts_of(written)}
    assert [path.name for path in run(Report(workdir=work)).chain] == ["sets", "filtered", "dataset"]
    assert [path.name for path in run(Report(workdir=work, input=work / "filtered")).chain] == ["sets", "filtered"]


def test_a_release_is_shown_with_the_evaluations_of_the_workdir(tmp_path: Path) -> None:
    work = evaluated_release(tmp_path, pictured=True)
    written = run(Report(workdir=work, input=tmp_path / "release"))
    assert (written.chain, written.sets, written.pictures) == ([tmp_path / "release"], 7, 50)
    assert any("2 of 7 sets" in note for note in written.notes)
    data = data_of(written.page)
    assert parts_of(written) == ["summary", "sets", "results", "steps", "provenance"]
    assert all(number >= 0 for rows in data["results"]["sets"].values() for _, number, *_ in rows)
    hidden = [place for one in data["sets"] if one["split"] == "test" for place, _ in one["texts"]]
    assert hidden == [None, None, None]
    assert "of another dataset" not in written.page.read_text(encoding="utf-8")


def test_a_release_without_pictures_is_its_texts_and_says_so_once(tmp_path: Path) -> None:
    work = evaluated_release(tmp_path, pictured=False)
    written = run(Report(workdir=work, input=tmp_path / "release"))
    assert (written.sets, written.pictures, written.missing) == (7, 0, [])
    assert [note.partition(" lack")[0] for note in written.notes if "imgN.jpg" in note] == ["7 of 7 sets"]
    assert {number for rows in data_of(written.page)["results"]["sets"].values() for _, number, *_ in rows} == {-1}


def test_results_alone_are_a_page_without_pictures_that_says_so(tmp_path: Path) -> None:
    work = evaluated_release(tmp_path, pictured=True)
    written = run(Report(workdir=work))
    assert parts_of(written) == ["summary", "results", "provenance"]
    (note,) = written.notes
    assert "--input DATASET" in note
    page = written.page.read_text(encoding="utf-8")
    assert '<span class="big">4</span> queries evaluated' in page
    assert "in this project" not in page
    assert "of them blue." in page


def test_results_of_another_dataset_are_told_apart_from_the_sets_of_the_page(tmp_path: Path) -> None:
    work = evaluated_release(tmp_path, pictured=False)
    other = write_world_dataset(tmp_path / "elsewhere" / "drawn", 1)
    page = run(Report(workdir=work, input=other)).page.read_text(encoding="utf-8")
    assert "the sets above" in page


def test_what_is_no_dataset_is_refused(drawn: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no dataset"):
        run(Report(workdir=drawn, input=tmp_path))
    results = next(path.parent for path in (drawn / "results").glob("*/manifest.json"))
    with pytest.raises(DataError, match="not image_sets or dataset"):
        run(Report(workdir=drawn, input=results))
    shutil.copytree(drawn / "dataset", tmp_path / "mine")
    given = ["report", "--input", str(tmp_path / "mine"), "--out", str(tmp_path / "mine" / "page.html")]
    assert runner.invoke(app, given).exit_code == 2


def test_an_edited_dataset_is_said_once(drawn: Path, tmp_path: Path) -> None:
    shutil.copytree(drawn / "dataset", tmp_path / "dataset")
    with (tmp_path / "dataset" / "texts.jsonl").open("a") as stream:
        stream.write("\n")
    notes = run(Report(workdir=tmp_path)).notes
    assert [(note.split()[0], "ctxr doctor" in note) for note in notes] == [("dataset/texts.jsonl", True)]


def test_descriptions_are_found_and_pictures_are_shown_whole(show: Open, drawn: Path) -> None:
    opened = show(run(Report(workdir=drawn)).page)
    tab = opened.tab
    expect(tab.locator(".card .texts")).to_have_count(4)
    text = tab.locator(".card .texts span").first.text_content() or ""
    tab.fill("#find", text)
    expect(tab.locator(".card .texts span").first).to_have_text(text)
    for frame in (tab.locator(".card .frame").first, tab.locator(".miss .frame").first):
        box = frame.bounding_box()
        assert box is not None
        assert box["width"] == pytest.approx(box["height"], abs=1)
    tab.locator(".card .title").first.click()
    expect(tab.locator("#look .texts li")).to_have_count(2)
    assert opened.complaints == []


def test_results_alone_can_be_browsed_by_text(show: Open, tmp_path: Path) -> None:
    opened = show(run(Report(workdir=evaluated_release(tmp_path, pictured=False))).page, width=360)
    tab = opened.tab
    expect(tab.locator(".miss blockquote")).to_have_count(4)
    expect(tab.locator(".miss .strip.blank")).to_have_count(4)
    expect(tab.locator(".miss button.link")).to_have_count(0)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.complaints == []
