"""What a region cross-encoder is made of: two streams, and what its layers let look at what (volta's gated layers)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["text", "vision", "both", "crossed", "joint"]
"""A layer of attention and a feed-forward one, and who takes part.

"text", "vision", "both": each stream looks at itself. "crossed": each stream looks at the other.
"joint": one layer for both, and everything looks at everything.
"""

TOKENS = 120
"""The most word pieces of a text (specs A0.2, 6)."""


@dataclass(frozen=True)
class Stream:
    """The items of one side.

    Attributes:
        width: of an item. heads: of its attention to itself, a divisor of the width. inner: width of its feed-forward layers.
    """

    width: int
    heads: int
    inner: int


@dataclass(frozen=True)
class CrossConfig:
    """A region cross-encoder.

    Attributes:
        text: the stream of word pieces. vision: the stream of regions.
        stages: the layers in order.
        crossed_width: width of the attention in crossed stages. crossed_heads: a divisor of it.
        embedding: how regions are embedded, as "vilbert" or as "uniter" does.
        vocabulary: word pieces. kinds: token types. places: positions of word pieces.
        features: F of a region. pooled: D of a pair.
        dropout: of embeddings, attention and layers. pair_dropout: of a pair.
        epsilon: of the layer normalisation of embeddings.
        spread: standard deviation of weights before training.
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


def vilbert(vocabulary: int = 30522, features: int = 2048) -> CrossConfig:
    """volta's `vilbert_base`: twelve layers of text and six of vision, six times crossed."""
    return CrossConfig(
        text=Stream(768, 12, 3072),
        vision=Stream(1024, 8, 1024),
        stages=("text",) * 6 + ("crossed", "both") * 6,
        crossed_width=1024,
        crossed_heads=8,
        embedding="vilbert",
        vocabulary=vocabulary,
        features=features,
    )


def uniter(vocabulary: int = 30522, features: int = 2048) -> CrossConfig:
    """volta's `ctrl_uniter_base`: twelve layers over word pieces and regions as one sequence."""
    return CrossConfig(
        text=Stream(768, 12, 3072),
        vision=Stream(768, 12, 3072),
        stages=("joint",) * 12,
        crossed_width=768,
        crossed_heads=12,
        embedding="uniter",
        vocabulary=vocabulary,
        features=features,
    )


def tiny_vilbert(vocabulary: int, features: int = 64) -> CrossConfig:
    """Two streams of different widths, crossed once."""
    return CrossConfig(
        text=Stream(32, 4, 64),
        vision=Stream(48, 4, 48),
        stages=("text", "crossed", "both"),
        crossed_width=48,
        crossed_heads=4,
        embedding="vilbert",
        vocabulary=vocabulary,
        places=TOKENS,
        features=features,
        pooled=32,
        spread=0.15,
    )


def tiny_uniter(vocabulary: int, features: int = 64) -> CrossConfig:
    """One stream of two layers."""
    return CrossConfig(
        text=Stream(32, 4, 64),
        vision=Stream(32, 4, 64),
        stages=("joint",) * 2,
        crossed_width=32,
        crossed_heads=4,
        embedding="uniter",
        vocabulary=vocabulary,
        places=TOKENS,
        features=features,
        pooled=32,
        spread=0.15,
    )
