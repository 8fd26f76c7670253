"""The fused statistics against the slow and obvious ones."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from skimage import data as photographs

from ctxr.media import brisque as scene_statistics
from ctxr.media.brisque import features, halve, luma

Doubles = NDArray[np.float64]
Picture = NDArray[np.uint8]

SHAPES = np.arange(0.2, 10.001, 0.001)


def ratio(shape: float) -> float:
    return math.gamma(1 / shape) * math.gamma(3 / shape) / math.gamma(2 / shape) ** 2


RATIOS = np.array([ratio(shape) for shape in SHAPES.tolist()])


def weighted_mean(plane: Doubles) -> Doubles:
    offsets = np.arange(-3, 4)
    bell = np.exp(-(offsets**2) / (2 * (7 / 6) ** 2))
    window = np.outer(bell, bell) / bell.sum() ** 2
    padded = np.pad(plane, 3)
    height, width = plane.shape
    return np.asarray(sum(window[i, j] * padded[i : i + height, j : j + width] for i in range(7) for j in range(7)))


def slow_statistics(plane: Doubles, nothing: float = 0.0) -> list[float]:
    mean = weighted_mean(plane)
    a = (plane - mean) / (np.sqrt(np.abs(weighted_mean(plane**2) - mean**2)) + 1)
    a[np.abs(a) < 1e-9] = nothing
    variance = float((a**2).mean())
    found = [SHAPES[np.abs(RATIOS - variance / np.abs(a).mean() ** 2).argmin()], variance]
    for shift in ((0, 1), (1, 0), (1, 1), (-1, 1)):
        p = a * np.roll(a, shift, (0, 1))
        left, right = (p[p < 0] ** 2).mean(), (p[p > 0] ** 2).mean()
        skew = math.sqrt(left / right)
        wanted = np.abs(p).mean() ** 2 / (p**2).mean() * (skew**3 + 1) * (skew + 1) / (skew**2 + 1) ** 2
        shape = float(SHAPES[np.abs(1 / RATIOS - wanted).argmin()])
        mode = math.gamma(2 / shape) / math.sqrt(math.gamma(1 / shape) * math.gamma(3 / shape))
        found += [shape, (math.sqrt(right) - math.sqrt(left)) * mode, left, right]
    return found


def cubic(distance: float) -> float:
    d = abs(distance)
    if d <= 1:
        return 1.5 * d**3 - 2.5 * d**2 + 1
    return -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2 if d <= 2 else 0.0


def slow_half(plane: Doubles) -> Doubles:
    for _ in range(2):
        size = len(plane)
        half = size // 2
        matrix = np.zeros((half, size))
        for target in range(half):
            centre = (target + 0.5) * size / half - 0.5
            for source in range(math.floor(centre) - 6, math.floor(centre) + 8):
                mirrored = -1 - source if source < 0 else 2 * size - 1 - source if source >= size else source
                matrix[target, mirrored] += cubic((centre - source) * half / size)
        plane = (matrix / matrix.sum(axis=1, keepdims=True) @ plane).T
    return np.asarray(plane)


def noise(height: int, width: int) -> Picture:
    return np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def photo() -> Picture:
    """A photo with a little noise, so that no neighbourhood is flat."""
    crop = photographs.astronaut()[100:229, 50:213]
    return np.asarray(np.clip(crop + np.random.default_rng(0).normal(0, 2, crop.shape), 1, 254), np.uint8)


@pytest.mark.parametrize(
    "picture", [noise(40, 64), noise(33, 47), noise(16, 150), photo()], ids=["even", "odd", "low", "photo"]
)
@pytest.mark.parametrize("strip", [1, 1000, 1 << 17], ids=["rows alone", "strips", "whole"])
def test_the_fused_statistics_are_the_slow_ones(picture: Picture, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene_statistics, "STRIP_PIXELS", strip)
    grey = luma(picture).astype(np.float64)
    expected = slow_statistics(grey) + slow_statistics(slow_half(grey))
    found = features(picture)
    assert found is not None
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("size", [(20, 30), (21, 31), (130, 259), (301, 64)])
def test_half_the_size_is_the_widened_cubic(size: tuple[int, int]) -> None:
    plane = noise(*size)[:, :, 0]
    assert halve(plane) == pytest.approx(slow_half(plane.astype(np.float64)), abs=2e-3)


def test_a_flat_plane_stays_exactly_flat_at_half_an_even_size() -> None:
    for level in range(256):
        assert (halve(np.full((24, 32), level, np.uint8)) == level).all()


def test_brightness_is_rounded_half_to_even() -> None:
    every = np.random.default_rng(5).integers(0, 256, (400, 500, 3), dtype=np.uint8)
    thousands = every.astype(np.int64) @ np.array([299, 587, 114])
    assert (thousands % 1000 == 500).sum() > 50
    wanted = thousands // 1000 + (thousands % 1000 > 500)
    clear = thousands % 1000 != 500
    found = luma(every)
    assert (found[clear] == wanted[clear]).all()
    ties = np.rint(every @ np.array([0.299, 0.587, 0.114]))
    assert (found != ties).sum() <= (thousands % 1000 == 500).sum() // 5


@pytest.mark.parametrize(("level", "rest"), [(0, 0.0), (255, 1e-14)], ids=["black on none", "white on the right"])
def test_pairs_in_a_flat_area_count_on_one_side_of_the_fit(level: int, rest: float) -> None:
    picture = photo()
    picture[20:60, 20:90] = level
    expected = slow_statistics(luma(picture).astype(np.float64), nothing=rest)
    other = slow_statistics(luma(picture).astype(np.float64), nothing=1e-14 - rest)
    found = features(picture)
    assert found is not None
    assert found[:18] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert found[:18] != pytest.approx(other, rel=1e-2)


@pytest.mark.parametrize("size", [(128, 160), (127, 159)], ids=["even", "odd"])
def test_flat_areas_count_alike_picked_out_one_by_one_or_all_at_once(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = photo()[: size[0], : size[1]]
    picture[20:60, 20:90] = 255
    picture[70:110, 30:120] = 77
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(scene_statistics, "MANY", share)
        found.append(features(np.ascontiguousarray(picture)))
    at_once, one_by_one = found
    assert at_once is not None
    assert one_by_one is not None
    assert (at_once == one_by_one).all()
