"""Simulated workers: how they pick, what they read of a page, and that what they answer is theirs to say."""

import httpx
import numpy as np
import pytest

from ctxr.synthetic.crowd import (
    BIASED,
    CAREFUL,
    HASTY,
    SPAMMER,
    Page,
    Person,
    Profile,
    Visitor,
    pick_chances,
)  # fmt: skip

ORDER = tuple("abcdefghij")
ONE = {image: image == "d" for image in ORDER}


def test_care_makes_right_and_place_makes_first() -> None:
    right = [pick_chances(profile, ONE, ORDER)["d"] for profile in (CAREFUL, HASTY, BIASED, SPAMMER)]
    assert right == sorted(right, reverse=True)
    assert pick_chances(BIASED, ONE, ORDER)["a"] > 0.5
    assert right[-1] == pytest.approx(0.1)


def test_what_is_true_of_several_is_shared_among_them() -> None:
    spread = pick_chances(Profile("sure", 1.0, 0.0, 1.0), {"a": True, "b": True, "c": False}, ("a", "b", "c"))
    assert spread == {"a": 0.5, "b": 0.5, "c": 0.0}
    unsure = pick_chances(Profile("sure", 1.0, 0.0, 1.0), {"a": None, "b": None, "c": False}, ("a", "b", "c"))
    assert unsure == {"a": 0.5, "b": 0.5, "c": 0.0}


PAGE = """<main><form action="/w/x" method="post"><input type="hidden" name="csrf" value="t&amp;1">
<p class="quote">a &lt;b&gt; cat</p><fieldset>
<label class="thumb marked"><img src="/w/x/picture/1"></label><label><img src="/w/x/picture/2"></label>
<input type="radio" name="pick" value="k1"><input type="radio" name="pick" value="k2"></fieldset>
<textarea name="description"></textarea></form></main>"""


def test_a_page_is_read_as_a_worker_sees_it() -> None:
    page = Page(httpx.Response(200, text=PAGE, request=httpx.Request("GET", "http://h/w/x")))
    form = page.form("pick")
    assert form is not None
    assert form is page.form("description")
    assert (page.address, form.action, form.hidden) == ("http://h/w/x", "/w/x", {"csrf": "t&1"})
    assert page.quotes == ["a <b> cat"]
    assert (page.pictures, page.marked) == (["/w/x/picture/1", "/w/x/picture/2"], "/w/x/picture/1")


def test_nobody_visits_without_knowing_what_to_answer() -> None:
    with pytest.raises(TypeError, match=r"abstract method '?answer"):
        Visitor("ada", "http://localhost/i/x", {}, np.random.default_rng(0))  # type: ignore[abstract]
    assert not Person.__abstractmethods__
