"""The page of a search in a real browser: with mouse and keyboard, by voice, on a phone, for who cannot see it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ctxr.datasets.open import read_dataset
from tests.annotation.web.serving import serving
from tests.annotation.web.test_app_browser import LOADING, look
from tests.pipelines.finding.searched import COUNT, PaintedFinder, site

Show = Callable[[str], Page]

SPEECH = """window.SpeechRecognition = class { start() { setTimeout(() => {
  if (window.refused) this.onerror({ error: "not-allowed" });
  else this.onresult({ results: [[{ transcript: "picture" }], [{ transcript: "4" }]] });
  this.onend();
}); } };"""

STROKES = """() => {
  const canvas = document.getElementById("canvas"), { x, y } = canvas.getBoundingClientRect(), kinds = ["down", "move", "up"];
  canvas.setPointerCapture = () => {};
  for (let number = 0; number < 30000; number += 1) canvas.dispatchEvent(new PointerEvent(`pointer${kinds[number % 3]}`,
    { pointerId: 1, clientX: x + 40 * (number % 3) + number % 200, clientY: y + number % 99 }));
}"""


@pytest.fixture
def show(headless: Browser) -> Iterator[Show]:
    """Opens a page; in the end the browser may not have complained about anything."""
    context = headless.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    context.add_init_script(SPEECH)
    complaints = list[str]()

    def opened(address: str) -> Page:
        tab = context.new_page()
        tab.on("console", lambda one: None if one.text.startswith(LOADING) else complaints.append(one.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(address)
        return tab

    yield opened
    context.close()
    assert complaints == []


def draw(tab: Page, *points: tuple[float, float]) -> None:
    box = tab.locator("#canvas").bounding_box()
    assert box is not None
    for number, (x, y) in enumerate(points):
        tab.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        if number == 0:
            tab.mouse.down()
    tab.mouse.up()


def test_what_is_typed_and_drawn_together_is_asked_together(tmp_path: Path, show: Show) -> None:
    finder = PaintedFinder(tmp_path)
    with serving(site(finder)) as running:
        tab = show(running.address)
        look(tab)
        tab.keyboard.type("a dog 5")
        draw(tab, (0.1, 0.6), (0.4, 0.6))
        tab.locator("#text").press_sequentially(" sky")
        draw(tab, (0.2, 0.1), (0.9, 0.1))
        expect(tab.locator("#legend li")).to_have_text(["a dog 5", "sky"])
        expect(tab.locator("#results .file").first).to_have_text("p5.jpg")
        look(tab)
        tab.locator("#results .shot").first.click()
        tab.keyboard.press("ArrowRight")
        expect(tab.locator("#large-place")).to_have_text(f"2 of {COUNT}")
        look(tab)
        tab.locator("#large-alike").click()
        expect(tab.locator("#results .file").first).to_have_text("p7.jpg")
        tab.locator("#picture").set_input_files(tmp_path / "p2.jpg")
        expect(tab.locator("#results .time").nth(1)).to_have_text("01:23.5")
    (first, second), words = finder.heard[-1].strokes, finder.heard[-1].words
    assert [word.text for word in words] == ["a", "dog", "5", "sky"]
    assert all(word.start <= first[0][2] and first[-1][2] == word.end < second[0][2] for word in words[:3])
    assert first[-1][2] < words[3].start <= second[0][2] < second[-1][2] == words[3].end
    assert [round(value, 1) for value in (*first[0][:2], *second[-1][:2])] == [0.1, 0.6, 0.9, 0.1]


def test_keys_alone_draw_undo_and_clear(tmp_path: Path, show: Show) -> None:
    finder = PaintedFinder(tmp_path)
    with serving(site(finder)) as running:
        tab = show(running.address)
        tab.keyboard.type("nothing")
        expect(tab.locator("#none")).to_be_visible()
        look(tab)
        tab.keyboard.press("Tab")
        expect(tab.locator("#keys")).to_be_visible()
        for key in ("Space", "Shift+ArrowLeft", "ArrowUp", "Enter", "Space", "ArrowDown", "Space", "Backspace"):
            tab.keyboard.press(key)
        tab.locator("#nearest").click()
        expect(tab.locator("#results li")).to_have_count(COUNT)
        tab.locator("#clear").click()
        expect(tab.locator("#start")).to_be_visible()
    (stroke,) = finder.heard[-1].strokes
    assert [point[:2] for point in stroke] == [(0.5, 0.5), (0.4, 0.5), (0.4, 0.48), (0.4, 0.48)]


def test_lost_pictures_a_server_that_is_away_and_thousands_of_strokes_break_nothing(tmp_path: Path, show: Show) -> None:
    finder = PaintedFinder(tmp_path)
    with serving(site(finder)) as running:
        tab = show(running.address)
        tab.route(re.compile(r"/picture/3\?"), lambda route: route.fulfill(status=404))
        tab.keyboard.type("1")
        expect(tab.locator("#results .lost .sorry")).to_be_visible()
        (tmp_path / "p3.jpg").unlink()
        tab.evaluate(STROKES)
        tab.locator("#text").press_sequentially(" 2")
        expect(tab.locator("#gone")).to_contain_text("1 picture is")
        running.stop()
        tab.locator("#text").press_sequentially(" 3")
        expect(tab.locator("#notice")).to_contain_text("Trying again")
        running.start(site(finder))
        expect(tab.locator("#notice")).to_be_hidden()
    assert (len(finder.heard[-1].strokes), finder.heard[-1].words[-1].text) == (300, "3")


def test_dictation_starts_when_it_was_agreed_to_and_keeps_what_was_typed(tmp_path: Path, show: Show) -> None:
    with serving(site(PaintedFinder(tmp_path))) as running:
        tab = show(running.address)
        tab.keyboard.type("a")
        tab.locator("#dictate").click()
        look(tab)
        tab.locator("#turn-on").click()
        tab.wait_for_url("**/?dictate=1")
        tab.locator("#dictate").click()
        expect(tab.locator("#text")).to_have_value("a picture 4")
        expect(tab.locator("#results .file").first).to_have_text("p4.jpg")
        tab.evaluate("window.refused = true")
        tab.locator("#dictate").click()
        expect(tab.locator("#notice")).to_contain_text("microphone")


def test_every_picture_is_described_once_after_consent(tmp_path: Path, show: Show) -> None:
    finder, folder, done = PaintedFinder(tmp_path), tmp_path / "kept", "button:has-text('Done')"
    del finder.pictures[3:]
    with serving(site(finder, narratives=folder)) as running:
        tab = show(f"{running.address}/describe")
        look(tab)
        tab.locator(".agree input").check()
        tab.get_by_role("button", name="Start").click()
        expect(tab.locator("#text")).to_be_visible()  # typing does not wait for it
        tab.locator("#text").press_sequentially("a dog")
        tab.locator(done).click()
        expect(tab.locator("#notice")).to_be_visible()
        look(tab)
        for count in (1, 2, 3):
            draw(tab, (0.1, 0.6), (0.4, 0.6))
            tab.locator(done).click()
            expect(tab.locator("#count" if count < 3 else "#end")).to_contain_text("Thank you")
            expect(tab.locator("#text")).to_have_value("")
            if count < 3:
                tab.locator("#text").press_sequentially("a dog")
    dataset = read_dataset(folder)
    assert (len(dataset.images), len(dataset.payloads["traces"])) == (3, 3)
