"""A cheap look at a picture that spares Tesseract where there is no row of letters to read.

A network of 5 convolutions (17,000 weights) says for every 8x8 pixels how much they look like text. It was trained on drawn
overlays over the photographs of scikit-image by `scripts/train_text_gate.py`, and its threshold is set so that it lets pass at
least 99.5 % of the pictures in which Tesseract finds drawn words; docs/log.md has the figures, `python -m bench.quality`
measures them again.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ctxr.data.hashing import sha256_file

if TYPE_CHECKING:
    import torch

WEIGHTS = Path(__file__).parent / "weights" / "text-gate" / "model.safetensors"
CHANNELS = (10, 20, 32)
WINDOW = 33  # pixels, over which contrast is evened out
NOISE = 6.0  # grey levels that count as no contrast
FLAT = 8.0  # a picture whose grey levels spread less always passes: Tesseract sees contrasts there that the network does not


class _Loaded(NamedTuple):
    network: "torch.nn.Module"
    threshold: float
    sha256: str


class TextGate:
    """Decides whether a picture is worth reading. Its weights are loaded once per process."""

    def __init__(self) -> None:
        self._loaded = _load()

    def may_hold_text(self, grey: NDArray[np.uint8]) -> bool:
        """False where `grey`, uint8 [H, W] at the size that Tesseract would read, shows no text."""
        return float(grey.std()) < FLAT or self.score(grey) >= self._loaded.threshold

    def score(self, grey: NDArray[np.uint8]) -> float:
        """How much the most text-like place looks like text: a logit, higher is more."""
        import torch

        with torch.inference_mode():
            heat = self._loaded.network(torch.from_numpy(even_contrast(grey))[None, None])
            return float(torch.nn.functional.avg_pool2d(heat, (1, 3), 1, (0, 1)).max())

    def describe(self) -> dict[str, object]:
        """For manifests: which weights decide, and from where on."""
        return {"weights_sha256": self._loaded.sha256, "threshold": self._loaded.threshold}


def even_contrast(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Grey levels less their local mean, over their local spread; about -3 to 3."""
    level = grey.astype(np.float32)
    mean = cv2.blur(level, (WINDOW, WINDOW))
    variance = cv2.blur(level * level, (WINDOW, WINDOW)) - mean * mean
    return np.asarray(np.clip((level - mean) / (np.sqrt(np.maximum(variance, 0)) + NOISE), -3, 3), np.float32)


def build_network() -> "torch.nn.Module":
    """The untrained network: [B, 1, H, W] evened grey levels -> [B, 1, H / 8, W / 8] logits."""
    from torch import nn

    first, second, third = CHANNELS
    return nn.Sequential(
        nn.Conv2d(1, first, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(second, third, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(third, third, 3, padding=2, dilation=2),
        nn.ReLU(),
        nn.Conv2d(third, third, 3, padding=4, dilation=4),
        nn.ReLU(),
        nn.Conv2d(third, 1, 1),
    )


@lru_cache(maxsize=1)
def _load() -> _Loaded:
    from safetensors.torch import load_file

    tensors = load_file(WEIGHTS)
    threshold = float(tensors.pop("threshold"))
    network = build_network().eval()
    network.load_state_dict(tensors)
    return _Loaded(network, threshold, sha256_file(WEIGHTS))
