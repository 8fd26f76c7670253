"""Steps of the loop over galleries: all pairs of a batch against each other, and what is done with weak positives."""

import math
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.metrics.retrieval import Vectors, caption_retrieval
from ctxr.models.clip import ClipScorer
from ctxr.models.training.contrastive import Pairs, contrast, info_nce
from ctxr.models.training.gradcache import Gradients, cached_gradients
from ctxr.models.training.loop import Trainer
from ctxr.models.training.passes import in_passes, is_memory
from ctxr.models.training.recipe import Recipe

LARGEST_SCALE = math.log(100)
"""Of the learned temperature's logarithm, as CLIP was trained."""


class GalleryTrainer(Trainer):
    """One training of a bi-encoder by all captions and pictures of a batch; arguments as for `Trainer`."""

    def __init__(
        self, scorer: nn.Module, recipe: Recipe, train: Pairs, valid: Pairs | None, seed: int, folder: Path, *rest: Any,
        **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(scorer, recipe, train, valid, seed, folder, *rest, **named)
        self.pairs = train
        self.partners = train.weak.turned(len(train.galleries))

    def update(self, rows: Tensor, rate: float, step: bool = True) -> float:
        """A step on some pairs, and what the recipe does with weak positives of their pictures; the sum of the pairs' losses.

        With `weak = "extra-batch"` there is a second step at `alpha * rate`, on one weak positive of each picture that has any
        (specs A3.2); with "loss-weight" the loss of the same batch, times alpha, is a part of the first.
        """
        self.scorer.train()
        recipe, images = self.recipe, self.pairs.candidates[rows, 0]
        loss = self._learn(self.pairs.captions[rows], images)
        alone = recipe.weak == "extra-batch"
        if alone and math.isfinite(loss):
            self._step(rate)
        if recipe.weak in ("extra-batch", "loss-weight") and math.isfinite(loss):
            of, captions = self.partners.draw(torch.unique(images))
            if len(of):
                extra = self._learn(captions, of, 1.0 if alone else recipe.alpha)
                loss = loss if math.isfinite(extra) else extra
                if alone and math.isfinite(loss):
                    self._step(recipe.alpha * rate)
        if not alone and math.isfinite(loss):
            self._step(rate)
        return loss * len(rows)

    def _learn(self, captions: Tensor, images: Tensor, share: float = 1.0) -> float:
        """Add `share` of a batch's gradient to what is there; its loss."""
        while True:
            try:
                loss, gradients = self._contrast(captions, images)
                break
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not is_memory(error):
                    raise
                self._halve(min(self.progress.at_once, len(captions)))
        for weights, gradient in zip(self.weights, gradients, strict=True):
            if gradient is not None:
                added = gradient if share == 1.0 else share * gradient
                weights.grad = added if weights.grad is None else weights.grad.add_(added)
        return loss

    def _contrast(self, captions: Tensor, images: Tensor) -> tuple[float, Gradients]:
        known = contrast(self.pairs, captions, images)
        soft = self.recipe.alpha if self.recipe.weak == "soft-label" else None
        most, scorer = self.progress.at_once, cast(ClipScorer, self.scorer)

        def loss(vectors: Any) -> Tensor:
            return info_nce(vectors[0], vectors[1], scorer.encoder.logit_scale.exp(), known, soft)

        towers = (
            [partial(self._image_vectors, part) for part in torch.split(known.images, most)],
            [partial(self._text_vectors, part) for part in torch.split(self.pairs.first[known.captions], most)],
        )
        return cached_gradients(towers, loss, self.weights, self.device)

    def _image_vectors(self, rows: Tensor) -> Tensor:
        return _image_vectors(self.scorer, self.pairs, rows, self.device, self.bf16)

    def _text_vectors(self, rows: Tensor) -> Tensor:
        return _text_vectors(self.scorer, self.pairs, rows, self.device, self.bf16)

    def _order(self, chance: torch.Generator) -> Tensor:
        return torch.randperm(len(self.pairs), generator=chance)

    def _step(self, rate: float) -> None:
        super()._step(rate)
        with torch.no_grad():
            cast(ClipScorer, self.scorer).encoder.logit_scale.clamp_(0, LARGEST_SCALE)

    def _judge(self, number: int) -> float | None:
        if self.valid is None or not len(self.valid):
            return None
        self.scorer.eval()
        found = vectors_of(self.scorer, cast(Pairs, self.valid), self.progress.at_once, self.device, self.bf16)
        if not all(np.isfinite(part).all() for part in (found.queries, found.candidates)):
            raise self._broken(f"the vectors of validation after epoch {number} are no numbers")
        return mean_recall(found, cast(Pairs, self.valid))


def vectors_of(scorer: nn.Module, pairs: Pairs, at_once: int, device: str = "cpu", bf16: bool = False) -> Vectors:
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
            in_passes(rows, at_once, device, work)
        found.append(np.concatenate(parts))
    return Vectors(found[0], found[1])


def mean_recall(found: Vectors, pairs: Pairs) -> float:
    """Mean of TR@1, 5, 10 and IR@1, 5, 10, 0..1: the recall sum of the literature over 600.

    Every gallery is searched by itself, and counts as often as it has captions.
    """
    galleries, owners = pairs.galleries.numpy(), pairs.candidates[pairs.first, 0].numpy()
    total = 0.0
    for gallery in np.unique(galleries[owners]):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(galleries[owners] == gallery)
        means = caption_retrieval(found.part(images, captions), np.searchsorted(images, owners[captions])).means()
        total += len(captions) * sum(means.values()) / len(means)
    return total / len(owners)


def _image_vectors(scorer: nn.Module, pairs: Pairs, rows: Tensor, device: str, bf16: bool) -> Tensor:
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        return cast(ClipScorer, scorer).image_vectors(pairs.images(rows).to(device))


def _text_vectors(scorer: nn.Module, pairs: Pairs, rows: Tensor, device: str, bf16: bool) -> Tensor:
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        return cast(ClipScorer, scorer).text_vectors(pairs.texts[rows].to(device))
