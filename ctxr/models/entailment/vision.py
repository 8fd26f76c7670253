"""A vision transformer over pixels or over cells of another encoder, and what its [CLS] looks at.

Letters: N pictures, P patches, D width.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-6
"""Of layer normalisation, as in the published vision transformers."""


class VisionBlock(nn.Module):
    """x + Attention(LayerNorm(x)), then x + W2 gelu(W1 LayerNorm(x))."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_widening = (nn.LayerNorm(width, eps=EPSILON) for _ in range(2))
        self.parted, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """[N, 1 + P, D] of tokens [N, 1 + P, D]."""
        query, key, value = self.projected(tokens)
        seen = functional.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.out(seen.transpose(1, 2).flatten(2))
        wide = functional.gelu(self.widen(self.before_widening(tokens)))
        return cast("Tensor", tokens + self.narrow(wide))

    def projected(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of tokens [N, 1 + P, D], as `by_head`."""
        return by_head(self.parted(self.before_attention(tokens)), self.heads)


def by_head(parts: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [N, heads, T, D / heads] of tokens, projected by one layer to [N, T, 3 D]."""
    query, key, value = parts.view(*parts.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
    return query, key, value


def cls_shares(query: Tensor, key: Tensor) -> Tensor:
    """How much [CLS] looks at each patch, mean over heads, [N, P], by queries and keys [N, heads, 1 + P, ...]."""
    fits = query[:, :, :1] @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return cast("Tensor", fits.softmax(-1)[:, :, 0, 1:].mean(1))


class VisionTransformer(nn.Module):
    """Patches of a picture as tokens behind a [CLS].

    Args:
        stem: pictures to patches [N, P, D]. patches: P. black: what a picture without light is, as the stem takes it, [1, ...].
        depth: blocks. heads: of each, a divisor of the width. inner: width between W1 and W2.
    """

    black: Tensor

    def __init__(
        self, stem: nn.Module, patches: int, black: Tensor, width: int, depth: int, *, heads: int, inner: int
    ) -> None:
        super().__init__()
        self.width, self.stem = width, stem
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, 1 + patches, width))
        self.blocks = nn.ModuleList(VisionBlock(width, heads, inner) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.register_buffer("black", black)

    def forward(self, images: Tensor) -> Tensor:
        """Tokens [N, 1 + P, D], [CLS] first."""
        return cast("Tensor", self.norm(self._below(images, len(self.blocks))))

    def cls_attention(self, images: Tensor) -> Tensor:
        """How much [CLS] looks at each patch in the last block, [N, P]."""
        last: Any = self.blocks[-1]
        query, key, _ = last.projected(self._below(images, len(self.blocks) - 1))
        return cls_shares(query, key)

    def blackened(self, images: Tensor, hidden: Tensor) -> Tensor:
        """The pictures without light in the patches where `hidden` [N, P] is True."""
        if images.ndim == 3:
            return torch.where(hidden[..., None], self.black, images)
        return black_patches(images, hidden, self.black)

    def _below(self, images: Tensor, depth: int) -> Tensor:
        patches = self.stem(images)
        tokens = torch.cat([self.cls.expand(len(patches), -1, -1), patches], dim=1) + self.places
        for block in self.blocks[:depth]:
            tokens = block(tokens)
        return tokens


class PatchStem(nn.Module):
    """Pixels [N, 3, H, W] to patches of `side` pixels, row by row, [N, P, D]."""

    def __init__(self, side: int, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(3, width, side, side)

    def forward(self, pixels: Tensor) -> Tensor:
        """[N, P, D]."""
        return cast("Tensor", self.project(pixels).flatten(2).transpose(1, 2))


class CellStem(nn.Module):
    """Cells [N, P, F] of another encoder's feature map, projected to [N, P, D] and then normalised.

    An aligned projection keeps its meaning because nothing normalises the cells before it.
    """

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(features, width)

    def forward(self, cells: Tensor) -> Tensor:
        """[N, P, D]."""
        return cast("Tensor", self.norm(self.project(cells)))


def black_patches(pixels: Tensor, hidden: Tensor, black: Tensor) -> Tensor:
    """Pixels [N, 3, H, W] with `black` (shape that fits them) in the patches of a square grid where `hidden` [N, P] is True."""
    size = round(hidden.shape[1] ** 0.5)
    grid = hidden.view(-1, 1, size, size).float()
    cover = functional.interpolate(grid, size=pixels.shape[-2:], mode="nearest") > 0
    return torch.where(cover, black, pixels)


def resized_positions(positions: Tensor, patches: int) -> Tensor:
    """Positions [1, 1 + Q, D] of a square grid, interpolated to one of `patches`: [1, 1 + P, D]; that of [CLS] stays."""
    old, new = round((positions.shape[1] - 1) ** 0.5), round(patches**0.5)
    if old == new:
        return positions
    grid = positions[:, 1:].transpose(1, 2).reshape(1, -1, old, old)
    grid = functional.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], grid.flatten(2).transpose(1, 2)], dim=1)
