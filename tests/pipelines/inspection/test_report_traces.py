"""The report on queries with mouse traces in a browser: words and their strokes, results, curves."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run
from ctxr.problems.traces.question import Traces
from tests.pipelines.opened import Open
from tests.problems.test_traces import HOSTILE, Learner, evaluated, write_narratives, write_scores


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("traces")
    dataset = write_narratives(work / "narratives", gallery=32, videos=6, pictures=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Traces, "LEARNER", f"{Learner.__module__}:Learner")
        evaluated(work, "ctxr-tiny", write_scores(work, "bad.jsonl", -9.0))
    return run(Report(workdir=work, input=dataset)).page


def test_a_word_that_is_pointed_at_or_reached_by_keys_shows_its_stroke_alone(show: Open, page: Path) -> None:
    opened = show(page)
    opened.tab.locator("#t-run").select_option(label="bad")
    opened.tab.locator("#t-sort").select_option("easy")
    card = opened.tab.locator(".traced", has_text="v0/q00")
    words, shown = card.locator(".t-word"), card.locator(".drawn polyline.on:not(.casing)")
    expect(words).to_have_text([HOSTILE, "left", "to", "right"])
    assert opened.tab.locator("img[src=x]").count() == 0
    expect(card.locator(".drawn svg")).to_have_count(3)
    words.nth(3).hover()
    expect(shown).to_have_count(1)
    expect(card.locator(".drawn .frame").nth(2).locator("polyline.on.casing")).to_have_count(1)
    card.locator(".t-words").focus()
    opened.tab.keyboard.press("ArrowRight")
    expect(card.locator(".t-word.on")).to_have_text(HOSTILE)
    opened.tab.keyboard.press("ArrowLeft")
    expect(card.locator(".t-word.on")).to_have_text("right")
    expect(words.nth(2)).to_have_attribute("title", re.compile("nothing"))
    assert not opened.complaints


def test_first_results_come_with_the_rank_of_the_relevant_image_and_curves_with_a_key(show: Open, page: Path) -> None:
    tab = show(page).tab
    expect(tab.locator("#t-curves .plot h3")).to_contain_text(["noise", "words"])
    expect(tab.locator("#t-curves .run-dots circle")).to_have_count(8)
    tab.locator("#t-run").select_option(label="bad")
    card = tab.locator(".traced").first
    expect(card.locator(".found-by")).to_have_count(1)
    expect(card.locator(".found-by")).to_contain_text("rank 32")  # last of the gallery
    expect(card.locator(".firsts .frame")).to_have_count(6)
    expect(card.locator(".firsts .hit .place")).to_have_text(["32"])
    tab.locator("#t-sort").select_option("easy")
    expect(tab.locator(".traced").first.locator(".found-by")).to_contain_text("rank 8")
    expect(tab.locator("#t-found")).to_have_text("30 queries, here 1 to 10")


@pytest.mark.parametrize(("theme", "width"), [("light", 400), pytest.param("dark", 1280, marks=pytest.mark.prove)])
def test_the_section_is_accessible_in_both_themes_and_fits_a_phone(
    show: Open, page: Path, theme: str, width: int
) -> None:
    tab = show(page, theme, width).tab
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe(AXE_SCRIPT).run(tab, context="#traces")
    assert found.violations_count == 0, found.generate_report()
