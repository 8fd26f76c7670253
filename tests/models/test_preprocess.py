"""The picture a model gets is the one open_clip's own transform makes."""

import numpy as np
import pytest
import torch
from open_clip.transform import image_transform
from PIL import Image

from ctxr.errors import DataError
from ctxr.models.preprocess import Preprocess

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SIZES = [(360, 640), (224, 224), (225, 301), (97, 480), (61, 33), (600, 90)]


def photograph(height: int, width: int) -> np.ndarray:
    """A picture with structure at every scale."""
    rng = np.random.default_rng(height * width)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = np.inf
    noise = np.fft.rfft2(rng.standard_normal((3, height, width))) / frequency
    grain = np.fft.irfft2(noise, s=(height, width)).transpose(1, 2, 0)
    return np.asarray((128 + 50 * grain / grain.std()).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("target", "mode", "interpolation"),
    [
        ((224, 224), "shortest", "bicubic"),
        ((96, 96), "squash", "bicubic"),
        ((224, 224), "longest", "bicubic"),
        ((224, 224), "shortest", "bilinear"),
        ((112, 160), "shortest", "bicubic"),
    ],
)
def test_a_picture_comes_out_as_from_the_reference_transform(
    size: tuple[int, int], target: tuple[int, int], mode: str, interpolation: str
) -> None:
    picture = photograph(*size)
    config = {"mean": MEAN, "std": STD, "resize_mode": mode, "interpolation": interpolation}
    ours = Preprocess.from_config({**config, "size": target, "fill_color": 40})([picture])[0]
    reference = image_transform(target, is_train=False, fill_color=40, **config)(Image.fromarray(picture))
    assert ours.shape == reference.shape
    # on the 0..1 scale; no value is off by more than two of the 256 levels
    difference = (ours - reference).abs() * torch.tensor(STD).view(3, 1, 1)
    assert float(difference.mean()) < 1e-3
    assert float(difference.max()) < 2.5 / 255


def test_a_picture_comes_out_the_same_whatever_stands_beside_it() -> None:
    preprocess = Preprocess((64, 64), MEAN, STD)
    pictures = [photograph(*size) for size in (*SIZES, (64, 64))]
    together = preprocess(pictures)
    assert together.shape == (7, 3, 64, 64)
    assert together.dtype == torch.float32
    for position, picture in enumerate(pictures):
        assert torch.equal(preprocess([picture])[0], together[position])


def test_arrays_may_be_read_only_or_views_of_others() -> None:
    preprocess = Preprocess((32, 32), MEAN, STD)
    picture = photograph(80, 60)
    frozen = picture.copy()
    frozen.setflags(write=False)
    flipped = np.ascontiguousarray(picture[:, :, ::-1])[:, :, ::-1]
    assert flipped.strides[2] == -1
    result = preprocess([picture, frozen, flipped])
    assert torch.equal(result[0], result[1])
    assert torch.equal(result[0], result[2])


def test_one_number_stands_for_three_channels_and_an_unknown_resize_mode_is_refused() -> None:
    preprocess = Preprocess.from_config({"size": 16, "mean": 0.5, "std": 0.25})
    white = preprocess([np.full((20, 20, 3), 255, np.uint8)])
    assert preprocess.mean == (0.5, 0.5, 0.5)
    assert torch.allclose(white, torch.full((1, 3, 16, 16), 2.0))
    with pytest.raises(DataError, match="resize_mode 'stretch', known are shortest, longest, squash"):
        Preprocess.from_config({"size": 16, "mean": 0.5, "std": 0.25, "resize_mode": "stretch"})
