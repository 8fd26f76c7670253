"""Scorers of every kind, small and untrained, and batches for them."""

from pathlib import Path

import torch
from torch import Tensor, nn

from ctxr.models.base import Batch
from ctxr.models.clip import ClipScorer, trainable
from ctxr.models.context import ContextHead
from ctxr.models.loading import find_source
from tests.models.encoder_folder import make_folder

WIDTH = 32
SCORERS = ("zero-shot", "batch", "module", "concat", "temporal", "live module", "live temporal")


def make_head(width: int = WIDTH, positions: bool = False, dropout: float = 0.1, seed: int = 0) -> ContextHead:
    """A head of one block."""
    torch.manual_seed(seed)
    return ContextHead(width, layers=1, heads=4, inner=64, dropout=dropout, positions=positions)


def make_scorer(name: str, folder: Path, dropout: float = 0.1) -> ClipScorer:
    """The scorer of that name: of vectors, or "live", with an encoder of its own, kept below `folder`."""
    encoder = None
    if name.startswith("live") or name == "batch":
        place = folder / "encoder"
        made = place if place.exists() else make_folder(place)
        encoder = trainable(find_source(f"local-dir:{made}", lambda _: None).build)
    if name in ("zero-shot", "batch"):
        return ClipScorer(encoder)
    head = make_head(2 * WIDTH if name == "concat" else WIDTH, name.endswith("temporal"), dropout)
    return ClipScorer(encoder, head, "concat" if name == "concat" else "multiply")


def random_batch(scorer: ClipScorer, queries: int = 6, candidates: int = 5, seed: int = 0) -> Batch:
    """Sets of two queries each, every second one with an order, in the form that the scorer wants."""
    chance = torch.Generator().manual_seed(seed)
    sets = (queries + 1) // 2
    images, texts = random_images(scorer, sets * candidates, chance), random_texts(scorer, queries, chance)
    rows = torch.arange(sets * candidates).view(sets, candidates)[torch.arange(queries) // 2]
    return Batch(
        images=images,
        texts=texts,
        candidates=rows,
        mask=torch.ones(queries, candidates, dtype=torch.bool),
        ordered=torch.arange(queries) // 2 % 2 == 0,
        target=torch.randint(0, candidates, (queries,), generator=chance),
    )


def random_images(scorer: ClipScorer, count: int, chance: torch.Generator) -> Tensor:
    """Pixels for a scorer with an encoder, else vectors."""
    if scorer.encoder is not None:
        return torch.randn(count, 3, 48, 48, generator=chance)
    return nn.functional.normalize(torch.randn(count, WIDTH, generator=chance), dim=-1)


def random_texts(scorer: ClipScorer, count: int, chance: torch.Generator) -> Tensor:
    """Tokens for a scorer with an encoder, else vectors."""
    if scorer.encoder is not None:
        return torch.randint(1, 49000, (count, 12), generator=chance)
    return nn.functional.normalize(torch.randn(count, WIDTH, generator=chance), dim=-1)
