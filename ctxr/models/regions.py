"""Regions of a picture as the cells of an encoder's last feature map: patch tokens of a transformer, cells of a network.

Letters: N pictures, R regions, F features, H and W cells of a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ctxr.data.images import Pixels
from ctxr.data.regions import Array, with_whole
from ctxr.errors import UsageError
from ctxr.models.loading import find_source, fingerprint
from ctxr.models.precision import choose_device
from ctxr.models.preprocess import Preprocess

ROWS = 8
"""Pictures of every pass, filled up with zeros: what comes out must not depend on what stands beside it."""


class Extractor(Protocol):
    """Makes regions of pictures.

    Attributes:
        features: F.
    """

    features: int

    def describe(self) -> dict[str, object]:
        """Whatever decides the result, as plain values: weights, preprocessing, settings."""

    def regions(self, images: Sequence[Pixels]) -> list[Array]:
        """Regions of each picture, float32 [1 + R, F + BOX] as `with_whole` makes them; images are uint8 RGB [H, W, 3]."""


class GridRegions:
    """Cells of the last feature map of an encoder of open_clip, before pooling and projection.

    A transformer gives its patch tokens behind the last layer norm at full width: the projection was trained for the pooled
    vector alone. The picture is squashed to the encoder's square, so that the cells tile all of it and not its centre.

    Args:
        name: of the encoder, as `load_encoder` takes it.
        most: a finer grid is averaged, by area, to the finest one that has no more cells than this.
        device: "auto", "cpu", "cuda" or "mps".
        warn: gets one sentence for each thing the user should know.

    Raises what `find_source` raises, and UsageError for an encoder without a feature map.
    """

    def __init__(self, name: str, most: int, device: str = "auto", warn: Callable[[str], None] | None = None) -> None:
        source = find_source(name, warn or (lambda _: None))
        model = source.build()
        fitting = Preprocess.from_config(model.visual.preprocess_cfg)
        self.name, self._device = source.name, choose_device(device)
        self._preprocess = replace(fitting, resize_mode="squash")
        self._fingerprint = fingerprint(model, source.config, self._preprocess)
        self._tower = model.visual.to(self._device)
        map_of_nothing = self._maps(torch.zeros(1, 3, *self._preprocess.size))
        self.features = map_of_nothing.shape[1]
        self._finest = (map_of_nothing.shape[2], map_of_nothing.shape[3])
        self.grid = coarser(*self._finest, most)

    def describe(self) -> dict[str, object]:
        """Weights, preprocessing and grid."""
        return {
            "encoder": self.name,
            "fingerprint": self._fingerprint,
            "preprocess": self._preprocess.describe(),
            "grid": list(self.grid),
        }

    def regions(self, images: Sequence[Pixels]) -> list[Array]:
        """The whole picture and its cells, row by row from the top left: float32 [1 + H W, F + BOX] of each."""
        height, width = self.grid
        boxes = grid_boxes(height, width)
        found = []
        for start in range(0, len(images), ROWS):
            part = images[start : start + ROWS]
            pixels = torch.zeros(ROWS, 3, *self._preprocess.size)
            pixels[: len(part)] = self._preprocess(part)
            maps = self._maps(pixels)[: len(part)]
            if self.grid != self._finest:
                rows, columns = (averaging(cells, kept) for cells, kept in zip(self._finest, self.grid, strict=True))
                maps = torch.einsum("hi,wj,nfij->nfhw", rows, columns, maps)
            cells = maps.permute(0, 2, 3, 1).reshape(len(part), height * width, self.features).numpy()
            found += [with_whole(one, boxes) for one in cells]
        return found

    def _maps(self, pixels: Tensor) -> Tensor:
        """float32 [N, F, H, W] on the CPU."""
        with torch.inference_mode():
            return feature_map(self._tower, pixels.to(self._device)).float().cpu()


def feature_map(tower: Any, pixels: Tensor) -> Tensor:
    """The last feature map [N, F, H, W] of an image tower of open_clip for pixels [N, 3, h, w].

    Raises UsageError for a tower that has none.
    """
    from open_clip.modified_resnet import ModifiedResNet
    from open_clip.timm_model import TimmModel
    from open_clip.transformer import VisionTransformer

    if isinstance(tower, VisionTransformer):
        tokens = _output_of(tower.transformer, tower, pixels)[:, 1:]
        # with attention pooling the norm comes after it, and is of another width
        tokens = tokens if tower.attn_pool is not None else tower.ln_post(tokens)
        return _unfolded(tokens, tower.grid_size)
    if isinstance(tower, ModifiedResNet):
        return _output_of(tower.layer4, tower, pixels)
    if isinstance(tower, TimmModel):
        trunk = tower.trunk
        out: Tensor = trunk.forward_features(pixels)
        if out.ndim == 3:  # tokens
            tokens = out[:, getattr(trunk, "num_prefix_tokens", 0) :]
            side = math.isqrt(tokens.shape[1])
            if side * side == tokens.shape[1]:
                return _unfolded(tokens, (side, side))
        elif out.ndim == 4:  # a map, whose channels stand last in some networks
            last = out.shape[1] != trunk.num_features and out.shape[3] == trunk.num_features
            return out.permute(0, 3, 1, 2) if last else out
    raise UsageError(
        f"an encoder of the kind {type(tower).__name__} has no grid of tokens",
        hint="--by grid:ViT-B-32:openai, or another transformer of open_clip",
    )


def grid_boxes(height: int, width: int) -> Array:
    """Boxes [height * width, 4] of the cells of a grid, row by row: x1, y1, x2, y2 as shares; they tile the picture.

    >>> grid_boxes(1, 2).tolist()
    [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]
    """
    y, x = (edge.ravel() for edge in np.mgrid[:height, :width])
    boxes = np.stack([x / width, y / height, (x + 1) / width, (y + 1) / height], axis=1)
    return np.asarray(boxes, np.float32)


def coarser(height: int, width: int, most: int) -> tuple[int, int]:
    """The finest grid of at most `most` cells, of about the same shape; the grid itself where it has no more.

    >>> coarser(14, 14, 36), coarser(7, 7, 49), coarser(8, 4, 10)
    ((6, 6), (7, 7), (4, 2))
    """
    if height * width <= most:
        return height, width
    scale = math.sqrt(most / (height * width))
    return max(1, min(most, math.floor(height * scale + 1e-9))), max(1, min(most, math.floor(width * scale + 1e-9)))


def averaging(cells: int, kept: int) -> Tensor:
    """Weights [kept, cells] by which `kept` equal parts of a line average its equal cells; rows add to 1.

    >>> averaging(3, 2).numpy().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.0, 0.333, 0.667]]
    """
    fine, coarse = torch.arange(cells + 1) / cells, torch.arange(kept + 1) / kept
    upper = torch.minimum(fine[None, 1:], coarse[1:, None])
    lower = torch.maximum(fine[None, :-1], coarse[:-1, None])
    return (upper - lower).clamp(min=0) * kept


def _output_of(layer: Any, tower: Any, pixels: Tensor) -> Tensor:
    """What a layer puts out while the tower looks at pixels."""
    seen: list[Tensor] = []
    handle = layer.register_forward_hook(lambda _layer, _given, out: seen.append(out))
    try:
        tower(pixels)
    finally:
        handle.remove()
    return seen[0]


def _unfolded(tokens: Tensor, grid: tuple[int, int]) -> Tensor:
    """Tokens [N, H W, F] as a map [N, F, H, W]."""
    return tokens.transpose(1, 2).reshape(len(tokens), tokens.shape[2], *grid)
