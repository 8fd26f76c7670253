"""The report's part on results: what it reads, and how it behaves in a real browser."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ctxr.errors import DataError
from ctxr.metrics.ranking import ALL_OF_SET
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.pages import results
from ctxr.pipelines.inspection.pages.results import find_scored
from ctxr.pipelines.inspection.report import run
from tests.pipelines.evaluated import evaluate, evaluated_project
from tests.pipelines.opened import LEAP, Open
from tests.pipelines.report_artifacts import project


def texts(opened: object) -> list[str]:
    found: list[str] = opened.tab.locator(".miss blockquote").all_text_contents()  # type: ignore[attr-defined]
    return found


def test_a_project_without_an_evaluation_has_no_such_part(tmp_path: Path) -> None:
    content = run(Report(workdir=project(tmp_path / "work", videos=1, sets=1, photos=0))).page.read_text()
    assert 'id="results"' not in content


def test_every_run_stands_once_and_what_was_edited_or_is_of_another_dataset_is_told(tmp_path: Path) -> None:
    work = evaluated_project(project(tmp_path / "work", videos=1, sets=2, photos=0))
    evaluate(work / "dataset", work / "scores" / "plain.jsonl", workdir=work)
    (found,) = find_scored(work)
    assert [one.path.name for one in found.artifacts] == ["plain-vs-with-context"]
    assert found.runs == ["plain", "with context"]
    assert len(found.rows) == 2 * 4
    assert found.notes == []
    other = evaluated_project(project(tmp_path / "other", videos=1, sets=1, photos=0))
    (other / "results" / "plain-vs-with-context").rename(work / "results" / "strange")
    (found,) = find_scored(work)
    assert [one.path.name for one in found.artifacts] == ["plain-vs-with-context"]
    assert [note[:14] for note in found.notes] == ["1 evaluations "]
    file = work / "results" / "plain-vs-with-context" / "figures.json"
    file.write_text(json.dumps(json.loads(file.read_text())))
    (found,) = find_scored(work)
    assert found.notes[1].startswith("results/plain-vs-with-context/figures.json ")
    file.write_text('{"figures": [{}]}')
    with pytest.raises(DataError, match=r"figures\.json is damaged"):
        find_scored(work)


def test_what_was_scored_in_part_stands_apart_under_its_own_number(tmp_path: Path) -> None:
    work = evaluated_project(project(tmp_path / "work", videos=1, sets=2, photos=0))
    half = work / "scores" / "half.jsonl"
    half.write_text("\n".join((work / "scores" / "plain.jsonl").read_text().splitlines()[:5]))
    evaluate(work / "dataset", half, workdir=work, partial=True)
    (scored,) = find_scored(work)
    panel = results._panel(scored, "test")
    assert [name for _, name in panel["names"]] == ["plain", "with context", "half (1 of 4)"]
    assert [row[:2] for row in panel["table"].rows] == [("plain", "4"), ("with context", "4"), ("half", "1")]
    assert panel["table"].columns[:5] == ("run", "queries", "accuracy %", ALL_OF_SET, "MRR")
    assert re.search(r" 4 queries.*: half \(1 of 4\)", panel["notes"][0])
    assert "fewer than 5 sets" in panel["notes"][1]
    assert None in [whisker["low"] for whisker in panel["whiskers"]]


def test_provenance_names_the_evaluations_and_their_runs(evaluated: Path, page: Path) -> None:
    content = page.read_text()
    (found,) = find_scored(evaluated)
    for one in found.artifacts:
        assert f"<b>results/{one.path.name}</b>" in content
        assert one.sha256 in content


def test_a_page_holds_the_hardest_queries_of_many(
    evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MOST_QUERIES", 3)
    content = run(Report(workdir=evaluated, out=tmp_path / "few.html")).page.read_text()
    assert "3 hardest of 28" in content


def test_the_plot_has_all_runs_and_the_hardest_queries_come_first_with_target_and_pick_marked(
    show: Open, page: Path
) -> None:
    tab = show(page).tab
    expect(tab.locator(".whisker")).to_have_count(9)
    told = tab.locator(".whisker title").first.text_content() or ""
    assert told.startswith("plain, all: ")
    row = tab.locator("#results .list tbody tr").nth(1)
    assert (row.locator("th").text_content(), row.locator("td").count()) == ("with context", 7)
    assert (row.locator("td").nth(5).text_content() or "").startswith("+")
    expect(tab.locator(".miss")).to_have_count(12)
    expect(tab.locator("#r-found")).to_contain_text("28 queries, mean accuracy of 3 runs")
    first = tab.locator(".miss").first
    expect(first.locator(".target")).to_have_count(1)
    expect(first.locator(".mark-target")).to_have_text("target")
    assert first.locator(".missed").count() >= 1
    expect(first.locator(".shot-of").first.locator(".score")).to_have_count(3)
    assert "wrong" in (first.locator(".verdicts").text_content() or "")
    image = first.locator("img").first
    image.scroll_into_view_if_needed()
    image.evaluate("(one) => one.decode()")
    assert image.evaluate("(one) => one.naturalWidth") == 48


def test_filters_leave_the_queries_that_fit(show: Open, page: Path) -> None:
    opened = show(page)
    tab = opened.tab
    tab.select_option("#r-kind", "video")
    expect(tab.locator("#r-found")).to_contain_text("12 of 28 queries")
    tab.select_option("#r-run", label="plain")
    tab.select_option("#r-right", "wrong")
    expect(tab.locator(".miss .verdict.good")).to_have_count(0)
    expect(tab.locator(".miss").first.locator(".shot-of").first.locator(".score")).to_have_count(1)
    wrong = tab.locator(".miss").count()
    tab.select_option("#r-right", "right")
    assert wrong + tab.locator(".miss").count() == 12
    tab.select_option("#r-right", "")
    tab.select_option("#r-tag", "spatial")
    assert 0 < len(texts(opened)) < 12
    tab.select_option("#r-tag", "")
    tab.select_option("#r-run", "")
    tab.fill("#r-find", "CUP shot1")
    assert tab.locator(".miss .link").all_text_contents() in (
        ["clip0-shot1_0", "clip1-shot1_0"],
        ["clip1-shot1_0", "clip0-shot1_0"],
    )
    assert all("cup" in text for text in texts(opened))
    tab.fill("#r-find", "no such words")
    tab.click("#r-cards .empty button")
    expect(tab.locator("#r-found")).to_contain_text("28 queries")


def test_pages_turn_a_set_opens_from_its_query_and_runs_are_told_apart(show: Open, page: Path) -> None:
    tab = show(page).tab
    tab.locator("#r-pager button", has_text="Next").click()
    expect(tab.locator("#r-found")).to_contain_text("here 13 to 24")
    name = tab.locator(".miss .link").first.text_content() or ""
    tab.locator(".miss .link").first.click()
    expect(tab.locator("#look-title")).to_have_text(name)
    tab.keyboard.press("Escape")
    tab.select_option("#r-sort", "easy")
    expect(tab.locator(".miss").first.locator(".verdict.good")).to_have_count(3)
    tab.select_option("#r-right", "split")
    for card in tab.locator(".miss").all():
        assert card.locator(".verdict.good").count() in (1, 2)


@pytest.mark.parametrize("width", [420, 1280])
def test_a_button_stays_under_the_pointer_while_the_page_around_it_is_drawn(show: Open, page: Path, width: int) -> None:
    button = show(page, width=width).tab.locator("#r-pager button", has_text="Next")
    assert button.evaluate(LEAP) == 0  # pressed here and let go there is no click
