"""The report on dialogues in a browser: chats, predicted turns, and the photos that are ranked first."""

import json
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from ctxr.datasets.dialogues import dialogues_of
from ctxr.datasets.open import read_dataset
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.problems.queries import queries_of
from ctxr.synthetic.dialogues import write_dialogues
from tests.pipelines.opened import Open
from tests.problems.test_intent import write

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve dialogues, whose photo `photos` ranks seventh; `turns` shares right in the first, too early in the others."""
    work = tmp_path_factory.mktemp("talks")
    data = work / "drawn"
    write_dialogues(data, {"test": 12}, 4)
    file = data / "test" / "test.json"
    rows = json.loads(file.read_text())
    rows[0]["dialogue"][0]["message"] = HOSTILE
    file.write_text(json.dumps(rows))
    dataset = read_dataset(data)
    photos = {
        one.query: {image: -abs(at - (one.targets[0] + 6) % 12) for at, image in enumerate(one.images)}
        for one in queries_of(dataset)
    }
    turns = {
        talk.query: {
            turn: float(turn == (talk.numbers[-1] if talk.query == "test/0" else "1")) for turn in talk.numbers
        }
        for talk in dialogues_of(dataset)
    }
    for name, values in (("photos", photos), ("turns", turns)):
        evaluate(Eval((write(work / f"{name}.jsonl", values),), data, work, resamples=200))
    return run(Report(workdir=work, input=data)).page


def test_a_dialogue_is_a_chat_with_the_turn_at_which_a_run_would_share(show: Open, page: Path) -> None:
    opened = show(page)
    cards = opened.tab.locator(".chat-card")
    expect(cards).to_have_count(8)
    expect(opened.tab.locator("#d-found")).to_have_text("12 dialogues, here 1 to 8")
    expect(cards.first.locator(".sure b")).to_have_text("would share here")
    opened.tab.locator("#d-sort").select_option("easy")
    first = cards.first
    expect(first.locator("h3")).to_have_text("test/0")
    expect(first.locator(".said-by").first).to_contain_text(HOSTILE)
    assert opened.tab.locator("img[src=x]").count() == 0
    expect(first.locator(".sure b")).to_have_text("shares here")
    expect(first.locator(".sure").last.locator(".value")).to_have_text("1.00")
    expect(first.locator(".shared img")).to_have_count(1)
    assert first.locator(".later").count() >= 1
    assert not opened.complaints


def test_the_photos_that_a_run_ranks_first_stand_beside_the_chat(show: Open, page: Path) -> None:
    card = show(page).tab.locator(".chat-card").first
    expect(card.locator(".found-by")).to_have_count(1)
    expect(card.locator(".firsts .frame")).to_have_count(6)
    expect(card.locator(".firsts .hit")).to_have_count(1)


@pytest.mark.parametrize(("theme", "width"), [("light", 390), pytest.param("dark", 1280, marks=pytest.mark.prove)])
def test_the_chats_are_accessible_in_both_themes_and_fit_a_phone(
    show: Open, page: Path, theme: str, width: int
) -> None:
    tab = show(page, theme, width).tab
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe(AXE_SCRIPT).run(tab, context="#dialogues")
    assert found.violations_count == 0, found.generate_report()
