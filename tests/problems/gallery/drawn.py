"""Two small drawn galleries, as pairs to learn from."""

import numpy as np
import torch

from ctxr.models.training.examples import PositivePairs
from ctxr.problems.gallery.contrastive import GalleryPairs, make_pairs
from tests.models.training_questions import Table

IMAGES, WORDS = 9, 11
OWNERS = [0, 0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8]
WEAK = [(0, 3), (4, 0), (5, 1), (6, 1), (7, 2), (12, 6), (10, 8)]
CAPTIONS = len(OWNERS)


def make(weak: bool = True) -> GalleryPairs:
    """Nine pictures in two galleries with one to three captions each; one caption was written for two of them."""
    chance = torch.Generator().manual_seed(0)
    texts = [[one % WORDS, one // WORDS, 3 * one % WORDS, 5 * one % WORDS] for one in range(CAPTIONS)]
    images = Table(torch.randn(IMAGES, 3, 2, 2, generator=chance, dtype=torch.float64))
    written = sorted({*enumerate(OWNERS), (3, 2)})
    return make_pairs(images, np.array(texts), np.array([0] * 6 + [1] * 3), written, WEAK if weak else [])


def listed(known: PositivePairs) -> set[tuple[int, int]]:
    """The pairs (caption, picture)."""
    rows = torch.arange(CAPTIONS).repeat_interleave(known.sizes)
    return set(zip(rows.tolist(), known.images.tolist(), strict=True))
