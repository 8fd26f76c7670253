"""Frames to the tensor an image tower takes: resize, crop, normalise.

The result equals open_clip's evaluation transform to within 1e-3 on average; resizing uint8 tensors takes about an eighth of its time.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxr.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

RESIZE_MODES = ("shortest", "longest", "squash")


@dataclass(frozen=True)
class Preprocess:
    """The preprocessing of a model's pictures.

    Attributes:
        size: (height, width) of the result in pixels. mean, std: per channel, on the 0..1 scale.
        resize_mode: "shortest" fits the shorter side and crops the centre; "longest" fits the longer side and pads with the grey
            value `fill`, 0..255; "squash" ignores the aspect ratio. interpolation: "bicubic" or "bilinear".
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    resize_mode: str = "shortest"
    fill: int = 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Preprocess:
        """From open_clip's `preprocess_cfg`. Raises DataError for a resize mode that open_clip does not know."""
        size = config["size"]
        height, width = (size, size) if isinstance(size, int) else (int(length) for length in size)
        mode = config.get("resize_mode") or "shortest"
        if mode not in RESIZE_MODES:
            message = f"preprocess_cfg has resize_mode {mode!r}, known are {', '.join(RESIZE_MODES)}"
            raise DataError(message, hint="mend preprocess_cfg in open_clip_config.json")
        # "random" is a training choice of open_clip's; its evaluation transform takes bicubic for it
        interpolation = "bilinear" if config.get("interpolation") == "bilinear" else "bicubic"
        # three numbers, or one for all channels
        channels = [value if isinstance(value, Sequence) else (value,) * 3 for value in (config["mean"], config["std"])]
        mean, std = (tuple(map(float, values)) for values in channels)
        return cls((height, width), mean, std, interpolation, mode, int(config.get("fill_color") or 0))

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of a picture after resizing and before the crop; rounding as in open_clip's transform."""
        target_height, target_width = self.size
        if self.resize_mode == "squash":
            return self.size
        if self.resize_mode == "shortest" and target_height == target_width:
            # torchvision truncates the longer side, open_clip's own ResizeKeepRatio (below) rounds both
            if width <= height:
                return int(target_width * height / width), target_width
            return target_height, int(target_height * width / height)
        pick = min if self.resize_mode == "shortest" else max
        ratio = pick(height / target_height, width / target_width)
        return max(1, round(height / ratio)), max(1, round(width / ratio))

    def __call__(self, images: Sequence[np.ndarray]) -> Tensor:
        """Float32 tensor [N, 3, height, width], normalised, of uint8 RGB arrays [H, W, 3] of any sizes.

        A result does not depend on the other images. Raises ValueError for an array of another type or shape.
        """
        return self.normalised(self.fitted(images))

    def fitted(self, images: Sequence[np.ndarray]) -> Tensor:
        """uint8 [N, 3, height, width]: resized, then cut or padded. Raises as a call does."""
        import torch
        from torch.nn import functional

        for position, image in enumerate(images):
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
                raise ValueError(f"image {position} is {image.dtype} {image.shape}, wanted uint8 [H, W, 3]")
        if not images:
            return torch.empty((0, 3, *self.size), dtype=torch.uint8)
        with warnings.catch_warnings():
            # torch warns about every read-only array; it is only read here
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
            views = [torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).unsqueeze(0) for image in images]
        parts = []
        # one by one: stacking large frames first costs more than it saves, and a lone image is resized like any other
        for view in views:
            resized = self.resized(view.shape[2], view.shape[3])
            part = functional.interpolate(view, size=resized, mode=self.interpolation, antialias=True)
            missing = [max(0, wanted - actual) for wanted, actual in zip(self.size, resized, strict=True)]
            if any(missing):
                top, left = missing[0] // 2, missing[1] // 2
                borders = [left, missing[1] - left, top, missing[0] - top]
                part = functional.pad(part, borders, value=self.fill)
            top, left = (round((actual - wanted) / 2) for actual, wanted in zip(part.shape[2:], self.size, strict=True))
            parts.append(part[:, :, top : top + self.size[0], left : left + self.size[1]])
        return torch.cat(parts)

    def normalised(self, fitted: Tensor) -> Tensor:
        """Float32 tensor of what `fitted` made, on the same device."""
        import torch

        scale = 1 / (255 * torch.tensor(self.std, dtype=torch.float32).view(3, 1, 1))
        shift = -torch.tensor(self.mean, dtype=torch.float32).view(3, 1, 1) / torch.tensor(self.std).view(3, 1, 1)
        return fitted.float().mul_(scale.to(fitted.device)).add_(shift.to(fitted.device))
