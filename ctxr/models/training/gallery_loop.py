"""The loop over galleries: pairs of captions and pictures, and what is done with weak positives (specs A3.2)."""

import math
from abc import abstractmethod
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.metrics.retrieval import Matrix, Scored, Vectors, caption_retrieval
from ctxr.models.training.contrastive import Pairs
from ctxr.models.training.gradcache import Gradients
from ctxr.models.training.loop import Trainer
from ctxr.models.training.optimising import laid_out_as
from ctxr.models.training.passes import is_memory
from ctxr.models.training.recipe import Recipe


class GalleryTrainer(Trainer):
    """One training by captions and pictures that were written for each other; arguments as for `Trainer`."""

    def __init__(
        self, scorer: nn.Module, recipe: Recipe, train: Pairs, valid: Pairs | None, seed: int, folder: Path, *rest: Any,
        **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(scorer, recipe, train, valid, seed, folder, *rest, **named)
        self.pairs = train
        self.partners = train.weak.turned(len(train.galleries))

    @abstractmethod
    def gradients(self, captions: Tensor, images: Tensor) -> tuple[float, Gradients]:
        """The loss of captions [B], each with the picture [B] that it stands for here, a mean over pairs; its gradient by weight."""

    @abstractmethod
    def scored(self, pairs: Pairs) -> Vectors | Matrix:
        """Every picture, as a query, against every caption, without a graph."""

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

    @property
    def soft(self) -> float | None:
        """How right a weak positive among the others is; None where they are left out."""
        return self.recipe.alpha if self.recipe.weak == "soft-label" else None

    def _learn(self, captions: Tensor, images: Tensor, share: float = 1.0) -> float:
        """Add `share` of a batch's gradient to what is there; its loss."""
        while True:
            try:
                loss, gradients = self.gradients(captions, images)
                break
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not is_memory(error):
                    raise
                self._halve(min(self.progress.at_once, len(captions)))
        for weights, gradient in zip(self.weights, gradients, strict=True):
            if gradient is not None:
                added = gradient if share == 1.0 else share * gradient
                weights.grad = laid_out_as(weights, added) if weights.grad is None else weights.grad.add_(added)
        return loss

    def _order(self, chance: torch.Generator) -> Tensor:
        return torch.randperm(len(self.pairs), generator=chance)

    def _judge(self, number: int) -> float | None:
        if self.valid is None or not len(self.valid):
            return None
        self.scorer.eval()
        valid = cast(Pairs, self.valid)
        found = self.scored(valid)
        if not all(np.isfinite(part).all() for part in vars(found).values()):
            raise self._broken(f"what the scorer says of validation after epoch {number} are no numbers")
        return mean_recall(found, valid)


def mean_recall(found: Scored, pairs: Pairs) -> float:
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
