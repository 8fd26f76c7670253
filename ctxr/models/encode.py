"""Images and texts to unit vectors of one space.

A vector depends on its own image (or text), the weights and the machine's arithmetic, never on what else was asked for
at the same time: every forward pass has the same number of rows, and what is missing is filled with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxr.errors import CtxrError
from ctxr.models.devices import is_memory
from ctxr.models.loading import EncoderSource, find_source, fingerprint
from ctxr.models.precision import (
    BF16_PARAMETERS,
    choose_device,
    choose_precision,
    cpu_matmul_precision,
    float32_matmul,
)
from ctxr.models.preprocess import Preprocess

if TYPE_CHECKING:
    from torch import Tensor

TEXT_ROWS = 8
"""Texts in one pass: queries come one at a time, and a text costs a fifth of an image."""


def load_encoder(
    name: str = "auto", device: str = "auto", precision: str = "auto", warn: Callable[[str], None] | None = None
) -> Encoder:
    """The encoder of that name, ready to use.

    Args:
        name: any `arch:pretrained` of open_clip; "local-dir:PATH" or "checkpoint:PATH", a folder with
            open_clip_config.json and safetensors weights; "random:ARCH", untrained weights from a fixed seed, for
            measuring speed and nothing else; "ctxr-tiny", the small model inside this package; "auto", ViT-B-32:openai
            where its weights are here or can be fetched, else ctxr-tiny with a warning. A named encoder never falls back.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32" or "bf16".
        warn: gets one sentence for each thing the user should know; without it they are lost.

    Raises:
        UsageError: an unknown name, device or precision, or a device that is not there.
        DataError: weights or a config that cannot be read.
        CtxrError: weights that cannot be fetched.
    """
    say = warn or (lambda _: None)
    return Encoder(find_source(name, say), choose_device(device), precision, say)


class Encoder:
    """A model that gives unit vectors.

    Attributes:
        name: resolved, e.g. "ViT-B-32:openai" or "ctxr-tiny".
        fingerprint: sha256 in hex over weights, architecture and preprocessing; independent of precision and device.
        dim: length of a vector.
        image_size: side in pixels of what the model looks at.
        threshold: Euclidean distance between unit vectors, 0..2, beyond which two images count as different (specs C1).
        device: "cpu", "cuda" or "mps".
        precision: "fp32" or "bf16", as really used.
    """

    def __init__(self, source: EncoderSource, device: str, precision: str, warn: Callable[[str], None]) -> None:
        model = source.build()
        self._source, self._warn = source, warn
        self._preprocess = Preprocess.from_config(model.visual.preprocess_cfg)
        self.name = source.name
        self.fingerprint = fingerprint(model, source.config, self._preprocess)
        self.dim = source.dim
        self.image_size = self._preprocess.size[0]
        self.threshold = source.threshold
        self.device = device
        parameters = sum(weights.numel() for weights in model.visual.parameters())
        self.precision: str = choose_precision(precision, device, parameters)
        self._matmul = cpu_matmul_precision() if device == "cpu" else "highest"
        # measured with ViT-B/32 on two cores: bf16 gains up to 16 rows, fp32 nothing beyond 4; small towers are all overhead
        self._rows = 64 if device != "cpu" else 4 if parameters >= BF16_PARAMETERS and self.precision == "fp32" else 16
        visual = model.visual
        # an encoder of images alone is half the memory: the text tower is loaded again by whoever asks for texts
        del model
        self._tower = (_rounded(visual) if self.precision == "bf16" else visual).to(device)
        self._fine = visual

    @cached_property
    def margin(self) -> float:
        """Half-width of the band around a threshold in which a distance must be taken again with `exact=True`.

        0 in fp32. In bf16 three times the largest error among the distances of sixteen made-up pictures, near and far,
        with the very weights in use.
        """
        # checked on 7,750 pairs of 125 real frames and photographs: the largest error at distances .05 to .8 was 0.40 of
        # this margin for ViT-B/32 and 0.76 for ctxr-tiny; below .05, where no threshold lies, it reached 1.1
        if self.precision == "fp32":
            return 0.0
        pictures = _probes()
        rough, exact = (_distances(self.encode_images(pictures, exact=fine)) for fine in (False, True))
        return 3 * float(np.abs(rough - exact).max())

    def encode_images(self, images: Sequence[np.ndarray], exact: bool = False) -> np.ndarray:
        """Float32 [N, dim], L2-normalised, one row for each image.

        Args:
            images: uint8 RGB arrays [H, W, 3]; sizes may differ.
            exact: compute in fp32 whatever the precision is. In bf16 both copies of the image tower are kept.

        Raises:
            ValueError: an array of another type or shape.
        """
        import torch

        rounded = self.precision == "bf16" and not exact
        tower = self._exact_tower if exact else self._tower
        dtype = torch.bfloat16 if rounded else torch.float32
        rows = []
        done = 0
        while done < len(images):
            # fewer rows for the exact copy: it is asked for single images, and fp32 gains little from more
            limit = min(self._rows, 4) if exact and self.precision == "bf16" else self._rows
            part = images[done : done + limit]
            pixels = _padded(self._preprocess(part), limit).to(self.device, dtype)
            vectors = self._forward(tower, pixels)
            if vectors is not None:
                rows.append(vectors[: len(part)])
                done += len(part)
        return _stacked(rows, self.dim)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 [N, dim], L2-normalised, one row for each text; what exceeds the model's context is cut off.

        Raises:
            CtxrError: the model's tokenizer is not on this machine.
        """
        rows = []
        for start in range(0, len(texts), TEXT_ROWS):
            part = list(texts[start : start + TEXT_ROWS])
            tokens = self._source.tokenize(part + [""] * (TEXT_ROWS - len(part))).to(self.device)
            vectors = self._forward(self._text_model.encode_text, tokens, "highest")
            if vectors is None:
                raise CtxrError(f"no memory left on {self.device} for {TEXT_ROWS} texts", hint="use --device cpu")
            rows.append(vectors[: len(part)])
        return _stacked(rows, self.dim)

    def describe(self) -> dict[str, object]:
        """What a manifest should keep of the encoder, as plain values."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "precision": self.precision,
            "device": self.device,
            "image_size": self.image_size,
            "dim": self.dim,
            "threshold": self.threshold,
            "float32_matmul": self._matmul,
            "preprocess": self._preprocess.describe(),
            "versions": {package: version(package) for package in ("torch", "torchvision", "open_clip_torch")},
        }

    @cached_property
    def _exact_tower(self) -> Any:
        """The image tower in fp32."""
        return self._fine.to(self.device)

    @cached_property
    def _text_model(self) -> Any:
        """What encodes texts, without its image tower; in the encoder's precision on a GPU, in fp32 on a CPU."""
        model = self._source.build()
        del model.visual
        # attention with a mask copies its weights once for each token where oneDNN multiplies: bf16 takes 3.3 times as long
        rounded = self.precision == "bf16" and self.device != "cpu"
        return (model.bfloat16() if rounded else model).to(self.device)

    def _forward(self, tower: Callable[[Any], Any], batch: Tensor, matmul: str | None = None) -> np.ndarray | None:
        """Unit vectors of a batch; None if the device ran out of memory, and then the next batch is half as large.

        Raises:
            CtxrError: there is no memory for a single image.
        """
        import torch

        try:
            with torch.inference_mode(), float32_matmul(matmul or self._matmul):
                vectors = torch.nn.functional.normalize(tower(batch).float(), dim=-1)
                return np.asarray(vectors.cpu().numpy())
        except (RuntimeError, MemoryError) as error:
            if not is_memory(error):
                raise
            if self._rows == 1:
                raise CtxrError(f"no memory left on {self.device} for one image", hint="use --device cpu") from error
            self._rows //= 2
            self._warn(f"{self.device} ran out of memory: going on with batches of {self._rows}")
            return None


def _rounded(tower: Any) -> Any:
    """A copy of a module in bf16, made weight by weight: a copy in fp32 first would cost its memory once more."""
    import torch

    memo: dict[int, Any] = {}
    for weights in tower.parameters():
        memo[id(weights)] = torch.nn.Parameter(weights.detach().bfloat16(), requires_grad=False)
    return deepcopy(tower, memo).bfloat16()


def _padded(pixels: Tensor, rows: int) -> Tensor:
    """[N, ...] filled up with zeros to [rows, ...]."""
    import torch

    full = torch.zeros((rows, *pixels.shape[1:]), dtype=pixels.dtype)
    full[: len(pixels)] = pixels
    return full


def _stacked(rows: list[np.ndarray], dim: int) -> np.ndarray:
    return np.concatenate(rows) if rows else np.empty((0, dim), np.float32)


def _distances(vectors: np.ndarray) -> np.ndarray:
    """Euclidean distances of all pairs of rows."""
    difference = vectors[:, None] - vectors[None]
    return np.asarray(np.sqrt((difference**2).sum(-1)))


def _probes() -> list[np.ndarray]:
    """Sixteen pictures with the spectrum of photographs: four and three small changes of each."""
    rng = np.random.default_rng(0)
    side = 256
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    frequency[0, 0] = np.inf
    pictures = []
    for _ in range(4):
        noise = np.fft.rfft2(rng.standard_normal((3, side, side))) / frequency
        grain = np.fft.irfft2(noise, s=(side, side)).transpose(1, 2, 0)
        picture = (128 + 52 * grain / grain.std()).clip(0, 255).astype(np.uint8)
        patched = picture.copy()
        patched[60:140, 90:190] = rng.integers(0, 256, 3)
        pictures += [picture, np.roll(picture, 24, axis=1), patched, (picture // 2).astype(np.uint8)]
    return pictures
