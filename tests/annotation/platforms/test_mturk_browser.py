"""The page of a HIT in a real browser: it sends what the import reads, by keyboard, and nothing before it is accepted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import pytest
from defusedxml import ElementTree as SafeTree

from ctxr.annotation.platforms import mturk
from ctxr.annotation.platforms.mturk import values_of
from ctxr.annotation.platforms.sheets import sheet
from ctxr.annotation.records import Unit
from tests.annotation.platforms.test_examples import ADDRESSES, HARBOUR, KITCHEN, MARKET

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

HOST = "https://workersandbox.mturk.com"
PIXEL = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="64" height="48"><rect width="64" height="48" fill="teal"/></svg>'
)


@dataclass
class Worker:
    """A browser that shows one HIT; `sent` is what came to Mechanical Turk."""

    page: "Page"
    shown: str = ""
    sent: dict[str, str] = field(default_factory=dict)
    address: str = ""

    def answer(self, route: "Route") -> None:
        request = route.request
        if request.method == "POST":
            self.address = request.url
            self.sent = dict(parse_qsl(request.post_data or "", keep_blank_values=True))
            route.fulfill(body="<p>Thank you.</p>", content_type="text/html")
        elif request.url.startswith("https://img."):
            route.fulfill(body=PIXEL, content_type="image/svg+xml")
        else:
            route.fulfill(body=self.shown, content_type="text/html")

    def open(self, unit: Unit, query: str) -> None:
        question = SafeTree.fromstring(mturk.question(sheet(unit, 0, 0), ADDRESSES))
        self.shown = question[0].text or ""
        self.page.goto(f"https://frame.example.org/hit?{query}")


@pytest.fixture
def worker(headless: "Browser") -> Iterator[Worker]:
    page = headless.new_page(viewport={"width": 900, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    one = Worker(page)
    page.route("**/*", one.answer)
    yield one
    page.close()
    assert problems == []


ACCEPTED = f"assignmentId=3ASSIGN&hitId=3HIT&workerId=A1&turkSubmitTo={HOST}"


def test_a_preview_cannot_be_sent(worker: Worker) -> None:
    worker.open(HARBOUR, "assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=3HIT")
    assert worker.page.locator("#submitButton").is_disabled()
    assert "Accept the HIT" in worker.page.locator("#submitButton").inner_text()


def test_a_picture_is_chosen_by_keyboard_and_travels_as_its_id(worker: Worker) -> None:
    worker.open(HARBOUR, ACCEPTED)
    assert worker.page.locator("figure img").count() == 4
    assert worker.page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    worker.page.keyboard.press("Tab")
    worker.page.keyboard.press("ArrowDown")
    worker.page.keyboard.press("ArrowDown")
    worker.page.keyboard.press("Tab")
    worker.page.keyboard.press("Enter")
    worker.page.wait_for_selector("text=Thank you")
    assert worker.address == f"{HOST}/mturk/externalSubmit"
    assert worker.sent["assignmentId"] == "3ASSIGN"
    one = sheet(HARBOUR, 0, 0)
    assert worker.sent["ctxr_seal"] == one.seal
    assert values_of(one.form, worker.sent) == {"pick": (HARBOUR.images[2],)}


def test_boxes_need_one_tick_and_several_come_back(worker: Worker) -> None:
    worker.open(KITCHEN, ACCEPTED)
    assert worker.page.locator("figure.marked").count() == 1
    assert "=The pan & the <lid>" in worker.page.locator(".passage").inner_text()
    worker.page.click("#submitButton")
    assert worker.sent == {}
    worker.page.get_by_label("negation").check()
    worker.page.get_by_label("temporal").check()
    worker.page.click("#submitButton")
    worker.page.wait_for_selector("text=Thank you")
    assert values_of(sheet(KITCHEN, 0, 0).form, worker.sent) == {"tags": ("temporal", "negation")}


def test_a_description_is_sent_as_it_was_typed(worker: Worker) -> None:
    worker.open(MARKET, ACCEPTED)
    text = "=A red <b>awning</b> & 'two' stalls ]]> é"
    worker.page.fill("textarea", text)
    worker.page.click("#submitButton")
    worker.page.wait_for_selector("text=Thank you")
    assert values_of(sheet(MARKET, 0, 0).form, worker.sent) == {"description": (text,)}


@pytest.mark.parametrize(
    "host", ["https://evil.example", "http://workersandbox.mturk.com", "https://www.mturk.com.evil.example"]
)
def test_nothing_is_sent_to_a_stranger(worker: Worker, host: str) -> None:
    worker.open(MARKET, f"assignmentId=3ASSIGN&turkSubmitTo={host}")
    assert (
        worker.page.evaluate("document.getElementById('mturk_form').action")
        == "https://www.mturk.com/mturk/externalSubmit"
    )
