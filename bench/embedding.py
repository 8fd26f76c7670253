"""Embedding: images per second of ViT-B/32's image tower, and preprocessing per 720p frame.

The weights are random: they change nothing about the speed. Every figure stands beside the plain way measured in the
same run: open_clip's model in eager fp32 with batches of 32, and its PIL transform.
"""

from collections.abc import Callable

import numpy as np
import open_clip
import torch
from PIL import Image

from bench.processes import one_thread
from bench.table import Row, in_turns, median_seconds
from ctxr.models.encoders import find_source, load_encoder
from ctxr.models.layers import unit
from ctxr.models.precision import has_bf16_units
from ctxr.models.preprocess import Preprocess

IMAGES = 64
FRAMES = 16
SPEED_UP = 3.3
"""Wanted of bf16 weights over eager fp32, where the processor multiplies bf16 matrices itself."""


def frames(count: int, height: int = 720, width: int = 1280) -> list[np.ndarray]:
    """Pictures with structure at every scale, uint8 RGB."""
    rng = np.random.default_rng(0)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = np.inf
    pictures = []
    for _ in range(count):
        noise = np.fft.rfft2(rng.standard_normal((3, height, width))) / frequency
        grain = np.fft.irfft2(noise, s=(height, width)).transpose(1, 2, 0)
        # decoders hand rows of pixels on, not planes: a copy of planes would be measured with the rest
        pictures.append(np.ascontiguousarray((128 + 50 * grain / grain.std()).clip(0, 255).astype(np.uint8)))
    return pictures


def measure() -> list[Row]:
    """The rows of this bench."""
    rows = [*_preprocessing(), _tower(f"{torch.get_num_threads()} threads")]
    with one_thread():  # beside other programs, threads wait for one another: this is then the surer figure
        return [*rows, _tower("one thread")]


def towers(precision: str = "auto") -> tuple[Callable[[], object], Callable[[], object], str]:
    """Ours and open_clip's own eager module, in batches of 32, each warm and to be called on `IMAGES` images; ours in words."""
    encoder = load_encoder("random:ViT-B-32", device="cpu", precision=precision)
    plain = find_source("random:ViT-B-32", lambda _: None).build()
    batch = torch.randn(32, 3, encoder.image_size, encoder.image_size)
    # frames of the model's own size: resizing is measured apart
    pictures = frames(IMAGES, encoder.image_size, encoder.image_size)

    def eager() -> None:
        with torch.inference_mode():
            for _ in range(IMAGES // len(batch)):
                unit(plain.visual(batch))

    encoder.encode_images(pictures[:16])
    with torch.inference_mode():
        plain.visual(batch)
    return lambda: encoder.encode_images(pictures), eager, f"{encoder.precision} weights"


def _tower(threads: str) -> Row:
    own, eager, weights = towers()
    ours, theirs = in_turns(own, eager)
    bf16 = has_bf16_units()
    gain = _matrix_seconds(torch.float32) / _matrix_seconds(torch.bfloat16)
    speeds = f"{IMAGES / ours:.1f} images/s against {IMAGES / theirs:.1f} images/s, {theirs / ours:.2f} x"
    return Row(
        figure=f"embed {IMAGES} images, ViT-B/32, {weights}, {threads}",
        seconds=ours,
        against="open_clip, eager fp32, batches of 32",
        against_seconds=theirs,
        target=f">= {SPEED_UP} x faster" if bf16 else "<= 1",
        met=theirs / ours >= (SPEED_UP if bf16 else 1),
        note=f"{speeds}; this processor multiplies matrices {gain:.2f} x faster in bf16",
    )


def _matrix_seconds(dtype: torch.dtype) -> float:
    """Seconds of the product that a ViT-B spends its time in: what the processor can give at most."""
    rows, weights = torch.randn(2048, 768).to(dtype), torch.randn(3072, 768).to(dtype)

    def products() -> None:
        for _ in range(20):
            torch.nn.functional.linear(rows, weights)

    products()
    return median_seconds(products, 5)


def _preprocessing() -> list[Row]:
    pictures = frames(FRAMES)
    config = {
        "mean": open_clip.OPENAI_DATASET_MEAN,
        "std": open_clip.OPENAI_DATASET_STD,
        "interpolation": "bicubic",
        "resize_mode": "shortest",
    }
    ours = Preprocess.from_config({**config, "size": 224})
    theirs = open_clip.transform.image_transform(224, is_train=False, **config)

    def reference() -> torch.Tensor:
        return torch.stack([theirs(Image.fromarray(picture)) for picture in pictures])

    difference = float((ours(pictures) - reference()).abs().mean())
    seconds, against_seconds = (taken / FRAMES for taken in in_turns(lambda: ours(pictures), reference, repeat=5))
    return [
        Row(
            figure="preprocess one 720p frame",
            seconds=seconds,
            against="open_clip's PIL transform",
            against_seconds=against_seconds,
            target="<= 1 ms, equal within 1e-3",
            met=seconds <= 1e-3 and difference <= 1e-3,
            note=f"mean difference {difference:.1e}",
        )
    ]
