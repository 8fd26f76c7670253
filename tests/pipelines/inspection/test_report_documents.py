"""The report on documents: their predicted graphs, and what the other parts say of them."""

import json
import math
import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, expect

from ctxr.datasets.documents import documents_of
from ctxr.datasets.open import read_dataset
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run
from ctxr.problems.links import question
from ctxr.problems.results import QueryResult
from ctxr.store.tables import read_table, write_table
from tests.pipelines.documents import SKILLS, documents_project
from tests.pipelines.opened import LEAP, Open, data_of

ENDS = """(line) => [0, line.getTotalLength()].map(
  (at) => line.getPointAtLength(at).matrixTransform(line.getScreenCTM()).y)"""
"""How high a line begins and ends on the screen."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return documents_project(tmp_path_factory.mktemp("documents") / "work")


@pytest.fixture(scope="module")
def page(work: Path) -> Path:
    return run(Report(workdir=work)).page


def per_query(work: Path) -> Path:
    (table,) = (work / "results").glob("*/per_query.jsonl")
    return table


def rows_of(work: Path) -> list[QueryResult]:
    return read_table(per_query(work), QueryResult)


def figures(card: Locator) -> list[float]:
    return [float(text) for text in card.locator(".figures b").all_text_contents()]


def test_a_graph_has_the_strongest_links_and_the_figures_of_judged_pairs(work: Path, page: Path) -> None:
    held, rows = data_of(page)["documents"], rows_of(work)
    assert held["runs"] == list(SKILLS)
    for document in documents_of(read_dataset(work / "dataset")):
        (shown,) = (one for one in held["rows"] if one["id"] == document.id)
        assert shown["texts"] == list(document.texts)
        assert shown["links"] == np.argwhere(document.links == 1).tolist()
        for run_name, graph in zip(held["runs"], shown["runs"], strict=True):
            by_query = {row.query: row.scores for row in rows if row.run == run_name}
            scores = np.array([by_query[name] for name in document.sentences])
            places = np.array(np.unravel_index(np.argsort(-scores, axis=None)[:5], scores.shape)).T.tolist()
            assert [edge[:2] for edge in graph["edges"]] == places
            assert [edge[2] for edge in graph["edges"]] == pytest.approx([scores[s, i] for s, i in places], rel=1e-3)
            labels = [document.links[s, i] for s, i in places]
            assert [edge[3] for edge in graph["edges"]] == [None if math.isnan(one) else one for one in labels]
            linked, others = scores[document.links == 1], scores[document.links == 0]
            assert graph["auc"] == pytest.approx(np.mean(linked[:, None] > others))
            assert graph["p1"] == float(linked.max() > others.max())
    # the mean of documents is what the evaluation says
    figures = json.loads(per_query(work).with_name("figures.json").read_text())["figures"]
    for at, name in enumerate(held["runs"]):
        means = [np.mean([one["runs"][at][key] for one in held["rows"]]) for key in ("auc", "p1")]
        said = {row["measure"]: row["value"] for row in figures if row["run"] == name}
        assert [said["AUC"], said["p@1"]] == pytest.approx(means)


def test_documents_are_sorted_by_the_figures_of_the_chosen_run_and_come_in_pages(show: Open, page: Path) -> None:
    tab = show(page).tab
    cards = tab.locator(".graph")
    expect(tab.locator("#d-found")).to_have_text("12 documents, here 1 to 10")
    first = tab.locator(".graph .title").first
    for order, place, reverse in (("auc", 0, False), ("-auc", 0, True), ("p1", 1, False), ("-p1", 1, True)):
        tab.select_option("#d-sort", order)
        values = [figures(card)[place] for card in cards.all()]
        assert values == sorted(values, reverse=reverse)
    tab.select_option("#d-sort", "id")
    expect(first).to_have_text("d0")
    worse = figures(cards.first)
    tab.select_option("#d-run", label="links-ap")
    assert figures(cards.first)[0] > worse[0]
    following = tab.locator("#d-pager button", has_text="Next")
    following.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator(".graph .title")).to_have_text(["d10", "d11"])


def test_lines_show_truth_and_strength_and_the_words_beside_them_say_the_same(show: Open, page: Path) -> None:
    tab = show(page).tab
    tab.select_option("#d-run", label="links-nostruct")
    tab.select_option("#d-sort", "id")
    card = tab.locator(".graph").first
    drawn = data_of(page)["documents"]
    document = next(row for row in drawn["rows"] if row["id"] == "d0")
    edges = document["runs"][drawn["runs"].index("links-nostruct")]["edges"]
    right = [edge[:2] in document["links"] for edge in edges]
    assert {True, False} == set(right)
    expect(card.locator(".edge.right")).to_have_count(sum(right))
    expect(card.locator(".edge.wrong")).to_have_count(5 - sum(right))
    expect(card.locator(".edge.missed")).to_have_count(5 - sum(right))
    widths = [float(line.get_attribute("stroke-width") or 0) for line in card.locator(".edge:not(.missed)").all()]
    assert widths == sorted(widths)
    words = [f"sentence {edge[0] + 1} – image {edge[1] + 1}" for edge in edges]
    expect(card.locator(".in-words li > span:first-child")).to_have_text(words)
    expect(card.locator(".in-words .verdict")).to_have_text(["true" if one else "not true" for one in right])
    assert len(re.findall("–", card.locator(".in-words p").last.text_content() or "")) == 5 - sum(right)


def test_a_line_ends_at_its_sentence_and_its_image_and_many_sentences_are_folded(show: Open, page: Path) -> None:
    tab = show(page).tab
    tab.select_option("#d-sort", "id")
    for place in range(3):
        card = tab.locator(".graph").nth(place)
        sentence, image = (
            int(n) for n in re.findall(r"\d+", card.locator(".in-words li span").first.text_content() or "")
        )
        ends = [
            card.locator(f"{side} li", has=tab.locator(mark, has_text=re.compile(f"^{number}$"))).bounding_box()
            for side, mark, number in ((".sentences", "b", sentence), (".pictures", ".place", image))
        ]
        middles = [box["y"] + box["height"] / 2 for box in ends if box]
        assert card.locator(".links .edge").last.evaluate(ENDS) == pytest.approx(middles, abs=1)
    # many sentences are folded until the whole document is wanted
    card = tab.locator(".graph").nth(1)
    expect(card.locator(".sentences li")).to_have_count(12)
    numbers = [int(text) for text in card.locator(".sentences b").all_text_contents()]
    strong = re.findall(r"sentence (\d+)", card.locator(".in-words ol").text_content() or "")
    assert set(map(int, strong)) <= set(numbers)
    card.locator(".whole").press("Enter")
    expect(card.locator(".sentences li")).to_have_count(18)
    expect(card.locator(".whole")).to_have_attribute("aria-expanded", "true")
    card.locator(".title").click()
    expect(tab.locator("#look-title")).to_have_text("d1")


def test_other_parts_speak_of_documents_and_show_the_tables_of_the_evaluation(
    show: Open, work: Path, page: Path
) -> None:
    content, data = page.read_text(encoding="utf-8"), data_of(page)
    assert re.findall(r'<section id="(\w+)"', content) == [
        "summary",
        "sets",
        "results",
        "documents",
        "steps",
        "provenance",
    ]
    assert "104 sentences: 104 of 12 documents on test." in content
    assert "results" not in data
    tab = show(page).tab
    expect(tab.locator("h1")).to_have_text("12 documents")
    (first, *_) = json.loads(per_query(work).with_name("figures.json").read_text())["tables"]
    cells = tab.locator("#results details").first.locator("tbody th, tbody td")
    expect(cells).to_have_text([cell for row in first["rows"] for cell in row])
    expect(tab.locator("#results .plot, #r-controls, .card .figures")).to_have_count(0)
    for document in documents_of(read_dataset(work / "dataset")):
        (texts,) = (one["texts"] for one in data["sets"] if one["id"] == document.id)
        linked = [np.flatnonzero(row == 1).tolist() for row in document.links]
        assert texts == [[places, text] for places, text in zip(linked, document.texts, strict=True)]
    expect(tab.locator("#provenance")).to_contain_text("results/links-nostruct-vs-links-ap")


def test_a_page_of_documents_has_no_words_of_sets_and_frames(show: Open, page: Path) -> None:
    tab = show(page).tab
    tab.keyboard.press("?")
    said = "(names) => [...document.querySelectorAll('*')].flatMap((one) => names.map((name) => one.getAttribute(name) || ''))"
    words = [tab.locator("body").inner_text(), *tab.evaluate(said, ["placeholder", "title", "aria-label"])]
    assert [
        one for text in words for one in re.findall(r"(?i).*(?:\bsets?\b(?!\.jsonl)|\bframes?\b|such as #).*", text)
    ] == []
    expect(tab.locator("#found")).to_have_text("12 documents")
    expect(tab.locator("#kind, #split")).to_have_count(0)  # there is one of each
    tab.keyboard.press("Escape")
    tab.locator(".card .title").first.click()
    tab.keyboard.press("Escape")
    tab.fill("#find", "no such words")
    expect(tab.locator("#cards .empty")).to_contain_text("No document matches")


def test_results_alone_draw_graphs_with_the_ids_of_images(show: Open, tmp_path: Path) -> None:
    work = documents_project(tmp_path / "work", count=3, pictured=False)
    shutil.rmtree(work / "dataset")
    tab = show(run(Report(workdir=work)).page).tab
    expect(tab.locator("h1")).to_have_text("3 documents evaluated")
    tab.select_option("#d-sort", "id")
    expect(tab.locator(".graph").first.locator(".pictures .frame").first).to_contain_text("d0/p0")
    expect(tab.locator(".graph h3.title")).to_have_count(3)


def test_a_page_holds_the_hardest_documents_and_counts_those_without_scores(
    show: Open, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(work, tmp_path / "work")
    table = per_query(tmp_path / "work")
    large = {"candidates": (), "scores": ()}
    rows = [msgspec.structs.replace(row, **large) if row.image_set == "d3" else row for row in rows_of(work)]
    table.unlink()
    write_table(table, rows)
    monkeypatch.setattr(question, "MOST_DOCUMENTS", 4)
    written = run(Report(workdir=tmp_path / "work")).page
    means = [np.mean([graph["auc"] for graph in one["runs"]]) for one in data_of(written)["documents"]["rows"]]
    assert means == sorted(means)
    tab = show(written).tab
    expect(tab.locator("#documents p", has_text="4 hardest of 11")).to_have_count(1)
    expect(tab.locator("#documents p", has_text="1 document has more than 30 images")).to_have_count(1)
    expect(tab.locator(".graph")).to_have_count(4)


def test_hostile_rows_are_shown_as_text_or_left_out(show: Open, work: Path, tmp_path: Path) -> None:
    hostile = '</script><img src=x onerror="alert(1)">'
    shutil.copytree(work / "results", tmp_path / "work" / "results")
    table = per_query(tmp_path / "work")
    row = rows_of(work)[0]
    strange = msgspec.structs.replace(
        row, query=hostile, image_set=hostile, text=hostile, candidates=(hostile, "b"), targets=("c",),
        scores=(1.0,), kind="document",
    )  # fmt: skip
    table.unlink()
    write_table(table, [strange])
    tab = show(run(Report(workdir=tmp_path / "work")).page).tab
    card = tab.locator(".graph")
    expect(card.locator(".title")).to_have_text(hostile)
    expect(card.locator(".sentences span")).to_have_text(hostile)
    expect(card.locator(".pictures .frame").first).to_have_attribute("title", hostile)
    expect(card.locator(".figures b")).to_have_text(["–", "–"])
    assert tab.locator("img[src=x]").count() == 0


@pytest.mark.parametrize(("theme", "width"), [("light", 400), pytest.param("dark", 1280, marks=pytest.mark.prove)])
def test_the_page_is_accessible_in_both_themes_and_fits_a_phone(show: Open, page: Path, theme: str, width: int) -> None:
    tab = show(page, theme, width).tab
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe(AXE_SCRIPT).run(tab, context="#documents")
    assert found.violations_count == 0, found.generate_report()
    assert tab.locator("#d-pager button", has_text="Next").evaluate(LEAP) == 0
