"""ViLBERT and UNITER as one encoder of pairs over region features.
Letters: P pairs, T tokens, R regions; each stream has its own width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ctxr.models.layers import EPSILON, Attention, Block, FeedForward, cut
from ctxr.store.regions import BOX

Stage = Literal["text", "vision", "both", "crossed", "joint"]
"""A layer of attention and a feed-forward one, and who takes part.

"text", "vision", "both": each stream looks at itself. "crossed": each stream looks at the other.
"joint": one layer for both, and everything looks at everything.
"""

TOKENS = 120  # the most word pieces of a text


@dataclass(frozen=True)
class Stream:
    """Width of one side's items, heads of its attention, width inside its feed-forward layers."""

    width: int
    heads: int
    inner: int


@dataclass(frozen=True)
class CrossConfig:
    """A region cross-encoder: streams of word pieces and regions, and stages in order.

    `vocabulary`, `kinds`, `places`: word pieces, token types and positions. `features`: F of a region. `pooled`: D of a pair.
    `dropout`: but of pairs. `epsilon`: of the normalisation of embeddings. `spread`: standard deviation of first weights.
    """

    text: Stream
    vision: Stream
    stages: tuple[Stage, ...]
    crossed_width: int
    crossed_heads: int
    embedding: Literal["vilbert", "uniter"]
    vocabulary: int = 30522
    kinds: int = 2
    places: int = 512
    features: int = 2048
    pooled: int = 1024
    dropout: float = 0.1
    pair_dropout: float = 0.1
    epsilon: float = 1e-12
    spread: float = 0.02


_BASE, _SMALL = Stream(768, 12, 3072), Stream(32, 4, 64)
_TINY: dict[str, Any] = {"places": TOKENS, "features": 64, "pooled": 32, "spread": 0.15}

CONFIGS = {
    "vilbert": CrossConfig(_BASE, Stream(1024, 8, 1024), ("text",) * 6 + ("crossed", "both") * 6, 1024, 8, "vilbert"),
    "uniter": CrossConfig(_BASE, _BASE, ("joint",) * 12, 768, 12, "uniter"),
    "vilbert-tiny": CrossConfig(_SMALL, Stream(48, 4, 48), ("text", "crossed", "both"), 48, 4, "vilbert", **_TINY),
    "uniter-tiny": CrossConfig(_SMALL, _SMALL, ("joint",) * 2, 32, 4, "uniter", **_TINY),
}
"""Models that can be built without weights: volta's `vilbert_base` (twelve layers of text and six of vision, six times crossed)
and `ctrl_uniter_base` (twelve layers over word pieces and regions as one sequence), and a small one of either kind."""


class WordEmbeddings(nn.Module):
    """Sum of word piece, position and kind, normalised (BERT)."""

    def __init__(self, config: CrossConfig) -> None:
        super().__init__()
        width = config.text.width
        self.pieces = nn.Embedding(config.vocabulary, width, padding_idx=0)
        self.places = nn.Embedding(config.places, width)
        self.kinds = nn.Embedding(config.kinds, width)
        self.norm = nn.LayerNorm(width, eps=config.epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, texts: Tensor) -> Tensor:
        """[B, T, width] of token ids [B, T]. Raises ValueError for more tokens than there are positions."""
        count = texts.shape[1]
        if count > self.places.num_embeddings:
            raise ValueError(f"a text has {count} tokens, and {self.places.num_embeddings} positions are learned")
        items = self.pieces(texts) + self.places.weight[:count] + self.kinds.weight[0]
        return cast("Tensor", self.dropout(self.norm(items)))


class RegionEmbeddings(nn.Module):
    """Sum of a region's features and box, normalised; UNITER normalises each and adds the kind."""

    def __init__(self, config: CrossConfig, box: int) -> None:
        super().__init__()
        width = config.vision.width
        self.features, self.box = nn.Linear(config.features, width), nn.Linear(box, width)
        self.norm = nn.LayerNorm(width, eps=config.epsilon)
        normed = config.embedding == "uniter"
        self.features_norm = nn.LayerNorm(width, eps=config.epsilon) if normed else nn.Identity()
        self.box_norm = nn.LayerNorm(width, eps=config.epsilon) if normed else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor, boxes: Tensor, kind: Tensor | None) -> Tensor:
        """[N, R, width] of features [N, R, F], boxes [N, R, 5] and the embedding [width] of the kind "region"."""
        items = self.features_norm(self.features(features)) + self.box_norm(self.box(boxes))
        items = items if kind is None else items + kind
        return cast("Tensor", self.dropout(self.norm(items)))


def present(items: Tensor) -> Tensor:
    """bool [N, R], where items [N, R, ...] are not all 0, and the first: attention needs one."""
    mask = items.flatten(2).any(-1) if items.ndim > 2 else items != 0
    return mask | (torch.arange(mask.shape[1], device=mask.device) == 0)


class CoAttention(Attention, FeedForward):
    """A stream's part of a crossed stage: attention to the other, then a feed-forward layer."""

    def __init__(self, stream: Stream, width: int, heads: int, dropout: float) -> None:
        super().__init__(stream.width, heads, dropout, width)
        self.after_attention = nn.LayerNorm(stream.width, eps=EPSILON)
        self.widen, self.narrow = nn.Linear(stream.width, stream.inner), nn.Linear(stream.inner, stream.width)
        self.after_widening = nn.LayerNorm(stream.width, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def cross(self, items: Tensor, other: CoAttention, others: Tensor, mask: Tensor) -> Tensor:
        """Items [P, T, width] after attending to others [P, R, ...] where `mask` [P, R] is True."""
        seen = self.attend(self.query(items), other.key(others), other.value(others), mask)
        return self.feed_forward(self.after_attention(items + self.dropout(seen)))


class Streams(nn.Module):
    """A stage in which streams attend to themselves, or to each other (ViLBERT's co-attention)."""

    def __init__(self, kind: Stage, config: CrossConfig) -> None:
        super().__init__()

        def layer(stream: Stream) -> CoAttention | Block:
            if kind == "crossed":
                return CoAttention(stream, config.crossed_width, config.crossed_heads, config.dropout)
            return Block(stream.width, stream.heads, stream.inner, config.dropout)

        self.text = None if kind == "vision" else layer(config.text)
        self.vision = None if kind == "text" else layer(config.vision)

    def forward(
        self, words: Tensor, regions: Tensor, words_mask: Tensor, regions_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Words [P, T, ...], regions [P, R, ...]; `words_mask`, `regions_mask`: True where there is one."""
        text, vision = self.text, self.vision
        if isinstance(text, CoAttention) and isinstance(vision, CoAttention):
            seen = text.cross(words, vision, regions, regions_mask)
            return seen, vision.cross(regions, text, words, words_mask)
        words = words if text is None else text(words, words_mask)
        return words, regions if vision is None else vision(regions, regions_mask)


PAIRS = 160  # pairs in one pass: sixteen sets of ten


class RegionEncoder(nn.Module):
    """An encoder of pairs for `PairScorer`: pooled text times pooled vision, each of them a ReLU of the first item.

    Embeddings, and the layers before the first in which the streams meet (half of ViLBERT's layers of text), are computed once for
    each text and each image. Weights are drawn from torch's global generator. `most`: pairs in one pass.
    """

    def __init__(self, config: CrossConfig, most: int = PAIRS) -> None:
        super().__init__()
        self.config, self.most, self.width = config, most, config.pooled
        if "joint" in config.stages and config.text != config.vision:
            raise ValueError("a joint stage needs two streams of the same widths and heads")
        self.words, self.regions = WordEmbeddings(config), RegionEmbeddings(config, BOX)
        text = config.text
        self.stages = nn.ModuleList(
            # word pieces and regions as one sequence (UNITER), or streams
            Block(text.width, text.heads, text.inner, config.dropout) if kind == "joint" else Streams(kind, config)
            for kind in config.stages
        )
        self.pool_text = nn.Linear(config.text.width, config.pooled)
        self.pool_vision = nn.Linear(config.vision.width, config.pooled)
        self.aligned = nn.Linear(config.pooled, 2)
        self.dropout = nn.Dropout(config.pair_dropout)
        for module in self.modules():  # BERT's first weights
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=config.spread)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def pairs(self, images: Tensor, texts: Tensor, candidates: Tensor, mask: Tensor) -> Tensor:
        """Pair features [B, K, D]; 0 where `mask` is False. Arguments as in a `Batch`.

        Images are regions [N, R, F + BOX], the whole picture first; a box of zeros means that there is none. Raises ValueError for
        regions of another width, or more tokens than there are positions.
        """
        if images.shape[-1] != self.config.features + BOX:
            raise ValueError(
                f"a region has {images.shape[-1]} numbers, and {self.config.features} features and {BOX} of a box are wanted"
            )
        stages, kinds = list(self.stages), self.config.stages
        meeting = next((at for at, kind in enumerate(kinds) if kind in ("crossed", "joint")), len(kinds))
        texts = cut(texts)
        boxes = images[..., -BOX:]
        words_mask, regions_mask = present(texts), present(boxes)
        kind = self.words.kinds.weight[1] if self.config.embedding == "uniter" else None
        words, regions = self.words(texts), self.regions(images[..., :-BOX], boxes, kind)
        for stage in stages[:meeting]:
            words, regions = stage(words, regions, words_mask, regions_mask)
        query, candidate = mask.nonzero(as_tuple=True)
        images_of, parts = candidates[query, candidate], []
        for text, image in zip(torch.split(query, self.most), torch.split(images_of, self.most), strict=True):
            masks, streams = (words_mask[text], regions_mask[image]), (words[text], regions[image])
            for stage in stages[meeting:]:
                if isinstance(stage, Block):
                    both = stage(torch.cat(streams, 1), torch.cat(masks, 1))
                    streams = both.split([streams[0].shape[1], streams[1].shape[1]], 1)
                else:
                    streams = stage(*streams, *masks)
            pooled = self.pool_text(streams[0][:, 0]).relu(), self.pool_vision(streams[1][:, 0]).relu()
            if pooled[0].dtype != torch.float64:
                pooled = pooled[0].float(), pooled[1].float()
            parts.append(self.dropout(pooled[0] * pooled[1]))
        pairs = torch.cat(parts)
        return pairs.new_zeros(*mask.shape, self.width).index_put((query, candidate), pairs)

    def match(self, pairs: Tensor) -> Tensor:
        """Log-odds [..] of a match, from pairs [.., D]; the published score is their sigmoid."""
        # candidates of one set lie close together: autocast would make ties of them
        weight, bias = self.aligned.weight, self.aligned.bias
        return (pairs * (weight[0] - weight[1])).sum(-1) + (bias[0] - bias[1])
