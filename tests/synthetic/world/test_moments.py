import re

import numpy as np
import pytest

from ctxr.synthetic.world.language import say
from ctxr.synthetic.world.moments import (
    Appears,
    FirstTime,
    LastTime,
    Leaves,
    Moved,
    NoLonger,
    NotYet,
    Now,
    Temporal,
    judge,
)
from ctxr.synthetic.world.predicates import Counts, Kind, Lacks, Shows, Within
from ctxr.synthetic.world.scenes import Actor, Backdrop, Scene
from ctxr.synthetic.world.sets import sample_sets
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import TAGS, contextual_description, tags_of


@pytest.mark.parametrize("kind", ["video", "photos"])
def test_descriptions_of_many_sets_hold_for_the_target_and_fail_for_all_others(kind: str) -> None:
    rng = np.random.default_rng(11)
    tags: set[str] = set()
    made = asked = 0
    for image_set in sample_sets(rng, 28, kind):  # type: ignore[arg-type]
        for target in rng.choice(10, 2, replace=False):
            asked += 1
            description = contextual_description(image_set.scenes, int(target), rng, image_set.ordered)
            if description is None:
                continue
            made += 1
            tags.update(description.tags)
            views = [SceneView(scene) for scene in image_set.scenes]
            assert [description.verdict(views, index) for index in range(10)] == [
                index == target for index in range(10)
            ]
            assert len(description.predicates) <= 4
    assert made > 0.6 * asked
    assert tags == (set(TAGS) if kind == "video" else set(TAGS) - {"context", "temporal"})


def test_two_equal_scenes_cannot_be_told_apart_and_equal_seeds_give_equal_descriptions() -> None:
    scene = Scene((Actor("a0", "star", "red", 0.15, 0.5, 0.5),), Backdrop("sand"))
    assert contextual_description([scene, scene], 0, np.random.default_rng(0)) is None
    image_set = next(iter(sample_sets(np.random.default_rng(3), 1, "photos")))
    one, two = (contextual_description(image_set.scenes, 4, np.random.default_rng(8)) for _ in range(2))
    assert one == two


def passing(xs: list[float]) -> list[SceneView]:
    """A star that stands still and a ball that is at these places."""
    star = Actor("a0", "star", "red", 0.15, 0.5, 0.25)
    return [SceneView(Scene((star, Actor("a1", "circle", "blue", 0.1, x, 0.75)), Backdrop("sand"))) for x in xs]


BALL = Kind("circle", "blue")
# outside, just coming in, inside, inside, going out, outside
VIEWS = passing([-0.2, 0.0, 0.3, 0.7, 1.0, 1.2])


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Appears(BALL), [False, True, False, False, False, False]),
        (Leaves(BALL), [False, False, False, False, True, False]),
        (NoLonger(BALL), [False, False, False, False, False, True]),
        (NotYet(BALL), [True, False, False, False, False, False]),
        (FirstTime(Shows(BALL)), [False, True, False, False, False, False]),
        (LastTime(Shows(BALL)), [False, False, False, False, True, False]),
        (Now(Shows(BALL)), [False, True, False, False, False, False]),
        (Now(Lacks(BALL)), [False, False, False, False, False, True]),
        (FirstTime(Within(BALL, "right")), [False, False, False, True, False, False]),
        (Moved(BALL, "right"), [False, False, True, True, True, False]),
        (Moved(BALL, "left"), [False, False, False, False, False, False]),
        (Moved(Kind("star"), "right"), [False] * 6),
        (NoLonger(Kind("cup")), [False] * 6),
        (LastTime(Counts(Kind(), 2)), [False, False, False, False, True, False]),
    ],
)
def test_a_temporal_predicate_is_true_of_the_moment_people_would_name(
    predicate: Temporal, expected: list[bool]
) -> None:
    assert [judge(predicate, VIEWS, index) for index in range(6)] == expected


def test_a_sliver_before_or_after_leaves_it_open_when_something_came_or_went() -> None:
    views = passing([-0.075, 0.0, 0.3, 1.0, 1.075])
    assert 0.02 < views[0].sights["a1"].shown < 1 / 3
    assert Appears(BALL).verdict(views, 1) is None
    assert Leaves(BALL).verdict(views, 3) is None
    assert NotYet(BALL).verdict(views, 0) is None


def test_one_that_left_and_one_of_its_kind_that_came_may_look_like_one_that_moved() -> None:
    here, there = Actor("a0", "star", "red", 0.15, 0.2, 0.5), Actor("a1", "star", "red", 0.15, 0.8, 0.5)
    views = [SceneView(Scene((actor,), Backdrop("sand"))) for actor in (here, there)]
    assert Moved(Kind("star"), "right").verdict(views, 1) is None


def test_temporal_words_say_when() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        assert re.search(r"no longer|disappeared|gone|anymore|already left", say(rng, NoLonger(BALL)))
        assert re.search(r"yet|still|before", say(rng, NotYet(BALL)))
        assert re.search(r"begins|coming|starting|start|comes", say(rng, Appears(BALL)))
        assert re.search(r"about to|almost|nearly|before it leaves", say(rng, Leaves(BALL)))
        assert "the first time" in say(rng, FirstTime(Shows(BALL))).lower()


def test_tags_name_the_phenomena_in_the_tables_order() -> None:
    assert tags_of([Shows(BALL)]) == ()
    assert tags_of([Counts(BALL, 0)]) == ("quantities", "negation")
    assert tags_of([Now(Within(BALL, "left"))]) == ("context", "temporal", "spatial")
    assert tags_of([Shows(Kind("star", face="sad")), NoLonger(BALL)]) == (
        "context", "temporal", "negation", "visibility", "nuances",
    )  # fmt: skip
