"""Bi-encoders in galleries: all captions and pictures of a batch against each other.

Letters: m captions and n pictures of a batch, D width.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.metrics.retrieval import Vectors
from ctxr.models.precision import in_microbatches
from ctxr.models.scorers import ClipScorer
from ctxr.models.training.loop import Step
from ctxr.problems.gallery.pairs import Contrast, GalleryObjective, GalleryPairs, contrast, cross_entropy_of


def info_nce(images: Tensor, texts: Tensor, scale: Tensor, relations: Contrast, soft: float | None = None) -> Tensor:
    """Symmetric InfoNCE: the mean over pairs and both directions of -log softmax of a pair among the others.

    Among the others of a pair are only pictures for which its caption does not hold, and captions that do not hold for its picture,
    as far as is known; a picture may have any number of captions in the batch.

    Args:
        images: unit vectors [n, D]. texts: unit vectors [m, D]. scale: of their products.
        soft: None leaves weak positives out; else they are among the others, and each is right to this share of a positive.
    """
    scores = scale * texts.to(_wide(texts)) @ images.to(_wide(images)).T
    positive, weak = relations.positive.to(scores.device), relations.weak.to(scores.device)
    captions, pictures = relations.caption_index.to(scores.device), relations.image_index.to(scores.device)
    to_image = cross_entropy_of(scores[captions], positive[captions], weak[captions], pictures, soft)
    to_text = cross_entropy_of(scores.T[pictures], positive.T[pictures], weak.T[pictures], captions, soft)
    return (to_image + to_text) / 2


def _wide(vectors: Tensor) -> torch.dtype:
    return torch.float32 if vectors.dtype == torch.bfloat16 else vectors.dtype


LARGEST_SCALE = math.log(100)
"""Of the learned temperature's logarithm, as CLIP was trained."""


class ContrastiveObjective(GalleryObjective):
    """All captions and pictures of a batch against each other; arguments as for `Objective`."""

    SPLITS = False

    def step(self, captions: Tensor, images: Tensor) -> Step:
        """Each picture and each caption once."""
        relations = contrast(self.pairs, captions, images)
        return Step((relations.images, self.pairs.first[relations.captions]), len(captions), relations)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Contrast) -> Tensor:
        """Unit vectors of pictures (tower 0) or captions (tower 1)."""
        return _encoded(model, self.pairs, tower, rows, self.run.device)

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step) -> Tensor:
        """InfoNCE over the whole batch."""
        images, texts = encoded
        return info_nce(images, texts, cast(ClipScorer, model).encoder.logit_scale.exp(), step.facts, self.soft)

    def scored(self, model: nn.Module, pairs: GalleryPairs, micro_batch: int) -> Vectors:
        """Unit vectors of every picture and caption."""
        return vectors_of(model, pairs, micro_batch, self.run.device, self.run.bf16)

    def after_step(self, model: nn.Module) -> None:
        """Keep the temperature within bounds."""
        with torch.no_grad():
            cast(ClipScorer, model).encoder.logit_scale.clamp_(0, LARGEST_SCALE)


def _encoded(scorer: nn.Module, pairs: GalleryPairs, tower: int, rows: Tensor, device: str) -> Tensor:
    scorer = cast(ClipScorer, scorer)
    if tower:
        return scorer.text_vectors(pairs.texts[rows].to(device))
    return scorer.image_vectors(pairs.images(rows).to(device))


def vectors_of(
    scorer: nn.Module, pairs: GalleryPairs, micro_batch: int, device: str = "cpu", bf16: bool = False
) -> Vectors:
    """Unit vectors of every picture [N, D], as queries, and of every caption [C, D], as candidates, without a graph."""
    towers = []
    for tower, rows in enumerate((torch.arange(len(pairs.galleries)), pairs.first)):
        parts: list[np.ndarray] = []

        def work(part: Tensor, tower: int = tower, parts: Any = parts) -> None:
            with torch.autocast(device, torch.bfloat16, enabled=bf16):
                parts.append(_encoded(scorer, pairs, tower, part, device).float().cpu().numpy())

        with torch.no_grad():
            in_microbatches(rows, micro_batch, device, work)
        towers.append(np.concatenate(parts))
    return Vectors(towers[0], towers[1])
