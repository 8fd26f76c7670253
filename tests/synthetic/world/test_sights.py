import numpy as np
import numpy.typing as npt
import pytest

from ctxr.synthetic.world.outlines import OUTLINES
from ctxr.synthetic.world.scenes import Actor, Backdrop, Overlay, Scene, sample_scene
from ctxr.synthetic.world.sights import OVERLAY, measure_sights

Mask = npt.NDArray[np.bool_]


def _inside(contour: npt.NDArray[np.float64], x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Mask:
    """Crossing number of a ray to the right, for every point."""
    odd = np.zeros(x.shape, bool)
    for (x0, y0), (x1, y1) in zip(contour, np.roll(contour, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        crosses = (y0 > y) != (y1 > y)
        odd ^= crosses & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return odd


def slow_mask(actor: Actor, width: int, height: int, margin: int) -> Mask:
    """A pixel is inside if at least half of its 16 sample points are; the raster reaches `margin` beyond the frame."""
    rows, columns = np.mgrid[-margin * 4 : (height + margin) * 4, -margin * 4 : (width + margin) * 4]
    x, y = (columns + 0.5) / 4 - actor.x * width, (rows + 0.5) / 4 - actor.y * height
    turn, scale = np.deg2rad(actor.angle), actor.radius * min(width, height)
    u, v = (x * np.cos(turn) + y * np.sin(turn)) / scale, (-x * np.sin(turn) + y * np.cos(turn)) / scale
    whole = np.zeros(x.shape, bool)
    for part in OUTLINES[actor.shape]:
        inside = np.zeros(x.shape, bool)
        for contour in part:
            inside ^= _inside(contour, u, v)
        whole |= inside
    high, wide = height + 2 * margin, width + 2 * margin
    return np.asarray(whole.reshape(high, 4, wide, 4).mean((1, 3)) >= 0.5)


def test_shares_agree_with_a_slow_recount_of_every_pixel() -> None:
    width, height, margin = 144, 108, 40
    frame = np.zeros((height + 2 * margin, width + 2 * margin), bool)
    frame[margin:-margin, margin:-margin] = True
    compared = 0
    for seed in range(4):
        scene = sample_scene(np.random.default_rng([7, seed]), width / height)
        sights = measure_sights(scene, width, height)
        masks = [slow_mask(actor, width, height, margin) for actor in scene.actors]
        for index, actor in enumerate(scene.actors):
            nearer = np.zeros_like(frame)
            for mask in masks[index + 1 :]:
                nearer |= mask
            whole = masks[index].sum()
            sight = sights[actor.name]
            assert sight.covered == pytest.approx((masks[index] & frame & nearer).sum() / whole, abs=0.03)
            assert sight.beyond == pytest.approx((masks[index] & ~frame).sum() / whole, abs=0.03)
            assert sight.shown + sight.covered + sight.beyond == pytest.approx(1)
            assert sight.hidden == pytest.approx(sight.covered + sight.beyond)
            for other, mask in zip(scene.actors[index + 1 :], masks[index + 1 :], strict=True):
                alone = (masks[index] & frame & mask).sum() / whole
                assert sight.behind.get(other.name, 0.0) == pytest.approx(alone, abs=0.03)
            compared += sight.hidden > 0.05
    assert compared >= 2


def square(name: str, x: float, y: float, radius: float = 0.1) -> Actor:
    return Actor(name, "square", "red", radius, x, y)


@pytest.mark.parametrize(
    ("x", "y", "beyond", "edges", "box"),
    [
        (0.0, 0.5, 0.5, (0.5, 0, 0, 0), (0, 0.416, 0.084, 0.584)),
        (1.0, 1.0, 0.75, (0, 0, 0.5, 0.5), (0.916, 0.916, 1, 1)),  # a corner counts for both of its edges
        (2.0, 0.5, 1, (0, 0, 1, 0), (0, 0, 0, 0)),
    ],
)
def test_what_lies_beyond_an_edge_is_not_shown(
    x: float, y: float, beyond: float, edges: tuple[float, ...], box: tuple[float, ...]
) -> None:
    sight = measure_sights(Scene((square("a", x, y),), Backdrop("sand")), 200, 200)["a"]
    assert (sight.shown, sight.beyond) == pytest.approx((1 - beyond, beyond), abs=0.03)
    assert tuple(sight.edges.values()) == pytest.approx(edges, abs=0.03)
    assert sight.box == pytest.approx(box, abs=0.01)


def test_only_nearer_actors_hide_and_what_is_hidden_twice_counts_once() -> None:
    scene = Scene((square("far", 0.5, 0.5), square("near", 0.5 + 0.084, 0.5)), Backdrop("sand"))
    sights = measure_sights(scene, 200, 200)
    assert sights["far"].behind == {"near": pytest.approx(0.5, abs=0.03)}
    assert sights["near"].hidden == 0
    scene = Scene((square("far", 0.5, 0.5), square("b", 0.5, 0.5), square("c", 0.5, 0.5)), Backdrop("sand"))
    sight = measure_sights(scene, 200, 200)["far"]
    assert sight.covered == 1
    assert sight.behind == {"b": 1, "c": 1}


def test_a_hole_hides_nothing_and_a_text_panel_what_is_below_it() -> None:
    ring = Actor("ring", "ring", "blue", 0.3, 0.5, 0.5)
    assert measure_sights(Scene((square("a", 0.5, 0.5), ring), Backdrop("sand")), 200, 200)["a"].hidden == 0
    scene = Scene((square("a", 0.5, 0.95, 0.05),), Backdrop("sand"), overlay=Overlay(("Chapter two",)))
    assert measure_sights(scene, 200, 200)["a"].behind == {OVERLAY: pytest.approx(1, abs=0.05)}
