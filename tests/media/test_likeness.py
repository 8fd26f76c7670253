"""Pictures that are one picture, however it was saved, and pictures that differ by one small thing."""

from collections.abc import Callable
from functools import cache, partial
from itertools import product

import cv2
import numpy as np
import pytest

from ctxr.media.images import Pixels
from ctxr.media.likeness import SIDE, Sketch, pixel_difference, same_picture
from ctxr.media.video import TURNS, turned
from ctxr.pipelines.curation.copies import CopyRule
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.scenes import Scene, sample_scene
from ctxr.synthetic.world.sets import neighbours
from tests.pictures import cropped, greyed, saved, scaled

LIMIT = CopyRule().difference


@cache
def families() -> list[list[Pixels]]:
    """Scenes, each with four that differ from it by one drawn thing."""
    rng = np.random.default_rng(8)
    scenes = [sample_scene(rng, 4 / 3) for _ in range(8)]
    drawn: list[list[Scene]] = [[scene, *neighbours(rng, scene, 4)] for scene in scenes]
    return [[render(scene, 400, 300) for scene in family] for family in drawn]


def are_one(one: Pixels, other: Pixels) -> bool:
    return same_picture(Sketch.of(one), Sketch.of(other), LIMIT)


def captioned(rgb: Pixels, top: bool) -> Pixels:
    bar = np.full((rgb.shape[0] // 6, rgb.shape[1], 3), 250, np.uint8)
    cv2.putText(bar, "nobody expected this", (9, bar.shape[0] - 12), cv2.FONT_HERSHEY_SIMPLEX, 1, (9, 9, 9), 2)
    return np.concatenate([bar, rgb] if top else [rgb, bar])


def framed(rgb: Pixels, wide: int, tone: int) -> Pixels:
    return np.pad(rgb, ((wide, wide), (wide, wide), (0, 0)), constant_values=tone)


VARIANTS: dict[str, Callable[[Pixels], Pixels]] = {
    "q20": partial(saved, quality=20),
    "quarter": partial(scaled, share=0.25),
    "half, q40": lambda rgb: saved(scaled(rgb, 0.5), 40),
    "64 pixels": lambda rgb: saved(scaled(rgb, 64 / 400), 85),
    "grey": greyed,
    "grey, q40": lambda rgb: saved(greyed(rgb), 40),
    "wide border": partial(framed, wide=60, tone=255),
    "border, q40": lambda rgb: saved(framed(rgb, 32, 0), 40),
    "caption above": partial(captioned, top=True),
    "caption below, q60": lambda rgb: saved(captioned(rgb, False), 60),
    "crop to 90 %": partial(cropped, share=0.05),
    "crop to 85 %": partial(cropped, share=0.075),
    "crop at a corner, q60": lambda rgb: saved(np.ascontiguousarray(rgb[45:, :340]), 60),
    "crop at one side": lambda rgb: np.ascontiguousarray(rgb[:, 60:]),
}


@pytest.mark.parametrize("make", VARIANTS.values(), ids=VARIANTS)
def test_a_variant_is_its_picture_and_no_other(make: Callable[[Pixels], Pixels]) -> None:
    scenes = [family[0] for family in families()]
    variants = [make(rgb) for rgb in scenes]
    assert all(are_one(rgb, variant) for rgb, variant in zip(scenes, variants, strict=True))
    assert not any(are_one(rgb, variant) for rgb, variant in zip(scenes, variants[1:], strict=False))


@pytest.mark.parametrize("turn", range(TURNS))
def test_a_picture_is_found_in_its_turned_variant(turn: int) -> None:
    for rgb, *_ in families():
        assert are_one(turned(rgb, turn), saved(turned(rgb, turn), 60))
        assert turn in (0, 3, 5, 6) or not are_one(rgb, turned(rgb, turn))


def test_turns_are_the_symmetries_of_a_rectangle() -> None:
    rgb = families()[0][0]
    expected = [
        rgb, rgb[:, ::-1], rgb[::-1], np.rot90(rgb, 2),
        rgb.transpose(1, 0, 2), np.rot90(rgb, 3), np.rot90(rgb), np.rot90(rgb, 2).transpose(1, 0, 2),
    ]  # fmt: skip
    for turn, picture in enumerate(expected):
        np.testing.assert_array_equal(turned(rgb, turn), picture)


@pytest.mark.parametrize("make", [lambda rgb: rgb, VARIANTS["q20"], VARIANTS["grey"], VARIANTS["crop to 90 %"]])
def test_scenes_that_differ_by_one_drawn_thing_stay_apart(make: Callable[[Pixels], Pixels]) -> None:
    for family in families():
        for at, one in enumerate(family):
            assert not any(are_one(make(one), other) for other in family[at + 1 :])


def test_a_part_of_less_than_half_is_another_picture() -> None:
    rgb = families()[0][0]
    assert are_one(rgb, cropped(rgb, 0.1))
    assert not are_one(rgb, cropped(rgb, 0.2))


def test_pictures_of_one_tone_are_told_apart_by_it() -> None:
    grey, lighter, red = (np.full((90, 120, 3), tone, np.uint8) for tone in (100, 130, (130, 90, 90)))
    assert are_one(grey, scaled(grey, 0.5))
    assert not are_one(grey, lighter)
    assert not are_one(red, np.full_like(red, (90, 90, 130)))


def test_a_difference_is_the_mean_of_nine_pixels_that_no_shift_explains() -> None:
    one = np.full((SIDE, SIDE, 3), 100, np.uint8)
    other, shifted = one.copy(), one.copy()
    other[100:105, 50:55] = 160
    shifted[101:106, 51:56] = 160
    same = np.eye(2, 3)
    assert pixel_difference(one, other, same) == pytest.approx(60, abs=1)
    assert pixel_difference(other, shifted, same) == 0
    assert pixel_difference(one, other, same) == pytest.approx(pixel_difference(other, one, same))
    assert pixel_difference(one[:2, :2], one[:2, :2], same) == np.inf
    assert pixel_difference(one, other, np.array([[0.01, 0, 0], [0, 0.01, 0]])) == np.inf


def test_a_limit_changes_no_verdict() -> None:
    tones = [(130, 90, 90), (90, 90, 130), (98, 98, 98), (200, 40, 90), (90, 130, 90)]
    flat = [np.full((90, 120, 3), tone, np.uint8) for tone in tones]
    found = set()
    for one, other in product([*flat, np.concatenate([flat[0][:45], flat[1][45:]])], repeat=2):
        whole = pixel_difference(one, other)
        for limit in (1.0, LIMIT, 40.0):
            found.add(((early := pixel_difference(one, other, limit=limit)) < whole, early < limit))
            assert (early < limit) == (whole < limit)
    assert found == {(True, False), (False, False), (False, True)}
