"""A review in a real browser: by keys alone, on a phone, for who cannot see it, and across a server that was killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.annotation.web.reviewed import SETS, Reviewed
from tests.annotation.web.serving import Running, serving
from tests.annotation.web.test_app_browser import LOADING, look

Show = Callable[[Running, Reviewed], Page]


@pytest.fixture
def show(headless: Browser) -> Iterator[Show]:
    """Opens the first set of a reviewer; in the end the browser may not have complained about anything."""
    context = headless.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    complaints = list[str]()

    def opener(running: Running, reviewed: Reviewed) -> Page:
        tab = context.new_page()
        tab.on("console", lambda one: None if one.text.startswith(LOADING) else complaints.append(one.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(f"{running.address}{reviewed.path()}")
        tab.get_by_role("button", name="Start").click()
        tab.wait_for_url("**/set/0")
        return tab

    yield opener
    context.close()
    assert complaints == []


def test_a_review_is_done_with_the_keyboard_alone(tmp_path: Path, show: Show) -> None:
    reviewed = Reviewed(tmp_path, {"clip/img3": 0.87})
    with serving(reviewed) as running:  # type: ignore[arg-type]
        tab = show(running, reviewed)
        look(tab)
        for key in ("3", "0", "3", "4", "f"):
            tab.keyboard.press(key)
        expect(tab.locator(".tile input:checked")).to_have_count(2)
        look(tab)
        tab.keyboard.press("z")
        expect(tab.locator("#near-name")).to_have_text("Image 4")
        tab.keyboard.press("k")
        tab.keyboard.press("Escape")
        tab.keyboard.press("?")
        expect(tab.locator("#keys")).to_be_visible()
        tab.keyboard.press("r")
        look(tab)
        tab.keyboard.press("Escape")
        tab.keyboard.press("k")
        expect(tab.locator("h1")).to_have_text(f"Set 2 of {SETS}")
        expect(tab.locator("[name=reason]:checked")).to_have_value("faces")
        tab.keyboard.press("u")
        expect(tab.locator("h1")).to_have_text(f"Set 1 of {SETS}")
        expect(tab.locator(".tile input:checked")).to_have_count(0)
        tab.keyboard.press("k")
        expect(tab.locator("h1")).to_have_text(f"Set 2 of {SETS}")
        tab.keyboard.press("n")
        tab.keyboard.press("r")
        expect(tab.locator("h1")).to_have_text(f"Set 3 of {SETS}")
        tab.keyboard.press("ArrowLeft")
        expect(tab.locator(".flag")).to_have_text("rejected")
        look(tab)
        tab.keyboard.press("ArrowRight")
        expect(tab.locator("h1")).to_have_text(f"Set 3 of {SETS}")
        tab.keyboard.press("Shift+K")
        expect(tab.locator("h1")).to_have_text("All decided")
        look(tab)
    assert reviewed.review.counts() == {"kept": 2, "rejected": 1, "open": 0, "images": 0}
    said = [(row.id, row.decision, row.reason) for row in reviewed.rows()]
    assert said[:3] == [
        ("clip/img3", "reject", "faces"),
        ("clip/img9", "reject", "faces"),
        ("clip-shot0_0", "keep", ""),
    ]
    assert ("clip-shot0_1", "reject", "nudity") in said


def test_a_server_that_is_killed_and_started_again_loses_no_decision(tmp_path: Path, show: Show) -> None:
    reviewed = Reviewed(tmp_path)
    with serving(reviewed) as running:  # type: ignore[arg-type]
        tab = show(running, reviewed)
        tab.keyboard.press("k")
        expect(tab.locator("h1")).to_have_text(f"Set 2 of {SETS}")
        running.stop()
        again = Reviewed(tmp_path / "again")
        again.file.write_bytes(reviewed.file.read_bytes())
        again = Reviewed(tmp_path / "again")
        running.start(again)  # type: ignore[arg-type]
        tab.keyboard.press("r")
        expect(tab.locator("h1")).to_have_text(f"Set 3 of {SETS}")
    assert [row.decision for row in again.rows()] == ["keep", "reject"]


def test_a_phone_reviews_by_touch(tmp_path: Path, show: Show) -> None:
    reviewed = Reviewed(tmp_path)
    with serving(reviewed) as running:  # type: ignore[arg-type]
        tab = show(running, reviewed)
        tab.set_viewport_size({"width": 390, "height": 800})
        tab.locator("label[for=p-2]").click()
        tab.locator(".why .option", has_text="plates").click()
        tab.locator("#keep").click()
        expect(tab.locator("h1")).to_have_text(f"Set 2 of {SETS}")
    assert [(row.id, row.reason) for row in reviewed.rows()] == [("clip/img1", "plates"), ("clip-shot0_0", "")]
