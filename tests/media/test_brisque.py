"""BRISQUE against piq, against its own weights, and on pictures that have nothing to measure."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from skimage import data as photographs

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media.brisque import UNMEASURABLE, Brisque

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


def by_piq(rgb: Picture) -> float:
    """`piq.brisque` in float64, the only precision in which these weights work with it."""
    import piq
    import torch

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


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((120, 160, 3), np.uint8),
        np.full((120, 160, 3), 255, np.uint8),
        np.full((120, 160, 3), (10, 200, 30), np.uint8),
        np.full((120, 160), 7, np.uint8),
        np.zeros((0, 0, 3), np.uint8),
        noise(15, 400),
        noise(1, 1),
    ],
    ids=["black", "white", "green", "grey", "empty", "low", "dot"],
)
def test_a_picture_with_nothing_to_measure_gets_the_worst_of_the_scale(live: Brisque, picture: Picture) -> None:
    assert live.score(picture) == UNMEASURABLE == 1.0


def checkerboard() -> Picture:
    return np.asarray(np.indices((64, 64)).sum(axis=0) % 2 * 255, np.uint8)


@pytest.mark.parametrize(
    "picture",
    [
        noise(16, 16),
        noise(17, 4001),
        np.where(np.arange(90)[:, None] == 45, 1, 0).repeat(80, axis=1).astype(np.uint8),
        np.arange(256, dtype=np.uint8)[None].repeat(64, axis=0),
        checkerboard(),
        np.where(np.arange(64 * 64).reshape(64, 64) == 99, 255, 0).astype(np.uint8),
    ],
    ids=["smallest", "panorama", "faint line", "ramp", "checkerboard", "one pixel"],
)
def test_odd_pictures_get_a_number(live: Brisque, picture: Picture) -> None:
    assert np.isfinite(live.score(picture))


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


def test_unknown_weights_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown BRISQUE weights 'matlab'"):
        Brisque("matlab")


def test_weights_that_cannot_be_fetched_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def offline(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(CtxrError, match="cannot be fetched: no route") as raised:
        Brisque("piq")
    assert "live" in raised.value.hint


def test_damaged_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "hub" / "checkpoints" / "brisque_svm_weights.pt"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not weights")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"brisque_svm_weights\.pt"):
        Brisque("piq")


@pytest.mark.parametrize("shape", [(774, 36), (774, 37), (5, 36), (774, 1, 36)])
def test_other_values_than_those_that_were_published_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    import torch

    file = tmp_path / "hub" / "checkpoints" / "brisque_svm_weights.pt"

    def fetch(_: str, path: str, **__: object) -> None:
        torch.save((torch.ones(774, 1), torch.zeros(shape)), path)

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    with pytest.raises(DataError, match=r"brisque_svm_weights\.pt (holds other values|does not hold)") as caught:
        Brisque("piq")
    assert caught.value.hint.startswith(f"delete {file}")


def test_a_manifest_can_tell_which_weights_were_used(live: Brisque) -> None:
    told = live.describe()
    assert told["weights"] == live.name == "brisque-live"
    assert (
        told["weights_sha256"]
        == live.weights_sha256
        == "84bac3bcef412d95fd179b28f25ef04ad21af36efdfc6b4b8063e291da93b31b"
    )
    assert told["implementation"] == "ctxr-brisque"


@pytest.mark.usefixtures("piq_weights")
@pytest.mark.parametrize("size", [(64, 64), (33, 47), (121, 163), (16, 16), (17, 200)])
def test_noise_of_any_size_scores_as_in_piq(size: tuple[int, int]) -> None:
    picture = noise(*size)
    assert Brisque("piq").score(picture) == pytest.approx(by_piq(picture), abs=1e-5)


@pytest.mark.usefixtures("piq_weights")
def test_real_photos_and_frames_score_as_in_piq(real_files: Path) -> None:
    pictures: list[Any] = [
        cv2.imread(str(path)) for path in sorted((real_files / "photos" / "coco-mini").glob("*.jpg"))[::20]
    ]
    for name in ("bikes.mp4", "fades.mp4"):
        film = cv2.VideoCapture(str(real_files / "videos" / name))
        frames = [film.read()[1] for _ in range(160)]
        pictures += frames[45::80]
    brisque = Brisque("piq")
    differences = []
    for bgr in pictures:
        rgb = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
        if rgb.min() < rgb.max():  # piq refuses a flat frame
            differences.append(abs(brisque.score(rgb) - by_piq(rgb)))
    assert len(differences) >= 6
    assert max(differences) < 1e-5  # 1e-3 on the scale of 0..100
