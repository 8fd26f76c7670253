import re

import numpy as np
import pytest

from ctxr.synthetic.world.backdrops import BACKDROPS
from ctxr.synthetic.world.language import noun, say
from ctxr.synthetic.world.outlines import SHAPES
from ctxr.synthetic.world.predicates import (
    BY_NAME,
    AllAre,
    Before,
    Behind,
    Bigger,
    Counts,
    CutOff,
    Entire,
    Hidden,
    Kind,
    Lacks,
    NoOverlap,
    Outermost,
    Predicate,
    RelativePosition,
    Shows,
    Within,
)
from ctxr.synthetic.world.scenes import COLOURS, SIZES, Actor, Backdrop, Scene, sample_scene
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import true_statements
from ctxr.synthetic.world.words import BACKDROP_NOUNS, COLOUR_WORDS, SHAPE_NOUNS, SIZE_WORDS


def test_every_caption_of_hundreds_of_scenes_holds_in_its_structured_form() -> None:
    said: set[type] = set()
    for seed in range(200):
        rng = np.random.default_rng([1, seed])
        scene = sample_scene(rng, float(rng.choice((1.0, 16 / 9, 9 / 16)))) if seed else Scene((), Backdrop("sand"))
        for statement in true_statements(scene, rng, 4):
            assert statement.verdict(SceneView(scene)) is True, statement
            said.update(type(predicate) for predicate in statement.predicates)
    assert said == set(BY_NAME.values())


def test_statements_are_sentences_and_repeat_with_the_seed() -> None:
    scene = sample_scene(np.random.default_rng(5))
    texts, repeated = ([one.text for one in true_statements(scene, np.random.default_rng(6), 12)] for _ in range(2))
    assert texts == repeated
    assert len(set(texts)) > 8
    assert all(re.fullmatch(r"[A-Z0-9][a-z0-9 ,.A-Z'-]+\.", text) for text in texts)


def test_the_vocabulary_is_a_few_hundred_words() -> None:
    words = set()
    for seed in range(600):
        rng = np.random.default_rng([2, seed])
        for statement in true_statements(sample_scene(rng), rng, 3):
            words.update(re.findall(r"[a-z'-]+", statement.text.lower()))
    assert 230 <= len(words) <= 500


def test_a_noun_phrase_names_the_kinds_attributes_and_no_others() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        shape, colour = str(rng.choice(SHAPES)), str(rng.choice(list(COLOURS)))
        size = str(rng.choice(["", *SIZES]))
        phrase = f" {noun(rng, Kind(shape, colour, size))} "
        assert any(f" {word} " in phrase for word, _ in SHAPE_NOUNS[shape])
        named = {name for name, choices in COLOUR_WORDS.items() if any(f" {word} " in phrase for word in choices)}
        assert named == {colour}
        sized = {name for name, choices in SIZE_WORDS.items() if any(f" {word} " in phrase for word in choices)}
        assert sized == ({size} if size else set())


def test_every_backdrop_and_shape_has_words() -> None:
    assert set(BACKDROP_NOUNS) == set(BACKDROPS)
    assert set(SHAPE_NOUNS) == set(SHAPES)
    assert set(COLOUR_WORDS) == set(COLOURS)


RED = Actor("a0", "circle", "red", 0.09, 0.2, 0.5)
BLUE = Actor("a1", "square", "blue", 0.15, 0.7, 0.5, texture="striped")
SMALL_BLUE = Actor("a2", "star", "blue", 0.09, 0.7, 0.15)
EDGE = Actor("a3", "heart", "green", 0.15, 0.0, 0.85)
SCENE = Scene((RED, BLUE, SMALL_BLUE, EDGE), Backdrop("sand"))
COVERED = Scene((RED.moved(0.58, 0.5), BLUE), Backdrop("snow"))


@pytest.mark.parametrize(
    ("predicate", "scene", "expected"),
    [
        (Shows(Kind("circle", "red")), SCENE, True),
        (Shows(Kind("circle", "blue")), SCENE, False),
        (Shows(Kind(size="medium", texture="striped")), SCENE, True),
        (Lacks(Kind("cup")), SCENE, True),
        (Lacks(Kind(colour="blue")), SCENE, False),
        (Counts(Kind(colour="blue"), 2), SCENE, True),
        (Counts(Kind(colour="blue"), 1), SCENE, False),
        (Counts(Kind(), 4), SCENE, True),
        (Counts(Kind("fish"), 0), SCENE, True),
        (AllAre(Kind(colour="blue")), SCENE, False),
        (AllAre(Kind(colour="red")), Scene((RED, RED.moved(0.8, 0.8)), Backdrop("sand")), True),
        (AllAre(Kind(colour="red")), Scene((RED,), Backdrop("sand")), False),
        (Before("sand"), SCENE, True),
        (Before("snow"), SCENE, False),
        (RelativePosition(Kind("circle"), "left", Kind("square")), SCENE, True),
        (RelativePosition(Kind("circle"), "right", Kind("square")), SCENE, False),
        (RelativePosition(Kind("star"), "above", Kind("square")), SCENE, True),
        (RelativePosition(Kind("star"), "below", Kind("square")), SCENE, False),
        (RelativePosition(Kind("circle"), "above", Kind("square")), SCENE, False),
        (RelativePosition(Kind("circle"), "left", Kind("circle")), SCENE, False),
        (RelativePosition(Kind("square"), "right", Kind("star")), SCENE, False),
        (
            RelativePosition(Kind("circle"), "left", Kind("square")),
            Scene((RED.moved(0.62, 0.5), BLUE), Backdrop("sand")),
            None,
        ),
        (Within(Kind("circle"), "left"), SCENE, True),
        (Within(Kind("square"), "top"), SCENE, False),
        (Within(Kind("star"), "top right"), SCENE, True),
        (Within(Kind("heart"), "bottom left"), SCENE, True),
        (Within(Kind("circle"), "middle"), SCENE, False),
        (Outermost(Kind("heart"), "left"), SCENE, True),
        (Outermost(Kind("heart"), "bottom"), SCENE, True),
        (Outermost(Kind("square"), "top"), SCENE, False),
        (Outermost(Kind(colour="blue"), "right"), SCENE, True),
        (Outermost(Kind("square"), "right"), SCENE, None),
        (Bigger(Kind("square"), Kind("circle")), SCENE, True),
        (Bigger(Kind("circle"), Kind("square")), SCENE, False),
        (Bigger(Kind("circle"), Kind("star")), SCENE, None),
        (CutOff(Kind("heart"), "left"), SCENE, True),
        (CutOff(Kind("heart"), "right"), SCENE, False),
        (CutOff(Kind("heart")), SCENE, True),
        (CutOff(Kind("circle")), SCENE, False),
        (Entire(Kind("circle")), SCENE, True),
        (Entire(Kind("heart")), SCENE, False),
        (Hidden(Kind("heart"), "half"), SCENE, True),
        (Hidden(Kind("heart"), "most"), SCENE, False),
        (Hidden(Kind("circle"), "little"), SCENE, False),
        (NoOverlap(), SCENE, True),
        (NoOverlap(), COVERED, False),
        (Behind(Kind("circle"), Kind("square")), COVERED, True),
        (Behind(Kind("square"), Kind("circle")), COVERED, False),
        (Behind(Kind("circle"), Kind("square")), SCENE, False),
    ],
)
def test_a_predicate_has_the_truth_value_that_people_would_give(
    predicate: Predicate, scene: Scene, expected: bool | None
) -> None:
    assert predicate.verdict(SceneView(scene)) is expected


def test_a_sliver_of_a_figure_is_neither_there_nor_not_there() -> None:
    view = SceneView(Scene((EDGE.moved(-0.1, 0.5),), Backdrop("sand")))
    assert 0.02 < view.sights["a3"].shown < 1 / 3
    assert Shows(Kind("heart")).verdict(view) is None
    assert Lacks(Kind("heart")).verdict(view) is None
    assert Counts(Kind("heart"), 1).verdict(view) is None
    assert Counts(Kind("heart"), 2).verdict(view) is False


def test_clauses_say_what_their_predicate_says() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        assert re.search(r"\b(left)\b", say(rng, RelativePosition(Kind("star"), "left", Kind("cup"))))
        assert re.search(r"\b(no|not|isn't|without)\b", say(rng, Lacks(Kind("star"))))
        assert re.search(r"\b(three|3) (stars|five-pointed stars)", say(rng, Counts(Kind("star"), 3)))
        assert re.search(r"\b(one|single) ", say(rng, Counts(Kind("star"), 1)))
        assert not say(rng, Counts(Kind("star"), 0)).startswith("exactly")
        assert "half" in say(rng, Hidden(Kind("star"), "half"))
        assert "another" in say(rng, Bigger(Kind("star"), Kind("star")))
        assert re.search(r"hidden|covered|behind|blocked|overlapped", say(rng, Behind(Kind("star"), Kind("cup"))))
