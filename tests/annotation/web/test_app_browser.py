"""The pages in a real browser: by keyboard alone, on a phone, for who cannot see them, and two people in a talk."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from ctxr.annotation.study import read_texts
from ctxr.annotation.web.site import Invitation
from tests.annotation.test_study import CONSENT, folder_of
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import IMAGES, LANGUAGES, UNITS, Crowd, crowd
from tests.annotation.web.serving import Running, serving
from tests.annotation.web.test_before import QUESTIONS, WORK
from tests.annotation.web.test_work import GOOD

Show = Callable[..., Page]

LOADING = "Failed to load resource"
"""How the browser tells of a refused answer, or of a server that is away; some tests want just that."""

MOVED = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((one) => { if (!one.hadRecentInput) sum += one.value; }))
    .observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum))));
})"""
"""How much of the page moved while it loaded (cumulative layout shift)."""


@pytest.fixture
def show(headless: Browser) -> Iterator[Show]:
    """Opens the next page of a person; in the end no browser may have complained about anything."""
    complaints: list[str] = []
    contexts = []

    def opener(running: Running, crowd: Crowd, name: str = "ada", theme: str = "light", width: int = 1280) -> Page:
        context = headless.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=theme,  # type: ignore[arg-type]
            reduced_motion="reduce",  # colours on their way from one theme to the other are nobody's contrast
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda one: None if one.text.startswith(LOADING) else complaints.append(one.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(f"{running.address}/i/{crowd.site.signer.sign(Invitation(name))}")
        tab.get_by_role("button", name="Start").click()
        tab.wait_for_url("**/w/**")
        return tab

    yield opener
    for context in contexts:
        context.close()
    assert complaints == []


def test_an_image_is_described_with_the_keyboard_alone(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["describe"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        big = tab.locator(".big:visible figcaption")
        expect(big).to_have_text(re.compile(r"4\s*of 10\s*this one"))
        expect(tab.locator("#f-description")).to_be_focused()
        tab.keyboard.type("the left ear, ")
        tab.keyboard.press("PageDown")
        expect(big).to_have_text(re.compile("5 of 10$"))
        expect(tab.locator("#f-description")).to_be_focused()
        tab.keyboard.press("Escape")
        tab.keyboard.press("ArrowLeft")
        tab.keyboard.press("ArrowLeft")
        expect(big).to_have_text(re.compile("3 of 10$"))
        tab.keyboard.press("z")
        expect(tab.locator("#near")).to_be_visible()
        expect(tab.locator("#near-name")).to_have_text("Image 3")
        tab.keyboard.press("ArrowRight")
        expect(tab.locator("#near img")).to_have_attribute("alt", "Image 4")
        tab.keyboard.press("Escape")
        expect(tab.locator("#near")).not_to_be_visible()
        expect(big).to_have_text(re.compile(r"4\s*of 10"))
        tab.keyboard.press("Tab")
        tab.keyboard.press("Tab")
        expect(tab.locator("#f-description")).to_be_focused()
        tab.keyboard.type("which is folded, of the dog")
        tab.keyboard.press("Control+Enter")
        expect(tab.locator("h1")).to_have_text("Done for now, thank you")
    (answer,) = crowd.site.journal.answers()
    assert answer.values["description"] == ("the left ear, which is folded, of the dog",)


def test_keys_that_are_typed_into_a_text_are_text(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["describe"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        text, big = tab.locator("#f-description"), tab.locator(".big:visible figcaption")
        tab.keyboard.type("z1 Z")
        expect(text).to_have_value("z1 Z")
        tab.keyboard.press("Shift+PageDown")
        composing = "key => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, isComposing: true, bubbles: true}))"
        for key in ("PageDown", "Escape", "Enter"):
            tab.evaluate(composing, key)
        expect(text).to_be_focused()
        for field in ("<select><option>a</select>", "<p contenteditable>a</p>", "<input type=search>"):
            tab.evaluate("made => document.querySelector('.look').insertAdjacentHTML('beforebegin', made)", field)
            tab.locator("select, [contenteditable], [type=search]").last.focus()
            for key in ("ArrowRight", "z"):
                tab.keyboard.press(key)
        expect(big).to_have_text(re.compile(r"4\s*of 10"))
        expect(tab.locator("#near")).not_to_be_visible()


def test_a_browser_counts_pastes_and_how_long_the_page_was_left(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["describe"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        counted, text = tab.locator("#answer [name=counted]"), tab.locator("#f-description")
        expect(counted).to_have_value("0 0 0")
        tab.keyboard.type(GOOD)
        for key in ("ControlOrMeta+a", "ControlOrMeta+c", "End", "ControlOrMeta+v"):
            tab.keyboard.press(key)
        expect(text).to_have_value(GOOD * 2)
        expect(counted).to_have_value("1 0 0")
        tab.evaluate("() => { dispatchEvent(new Event('blur')); dispatchEvent(new Event('blur')); }")
        tab.wait_for_timeout(120)
        tab.evaluate(
            "() => { dispatchEvent(new Event('focus')); document.dispatchEvent(new Event('visibilitychange')); }"
        )
        text.fill(GOOD)
        tab.keyboard.press("Control+Enter")
        expect(tab.locator("h1")).to_have_text("Done for now, thank you")
    (use,) = crowd.site.journal.page_use().values()
    assert (use.answers, use.pasted, use.left) == (1, 1, 1)
    assert 0.1 < use.seconds < 60


def test_an_image_is_found_with_the_keyboard_alone(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["retrieve"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        chosen = tab.locator(".tile input:checked")
        for key, place in (("3", 3), ("0", 10), ("ArrowLeft", 9), ("ArrowUp", 4), ("ArrowRight", 5), ("ArrowDown", 10)):
            tab.keyboard.press(key)
            expect(chosen).to_have_attribute("id", f"p-{place}")
        tab.keyboard.press("2")
        tab.keyboard.press("z")
        tab.keyboard.press("ArrowRight")
        expect(tab.locator("#near-name")).to_have_text("Image 3")
        tab.keyboard.press("Escape")
        expect(chosen).to_have_attribute("id", "p-2")
        tab.keyboard.press("z")
        for _ in range(5):
            tab.keyboard.press("ArrowRight")
        tab.keyboard.press("Enter")
        expect(chosen).to_have_attribute("id", "p-7")
        tab.keyboard.press("Enter")
        expect(tab.locator("h1")).to_have_text("Done for now, thank you")
    assert crowd.site.journal.answers()[0].values["pick"] == (IMAGES[6],)


def test_a_problem_is_told_with_the_keyboard_alone(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["retrieve"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        tab.keyboard.press("3")
        tab.locator(".report summary").focus()
        tab.keyboard.press("Enter")
        tab.keyboard.press("Tab")
        for _ in range(2):
            tab.keyboard.press("ArrowDown")
        expect(tab.locator("input[name=problem]:checked")).to_have_value("broken")
        tab.keyboard.press("Tab")
        tab.keyboard.type("3 is grey")
        expect(tab.locator(".tile input:checked")).to_have_attribute("id", "p-3")
        tab.keyboard.press("Control+Enter")
        expect(tab.locator("h1")).to_have_text("Done for now, thank you")
    assert crowd.site.journal.answers()[0].values == {"problem": ("broken",), "comment": ("3 is grey",)}


def test_an_answer_that_finds_no_server_stays_on_its_page_and_can_be_sent_again(
    make_crowd: MakeCrowd, show: Show
) -> None:
    crowd = make_crowd(UNITS["describe"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        page = tab.url
        tab.fill("#f-description", GOOD)
        tab.context.set_offline(True)
        tab.click("#send")
        expect(tab.locator("#problems li")).to_have_count(1)
        tab.context.set_offline(False)
        tab.route("**/static/**", lambda route: route.fulfill(status=502))  # a proxy whose server starts again
        tab.click("#send")
        expect(tab.locator("#answer")).not_to_have_attribute("data-sent", "yes")
        assert (tab.url, tab.input_value("#f-description"), crowd.site.journal.answers()) == (page, GOOD, [])
        tab.unroute("**/static/**")
        with tab.expect_navigation():
            tab.click("#send")
        (answer,) = crowd.site.journal.answers()
        assert answer.values["description"] == (GOOD,)


def test_problems_are_told_while_typing_and_go_with_their_cause_or_for_a_reason(
    make_crowd: MakeCrowd, show: Show
) -> None:
    crowd = make_crowd(UNITS["describe"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        expect(tab.locator("#exception")).to_be_hidden()
        tab.keyboard.type("a dog as in the previous image")
        expect(tab.locator(".problems li")).to_contain_text("other images")
        expect(tab.locator("#f-reason")).to_be_visible()
        tab.fill("#f-description", GOOD)
        expect(tab.locator(".problems")).to_have_count(0)
        tab.reload()
        expect(tab.locator("#f-description")).to_have_value(GOOD)
        expect(tab.locator("#f-reason")).not_to_be_visible()
        tab.fill("#f-description", "a dog as in the previous image")
        expect(tab.locator(".problems li")).to_have_count(1)
        tab.fill("#f-reason", "these words stand on a sign")
        expect(tab.locator(".problems")).to_have_count(0)
        tab.click("#send")
        expect(tab.locator("h1")).to_have_text("Done for now, thank you")
    assert crowd.site.journal.answers()[0].values == {
        "description": ("a dog as in the previous image",), "reason": ("these words stand on a sign",),
    }  # fmt: skip


def chat(first: Page, second: Page, count: int) -> None:
    for number in range(count):
        tab, other = (first, second) if number % 2 == 0 else (second, first)
        tab.fill("#text", f"message {number} <b>&</b>")
        tab.keyboard.press("Enter")
        expect(other.locator("#turns li").last).to_contain_text(f"message {number} <b>&</b>")
        expect(tab.locator("#turns li")).to_have_count(number + 1)


def faults(tab: Page) -> list[str]:
    """What axe finds wrong with the page as it is; its script is sent once a page."""
    found = Axe("" if tab.evaluate("'axe' in window") else AXE_SCRIPT).run(tab)
    return [found.generate_report()] if found.violations_count else []


Screen = tuple[Literal["light", "dark"], int]
SCREENS: tuple[Screen, ...] = (("light", 390), ("dark", 390), ("dark", 1280), ("light", 1280))
"""Themes, and widths of a phone and of a screen."""


def until(holds: Callable[[], bool]) -> None:
    """Waits for what no expectation of the browser can say: its pages evaluate no strings."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def look(tab: Page, screens: Sequence[Screen] = SCREENS) -> None:
    """All that axe finds, by default in both themes and widths; the page is never wider than the window."""
    for theme, width in screens:
        tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(tab) == []


def test_two_people_talk_and_one_shares_the_photo_on_accessible_pages(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["dialogue"])
    with serving(crowd) as running:
        ada = show(running, crowd, "ada", "dark")
        expect(ada.locator("#presence")).to_contain_text("Waiting for")
        ben = show(running, crowd, "ben", "light", 360)
        expect(ada.locator("#presence")).to_contain_text("is here.")
        expect(ada.locator("#photo img")).to_be_visible()
        expect(ben.locator("#photo")).to_be_hidden()
        expect(ben.locator("#share")).to_have_count(0)
        chat(ada, ben, 4)
        expect(ada.locator("#share-button")).to_be_disabled()
        expect(ada.locator("#gate")).to_contain_text("after 1 more")
        ada.fill("#text", "look")
        ada.keyboard.press("Enter")
        expect(ada.locator("#share-button")).to_be_enabled()
        assert faults(ada) == []
        ada.click("#share-button")
        expect(ben.locator("#photo img")).to_be_visible()
        assert ben.locator("#photo img").evaluate("(one) => one.decode().then(() => one.naturalWidth)") == 96
        expect(ben.locator("#turns li").last).to_have_text(re.compile("Your partner shared the photo"))
        for tab, width in ((ada, 1280), (ben, 360)):
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert faults(tab) == []
        ben.fill("#text", "oh!")
        ben.keyboard.press("Enter")
        ada.click("#finish-button")
        expect(ada.locator("#presence")).to_contain_text("You have finished")
        ben.click("#finish-button")
        for tab in (ada, ben):
            expect(tab.locator("h1")).to_have_text("Done for now, thank you")
    assert len(crowd.site.journal.answers()) == 2


def test_who_is_left_alone_is_told_and_gets_another_partner(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["dialogue"])
    with serving(crowd) as running:
        ada, ben = show(running, crowd, "ada"), show(running, crowd, "ben")
        chat(ada, ben, 2)
        ben.evaluate("document.querySelector('[name=counted]').value = '1 2 3000'")
        with ben.expect_request("**/leave") as request:
            ben.click("text=Leave")
        assert parse_qs(request.value.post_data or "")["counted"] == ["1 2 3000"]
        expect(ben.locator("h1")).to_contain_text("You have left")
        expect(ada.locator("#presence")).to_contain_text("partner has left")
        cleo = show(running, crowd, "cleo")
        expect(ada.locator("#presence")).to_contain_text("is here.")
        expect(ada.locator("#turns li")).to_have_count(0)
        chat(cleo, ada, 2)


def test_a_talk_goes_on_after_the_server_was_started_again(make_crowd: MakeCrowd, show: Show, tmp_path: Path) -> None:
    before = crowd(tmp_path / "one", [UNITS["dialogue"]])
    running = Running()
    running.start(before)
    ada, ben = show(running, before, "ada"), show(running, before, "ben")
    chat(ada, ben, 3)
    running.stop()
    before.close()
    expect(ada.locator("#presence")).to_contain_text("Trying again")
    after = crowd(tmp_path / "one", [UNITS["dialogue"]])
    running.start(after)
    try:
        expect(ada.locator("#presence")).to_contain_text("is here.")
        ada.fill("#text", "still there?")
        ada.keyboard.press("Enter")
        expect(ben.locator("#turns li")).to_have_count(4)
        expect(ben.locator("#turns li").last).to_contain_text("still there?")
    finally:
        running.stop()
        after.close()


def test_arrow_keys_go_where_they_point_in_a_script_from_right_to_left(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["retrieve"], languages=LANGUAGES)
    with serving(crowd) as running:
        tab = show(running, crowd)
        tab.goto(f"{tab.url}?lang=ar")
        chosen = tab.locator(".tile input:checked")
        for key, place in (("2", 2), ("ArrowLeft", 3), ("ArrowLeft", 4), ("ArrowRight", 3), ("ArrowDown", 8)):
            before = chosen.locator("..").bounding_box() if place != 2 else None
            tab.keyboard.press(key)
            expect(chosen).to_have_attribute("id", f"p-{place}")
            after = chosen.locator("..").bounding_box()
            if before and after and key != "ArrowDown":
                assert (after["x"] < before["x"]) == (key == "ArrowLeft")
        tab.keyboard.press("z")
        tab.keyboard.press("ArrowLeft")
        expect(tab.locator("#near-name")).to_have_text(re.compile("9$"))


def test_all_images_are_seen_whole_and_large_at_a_key_and_back(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["describe"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        assert tab.locator(".big:visible").count() == 1
        tab.keyboard.type("a dog")
        tab.keyboard.press("Escape")
        tab.keyboard.press("g")
        widths = [box["width"] for one in tab.locator(".big:visible img").all() if (box := one.bounding_box())]
        assert len(widths) == 10
        assert min(widths) > 200
        assert tab.evaluate(
            "[...document.querySelectorAll('.big img')].every((one) => getComputedStyle(one).objectFit === 'contain')"
        )
        expect(tab.locator(".big.marked .flag")).to_be_visible()
        assert faults(tab) == []
        tab.keyboard.press("g")
        assert tab.locator(".big:visible").count() == 1
        expect(tab.locator("#f-description")).to_have_value("a dog")


@pytest.mark.parametrize(("task", "first"), [("describe", 4), ("retrieve", 1)])
def test_a_phone_shows_one_image_at_full_width_and_steps_by_swipe(
    make_crowd: MakeCrowd, show: Show, task: str, first: int
) -> None:
    crowd = make_crowd(UNITS[task])
    with serving(crowd) as running:
        tab = show(running, crowd, width=390)
        side = tab.locator(".viewer, .tiles")
        seen = """(side) => [...side.querySelectorAll('.big, .tile')].flatMap((one, place) =>
          Math.abs(one.getBoundingClientRect().left + one.offsetWidth / 2 - innerWidth / 2) < 60 ? [place + 1] : [])"""
        assert side.evaluate(seen) == [first]
        box = tab.locator(f"#i-{first} img").bounding_box()
        assert box is not None
        assert box["width"] >= 340
        assert f"{first} of 10" in " ".join(tab.locator(f"#i-{first}").inner_text().split())
        side.evaluate("(side) => side.scrollBy({ left: 0.7 * innerWidth, behavior: 'instant' })")  # it snaps
        until(lambda: side.evaluate(seen) == [first + 1])
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        if task == "retrieve":
            tab.locator("#i-2 label").click()
            expect(tab.locator("#p-2")).to_be_checked()
            tab.locator(".steps a").nth(8).click()
            until(lambda: side.evaluate(seen) == [9])
            tab.click("#send")
            expect(tab.locator("h1")).to_have_text("Done for now, thank you")
    assert [one.values["pick"] for one in crowd.site.journal.answers()] == [(IMAGES[1],)] * (task == "retrieve")


def test_what_is_read_before_work_is_accessible_and_passed_with_the_keyboard_alone(
    make_crowd: MakeCrowd, headless: Browser, tmp_path: Path
) -> None:
    texts = read_texts(folder_of(tmp_path / "study", consent=CONSENT))
    crowd = make_crowd(*QUESTIONS, *WORK, protocol={"qualification": 1, "gold_every": 2}, texts=texts)
    with serving(crowd) as running:
        tab = headless.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce").new_page()
        tab.goto(f"{running.address}/i/{crowd.site.signer.sign(Invitation('ada'))}")
        tab.get_by_role("button", name="Start").press("Enter")
        expect(tab.locator("h1")).to_have_text("About the study")
        box = tab.get_by_role("checkbox")
        expect(box).not_to_be_checked()
        look(tab)
        tab.get_by_role("button", name="Agree", exact=True).press("Enter")  # the browser asks for the box first
        expect(tab.locator("h1")).to_have_text("About the study")
        box.press("Space")
        tab.get_by_role("button", name="Agree", exact=True).press("Enter")
        expect(tab.locator("h1")).to_contain_text("How to find")
        look(tab)
        tab.get_by_role("link", name="Go on").press("Enter")
        expect(tab.locator(".practice")).to_be_visible()
        look(tab)
        tab.keyboard.press("1")
        tab.keyboard.press("Enter")
        expect(tab.locator("h1")).to_contain_text("not the one")
        assert tab.locator(".tile img").first.evaluate("(one) => one.decode().then(() => one.naturalWidth)") == 96
        look(tab)
        tab.get_by_role("link", name="Go on").press("Enter")
        expect(tab.locator("h1")).to_contain_text("for trying")
        tab.context.close()


LOOKS = "(one) => { const { fontSize, fontWeight, color } = getComputedStyle(one); return [fontSize, fontWeight, color].join(); }"


def test_the_sentence_to_judge_comes_first_and_looks_unlike_the_captions(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["entail"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        parts = [tab.locator(name) for name in (".judged .quote", ".single img", ".desk .quote")]
        judged, _, given = parts
        expect(judged).to_have_text(UNITS["entail"].statement or "")
        expect(given).to_have_text(UNITS["entail"].texts[0])
        for width in (1280, 390):
            tab.set_viewport_size({"width": width, "height": 800})
            tops = [box["y"] for part in parts if (box := part.bounding_box())]
            assert tops[0] == min(tops)
            assert tops.count(tops[0]) == 1
        size = "(one) => parseFloat(getComputedStyle(one).fontSize)"
        assert float(judged.evaluate(size)) > 1.3 * float(given.evaluate(size))
        assert judged.evaluate(LOOKS) != given.evaluate(LOOKS)
        heads = tab.locator("section h2").all_text_contents()
        assert [head.split()[0] for head in heads] == ["Sentence", "Captions"]


def test_a_link_at_the_top_switches_the_language(make_crowd: MakeCrowd, headless: Browser) -> None:
    crowd = make_crowd(UNITS["describe"], anybody=True, languages=LANGUAGES)
    with serving(crowd) as running:
        tab = headless.new_context(locale="en").new_page()
        tab.goto(running.address)
        for direction, language in (("rtl", "ar"), ("ltr", "en")):
            tab.locator(".languages a").click()
            expect(tab.locator("html")).to_have_attribute("lang", language)
            expect(tab.locator("html")).to_have_attribute("dir", direction)
        tab.context.close()
