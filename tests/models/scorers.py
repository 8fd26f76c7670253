"""Scorers of every kind, small and untrained, and batches for them."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ctxr.models.blip import load_blip
from ctxr.models.cross.encoder import CONFIGS, RegionEncoder
from ctxr.models.encoders import find_source
from ctxr.models.scorers import Batch, ClipScorer, ContextHead, PairScorer, marks_at, trainable
from ctxr.store.regions import BOX
from tests.models.blip_folder import WORDS, make_blip
from tests.models.encoder_folder import make_folder

WIDTH, FEATURES = 32, 6
SCORERS = ("zero-shot", "batch", "module", "concat", "temporal", "live module", "live temporal")
BLIP_SCORERS = ("blip published", "blip temporal")
REGIONS = {
    kind: replace(CONFIGS[f"{kind}-tiny"], vocabulary=len(WORDS), features=FEATURES) for kind in ("vilbert", "uniter")
}
REGION_SCORERS = ("vilbert published", "vilbert temporal", "uniter alone", "uniter module")


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
        encoder = trainable(find_source(f"local-dir:{made}").build)
    if name in ("zero-shot", "batch"):
        return ClipScorer(encoder)
    head = make_head(2 * WIDTH if name == "concat" else WIDTH, name.endswith("temporal"), dropout)
    return ClipScorer(encoder, head, "concat" if name == "concat" else "multiply")


def make_pair_scorer(name: str, folder: Path, dropout: float = 0.1, most: int = 160) -> PairScorer:
    """The scorer of that name over a small BLIP that is kept below `folder`, or over regions: by the published head, a layer, or a
    context head. `most`: pairs of a pass over regions."""
    kind, head = name.split()
    torch.manual_seed(0)
    encoder: nn.Module
    if kind == "blip":
        place = folder / "blip"
        encoder = load_blip(f"blip:{place if place.exists() else make_blip(place)}").build().requires_grad_(True)
    else:
        encoder = RegionEncoder(replace(REGIONS[kind], dropout=dropout, pair_dropout=dropout), most)
    if head == "published":
        return PairScorer(encoder)
    if head == "alone":
        return PairScorer(encoder, alone=nn.Linear(WIDTH, 1))
    return PairScorer(encoder, make_head(WIDTH, head == "temporal", dropout))


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
        targets=marks_at(torch.randint(0, candidates, (queries,), generator=chance), candidates),
    )


def random_images(scorer: ClipScorer | PairScorer, count: int, chance: torch.Generator) -> Tensor:
    """Regions for a scorer over them, every second picture without its last one; pixels for one with another encoder; else vectors."""
    if isinstance(scorer.encoder, RegionEncoder):
        images = torch.rand(count, 4, FEATURES + BOX, generator=chance)
        images[::2, -1, -BOX:] = 0.0
        return images
    if scorer.encoder is not None:
        side = 32 if isinstance(scorer, PairScorer) else 48
        return torch.randn(count, 3, side, side, generator=chance)
    return nn.functional.normalize(torch.randn(count, WIDTH, generator=chance), dim=-1)


def random_texts(scorer: ClipScorer | PairScorer, count: int, chance: torch.Generator) -> Tensor:
    """Tokens for a scorer with an encoder, over regions of two lengths; else vectors."""
    if scorer.encoder is None:
        return nn.functional.normalize(torch.randn(count, WIDTH, generator=chance), dim=-1)
    texts = torch.randint(1, len(WORDS) if isinstance(scorer, PairScorer) else 49000, (count, 12), generator=chance)
    if isinstance(scorer.encoder, RegionEncoder):
        texts[1::2, 5:] = 0
    return texts
