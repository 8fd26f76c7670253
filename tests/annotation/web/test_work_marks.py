"""Fields of tasks of one's own in a real browser: what the pointer marks and the keyboard types is stored the same."""

from playwright.sync_api import Locator, expect

from tests.annotation.crowd_units import OWN_ANSWER
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import IMAGES, UNITS
from tests.annotation.web.serving import serving
from tests.annotation.web.test_app_browser import Show, show

__all__ = ["show"]


def sides(field: Locator) -> list[float]:
    return [float(one.input_value()) for one in field.locator("input").all()]


def test_a_click_marks_a_point_a_drag_a_box_and_the_numbers_move_them(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["own"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        spot, area = tab.locator("#m-spot"), tab.locator("#m-area")
        frame = spot.locator(".frame")
        expect(spot.locator(".spot")).to_be_hidden()
        frame.scroll_into_view_if_needed()
        at = frame.bounding_box()
        assert at
        frame.click(position={"x": at["width"] * 0.25, "y": at["height"] * 0.5})
        left, top = sides(spot)
        assert (abs(left - 25) < 1.5, abs(top - 50) < 1.5) == (True, True)
        expect(spot.locator(".spot")).to_be_visible()
        spot.locator("input").first.press("ArrowUp")
        assert sides(spot)[0] > left
        area.locator(".frame").scroll_into_view_if_needed()
        at = area.locator(".frame").bounding_box()
        assert at
        tab.mouse.move(at["x"] + at["width"] * 0.75, at["y"] + at["height"] * 0.75)
        tab.mouse.down()
        tab.mouse.move(at["x"] + at["width"] * 0.25, at["y"] - 40, steps=3)  # over the edge: the box ends there
        tab.mouse.up()
        tab.mouse.move(0, 0)
        box = sides(area)
        assert [abs(one - other) < 1.5 for one, other in zip(box, (25, 0, 50, 75), strict=True)] == [True] * 4
        drawn, shown = area.locator(".spot").bounding_box(), area.locator(".frame").bounding_box()
        assert drawn
        assert shown
        assert abs(drawn["width"] / shown["width"] - box[2] / 100) < 0.02


def test_every_field_is_answered_with_the_keyboard_alone(make_crowd: MakeCrowd, show: Show) -> None:
    crowd = make_crowd(UNITS["own"])
    with serving(crowd) as running:
        tab = show(running, crowd)

        def to(selector: str) -> None:
            for _ in range(60):
                if tab.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                    return
                tab.keyboard.press("Tab")
            raise AssertionError(selector)

        to("[name=look]")
        tab.keyboard.press("Space")
        tab.keyboard.press("ArrowDown")
        for value in ("a", "c"):
            to(f"[name=many][value={value}]")
            tab.keyboard.press("Space")
        to("[name=good]")
        tab.keyboard.press("Space")
        for name, numbers in {"spot": ("25", "100"), "area": ("33.33", "0", "66.67", "100")}.items():
            for place, number in enumerate(numbers):
                to(f"#m-{name} label:nth-child({place + 1}) input")
                tab.keyboard.type(number)
        for place, letter in enumerate("gab"):
            to(f"li:nth-child({place + 1}) [name=rank]")
            tab.keyboard.type(letter)
        to("[name=why]")
        tab.keyboard.type("it sits")
        tab.keyboard.press("Control+Enter")
        expect(tab.locator("h1")).to_have_text("Done for now, thank you")
        (answer,) = crowd.site.journal.answers()
        assert {**answer.values, "shown": OWN_ANSWER["shown"]} == OWN_ANSWER


def test_nothing_stands_at_two_places_and_what_was_chosen_comes_back_with_the_page(
    make_crowd: MakeCrowd, show: Show
) -> None:
    crowd = make_crowd(UNITS["own"])
    with serving(crowd) as running:
        tab = show(running, crowd)
        places = tab.locator("[name=rank]")
        places.nth(0).select_option("a")
        places.nth(1).select_option("b")
        with tab.expect_response("**/check"):
            places.nth(1).select_option("a")
        assert [one.input_value() for one in places.all()] == ["b", "a", ""]
        tab.reload()
        assert [one.input_value() for one in places.all()] == ["b", "a", ""]
        assert not [name for name in IMAGES if name in tab.content()]
