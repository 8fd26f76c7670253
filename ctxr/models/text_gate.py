"""A cheap look at a picture that spares Tesseract where there is no row of letters to read.

Five convolutions (17,000 weights) say for every 8x8 pixels how much they look like text. They were trained on drawn words over
the photographs of scikit-image by `scripts/train_text_gate.py`; the threshold is set so that at least 99.5 % of the pictures in
which Tesseract finds drawn words pass (248 of 249, `python -m bench.quality gate 700`; docs/log.md has the table).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ctxr.data.hashing import sha256_file

Floats = NDArray[np.float32]

WEIGHTS = Path(__file__).parent / "weights" / "text-gate" / "model.safetensors"
WINDOW = 33  # pixels, over which contrast is evened out
NOISE = 6.0  # grey levels that count as no contrast
FLAT = 8.0  # a picture whose grey levels spread less always passes: Tesseract sees contrasts there that the network does not


class Layer(NamedTuple):
    """A convolution of 3x3 or 5x5 inputs that lie `dilation` apart, at every `stride`-th place; its edges are filled with zeros."""

    channels: int
    size: int
    stride: int
    dilation: int


LAYERS = (
    Layer(10, 5, 2, 1),
    Layer(20, 3, 2, 1),
    Layer(32, 3, 2, 1),
    Layer(32, 3, 1, 2),
    Layer(32, 3, 1, 4),
    Layer(1, 1, 1, 1),
)
"""From [1, H, W] to [1, H / 8, W / 8], with negative values cut between them."""


class _Weights(NamedTuple):
    layers: tuple[tuple[Floats, Floats], ...]
    threshold: float
    sha256: str


class TextGate:
    """Decides whether a picture is worth reading; its weights are loaded once per process."""

    def __init__(self) -> None:
        self._weights = _load()

    def may_hold_text(self, grey: NDArray[np.uint8]) -> bool:
        """False where `grey`, uint8 [H, W] at the size that Tesseract would read, shows no text."""
        return float(grey.std()) < FLAT or self.score(grey) >= self._weights.threshold

    def score(self, grey: NDArray[np.uint8]) -> float:
        """How much the most text-like place of `grey` looks like text: a logit, higher is more."""
        import torch

        with torch.inference_mode(), _THREADS.one():
            heat = torch.from_numpy(even_contrast(grey))[None, None]
            for number, (layer, (weight, bias)) in enumerate(zip(LAYERS, self._weights.layers, strict=True)):
                heat = heat.relu_() if number else heat
                margin = layer.dilation * (layer.size // 2)
                weights = torch.from_numpy(weight), torch.from_numpy(bias)
                heat = torch.nn.functional.conv2d(heat, *weights, layer.stride, margin, layer.dilation)
            # letters come in rows: the mean of three cells side by side
            return float(torch.nn.functional.avg_pool2d(heat, (1, 3), 1, (0, 1)).max())

    def describe(self) -> dict[str, object]:
        """For manifests: which weights decide, and from where on."""
        return {"weights_sha256": self._weights.sha256, "threshold": self._weights.threshold}


def even_contrast(grey: NDArray[np.uint8]) -> Floats:
    """Grey levels less their local mean, over their local spread; -3 to 3."""
    level = grey.astype(np.float32)
    mean = cv2.blur(level, (WINDOW, WINDOW))
    variance = cv2.blur(level * level, (WINDOW, WINDOW)) - mean * mean
    return np.asarray(np.clip((level - mean) / (np.sqrt(np.maximum(variance, 0)) + NOISE), -3, 3), np.float32)


class _Threads:
    """Torch with one thread for as long as anybody is inside; afterwards with as many as before the first came.

    The number belongs to the process and to each thread that has asked for it, so whoever leaves sets it back, for itself
    too, and to what the first one found: one who comes while another is inside would find the one thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = 1

    @contextmanager
    def one(self) -> Iterator[None]:
        """The layers are so small that threads wait for one another longer than they work, most of all while a decoder
        keeps the other cores busy."""
        import torch

        with self._lock:
            if not self._inside:
                self._before = torch.get_num_threads()
            self._inside += 1
            torch.set_num_threads(1)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                torch.set_num_threads(self._before)


_THREADS = _Threads()


@lru_cache(maxsize=1)
def _load() -> _Weights:
    from safetensors.numpy import load_file

    tensors = load_file(WEIGHTS)
    layers = tuple((tensors[f"{at}.weight"], tensors[f"{at}.bias"]) for at in range(len(LAYERS)))
    return _Weights(layers, float(tensors["threshold"]), sha256_file(WEIGHTS))
