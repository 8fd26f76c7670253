"""Scorers of every kind, small and untrained, and batches for them."""

from pathlib import Path

import torch
from torch import Tensor, nn

from ctxr.models.blip import load_blip
from ctxr.models.context import ContextHead
from ctxr.models.encoders import find_source
from ctxr.models.scorers import Batch, ClipScorer, PairScorer, trainable
from tests.models.blip_folder import WORDS, make_blip
from tests.models.encoder_folder import make_folder

WIDTH = 32
SCORERS = ("zero-shot", "batch", "module", "concat", "temporal", "live module", "live temporal")
BLIP_SCORERS = ("blip published", "blip alone", "blip module", "blip temporal")


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


def make_blip_scorer(name: str, folder: Path, dropout: float = 0.1) -> PairScorer:
    """The scorer of that name over a small BLIP that is kept below `folder`: by the published head, a layer, or a context head."""
    place = folder / "blip"
    encoder = load_blip(f"blip:{place if place.exists() else make_blip(place)}").build().requires_grad_(True)
    head = make_head(WIDTH, name.endswith("temporal"), dropout)
    if name.endswith("alone"):
        return PairScorer(encoder, alone=nn.Linear(WIDTH, 1))
    return PairScorer(encoder, None if name.endswith("published") else head)


def random_batch(scorer: ClipScorer | PairScorer, queries: int = 6, candidates: int = 5, seed: int = 0) -> Batch:
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


def random_images(scorer: ClipScorer | PairScorer, count: int, chance: torch.Generator) -> Tensor:
    """Pixels for a scorer with an encoder, else vectors."""
    if scorer.encoder is not None:
        side = 32 if isinstance(scorer, PairScorer) else 48
        return torch.randn(count, 3, side, side, generator=chance)
    return nn.functional.normalize(torch.randn(count, WIDTH, generator=chance), dim=-1)


def random_texts(scorer: ClipScorer | PairScorer, count: int, chance: torch.Generator) -> Tensor:
    """Tokens for a scorer with an encoder, else vectors."""
    if scorer.encoder is not None:
        return torch.randint(1, len(WORDS) if isinstance(scorer, PairScorer) else 49000, (count, 12), generator=chance)
    return nn.functional.normalize(torch.randn(count, WIDTH, generator=chance), dim=-1)
