"""Captions against pictures of galleries in a batch, and what is done with weak positives.

Letters: C captions, N pictures, B pairs of a batch, m captions and n pictures of a batch, K candidates, D width.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.metrics.retrieval import Matrix, Vectors, from_pairs, gallery_means
from ctxr.models.precision import device_kind, in_microbatches
from ctxr.models.scorers import LARGEST_SCALE, ClipScorer
from ctxr.models.training.examples import ExampleTable, Images, PositivePairs
from ctxr.models.training.loop import EncodedT, GivenT, Objective, Step, TrainingRun, Update
from ctxr.problems.gallery.recipe import GalleryRecipe
from ctxr.problems.scorers import weighted_updates


@dataclass(frozen=True)
class GalleryPairs(ExampleTable):
    """Captions with the pictures they were written for; a query is one such pair, its picture the one candidate.

    Attributes:
        captions: [Q] number of the caption of each pair: one that was written for several pictures stands in several.
        written: for which pictures captions were written. weak: for which others they were found to hold. doubtful: for which they may.
        first: [C] a pair of each caption, by which its text is found.
        galleries: [N] number of the gallery of each picture that is searched; `sets` is that of each pair.
    """

    captions: Tensor
    written: PositivePairs
    weak: PositivePairs
    doubtful: PositivePairs
    first: Tensor
    galleries: Tensor


def make_pairs(
    images: Images,
    texts: npt.NDArray[np.int64],
    galleries: npt.NDArray[np.int64],
    written: Sequence[tuple[int, int]],
    weak: Sequence[tuple[int, int]] = (),
    *,
    unsure: Sequence[tuple[int, int]] = (),
) -> GalleryPairs:
    """Pairs with the shapes that `GalleryPairs` names.

    Args:
        images: N pictures by row. texts: token ids [C, T] of captions. galleries: [N] in which each picture is searched.
        written: (caption, picture), ascending; every caption has one. weak: further ones that hold. unsure: further ones that may hold.
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
        targets=mask[:, None],
        sets=numbers[own],
        captions=captions,
        written=PositivePairs.of(written, len(texts)),
        weak=PositivePairs.of(weak, len(texts)),
        doubtful=PositivePairs.of(unsure, len(texts)),
        first=torch.searchsorted(captions, torch.arange(len(texts))),
        galleries=numbers,
    )


@dataclass(frozen=True)
class Contrast:
    """The pairs of a batch over its m captions and n pictures, without repetition.

    Attributes:
        captions: [m] their numbers, ascending. images: [n] rows, ascending.
        caption_index, image_index: [B] of each pair's caption and picture among them.
        positive: bool [m, n] captions and pictures that belong together, or may. weak: bool [m, n] others that also hold.
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
    every = pictures.expand(len(texts), -1)
    positive = pairs.written.among(texts, every) | pairs.doubtful.among(texts, every)
    positive[caption_index, image_index] = True
    weak = pairs.weak.among(texts, every) & ~positive
    return Contrast(texts, pictures, caption_index, image_index, positive, weak)


def cross_entropy_of(scores: Tensor, positive: Tensor, weak: Tensor, target: Tensor, soft: float | None) -> Tensor:
    """Mean over rows [B, K]; other positives are left out, without `soft` weak ones too."""
    correct = functional.one_hot(target, scores.shape[1]).bool()
    left_out = (positive if soft is not None else positive | weak) & ~correct
    logs = scores.masked_fill(left_out, float("-inf")).log_softmax(1)
    wanted = correct.to(scores.dtype)
    if soft is not None:
        wanted = wanted + soft * weak.to(scores.dtype)
        wanted = wanted / wanted.sum(1, keepdim=True)
    return -(wanted * logs.masked_fill(wanted == 0, 0.0)).sum(1).mean()


class GalleryObjective(Objective[GivenT, EncodedT]):
    """Captions and the pictures that they were written for; arguments as for `Objective`."""

    AVERAGES = True

    recipe: GalleryRecipe
    train: GalleryPairs
    valid: GalleryPairs | None

    def __init__(
        self, recipe: GalleryRecipe, train: GalleryPairs, valid: GalleryPairs | None, run: TrainingRun
    ) -> None:
        super().__init__(recipe, train, valid, run)
        self.partners = train.weak.turned(len(train.galleries))
        # the target share of a weak positive among the other candidates; None where weak positives are left out
        self.soft = recipe.alpha if recipe.weak == "soft-label" else None

    @abstractmethod
    def step(self, captions: Tensor, images: Tensor) -> Step[GivenT]:
        """Captions [B], each with the picture [B] that counts as its target here."""

    @abstractmethod
    def scored(self, model: nn.Module, pairs: GalleryPairs, micro_batch: int) -> Vectors | Matrix:
        """Every picture, as a query, against every caption, without a graph."""

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """The pairs, and a weak positive of each of their pictures that has any."""
        images = self.train.candidates[rows, 0]
        first = self.step(self.train.captions[rows], images)

        def weak() -> Step[GivenT] | None:
            if not self.recipe.repeats_queries:
                return None
            pictures, captions = self.partners.draw(torch.unique(images))
            return self.step(captions, pictures) if len(pictures) else None

        yield from weighted_updates(self.recipe, first, weak, apply)

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Mean of TR@1, 5, 10 and IR@1, 5, 10, 0..1, on the validation galleries: the recall sum of the literature over 600.

        Every gallery is searched by itself, and counts as often as it has captions.
        """
        if (pairs := self.valid) is None or not len(pairs):
            return None
        scores = self.scored(model.eval(), pairs, micro_batch)
        if not all(np.isfinite(part).all() for part in vars(scores).values() if isinstance(part, np.ndarray)):
            raise FloatingPointError(f"the validation scores after epoch {epoch} are not finite")
        galleries, owners = pairs.galleries.numpy(), pairs.candidates[pairs.first, 0].numpy()
        unsure = torch.arange(len(owners)).repeat_interleave(pairs.doubtful.sizes)
        condensed = replace(scores, dropped=from_pairs(pairs.doubtful.images.numpy(), unsure.numpy()))
        total = 0.0
        for captions, means in gallery_means(condensed, galleries, owners):
            total += captions * sum(means.values()) / len(means)
        return total / len(owners)


def info_nce(images: Tensor, texts: Tensor, scale: Tensor, relations: Contrast, soft: float | None = None) -> Tensor:
    """Symmetric InfoNCE: the mean over pairs and both directions of -log softmax of a pair among the others.

    Among the others of a pair are only pictures for which its caption does not hold, and captions that do not hold for its picture,
    as far as is known; a picture may have any number of captions in the batch.

    Args:
        images: unit vectors [n, D]. texts: unit vectors [m, D]. scale: of their products.
        soft: None leaves weak positives out; else they are among the others, and each is right to this share of a positive.
    """
    images, texts = (one.to(torch.promote_types(one.dtype, torch.float32)) for one in (images, texts))
    scores = scale * texts @ images.T
    positive, weak = relations.positive.to(scores.device), relations.weak.to(scores.device)
    captions, pictures = relations.caption_index.to(scores.device), relations.image_index.to(scores.device)
    to_image = cross_entropy_of(scores[captions], positive[captions], weak[captions], pictures, soft)
    to_text = cross_entropy_of(scores.T[pictures], positive.T[pictures], weak.T[pictures], captions, soft)
    return (to_image + to_text) / 2


class ContrastiveObjective(GalleryObjective[Contrast, Tensor]):
    """All captions and pictures of a batch against each other; arguments as for `Objective`."""

    SPLITS = False

    def step(self, captions: Tensor, images: Tensor) -> Step[Contrast]:
        """Each picture and each caption once."""
        relations = contrast(self.train, captions, images)
        return Step((relations.images, self.train.first[relations.captions]), len(captions), relations)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Contrast) -> Tensor:
        """Unit vectors of pictures (tower 0) or captions (tower 1)."""
        return _encoded(model, self.train, tower, rows, self.run.device)

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step[Contrast]) -> Tensor:
        """InfoNCE over the whole batch."""
        images, texts = encoded
        return info_nce(images, texts, cast(ClipScorer, model).encoder.logit_scale.exp(), step.facts, self.soft)

    def scored(self, model: nn.Module, pairs: GalleryPairs, micro_batch: int) -> Vectors:
        """Unit vectors of pictures [N, D], as queries, and captions [C, D], without a graph."""
        towers, device = [], self.run.device
        for tower, rows in enumerate((torch.arange(len(pairs.galleries)), pairs.first)):

            def encode(part: Tensor, tower: int = tower) -> np.ndarray:
                with torch.no_grad(), torch.autocast(device_kind(device), torch.bfloat16, enabled=self.run.bf16):
                    return np.asarray(_encoded(model, pairs, tower, part, device).float().cpu().numpy())

            towers.append(np.concatenate(in_microbatches(rows, micro_batch, device, encode)))
        return Vectors(towers[0], towers[1])

    def after_step(self, model: nn.Module) -> None:
        """Keep the temperature within bounds."""
        with torch.no_grad():
            cast(ClipScorer, model).encoder.logit_scale.clamp_(0, LARGEST_SCALE)


def _encoded(scorer: nn.Module, pairs: GalleryPairs, tower: int, rows: Tensor, device: str) -> Tensor:
    scorer = cast(ClipScorer, scorer)
    if tower:
        return scorer.text_vectors(pairs.texts[rows].to(device))
    return scorer.image_vectors(pairs.images(rows).to(device))
