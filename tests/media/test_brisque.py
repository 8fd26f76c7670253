"""BRISQUE against piq, against its own weights, on pictures that have nothing to measure, and against slow statistics."""

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from skimage import data as photographs

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media import brisque
from ctxr.media.brisque import UNMEASURABLE, Brisque, features, halve, luma

Doubles = NDArray[np.float64]
Picture = NDArray[np.uint8]


@pytest.fixture(scope="module")
def live() -> Brisque:
    return Brisque()


@pytest.fixture
def piq_weights(real_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(real_files / "torch-home"))


def photo() -> Picture:
    return np.ascontiguousarray(photographs.astronaut()[:256, :320])


def noise(height: int, width: int) -> Picture:
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def error_allowed() -> float:
    """1e-5, or 1e-3 on the scale of 0..100. Where torch halves a picture of odd size to other last bits than ours, because it adds in
    another order on this processor, one step of a shape on its grid, which a last bit decides."""
    from piq.functional import imresize

    brightness = luma(noise(33, 47))
    theirs = imresize(torch.from_numpy(brightness)[None, None].double(), sizes=(16, 23))[0, 0].numpy()
    return 1e-5 if np.array_equal(theirs, halve(brightness)) else 3e-4


def by_piq(rgb: Picture) -> float:
    """`piq.brisque` in float64, the only precision in which these weights work with it."""
    import piq

    return float(piq.brisque(torch.from_numpy(np.array(rgb)).permute(2, 0, 1)[None].double(), data_range=255.0)) / 100


def test_more_blur_and_noise_raise_the_score_of_a_photo(live: Brisque) -> None:
    clear = photo()
    blurred = [np.asarray(cv2.GaussianBlur(clear, (0, 0), sigma), np.uint8) for sigma in (0.6, 1.2, 2.4, 3.0, 4.8)]
    noisy = np.clip(clear + np.random.default_rng(0).normal(0, 30, clear.shape), 0, 255).astype(np.uint8)
    scores = [live.score(picture) for picture in blurred]
    assert scores == sorted(scores)
    assert live.score(clear) < 0.4
    assert scores[3] > 0.65
    assert live.score(noisy) > live.score(clear) + 0.2


NOTHING: dict[str, Picture] = {
    "black": np.zeros((120, 160, 3), np.uint8),
    "green": np.full((120, 160, 3), (10, 200, 30), np.uint8),
    "grey": np.full((120, 160), 7, np.uint8),
    "empty": np.zeros((0, 0, 3), np.uint8),
    "low": noise(15, 400),
    "dot": noise(1, 1),
}
ODD: dict[str, Picture] = {
    "smallest": noise(16, 16),
    "panorama": noise(17, 4001),
    "faint line": np.where(np.arange(90)[:, None] == 45, 1, 0).repeat(80, axis=1).astype(np.uint8),
    "ramp": np.arange(256, dtype=np.uint8)[None].repeat(64, axis=0),
    "checkerboard": np.asarray(np.indices((64, 64)).sum(axis=0) % 2 * 255, np.uint8),
    "one pixel": np.where(np.arange(64 * 64).reshape(64, 64) == 99, 255, 0).astype(np.uint8),
}


@pytest.mark.parametrize("name", [*NOTHING, *ODD])
def test_odd_pictures_get_a_number_and_those_with_nothing_to_measure_the_worst(live: Brisque, name: str) -> None:
    assert np.isfinite(live.score((NOTHING | ODD)[name]))
    assert (live.score((NOTHING | ODD)[name]) == UNMEASURABLE) >= (name in NOTHING)


def test_grey_is_scored_like_the_same_grey_in_three_channels(live: Brisque) -> None:
    grey = np.asarray(cv2.cvtColor(photo(), cv2.COLOR_RGB2GRAY), np.uint8)
    assert live.score(grey) == live.score(np.repeat(grey[:, :, None], 3, axis=2))


def test_a_view_is_scored_like_its_copy_and_pictures_before_it_change_nothing(live: Brisque) -> None:
    view = photo()[::-1, ::2, ::-1]
    alone = Brisque().score(view)
    live.score(noise(90, 300))
    assert live.score(np.ascontiguousarray(view)) == alone


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((32, 32, 3), np.float32), "pixels are float32, not uint8"),
        (np.zeros((32, 32, 4), np.uint8), "an alpha channel"),
        (np.zeros((32, 32, 2), np.uint8), "neither"),
        (np.zeros((1, 32, 32, 3), np.uint8), "neither"),
    ],
)
def test_what_is_not_a_picture_is_refused(live: Brisque, picture: Picture, message: str) -> None:
    with pytest.raises(DataError, match=message):
        live.score(picture)


def test_unknown_weights_and_those_that_cannot_be_fetched_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="unknown BRISQUE weights 'matlab'"):
        Brisque("matlab")

    def offline(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(CtxrError, match="cannot be fetched: no route") as raised:
        Brisque("piq")
    assert "live" in raised.value.hint


@pytest.mark.parametrize("shape", [(774, 36), (774, 37), (5, 36), (774, 1, 36), None])
def test_other_values_than_those_that_were_published_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...] | None
) -> None:
    file = tmp_path / "hub" / "checkpoints" / "brisque_svm_weights.pt"

    def fetch(_: str, path: str, **__: object) -> None:
        content = "not weights" if shape is None else (torch.ones(774, 1), torch.zeros(shape))
        torch.save(content, path)

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    with pytest.raises(DataError, match=r"brisque_svm_weights\.pt (holds other values|does not hold)") as caught:
        Brisque("piq")
    assert caught.value.hint.startswith(f"delete {file}")


def test_a_manifest_can_tell_which_weights_were_used(live: Brisque) -> None:
    told = live.describe()
    assert (told["implementation"], told["weights"], live.name) == ("ctxr-brisque", "brisque-live", "brisque-live")
    assert told["weights_sha256"] == "84bac3bcef412d95fd179b28f25ef04ad21af36efdfc6b4b8063e291da93b31b"


@pytest.mark.usefixtures("piq_weights")
@pytest.mark.parametrize("size", [(64, 64), (33, 47), (121, 163), (16, 16), (17, 200)])
def test_noise_of_any_size_scores_as_in_piq(size: tuple[int, int]) -> None:
    picture = noise(*size)
    assert Brisque("piq").score(picture) == pytest.approx(by_piq(picture), abs=error_allowed())


@pytest.mark.usefixtures("piq_weights")
def test_real_photos_and_frames_score_as_in_piq(real_files: Path) -> None:
    pictures: list[Any] = [
        cv2.imread(str(path)) for path in sorted((real_files / "photos" / "coco-mini").glob("*.jpg"))[::20]
    ]
    for name in ("bikes.mp4", "fades.mp4"):
        film = cv2.VideoCapture(str(real_files / "videos" / name))
        frames = [film.read()[1] for _ in range(160)]
        pictures += frames[45::80]
    own = Brisque("piq")
    differences = []
    for bgr in pictures:
        rgb = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
        if rgb.min() < rgb.max():  # piq refuses a flat frame
            differences.append(abs(own.score(rgb) - by_piq(rgb)))
    assert len(differences) >= 6
    assert max(differences) < error_allowed()
    assert np.median(differences) < 1e-5


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


def noisy_photo() -> Picture:
    """A photo with a little noise, so that no neighbourhood is flat."""
    crop = photographs.astronaut()[100:229, 50:213]
    return np.asarray(np.clip(crop + np.random.default_rng(0).normal(0, 2, crop.shape), 1, 254), np.uint8)


@pytest.mark.parametrize(
    "picture", [noise(40, 64), noise(33, 47), noise(16, 150), noisy_photo()], ids=["even", "odd", "low", "photo"]
)
@pytest.mark.parametrize("strip", [1, 1000, 1 << 17], ids=["rows alone", "strips", "whole"])
def test_the_fused_statistics_are_the_slow_ones(picture: Picture, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brisque, "STRIP_PIXELS", strip)
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
    picture = noisy_photo()
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
    picture = noisy_photo()[: size[0], : size[1]]
    picture[20:60, 20:90] = 255
    picture[70:110, 30:120] = 77
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(brisque, "MANY", share)
        found.append(features(np.ascontiguousarray(picture)))
    at_once, one_by_one = found
    assert at_once is not None
    assert one_by_one is not None
    assert (at_once == one_by_one).all()
