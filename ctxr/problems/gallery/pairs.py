"""Training over galleries: pairs of captions and pictures, and what is done with weak positives (specs A3.2).

Letters: C captions, N pictures, B pairs of a batch, m captions and n pictures of a batch, K candidates.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.metrics.retrieval import Matrix, QueryScores, Vectors, gallery_means
from ctxr.models.training.examples import ExampleTable, Images, PositivePairs
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update, weighted_updates
from ctxr.problems.gallery.recipe import GalleryRecipe


@dataclass(frozen=True)
class GalleryPairs(ExampleTable):
    """Captions with the pictures they were written for; a query is one such pair, its picture the one candidate.

    Attributes:
        captions: [Q] number of the caption of each pair: one that was written for several pictures stands in several.
        written: for which pictures captions were written. weak: for which others they were found to hold.
        first: [C] a pair of each caption, by which its text is found.
        galleries: [N] number of the gallery of each picture that is searched; `sets` is that of each pair.
    """

    captions: Tensor
    written: PositivePairs
    weak: PositivePairs
    first: Tensor
    galleries: Tensor


def make_pairs(
    images: Images,
    texts: npt.NDArray[np.int64],
    galleries: npt.NDArray[np.int64],
    written: Sequence[tuple[int, int]],
    weak: Sequence[tuple[int, int]] = (),
) -> GalleryPairs:
    """Pairs with the shapes that `GalleryPairs` names.

    Args:
        images: N pictures by row. texts: token ids [C, T] of captions. galleries: [N] in which each picture is searched.
        written: (caption, picture), ascending; every caption has one. weak: further ones that hold.
    """
    table = torch.tensor(written, dtype=torch.int64).reshape(-1, 2)
    captions, own = table[:, 0].contiguous(), table[:, 1].contiguous()
    numbers = torch.from_numpy(galleries)
    mask = torch.ones(len(captions), dtype=torch.bool)
    return GalleryPairs(
        images=images,
        texts=torch.from_numpy(texts)[captions],
        candidates=own[:, None],
        mask=mask[:, None],
        ordered=~mask,
        target=torch.zeros(len(captions), dtype=torch.int64),
        sets=numbers[own],
        captions=captions,
        written=PositivePairs.of(written, len(texts)),
        weak=PositivePairs.of(weak, len(texts)),
        first=torch.searchsorted(captions, torch.arange(len(texts))),
        galleries=numbers,
    )


@dataclass(frozen=True)
class Contrast:
    """The pairs of a batch over its m captions and n pictures, without repetition.

    Attributes:
        captions: [m] their numbers, ascending. images: [n] rows, ascending.
        caption_index, image_index: [B] of each pair's caption and picture among them.
        positive: bool [m, n] captions and pictures that belong together. weak: bool [m, n] others that also hold.
    """

    captions: Tensor
    images: Tensor
    caption_index: Tensor
    image_index: Tensor
    positive: Tensor
    weak: Tensor


def contrast(pairs: GalleryPairs, captions: Tensor, images: Tensor) -> Contrast:
    """What is known of the captions [B], each with the picture [B] that it stands for here."""
    texts, caption_index = torch.unique(captions, return_inverse=True)
    pictures, image_index = torch.unique(images, return_inverse=True)
    positive = pairs.written.mask(texts, pictures)
    positive[caption_index, image_index] = True
    weak = pairs.weak.mask(texts, pictures) & ~positive
    return Contrast(texts, pictures, caption_index, image_index, positive, weak)


def cross_entropy_of(scores: Tensor, positive: Tensor, weak: Tensor, target: Tensor, soft: float | None) -> Tensor:
    """Mean over rows [B, K]: the candidate at `target` is right, other positives are left out, weak ones too without `soft`."""
    correct = functional.one_hot(target, scores.shape[1]).bool()
    left_out = (positive if soft is not None else positive | weak) & ~correct
    logs = scores.masked_fill(left_out, float("-inf")).log_softmax(1)
    wanted = correct.to(scores.dtype)
    if soft is not None:
        wanted = wanted + soft * weak.to(scores.dtype)
        wanted = wanted / wanted.sum(1, keepdim=True)
    return -(wanted * logs.masked_fill(wanted == 0, 0.0)).sum(1).mean()


class GalleryObjective(Objective):
    """Captions and the pictures that they were written for; arguments as for `Objective`."""

    AVERAGES = True

    recipe: GalleryRecipe

    def __init__(
        self, recipe: GalleryRecipe, train: GalleryPairs, valid: GalleryPairs | None, run: TrainingRun
    ) -> None:
        self.recipe, self.pairs, self.valid, self.run = recipe, train, valid, run
        self.partners = train.weak.turned(len(train.galleries))

    @abstractmethod
    def step(self, captions: Tensor, images: Tensor) -> Step:
        """Captions [B], each with the picture [B] that counts as its target here."""

    @abstractmethod
    def scored(self, model: nn.Module, pairs: GalleryPairs, micro_batch: int) -> Vectors | Matrix:
        """Every picture, as a query, against every caption, without a graph."""

    def __len__(self) -> int:
        return len(self.pairs)

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Pairs in random order."""
        return torch.split(torch.randperm(len(self.pairs), generator=generator), self.recipe.batch)

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """The pairs, and a weak positive of each of their pictures that has any."""
        images = self.pairs.candidates[rows, 0]
        first = self.step(self.pairs.captions[rows], images)
        yield from weighted_updates(self.recipe, first, partial(self._weak, images), apply)

    def _weak(self, images: Tensor) -> Step | None:
        if not self.recipe.repeats_queries:
            return None
        images, captions = self.partners.draw(torch.unique(images))
        return self.step(captions, images) if len(images) else None

    @property
    def soft(self) -> float | None:
        """The target share of a weak positive among the other candidates; None where weak positives are left out."""
        return self.recipe.alpha if self.recipe.weak == "soft-label" else None

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Mean recall on the validation galleries."""
        if self.valid is None or not len(self.valid):
            return None
        scores = self.scored(model.eval(), self.valid, micro_batch)
        if not all(np.isfinite(part).all() for part in vars(scores).values()):
            raise FloatingPointError(f"the validation scores after epoch {epoch} are not finite")
        return mean_recall(scores, self.valid)


def mean_recall(scores: QueryScores, pairs: GalleryPairs) -> float:
    """Mean of TR@1, 5, 10 and IR@1, 5, 10, 0..1: the recall sum of the literature over 600.

    Every gallery is searched by itself, and counts as often as it has captions.
    """
    galleries, owners = pairs.galleries.numpy(), pairs.candidates[pairs.first, 0].numpy()
    total = 0.0
    for captions, means in gallery_means(scores, galleries, owners):
        total += captions * sum(means.values()) / len(means)
    return total / len(owners)
