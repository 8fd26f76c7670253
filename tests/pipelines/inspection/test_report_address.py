"""What the address keeps, how parts of the page lead to each other, two pictures that swap, and colours with one meaning."""

import re
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.pipelines.opened import Open


def at(**chosen: str) -> re.Pattern[str]:
    return re.compile("".join(rf"(?=.*[?&]{name}={value}(&|$))" for name, value in chosen.items()))


def in_front(tab: Page) -> str:
    return (tab.locator("#look .stage .front .place").text_content() or "").strip()


def test_filters_stand_in_the_address_and_a_page_that_is_opened_with_it_shows_the_same(show: Open, page: Path) -> None:
    opened = show(page)
    tab = opened.tab
    tab.select_option("#kind", "video")
    tab.select_option("#sort", "closest")
    tab.fill("#find", "shot2")
    tab.select_option("#r-run", label="with context")
    tab.select_option("#r-right", "wrong")
    tab.locator(".tab", has_text="near-still").click()
    expect(tab).to_have_url(at(kind="video", sort="closest", find="shot2", reason="near_still"))
    expect(tab).to_have_url(re.compile("r-run=with"))  # numbers of runs change with them
    queries = tab.locator("#r-found").text_content() or ""
    again = show(page, address=f"#{tab.url.partition('#')[2]}")
    assert again.titles() == opened.titles()
    expect(again.tab.locator("#r-found")).to_have_text(queries)
    expect(again.tab.locator(".tab[aria-pressed=true]")).to_contain_text("near-still")
    # a part that is gone to keeps the rest, and what is reset leaves the address
    tab.locator(".top nav a", has_text="Results").click()
    expect(tab).to_have_url(re.compile("#results[?].*kind=video"))
    tab.fill("#find", "no such set")
    tab.click("#cards .empty button")
    expect(tab).not_to_have_url(re.compile("kind="))
    expect(tab).to_have_url(at(reason="near_still"))


def test_an_opened_set_stands_in_the_address_until_it_is_closed(show: Open, page: Path) -> None:
    opened = show(page, address="#sets?open=clip1-shot0_0&kind=photos")
    tab = opened.tab
    expect(tab.locator("#look-title")).to_have_text("clip1-shot0_0")
    tab.keyboard.press("Escape")
    expect(tab).not_to_have_url(re.compile("open="))
    tab.locator(".card .title").first.click()
    name = tab.locator("#look-title").text_content() or ""
    expect(tab).to_have_url(at(open=re.escape(name)))


@pytest.mark.parametrize(
    "address", ["#sets?kind=<img>&votes=%00&open=none", "#%", "#sets?%", "#timelines?at=x:9&reason=y", "#__proto__?a"]
)
def test_a_strange_address_is_the_page_as_it_is(show: Open, page: Path, address: str) -> None:
    tab = show(page, address=address).tab
    expect(tab.locator("#found")).to_have_text("14 sets")
    expect(tab.locator("#look")).not_to_be_visible()


def test_funnel_left_out_timeline_and_sets_lead_to_each_other(show: Open, page: Path) -> None:
    tab = show(page).tab
    tab.locator(".funnel .lost a", has_text="too close").click()
    expect(tab.locator(".tab[aria-pressed=true]")).to_contain_text("too close")
    tab.select_option("#from", "clip1")
    expect(tab.locator(".word")).to_have_count(3)
    # what a frame was too close to leads to its set
    near = tab.locator(".word").first.locator("a").last
    near.click()
    expect(tab.locator("#look-title")).to_have_text("clip1-shot0_0")
    tab.locator("#look .shown a", has_text="timeline").click()
    expect(tab.locator("#look")).not_to_be_visible()
    track = tab.locator(".track[aria-label='Frames of clip1']")
    expect(track).to_be_focused()
    frame = re.search(r"frame #(\d+), in a set", track.locator(".told").text_content() or "")
    assert frame
    tab.keyboard.press("Enter")
    expect(tab.locator("#look-title")).to_have_text("clip1-shot0_0")
    tab.keyboard.press("Escape")
    # and what was left out leads to its moment, which leads back to its reason
    tab.locator(".tab", has_text="near-still").click()
    tab.select_option("#from", "clip0")
    tab.locator(".word a").first.click()
    told = tab.locator(".track[aria-label='Frames of clip0'] .told")
    expect(told).to_contain_text("near-still")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    expect(tab.locator(".tab[aria-pressed=true]")).to_contain_text("low quality")
    expect(tab.locator("#from")).to_have_value("clip0")
    tab.locator(".line", has_text="clip1").locator(".names a", has_text="too close").click()
    expect(tab.locator("#from")).to_have_value("clip1")
    tab.go_back()
    expect(tab.locator("#from")).to_have_value("clip0")


def test_an_opened_set_shows_a_large_picture_and_a_key_swaps_it_with_another(show: Open, page: Path) -> None:
    tab = show(page).tab
    tab.locator(".card .title").first.click()
    near = [int(text) for text in tab.locator("#look .strip .near .place").all_text_contents()]
    first, second = map(str, near)
    assert in_front(tab) == first
    box = tab.locator("#look .stage .front .frame").bounding_box()
    assert box
    assert box["width"] > 600
    for wanted in (second, first):
        tab.keyboard.press("f")
        assert in_front(tab) == wanted
        expect(tab.locator("#look .strip button[aria-pressed=true]")).to_have_attribute("aria-label", f"image {wanted}")
    # both lie on each other, so that nothing moves
    boxes = [one.bounding_box() for one in tab.locator("#look .stage .frame").all()]
    assert boxes[0] == boxes[1]
    other = next(str(place) for place in range(1, 5) if place not in near)
    tab.keyboard.press(other)
    assert in_front(tab) == other
    tab.keyboard.press("f")
    assert in_front(tab) == first
    tab.keyboard.press("9")  # there is none
    assert in_front(tab) == first
    tab.locator("#look .matrix .cell[title^='2 and 4']").first.click()
    assert in_front(tab) == "2"
    tab.keyboard.press("f")
    assert in_front(tab) == "4"
    tab.locator("#look .strip button").first.click()
    assert in_front(tab) == "1"


def test_a_page_with_small_pictures_shows_the_whole_one_large(show: Open, page: Path, tmp_path: Path) -> None:
    from ctxr.pipelines.inspection.config import Report
    from ctxr.pipelines.inspection.report import run
    from tests.pipelines.report_artifacts import project

    work = project(tmp_path / "work", videos=1, sets=2, photos=0)
    tab = show(run(Report(workdir=work, inside=2)).page).tab
    tab.locator(".card .title").first.click()
    image = tab.locator("#look .stage .front img")
    image.evaluate("(one) => one.decode()")
    assert "/filtered/images/" in str(image.evaluate("(one) => one.src"))
    assert image.evaluate("(one) => one.naturalWidth") == 48


def colour(one: Locator, of: str, part: str = "") -> str:
    return str(one.evaluate(f"(one) => getComputedStyle(one, {part!r} || null).getPropertyValue({of!r})"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_target_wrong_pick_nearest_pair_and_threshold_have_a_colour_each(show: Open, page: Path, theme: str) -> None:
    tab = show(page, theme).tab
    near = colour(tab.locator(".card .near .frame").first, "border-top-color", "::after")
    assert colour(tab.locator(".cell.nearest").first, "outline-color") == near
    target = colour(tab.locator(".miss .target .frame").first, "border-top-color", "::after")
    wrong = colour(tab.locator(".miss .missed .frame").first, "border-top-color", "::after")
    assert colour(tab.locator(".legend .key.target").first, "border-top-color") == target
    assert colour(tab.locator(".legend .key.missed").first, "border-top-color") == wrong
    assert colour(tab.locator(".verdict.bad").first, "color") == wrong
    assert colour(tab.locator(".verdict.good").first, "color") == target
    limit = colour(tab.locator(".plot .limit").first, "stroke")
    others = {
        colour(tab.locator(f".tab .r-{name}"), "background-color")
        for name in ("near_still", "too_close", "low_quality")
    }
    kept = colour(tab.locator(".track .set").first, "fill")
    assert len({near, target, wrong, limit, kept, *others}) == 8
    assert all(a != b for a, b in combinations((near, target, wrong, limit), 2))


def test_a_table_that_is_wider_than_a_phone_says_that_it_scrolls(show: Open, page: Path) -> None:
    tab = show(page, width=390).tab
    boxes = tab.locator("#results .scored .sideways").first
    expect(boxes).to_have_class(re.compile("wider"))
    assert "slide" in colour(boxes, "content", "::before")
    assert "gradient" in colour(boxes, "background-image")
    tab.set_viewport_size({"width": 1280, "height": 900})
    expect(boxes).not_to_have_class(re.compile("wider"))
