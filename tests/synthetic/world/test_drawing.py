import subprocess
import sys

import msgspec
import numpy as np
import pytest

from ctxr.synthetic.world.backdrops import BACKDROPS, pyramid, window
from ctxr.synthetic.world.drawing import render, silhouette
from ctxr.synthetic.world.outlines import DETAILS, FACED, OUTLINES, REACH, SHAPES
from ctxr.synthetic.world.scenes import (
    COLOURS,
    FACES,
    SIZES,
    TEXTURES,
    Actor,
    Backdrop,
    Overlay,
    Scene,
    sample_scene,
)


def test_equal_scenes_give_equal_pixels_of_the_size_asked_for() -> None:
    for seed in range(8):
        one, two = sample_scene(np.random.default_rng(seed)), sample_scene(np.random.default_rng(seed))
        assert one == two
        picture = render(one, 96, 64)
        assert picture.shape == (64, 96, 3)
        assert picture.dtype == np.uint8
        assert np.array_equal(picture, render(two, 96, 64))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_drawn_within_its_radius_in_its_colour(shape: str) -> None:
    actor = Actor("a0", shape, "red", 0.3, 0.5, 0.5)
    mask, left, top = silhouette(actor, 200, 200)
    assert len(np.unique(mask)) > 5  # edges are anti-aliased
    rows, columns = np.nonzero(mask >= 128)
    distance = np.hypot(columns + left + 0.5 - 100, rows + top + 0.5 - 100)
    assert distance.max() <= 0.3 * 200 * REACH
    # neither a dot nor a full disc's bounding square
    assert 0.08 < (mask >= 128).sum() / (2 * 60) ** 2 < 0.8
    empty, full = (render(Scene(actors, Backdrop("snow")), 200, 200) for actors in ((), (actor,)))
    changed = np.abs(full.astype(int) - empty).sum(-1) > 60
    red = (np.abs(full.astype(int) - COLOURS["red"]).sum(-1) < 12) & changed
    assert red.sum() > 0.15 * (mask >= 128).sum()


def test_a_face_a_texture_and_details_change_the_picture() -> None:
    plain = Actor("a0", "circle", "blue", 0.3, 0.5, 0.5)
    looks = [plain] + [Actor("a0", "circle", "blue", 0.3, 0.5, 0.5, texture=texture) for texture in TEXTURES[1:]]
    looks += [Actor("a0", "circle", "blue", 0.3, 0.5, 0.5, face=face) for face in FACES]
    pictures = [render(Scene((actor,), Backdrop("sand")), 96, 96).tobytes() for actor in looks]
    assert len(set(pictures)) == len(looks)


def test_a_later_actor_covers_an_earlier_one() -> None:
    red, blue = Actor("a0", "square", "red", 0.3, 0.5, 0.5), Actor("a1", "square", "blue", 0.3, 0.5, 0.5)
    front = render(Scene((red, blue), Backdrop("sand")), 64, 64)[32, 32]
    assert np.abs(front.astype(int) - COLOURS["blue"]).max() < 8


@pytest.mark.parametrize("name", BACKDROPS)
def test_every_backdrop_has_a_spectrum_that_falls_like_a_photographs(name: str) -> None:
    grey = pyramid(name)[0].astype(float).mean(-1)
    side = min(grey.shape)
    spectrum = np.abs(np.fft.rfft2((grey - grey.mean())[:side, :side] * np.outer(np.hanning(side), np.hanning(side))))
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    low, high = ((frequency > a) & (frequency <= 2 * a) for a in (0.02, 0.16))
    # amplitude over three octaves: 1/f falls by 8
    assert 1.5 < spectrum[low].mean() / spectrum[high].mean() < 80


def test_panning_moves_the_backdrop_by_less_than_a_pixel_at_a_time_and_mirroring_mirrors_it() -> None:
    a, b, c = (window("gravel", x, 0.5, 1.4, False, width=160, height=90).astype(float) for x in (0.5, 0.5005, 0.505))
    assert 0 < np.abs(a - b).mean() < np.abs(a - c).mean()
    plain, mirrored = (window("coffee", 0.5, 0.3, 1.2, flag, width=120, height=80) for flag in (False, True))
    assert np.abs(plain[:, ::-1].astype(int) - mirrored).max() <= 1


def test_blur_smooths_and_an_overlay_covers_the_width() -> None:
    scene = Scene((), Backdrop("gravel"))
    sharp = render(scene, 160, 90).astype(float)
    blurred = render(Scene((), Backdrop("gravel"), blur=0.05), 160, 90).astype(float)
    assert np.abs(np.diff(blurred, axis=1)).mean() < 0.2 * np.abs(np.diff(sharp, axis=1)).mean()
    titled = render(Scene((), Backdrop("gravel"), overlay=Overlay(("Chapter two",))), 160, 90)
    assert np.array_equal(titled[:60], sharp[:60].astype(np.uint8))
    assert (titled[75:] > 200).mean() > 0.6
    assert (titled[75:] < 60).mean() > 0.02


@pytest.mark.parametrize("edge", ["top", "bottom"])
def test_an_overlay_slides_in_from_its_edge(edge: str) -> None:
    scene = Scene((), Backdrop("grass"))
    empty, half, full = (
        render(msgspec.structs.replace(scene, overlay=Overlay(("Chapter two",), edge, shown)), 160, 90)
        for shown in (0.0, 0.5, 1.0)
    )
    assert np.array_equal(empty, render(scene, 160, 90))
    if edge == "top":
        assert np.array_equal(half[:9], full[9:18])
        assert np.array_equal(half[9:], empty[9:])
    else:
        assert np.array_equal(half[81:], full[72:81])
        assert np.array_equal(half[:81], empty[:81])


def test_size_words_do_not_overlap() -> None:
    assert all(Actor("a0", "circle", "red", one, 0.5, 0.5).size == name for name in SIZES for one in SIZES[name])


def test_faces_and_details_belong_to_shapes_that_exist() -> None:
    assert set(SHAPES) >= FACED
    assert all(OUTLINES.values())
    assert len(DETAILS.keys() & set(SHAPES)) == len(DETAILS) >= 8


def test_drawing_imports_neither_skimage_nor_torch_nor_scipy() -> None:
    program = (
        "import sys, numpy as np\n"
        "from ctxr.synthetic.world.drawing import render\n"
        "from ctxr.synthetic.world.scenes import sample_scene\n"
        "render(sample_scene(np.random.default_rng(1)), 32, 32)\n"
        "sys.exit(bool({'skimage', 'torch', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
