"""Simulated workers: how they pick, what they read of a page, and that what they answer is theirs to say."""

from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest

from ctxr.metrics.agreement import alpha
from ctxr.metrics.votes import gather
from ctxr.synthetic.crowd import BIASED, CAREFUL, HASTY, SPAMMER, CastVote, Page, Profile, expected, pick_chances

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


DESCRIPTIONS = 40


def cast_votes(rng: np.random.Generator) -> list[CastVote]:
    """Three votes on each description."""
    workers = {"ada": CAREFUL, "bob": CAREFUL, "cy": BIASED, "dan": SPAMMER}
    casts = []
    for number in range(DESCRIPTIONS):
        target = ORDER[number % 10]
        verdicts = {image: image == target for image in ORDER}
        voters = rng.choice(list(workers), 3, replace=False).tolist()
        casts += [
            CastVote(f"text {number}", name, pick_chances(workers[name], verdicts, ORDER), target) for name in voters
        ]
    return casts


def test_all_figures_of_a_crowd_lie_in_their_ranges_in_nineteen_of_twenty_studies() -> None:
    rng = np.random.default_rng(3)
    casts = cast_votes(rng)
    sets = [SimpleNamespace(images=ORDER[:5], kind="video"), SimpleNamespace(images=ORDER[5:], kind="photos")]
    accuracy, alphas = expected(cast("Any", SimpleNamespace(casts=casts, dataset=SimpleNamespace(sets=sets))), rng)
    inside = []
    for _ in range(200):
        picks = [str(rng.choice(list(one.spread), p=list(one.spread.values()))) for one in casts]
        hits = np.mean([pick == one.target for pick, one in zip(picks, casts, strict=True)])
        figures: list[tuple[Any, tuple[float, float, float]]] = [(hits, accuracy)]
        for kind, images in (("video", ORDER[:5]), ("photos", ORDER[5:])):
            rows = [row for row, one in enumerate(casts) if one.target in images]
            votes = gather(
                [casts[row].text for row in rows], [casts[row].worker for row in rows], [picks[row] for row in rows]
            )
            figures.append((alpha(votes).value, alphas[kind]))
        inside.append(all(low <= found <= high for found, (_, low, high) in figures))
    assert 0.93 <= np.mean(inside) <= 0.99
