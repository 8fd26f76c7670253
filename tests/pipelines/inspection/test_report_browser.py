"""The page in a real browser: it shows, filters, sorts, obeys the keyboard, and asks nobody for anything."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from playwright.sync_api import expect

from ctxr.datasets.splits import SPLITS
from ctxr.models.hub import STAND_INS
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Failure
from tests.pipelines.opened import LEAP, Open
from tests.pipelines.report_artifacts import photo_unit, project, video_unit, write


def test_every_part_is_there_and_shows_its_pictures_and_distances(show: Open, page: Path) -> None:
    tab = show(page).tab
    expect(tab.locator("h1")).to_have_text("14 sets of images")
    assert tab.locator(".top nav a").all_text_contents() == [
        "Overview", "Sets", "Results", "Steps", "Timelines", "Left out", "Distributions", "Failures", "Provenance",
    ]  # fmt: skip
    expect(tab.locator(".card")).to_have_count(14)
    first = tab.locator(".card img").first
    first.evaluate("(image) => image.decode()")
    assert first.evaluate("(image) => image.naturalWidth") == 48
    expect(tab.locator(".line")).to_have_count(2)
    assert tab.locator(".plot").count() >= 5
    expect(tab.locator("[autofocus]")).to_have_count(0)  # a key typed while the page loads focuses a field first
    # the matrix says the distances and marks the nearest pair
    card = tab.locator(".card").first
    closest = card.locator(".figures b").nth(1).text_content()
    marked = [int(text) for text in card.locator(".near .place").all_text_contents()]
    assert len(marked) == 2
    title = f"{marked[0]} and {marked[1]}: {closest}"
    assert card.locator(".cell.nearest").first.get_attribute("title") == title
    assert card.locator(".cell").count() == 16
    # the whole picture is where the link says
    tab.locator(".card .title").first.click()
    assert tab.evaluate("document.activeElement.id") == "look"
    link = tab.locator("#look .under a").first.get_attribute("href")
    assert link
    assert (page.parent / link).is_file()


def test_the_first_lines_say_what_picked_the_sets_what_it_is_not_and_which_split_is_empty(
    show: Open, page: Path
) -> None:
    tab = show(page).tab
    expect(tab.locator(".lead b.bad")).to_have_text("ctxr-tiny")
    expect(tab.locator(".note.warn").first).to_contain_text(STAND_INS["ctxr-tiny"])
    counts = open_artifact(page.parent / "filtered").manifest.counts["splits"]
    lead = tab.locator(".lead", has_text="Picked by")
    expect(lead).to_contain_text(f"threshold 0.15: {', '.join(f'{counts[split]} in {split}' for split in SPLITS)}")
    assert lead.locator("span.bad").count() == sum(not counts[split] for split in SPLITS)


def test_videos_without_sets_are_told_with_the_reason_and_what_may_help(show: Open, tmp_path: Path) -> None:
    work = tmp_path / "work"
    full, bare = (video_unit(work / "sets", name) for name in ("full", "bare"))
    close = [structs.replace(row, image_set=None, reason="too_close") for row in bare.ledger]
    write(work / "sets", [full, replace(bare, sets=[], ledger=close)])
    tab = show(run(Report(workdir=work)).page).tab
    tab.locator("summary", has_text="gave no set").click()
    expect(tab.locator("details.note li")).to_contain_text("mostly too close: bare. Try a lower --threshold")


def test_hardest_sets_come_first_and_other_orders_are_kept(show: Open, page: Path) -> None:
    opened = show(page)
    means = [float(text) for text in opened.tab.locator(".figures span:first-child b").all_text_contents()]
    assert means == sorted(means)
    hardest = opened.titles()
    opened.tab.select_option("#sort", "diverse")
    assert opened.titles()[0] == hardest[-1]
    opened.tab.select_option("#sort", "time")
    names = opened.titles()
    assert names == sorted(names)


def test_filters_and_search_leave_what_fits(show: Open, page: Path) -> None:
    opened = show(page)
    opened.tab.select_option("#kind", "video")
    assert len(opened.titles()) == 6
    opened.tab.select_option("#source", "clip1")
    assert all(name.startswith("clip1-") for name in opened.titles())
    expect(opened.tab.locator("#found")).to_have_text("3 of 14 sets")
    opened.tab.fill("#find", "shot2 #15")
    assert opened.titles() == ["clip1-shot2_0"]
    opened.tab.fill("#find", "no such set")
    expect(opened.tab.locator("#cards .empty")).to_contain_text("No set matches")
    opened.tab.click("#cards .empty button")
    expect(opened.tab.locator(".card")).to_have_count(14)


def test_a_set_opens_with_the_keyboard_and_shows_exact_times(show: Open, page: Path) -> None:
    opened = show(page)
    tab = opened.tab
    tab.select_option("#kind", "video")
    names = opened.titles()
    tab.locator("h1").click()
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    expect(tab.locator("#look-title")).to_have_text(names[1])
    assert re.search(r"= \d+(/\d+)? s", tab.locator("#look .under").first.text_content() or "")
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#look-title")).to_have_text(names[2])
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator("#look-title")).to_have_text(names[0])
    tab.keyboard.press("Escape")
    expect(tab.locator("#look")).not_to_be_visible()
    expect(tab.locator(f"[data-set='{names[0]}']:focus")).to_have_count(1)  # focus follows the closing by an event


def test_slash_searches_and_letters_typed_there_are_letters(show: Open, page: Path) -> None:
    tab = show(page).tab
    tab.keyboard.press("/")
    tab.keyboard.type("j?t")
    assert tab.input_value("#find") == "j?t"
    expect(tab.locator("#help")).not_to_be_visible()
    tab.keyboard.press("Escape")
    tab.keyboard.press("?")
    expect(tab.locator("#help")).to_be_visible()


@pytest.mark.parametrize(("theme", "bright"), [("light", True), ("dark", False)])
def test_light_and_dark_follow_the_system_and_the_key(show: Open, page: Path, theme: str, bright: bool) -> None:
    tab = show(page, theme).tab

    def is_bright() -> bool:
        red = re.search(r"\d+", str(tab.evaluate("getComputedStyle(document.body).backgroundColor")))
        assert red
        return int(red[0]) > 128

    assert is_bright() is bright
    tab.keyboard.press("t")
    expect(tab.locator("#theme-name")).to_have_text("light")
    assert is_bright()
    tab.click("#theme")
    assert not is_bright()
    # a reload may move the tab to a process that has not read the storage yet, so a fresh page is given what was kept
    kept = tab.evaluate("localStorage.getItem('ctxr-theme')")
    tab.add_init_script(f"localStorage.setItem('ctxr-theme', {kept!r})")
    tab.reload()
    expect(tab.locator("#theme-name")).to_have_text("dark")
    assert not is_bright()


def test_a_timeline_tells_frame_by_frame_what_became_of_it(show: Open, page: Path) -> None:
    tab = show(page).tab
    track = tab.locator(".track").first
    track.focus()
    tab.keyboard.press("End")
    expect(track.locator(".told")).to_contain_text("frame #20, too close, 0.050 from #14")
    tab.keyboard.press("ArrowLeft")
    expect(track.locator(".told")).to_contain_text("frame #19, low quality (BRISQUE / 100 0.8)")
    assert track.get_attribute("aria-valuetext") == "0:03.800, frame 19, low quality"
    track.locator(".set").first.click()
    expect(tab.locator("#look-title")).to_have_text("clip0-shot0_0")


def test_what_was_left_out_stands_beside_its_reason(show: Open, page: Path) -> None:
    tab = show(page).tab
    expect(tab.locator(".tab[aria-pressed=true]")).to_contain_text("low quality")
    expect(tab.locator(".tile")).to_have_count(6)
    assert tab.locator(".tile .value").first.text_content() == "0.800"
    expect(tab.locator("#means")).to_contain_text("Limit: 0.650.")
    tab.locator(".tab", has_text="near-still").click()
    expect(tab.locator(".word")).to_have_count(6)
    expect(tab.locator("#means")).to_contain_text("Limit: 4 of luma difference.")


def test_nothing_sticks_out_to_the_side_and_frames_are_large_enough_to_tell_apart(show: Open, page: Path) -> None:
    tab = show(page).tab
    for width, least in ((420, 0), (800, 0), (1280, 190), (1600, 120)):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.locator("h1").scroll_into_view_if_needed()
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        tab.locator("#results").scroll_into_view_if_needed()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.select_option("#kind", "video")
        shown = tab.locator(".card .frame").first.bounding_box()
        assert shown
        assert shown["width"] >= least
        tab.locator(".card .title").first.click()
        assert tab.evaluate(
            "document.getElementById('look').scrollWidth <= document.getElementById('look').clientWidth"
        )
        opened = tab.locator("#look .frame").first.bounding_box()
        assert opened
        assert opened["width"] >= (196 if least else 0)
        tab.keyboard.press("Escape")


def test_thousands_of_sets_come_in_pages(show: Open, tmp_path: Path) -> None:
    write(tmp_path / "sets", [photo_unit(tmp_path / "sets", "album", 40, 2500)])
    written = run(Report(workdir=tmp_path))
    assert (written.sets, written.pictures) == (2500, 40)
    assert written.bytes < 2_000_000
    tab = show(written.page).tab
    expect(tab.locator(".card")).to_have_count(20)
    expect(tab.locator("#pager")).to_contain_text("page 1 of 125")
    assert tab.locator("#pager button", has_text="Next").evaluate(LEAP) == 0
    tab.keyboard.press("]")
    expect(tab.locator("#found")).to_have_text("2500 sets, here 21 to 40")
    tab.keyboard.press("[")
    for _ in range(21):
        tab.keyboard.press("j")
    expect(tab.locator("#pager")).to_contain_text("page 2 of 125")


def test_pictures_beside_the_page_are_read_from_there_and_a_missing_one_says_so(show: Open, tmp_path: Path) -> None:
    work = project(tmp_path / "work")
    (work / "filtered" / "images" / "clip0-shot0_0" / "img0.jpg").unlink()
    tab = show(run(Report(workdir=work, inside=5)).page).tab
    image = tab.locator(".card img").first
    image.evaluate("(image) => image.decode()")
    assert "/work/report/" in str(image.evaluate("(image) => image.src"))
    assert image.evaluate("(image) => image.naturalWidth") == 48
    tab.fill("#find", "clip0-shot0")
    expect(tab.locator(".card .frame").first).to_contain_text("picture missing")
    expect(tab.locator("details.note summary")).to_contain_text("1 picture cannot")


def test_other_pages_are_linked_to_beside_the_parts(show: Open, page: Path, tmp_path: Path) -> None:
    write(tmp_path / "sets", [])
    tab = show(run(Report(workdir=tmp_path, more=(str(page),))).page).tab
    tab.locator(".top nav a.away", has_text="work").click()
    expect(tab.locator("h1")).to_have_text("14 sets of images")


def test_hostile_names_are_shown_and_not_obeyed(show: Open, tmp_path: Path) -> None:
    hostile = '</script><img src=x onerror="alert(1)"><script>alert(2)</script>&\u2028\''
    out = tmp_path / "sets"
    unit = video_unit(out, "clip")
    unit.sets[:] = [msgspec.structs.replace(unit.sets[0], id=hostile)]
    unit.ledger[-1] = msgspec.structs.replace(unit.ledger[-1], name=hostile)
    write(out, [unit], failures=[Failure(hostile, hostile, hostile, hostile, hostile)], config={hostile: hostile})
    page = run(Report(workdir=tmp_path)).page
    assert page.read_text(encoding="utf-8").count("<script") == 2
    opened = show(page)
    assert opened.titles() == [hostile]
    opened.tab.locator(".card .title").click()
    expect(opened.tab.locator("#look-title")).to_have_text(hostile)
    assert opened.tab.locator("img[src=x]").count() == 0
    assert opened.tab.locator(".failure .name").text_content() == hostile


def test_a_page_without_sets_or_sources_still_opens(show: Open, tmp_path: Path) -> None:
    write(tmp_path / "sets", [])
    tab = show(run(Report(workdir=tmp_path)).page).tab
    expect(tab.locator("h1")).to_contain_text("No set of")
    for key in ("/", "j", "Enter", "]", "t", "?"):
        tab.keyboard.press(key)
    expect(tab.locator("#help")).to_be_visible()


def test_a_long_name_of_a_photo_keeps_its_end_in_a_strip(show: Open, tmp_path: Path) -> None:
    unit = photo_unit(tmp_path / "sets", "album", 12, 1)
    written = write(tmp_path / "sets", [unit])
    tables = [written / "sources" / "album" / name for name in ("images.jsonl", "sets.jsonl", "ledger.jsonl")]
    for table in tables:
        table.write_text(table.read_text().replace("p0001.jpg", "holiday in the hills 0001.jpg"))
    tab = show(run(Report(workdir=tmp_path)).page).tab
    captions = tab.locator(".card .under").all_text_contents()
    assert "holi…ills 0001" in captions
    assert "p0000" in captions
