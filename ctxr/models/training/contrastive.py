"""Captions and pictures of a batch against each other: which pairs hold, and the loss over all of them.

Letters: C captions, N pictures, B pairs of a batch, n pictures of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from ctxr.models.training.known import Known as Known
from ctxr.models.training.questions import Images, Questions


@dataclass(frozen=True)
class Pairs(Questions):
    """Captions with the pictures they were written for; a query is one such pair, its picture the one candidate.

    Attributes:
        captions: [Q] number of the caption of each pair: one that was written for several pictures stands in several.
        written: for which pictures captions were written. weak: for which others they were found to hold.
        first: [C] a pair of each caption, by which its text is found.
        galleries: [N] number of the gallery of each picture that is searched; `sets` is that of each pair.
    """

    captions: Tensor
    written: Known
    weak: Known
    first: Tensor
    galleries: Tensor


def make_pairs(
    images: Images,
    texts: npt.NDArray[np.int64],
    galleries: npt.NDArray[np.int64],
    written: Sequence[tuple[int, int]],
    weak: Sequence[tuple[int, int]] = (),
) -> Pairs:
    """Pairs with the shapes that `Pairs` names.

    Args:
        images: N pictures by row. texts: token ids [C, T] of captions. galleries: [N] in which each picture is searched.
        written: (caption, picture), ascending; every caption has one. weak: further ones that hold.
    """
    table = torch.tensor(written, dtype=torch.int64).reshape(-1, 2)
    captions, own = table[:, 0].contiguous(), table[:, 1].contiguous()
    named = torch.from_numpy(galleries)
    there = torch.ones(len(captions), dtype=torch.bool)
    return Pairs(
        images=images,
        texts=torch.from_numpy(texts)[captions],
        candidates=own[:, None],
        mask=there[:, None],
        ordered=~there,
        target=torch.zeros(len(captions), dtype=torch.int64),
        sets=named[own],
        captions=captions,
        written=Known.of(written, len(texts)),
        weak=Known.of(weak, len(texts)),
        first=torch.searchsorted(captions, torch.arange(len(texts))),
        galleries=named,
    )


@dataclass(frozen=True)
class Contrast:
    """Pairs of a batch of m captions and n pictures, each of which stands in it once.

    Attributes:
        captions: [m] their numbers, ascending. images: [n] rows, ascending.
        told, own: [B] places of each pair's caption and picture among them.
        positive: bool [m, n] captions and pictures that belong together. weak: bool [m, n] others that were found to hold.
    """

    captions: Tensor
    images: Tensor
    told: Tensor
    own: Tensor
    positive: Tensor
    weak: Tensor


def contrast(pairs: Pairs, captions: Tensor, images: Tensor) -> Contrast:
    """What is known of the captions [B], each with the picture [B] that it stands for here."""
    texts, told = torch.unique(captions, return_inverse=True)
    pictures, own = torch.unique(images, return_inverse=True)
    positive = pairs.written.mask(texts, pictures)
    positive[told, own] = True
    return Contrast(texts, pictures, told, own, positive, pairs.weak.mask(texts, pictures) & ~positive)


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


def cross_entropy_of(scores: Tensor, positive: Tensor, weak: Tensor, place: Tensor, soft: float | None) -> Tensor:
    """Mean over rows [B, K]: the candidate at `place` is right, other positives are left out, weak ones too without `soft`."""
    right = functional.one_hot(place, scores.shape[1]).bool()
    left_out = (positive if soft is not None else positive | weak) & ~right
    logs = scores.masked_fill(left_out, float("-inf")).log_softmax(1)
    wanted = right.to(scores.dtype)
    if soft is not None:
        wanted = wanted + soft * weak.to(scores.dtype)
        wanted = wanted / wanted.sum(1, keepdim=True)
    return -(wanted * logs.masked_fill(wanted == 0, 0.0)).sum(1).mean()


def _wide(vectors: Tensor) -> torch.dtype:
    return torch.float32 if vectors.dtype == torch.bfloat16 else vectors.dtype
