"""Bi-encoders in galleries: all captions and pictures of a batch against each other.

Letters: m captions and n pictures of a batch, D width.
"""

import math
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.metrics.retrieval import Vectors
from ctxr.models.precision import in_microbatches
from ctxr.models.scorers import ClipScorer
from ctxr.models.training.galleries import Contrast, GalleryPairs, GalleryTrainer, contrast, cross_entropy_of
from ctxr.models.training.gradcache import Gradients, cached_gradients


def info_nce(images: Tensor, texts: Tensor, scale: Tensor, known: Contrast, soft: float | None = None) -> Tensor:
    """Symmetric InfoNCE: the mean over pairs and both directions of -log softmax of a pair among the others.

    Among the others of a pair are only pictures for which its caption does not hold, and captions that do not hold for its picture,
    as far as is known; a picture may have any number of captions in the batch.

    Args:
        images: unit vectors [n, D]. texts: unit vectors [m, D]. scale: of their products.
        soft: None leaves weak positives out; else they are among the others, and each is right to this share of a positive.
    """
    scores = scale * texts.to(_wide(texts)) @ images.to(_wide(images)).T
    positive, weak = known.positive.to(scores.device), known.weak.to(scores.device)
    told, own = known.told.to(scores.device), known.own.to(scores.device)
    to_image = cross_entropy_of(scores[told], positive[told], weak[told], own, soft)
    to_text = cross_entropy_of(scores.T[own], positive.T[own], weak.T[own], told, soft)
    return (to_image + to_text) / 2


def _wide(vectors: Tensor) -> torch.dtype:
    return torch.float32 if vectors.dtype == torch.bfloat16 else vectors.dtype


LARGEST_SCALE = math.log(100)
"""Of the learned temperature's logarithm, as CLIP was trained."""


class ContrastTrainer(GalleryTrainer):
    """One training of a bi-encoder by all captions and pictures of a batch; arguments as for `Trainer`."""

    def gradients(self, captions: Tensor, images: Tensor) -> tuple[float, Gradients]:
        """Of InfoNCE over the whole batch, exact however small the passes are."""
        known = contrast(self.pairs, captions, images)
        most, scorer = self.progress.at_once, cast(ClipScorer, self.scorer)

        def loss(vectors: Any) -> Tensor:
            return info_nce(vectors[0], vectors[1], scorer.encoder.logit_scale.exp(), known, self.soft)

        towers = (
            [partial(self._image_vectors, part) for part in torch.split(known.images, most)],
            [partial(self._text_vectors, part) for part in torch.split(self.pairs.first[known.captions], most)],
        )
        return cached_gradients(towers, loss, self.weights, self.device)

    def scored(self, pairs: GalleryPairs) -> Vectors:
        """Unit vectors of every picture and caption."""
        return vectors_of(self.scorer, pairs, self.progress.at_once, self.device, self.bf16)

    def _image_vectors(self, rows: Tensor) -> Tensor:
        return _image_vectors(self.scorer, self.pairs, rows, self.device, self.bf16)

    def _text_vectors(self, rows: Tensor) -> Tensor:
        return _text_vectors(self.scorer, self.pairs, rows, self.device, self.bf16)

    def _step(self, rate: float) -> None:
        super()._step(rate)
        with torch.no_grad():
            cast(ClipScorer, self.scorer).encoder.logit_scale.clamp_(0, LARGEST_SCALE)


def vectors_of(
    scorer: nn.Module, pairs: GalleryPairs, at_once: int, device: str = "cpu", bf16: bool = False
) -> Vectors:
    """Unit vectors of every picture [N, D], as queries, and of every caption [C, D], as candidates, without a graph."""
    found = []
    for encode, rows in (
        (_image_vectors, torch.arange(len(pairs.galleries))),
        (_text_vectors, pairs.first),
    ):
        parts: list[np.ndarray] = []

        def work(part: Tensor, encode: Any = encode, parts: Any = parts) -> None:
            parts.append(encode(scorer, pairs, part, device, bf16).float().cpu().numpy())

        with torch.no_grad():
            in_microbatches(rows, at_once, device, work)
        found.append(np.concatenate(parts))
    return Vectors(found[0], found[1])


def _image_vectors(scorer: nn.Module, pairs: GalleryPairs, rows: Tensor, device: str, bf16: bool) -> Tensor:
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        return cast(ClipScorer, scorer).image_vectors(pairs.images(rows).to(device))


def _text_vectors(scorer: nn.Module, pairs: GalleryPairs, rows: Tensor, device: str, bf16: bool) -> Tensor:
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        return cast(ClipScorer, scorer).text_vectors(pairs.texts[rows].to(device))
