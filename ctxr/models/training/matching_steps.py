"""Steps of encoders of pairs in the loop over galleries: each pair against some that do not belong together."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ctxr.metrics.retrieval import Matrix
from ctxr.models.training.contrastive import Contrast, Pairs, contrast
from ctxr.models.training.gallery_loop import GalleryTrainer
from ctxr.models.training.gradcache import Gradients
from ctxr.models.training.matching import (
    Advance,
    Rows,
    Shortlist,
    Table,
    Wanted,
    draw_negatives,
    gallery_scores,
    look_at,
    matching_loss,
    scores_of,
)
from ctxr.models.training.recipe import Recipe


class MatchingTrainer(GalleryTrainer):
    """One training of an encoder of pairs; arguments as for `Trainer`, and `shortlist`, what is looked at of the valid side."""

    def __init__(
        self, scorer: nn.Module, recipe: Recipe, train: Pairs, valid: Pairs | None, seed: int, folder: Path, *rest: Any,
        shortlist: Shortlist | None = None, **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(scorer, recipe, train, valid, seed, folder, *rest, **named)
        self.shortlist = shortlist or Shortlist()

    def gradients(self, captions: Tensor, images: Tensor) -> tuple[float, Gradients]:
        """Of the loss over each pair and what was drawn for it from the batch; passes add up to it exactly."""
        known = contrast(self.pairs, captions, images)
        drawn = draw_negatives(known, self.recipe.distractors, self.soft is not None)
        total = 0.0
        summed: Gradients = [None] * len(self.weights)
        for rows in torch.split(torch.arange(len(captions)), self.progress.at_once):
            look = partial(self._look, known)
            loss = matching_loss(look, known, drawn, rows, self.recipe.loss, self.soft) / len(captions)
            total += float(loss.detach())
            for place, gradient in enumerate(torch.autograd.grad(loss, self.weights, allow_unused=True)):
                if gradient is not None:
                    there = summed[place]
                    summed[place] = gradient.clone() if there is None else there.add_(gradient)
        return total, summed

    def scored(self, pairs: Pairs) -> Matrix:
        """Scores of the pairs that are looked at, the others below them."""
        return match_scores(self.scorer, pairs, self.shortlist, self.device, self.bf16, self.hearing.looked)

    def _look(self, known: Contrast, wanted: Tensor) -> Tensor:
        """Scores [m, n] of what is wanted of a batch; nothing else is loaded."""
        rows, columns = (wanted.any(axis).nonzero().flatten() for axis in (1, 0))
        images = self.pairs.images(known.images[columns])
        texts = self.pairs.texts[self.pairs.first[known.captions[rows]]]
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            scores = scores_of(self.scorer, images, texts, wanted[rows][:, columns], self.device)
        ends = rows[:, None].to(scores.device), columns.to(scores.device)
        return scores.new_zeros(wanted.shape).index_put(ends, scores)


def match_scores(
    scorer: nn.Module, pairs: Pairs, shortlist: Shortlist, device: str, bf16: bool, advance: Advance = lambda _: None
) -> Matrix:
    """Pictures, as queries, against captions; each gallery by itself, what lies in two of them below everything.

    Args:
        scorer: in evaluation mode. shortlist: rows as those of pictures and captions. advance: told how many pictures are done.
    """
    galleries, owners = pairs.galleries.numpy(), pairs.galleries[pairs.candidates[pairs.first, 0]].numpy()

    texts = pairs.texts[pairs.first]

    def look(images: Rows, captions: Rows, wanted: Wanted) -> Table:
        return look_at(scorer, pairs.images, texts, images, captions, wanted, device, bf16, advance)

    return gallery_scores(galleries, owners, shortlist, look)
