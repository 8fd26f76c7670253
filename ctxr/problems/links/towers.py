"""Two towers that make unit vectors of the sentences and images of documents.

Letters: N sentences or images, T tokens, V words, D width.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from ctxr.problems.links.recipe import LinksRecipe

SENTENCES, IMAGES = 0, 1
"""Numbers of the towers."""

_ANGLE, _CROP = math.radians(20), 0.875
"""The largest rotation of a picture, and the share of its sides that a random crop keeps."""


class WordTower(nn.Module):
    """Word vectors [V, D], of which whole dimensions drop out, and the last state of a GRU; their sum where `width` is 0."""

    def __init__(self, words: Tensor, width: int, dropout: float) -> None:
        super().__init__()
        self.words, self.dropout = nn.Embedding(len(words), words.shape[1], padding_idx=0, _weight=words), dropout
        self.gru = nn.GRU(words.shape[1], width, batch_first=True) if width else None

    def forward(self, tokens: Tensor) -> Tensor:
        """[N, width] of rows of words [N, T], 0 behind the last of each."""
        lengths = (tokens > 0).sum(1)
        words = self.words(tokens[:, : int(lengths.max())])
        if self.gru is None:
            return torch.as_tensor(words.sum(1))
        words = words * functional.dropout(torch.ones_like(words[:, :1]), self.dropout, self.training)
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return torch.as_tensor(self.gru(packed)[1][0])


class DocumentTowers(nn.Module):
    """Sentences and images as unit vectors.

    Args:
        widths: of the vectors that the towers make before they are projected.
        words: first word vectors [V, D], row 0 for no word; None where an encoder makes vectors of texts.
        encoder: model of open_clip that learns; None where what it makes comes in as vectors.
    """

    def __init__(self, recipe: LinksRecipe, widths: tuple[int, int], words: Tensor | None, encoder: Any = None) -> None:
        super().__init__()
        self.augment, self.image, self.text = recipe.augment, None, None
        if encoder is not None:
            self.image, self.text = encoder.visual, encoder
            del encoder.visual
        layers, width = recipe.layers, recipe.width if words is None else widths[0]
        if words is not None:
            self.text = WordTower(words, width if recipe.learns else 0, recipe.dropout)
        counts = (0 if words is not None else layers, layers)
        self.projections = nn.ModuleList(map(_projection, widths, counts, (width, width), (recipe.dropout,) * 2))

    def encode(self, tower: int, inputs: Tensor) -> Tensor:
        """[N, D] of what a tower takes: tokens or vectors of sentences, pixels or vectors of images."""
        module: Any = self.image if tower == IMAGES else getattr(self.text, "encode_text", self.text)
        if module is None:
            return inputs
        if tower == IMAGES and self.augment and self.training:
            inputs = augmented(inputs)
        return torch.as_tensor(module(inputs))

    def project(self, tower: int, vectors: Tensor) -> Tensor:
        """Unit vectors [N, D] of what `encode` made."""
        return functional.normalize(self.projections[tower](vectors.float()), dim=-1)


def _projection(inner: int, layers: int, width: int, dropout: float) -> nn.Sequential:
    parts: list[nn.Module] = [nn.Dropout(dropout)] if layers else []
    for number in range(layers):
        parts += [nn.ReLU(), nn.BatchNorm1d(width)] if number else []
        parts.append(nn.Linear(width if number else inner, width))
    return nn.Sequential(*parts)


def augmented(pixels: Tensor) -> Tensor:
    """Pictures [N, 3, H, W], each rotated by up to 20 degrees, mirrored half of the time, and cropped at random."""
    angle, mirror, x, y = (2 * torch.rand(4, len(pixels)) - 1).unbind()
    cosine, sine, side = (_ANGLE * angle).cos(), (_ANGLE * angle).sin(), mirror.sign()
    rows = [_CROP * cosine * side, -_CROP * sine, (1 - _CROP) * x, _CROP * sine * side, _CROP * cosine, (1 - _CROP) * y]
    matrices = torch.stack(rows, 1).view(-1, 2, 3).to(pixels)
    grid = functional.affine_grid(matrices, list(pixels.shape), align_corners=False)
    return functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
