"""Cross-encoders in galleries: negatives of the batch, loss over pairs, scores of a shortlist.

Letters: C captions, N pictures, B pairs of a batch, m captions and n pictures of a batch, d drawn ones, K candidates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.metrics.retrieval import Matrix, Vectors
from ctxr.models.neighbours import NO_MATCH, best_matches
from ctxr.models.precision import device_kind, in_microbatches
from ctxr.models.scorers import Batch
from ctxr.models.training.examples import Images
from ctxr.models.training.loop import Step, TrainingRun
from ctxr.problems.gallery.contrastive import Contrast, GalleryObjective, GalleryPairs, contrast, cross_entropy_of
from ctxr.problems.gallery.recipe import GalleryRecipe

PICTURES, PAIRS = 8, 128
"""Pictures, and pairs, in one pass over a gallery: a picture serves sixteen captions or more."""

BELOW = 2.0
"""Margin between the scored pairs and the rest: larger than any cosine."""

Rows = npt.NDArray[np.int64]
Wanted = npt.NDArray[np.bool_]
Table = npt.NDArray[np.float32]
Advance = Callable[[float], None]


class Comparisons(NamedTuple):
    """Captions and pictures [b, 1 + d]: in each row a pair, then drawn others, where `present`."""

    captions: Tensor
    images: Tensor
    present: Tensor


def draw_compared(relations: Contrast, count: int, soft: bool) -> list[Comparisons]:
    """Each pair of a batch among `count` other pictures, then among other captions, all different, by torch's own generator.

    Only such as do not hold, as far as is known; with `soft` weak positives may be drawn.
    """
    free = ~(relations.positive if soft else relations.positive | relations.weak)
    caption, image = relations.caption_index[:, None], relations.image_index[:, None]
    listed = []
    for others in ("images", "captions"):
        near = free[relations.caption_index] if others == "images" else free.T[relations.image_index]
        keys = torch.rand(near.shape).masked_fill(~near, 2.0)
        least = keys.topk(min(count, near.shape[1]), largest=False)
        present = torch.cat([torch.ones_like(caption, dtype=torch.bool), least.values < 2.0], 1)
        candidates = torch.cat([image if others == "images" else caption, least.indices], 1)
        captions, images = (caption, candidates) if others == "images" else (candidates, image)
        listed.append(Comparisons(captions.expand_as(present), images.expand_as(present), present))
    return listed


def matching_loss(
    scores: Tensor, listed: Sequence[Comparisons], relations: Contrast, kind: str, soft: float | None = None
) -> Tensor:
    """The loss summed over some pairs of a batch: half of it among pictures, half among captions.

    Args:
        scores: [m, n] of the batch's captions with its pictures, where they are listed.
        kind: "softmax", -log of the share of the pair among the others; or "binary", cross-entropy of each by itself, averaged over
            those of a row (image-text matching).
        soft: the target share of a weak positive that was drawn.
    """
    total = scores.new_zeros(())
    for captions, images, present in listed:
        weak, mask = ((one & present).to(scores.device) for one in (relations.weak[captions, images], present))
        own = scores[captions.to(scores.device), images.to(scores.device)]
        if kind == "softmax":
            first = torch.zeros(len(own), dtype=torch.int64, device=own.device)
            loss = cross_entropy_of(own, ~mask, weak, first, soft) * len(own)
        else:
            labels = torch.zeros_like(own).masked_fill(weak, soft or 0.0)
            labels[:, 0] = 1.0
            losses = functional.binary_cross_entropy_with_logits(own, labels, reduction="none") * mask
            loss = (losses.sum(1) / mask.sum(1)).sum()
        total = total + loss / 2
    return total


def scores_of(scorer: Callable[[Batch], Tensor], images: Tensor, texts: Tensor, wanted: Tensor, device: str) -> Tensor:
    """Scores [m, n] of texts [m, T] with images [n, ..] where `wanted`, in each row and column one; 0 elsewhere."""
    most = int(wanted.sum(1).max())
    present, columns = wanted.to(torch.uint8).sort(dim=1, descending=True, stable=True)
    mask, static = present[:, :most].bool(), torch.zeros(len(texts), dtype=torch.bool)
    batch = Batch(images, texts, columns[:, :most].contiguous(), mask, static, torch.zeros_like(mask))
    scores = scorer(batch.to(device))
    row, rank = batch.mask.nonzero(as_tuple=True)
    column = batch.candidates[row, rank]
    table = scores.new_zeros(wanted.shape)
    return table.index_put((row.to(scores.device), column.to(scores.device)), scores[row, rank])


@dataclass(frozen=True, eq=False)
class PairMatcher:
    """Scores of pictures with captions, pair by pair.

    Attributes:
        scorer: of a batch of queries, on `device`. pictures: by row. texts: token ids [C, T].
    """

    scorer: Callable[[Batch], Tensor]
    pictures: Images
    texts: Tensor
    device: str = "cpu"
    bf16: bool = False

    @torch.no_grad()
    def scores(self, images: Rows, captions: Rows, wanted: Wanted, advance: Advance = lambda _: None) -> Table:
        """Scores [n, m] of pictures and captions (rows of texts), 0 if not `wanted`; `advance` takes counts of done."""
        table = np.zeros(wanted.shape, np.float32)
        texts = self.texts[torch.from_numpy(captions)]
        for start in range(0, len(images), PICTURES):
            part = wanted[start : start + PICTURES]
            pixels = self.pictures(torch.from_numpy(images[start : start + PICTURES]))
            columns = np.flatnonzero(part.any(0))
            passes = np.cumsum(part[:, columns].sum(0)) // PAIRS

            def score(chosen: Tensor, pixels: Tensor = pixels, part: Wanted = part, start: int = start) -> None:
                mask = torch.from_numpy(part[:, chosen.numpy()])
                rows = mask.any(1).nonzero().flatten()
                kept = pixels[rows.to(pixels.device)]
                with torch.autocast(device_kind(self.device), torch.bfloat16, enabled=self.bf16):
                    scores = scores_of(self.scorer, kept, texts[chosen], mask[rows].T.contiguous(), self.device)
                table[start + rows.numpy()[:, None], chosen.numpy()] = scores.float().cpu().numpy().T

            for chunk in np.split(columns, np.flatnonzero(np.diff(passes)) + 1):
                in_microbatches(torch.from_numpy(chunk), len(chunk), self.device, score)
            advance(len(part))
        return table


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The pairs of a gallery that are scored: the `most` best of each query by the vectors of a retriever, which also rank the rest.

    With `vectors` None every pair is scored.
    """

    vectors: Vectors | None = None
    most: int = 0

    def wanted(self, images: Rows, captions: Rows) -> Wanted:
        """Which pairs of a gallery's pictures and captions (rows of vectors) to score, bool [n, m].

        The `most` captions nearest to each picture, and the pictures nearest to each caption.
        """
        marked = np.full((len(images), len(captions)), self.vectors is None)
        if self.vectors is not None:
            pictures, texts = self.vectors.queries[images], self.vectors.candidates[captions]
            none = np.zeros(0, np.int64)
            for queries, pool, table in ((pictures, texts, marked), (texts, pictures, marked.T)):
                near = best_matches(queries, pool, self.most, (none, none)).indices
                row, rank = np.nonzero(near != NO_MATCH)
                table[row, near[row, rank]] = True
        return marked

    def ordered(self, scores: Table, wanted: Wanted, images: Rows, captions: Rows) -> Table:
        """`scores` [n, m] where it is wanted; elsewhere numbers below all of these, in the order of the vectors."""
        if self.vectors is None:
            return scores
        cosines = self.vectors.queries[images] @ self.vectors.candidates[captions].T
        return np.where(wanted, scores, cosines + (_least(scores, wanted) - BELOW))


def gallery_scores(
    galleries: Rows, owners: Rows, shortlist: Shortlist, score: Callable[[Rows, Rows, Wanted], Table]
) -> Matrix:
    """Pictures, as queries, against captions [N, C]: each gallery by itself, and what lies in two of them below everything.

    Args:
        galleries: [N] of each picture. owners: [C] gallery of each caption.
        score: scores [n, m] of some pictures (rows) with some captions (numbers), where they are wanted.
    """
    values = np.zeros((len(galleries), len(owners)), np.float32)
    inside = galleries[:, None] == owners
    for gallery in np.unique(galleries):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(owners == gallery)
        wanted = shortlist.wanted(images, captions)
        scores = score(images, captions, wanted)
        values[np.ix_(images, captions)] = shortlist.ordered(scores, wanted, images, captions)
    values[~inside] = _least(values, inside) - BELOW
    return Matrix(values)


def _least(scores: Table, where: Wanted) -> np.float32:
    return np.float32(np.min(scores, initial=0.0, where=where & np.isfinite(scores)))


class ComparedBatch(NamedTuple):
    """A batch, and what each of its pairs is compared with: pictures, then captions."""

    relations: Contrast
    listed: Sequence[Comparisons]


class MatchedScores(NamedTuple):
    """What is compared, and its scores [m, n]."""

    listed: Sequence[Comparisons]
    scores: Tensor


class MatchingObjective(GalleryObjective[ComparedBatch, MatchedScores]):
    """Pairs, each scored among drawn others; `shortlist`: pairs of validation that are scored."""

    def __init__(
        self,
        recipe: GalleryRecipe,
        train: GalleryPairs,
        valid: GalleryPairs | None,
        run: TrainingRun,
        shortlist: Shortlist | None = None,
    ) -> None:
        super().__init__(recipe, train, valid, run)
        self.shortlist = shortlist or Shortlist()

    def step(self, captions: Tensor, images: Tensor) -> Step[ComparedBatch]:
        """The pairs, with negatives drawn for each from the batch."""
        relations = contrast(self.train, captions, images)
        listed = draw_compared(relations, self.recipe.distractors, self.soft is not None)
        return Step((torch.arange(len(captions)),), len(captions), ComparedBatch(relations, listed))

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: ComparedBatch) -> MatchedScores:
        """Some pairs of a batch; only their pictures are loaded."""
        relations = facts.relations
        listed = [Comparisons(*(part[rows] for part in compared)) for compared in facts.listed]
        wanted = torch.zeros_like(relations.positive)
        for captions, images, present in listed:
            wanted[captions[present], images[present]] = True
        texts, columns = (wanted.any(axis).nonzero().flatten() for axis in (1, 0))
        pictures = self.train.images(relations.images[columns])
        tokens = self.train.texts[self.train.first[relations.captions[texts]]]
        scores = scores_of(model, pictures, tokens, wanted[texts][:, columns], self.run.device)
        ends = texts[:, None].to(scores.device), columns.to(scores.device)
        return MatchedScores(listed, scores.new_zeros(wanted.shape).index_put(ends, scores))

    def loss(self, model: nn.Module, encoded: Sequence[MatchedScores], step: Step[ComparedBatch]) -> Tensor:
        """The share of some pairs in the mean loss of the batch."""
        listed, scores = encoded[0]
        return matching_loss(scores, listed, step.facts.relations, self.recipe.loss, self.soft) / step.queries

    def scored(self, model: nn.Module, pairs: GalleryPairs, micro_batch: int) -> Matrix:
        """Scores of the shortlisted pairs, the others below; the shortlist's rows are the same."""
        run = self.run
        galleries, owners = pairs.galleries.numpy(), pairs.galleries[pairs.candidates[pairs.first, 0]].numpy()
        matcher = PairMatcher(model, pairs.images, pairs.texts[pairs.first], run.device, run.bf16)
        score = partial(matcher.scores, advance=run.callbacks.validated)
        return gallery_scores(galleries, owners, self.shortlist, score)
