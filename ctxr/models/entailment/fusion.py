"""A text transformer whose upper layers look at a picture (ALBEF): its [CLS] is hypothesis and picture together, h^v.

Letters: B claims, T tokens, N pictures, P patches, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ctxr.models.entailment.vision import VisionTransformer
from ctxr.models.layers import EPSILON, Attention, Block, FeedForward, attend


@dataclass(frozen=True)
class FusionConfig:
    """Sizes of a fusion encoder.

    Attributes:
        vocabulary, places, kinds: word pieces, positions and token types that it knows.
        width: D. text_layers: that see words alone. fusion_layers: above them, with cross-attention.
        heads, inner, dropout: of each layer. image_width: width of the image tokens.
        products: fusion layers add a product of each word with what it saw. Published layers have none; from nothing and with
            little data sums alone take very long to find whether a word fits.
    """

    vocabulary: int
    width: int = 768
    text_layers: int = 6
    fusion_layers: int = 6
    heads: int = 12
    inner: int = 3072
    image_width: int = 768
    places: int = 512
    kinds: int = 2
    dropout: float = 0.1
    products: bool = False


class CrossAttention(nn.Module):
    """Every word looks at every token of its picture."""

    def __init__(self, width: int, image_width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(image_width, width), nn.Linear(image_width, width)

    def forward(self, words: Tensor, image: Tensor) -> Tensor:
        """[B, T, D] of words [B, T, D] and tokens of an image [B, 1 + P, image width]."""
        projected = self.query(words), self.key(image), self.value(image)
        mixed: Tensor = self.out(attend(*projected, self.heads, None, dropout=self.dropout if self.training else 0.0))
        return mixed


class CrossBlock(FeedForward):
    """BERT's layer with a look at the picture between attention and widening, normalised behind it as they are."""

    def __init__(
        self, width: int, image_width: int, heads: int, inner: int, dropout: float, *, products: bool = False
    ) -> None:
        super().__init__()
        self.products = nn.Linear(width, width) if products else None
        self.attention = Attention(width, heads, dropout)
        self.crossed = CrossAttention(width, image_width, heads, dropout)
        self.widen, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.after_attention, self.after_crossed, self.after_widening = (
            nn.LayerNorm(width, eps=EPSILON) for _ in range(3)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """[B, T, D] of words [B, T, D] that look at an image [B, 1 + P, image width]."""
        words = self.after_attention(words + self.dropout(self.attention(words, mask)))
        seen = self.crossed(words, image)
        if self.products is not None:
            seen = seen + self.products(words * seen)
        return self.feed_forward(self.after_crossed(words + self.dropout(seen)))


class FusionEncoder(nn.Module):
    """Words, layers over words alone, and layers that look at a picture."""

    def __init__(self, config: FusionConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.pieces = nn.Embedding(config.vocabulary, width, padding_idx=0)
        self.places, self.kinds = nn.Embedding(config.places, width), nn.Embedding(config.kinds, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=EPSILON), nn.Dropout(config.dropout)
        sizes = (config.heads, config.inner, config.dropout)
        self.text = nn.ModuleList(Block(width, *sizes) for _ in range(config.text_layers))
        self.fusion = nn.ModuleList(
            CrossBlock(width, config.image_width, *sizes, products=config.products) for _ in range(config.fusion_layers)
        )

    def read(self, tokens: Tensor, kinds: Tensor | None = None) -> Tensor:
        """[B, T, D] of token ids [B, T], 0 where there is none, and their types, by the layers that see words alone."""
        kinds = torch.zeros_like(tokens) if kinds is None else kinds
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        words: Tensor = self.dropout(self.norm(self.pieces(tokens) + self.places(positions) + self.kinds(kinds)))
        for layer in self.text:
            words = layer(words, tokens != 0)
        return words

    def fuse(self, tokens: Tensor, image: Tensor) -> Tensor:
        """[B, T, D] of token ids [B, T] and the tokens of an image each, [B, 1 + P, image width]."""
        words = self.read(tokens)
        for layer in self.fusion:
            words = layer(words, tokens != 0, image)
        return words


class FusionBranch(nn.Module):
    """Picture and hypothesis to h^v, `width` wide: the [CLS] of the fusion encoder."""

    def __init__(self, vision: VisionTransformer, words: FusionEncoder) -> None:
        super().__init__()
        self.vision, self.words, self.width = vision, words, words.config.width

    def forward(self, images: Tensor, place: Tensor, tokens: Tensor) -> Tensor:
        """h^v [B, D] of hypotheses [B, T] about the pictures in rows `place` [B] of `images`; each is encoded once."""
        return self.words.fuse(tokens, self.vision(images)[place])[:, 0]

    def cls_attention(self, images: Tensor) -> Tensor:
        """How much [CLS] of the vision transformer looks at each patch, [N, P]."""
        return self.vision.cls_attention(images)

    def blackened(self, images: Tensor, hidden: Tensor) -> Tensor:
        """The pictures without light in the patches where `hidden` [N, P] is True."""
        return self.vision.blackened(images, hidden)
