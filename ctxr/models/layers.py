"""The transformer block of BERT: normalised after each sublayer, exact GELU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-12  # of layer normalisation, as in BERT


class Attention(nn.Module):
    """Attention over items that are not masked. `inner`: width of queries, keys and values; 0: of items."""

    def __init__(self, width: int, heads: int, dropout: float, inner: int = 0) -> None:
        super().__init__()
        inner = inner or width
        require_heads(inner, heads)
        self.heads, self.rate = heads, dropout
        self.query, self.key, self.value = (nn.Linear(width, inner) for _ in range(3))
        self.out = nn.Linear(inner, width)

    def forward(self, items: Tensor, mask: Tensor) -> Tensor:
        """[B, K, D] of items [B, K, D]; items where `mask` [B, K] is False receive no attention."""
        return self.attend(self.query(items), self.key(items), self.value(items), mask)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """[B, K, D] of queries [B, K, ..], keys and values [B, R, ..], where `mask` [B, R] is True."""
        shape = (self.heads, query.shape[2] // self.heads)
        query, key, value = (items.view(*items.shape[:2], *shape).transpose(1, 2) for items in (query, key, value))
        seen = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :], dropout_p=self.rate if self.training else 0.0
        )
        return cast("Tensor", self.out(seen.transpose(1, 2).flatten(2)))

    def shares(self, items: Tensor, mask: Tensor) -> Tensor:
        """Attention of each item to each other, [B, heads, K, K]; `forward` does not keep it."""
        query, key = (layer(items).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key))
        fits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return cast("Tensor", fits.masked_fill(~mask[:, None, None, :], float("-inf")).softmax(-1))


def require_heads(width: int, heads: int) -> None:
    """Raises ValueError where `heads` do not divide a width."""
    if width % heads:
        raise ValueError(f"{heads} heads do not divide a width of {width}")


class FeedForward(nn.Module):
    """A layer whose second sublayer is that of BERT, with W1 and W2 in `widen` and `narrow`."""

    widen: nn.Linear
    narrow: nn.Linear
    dropout: nn.Dropout
    after_widening: nn.LayerNorm

    def feed_forward(self, items: Tensor) -> Tensor:
        """LayerNorm(x + Dropout(W2 gelu(W1 x)))."""
        wide = functional.gelu(self.widen(items), approximate="none")
        return cast("Tensor", self.after_widening(items + self.dropout(self.narrow(wide))))


class Block(FeedForward):
    """LayerNorm(x + Dropout(Attention(x))), then LayerNorm(x + Dropout(W2 gelu(W1 x))).

    Args:
        width: D. heads: a divisor of it. inner: width between W1 and W2 (BERT-base: 3072).
        dropout: of attention and of both sublayers' results, 0..1.
    """

    def __init__(self, width: int, heads: int = 8, inner: int = 3072, dropout: float = 0.1) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.after_attention = nn.LayerNorm(width, eps=EPSILON)
        self.widen, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.after_widening = nn.LayerNorm(width, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, items: Tensor, mask: Tensor) -> Tensor:
        """[B, K, D] of items [B, K, D]; `mask` [B, K] is True where there is one."""
        return self.feed_forward(self.after_attention(items + self.dropout(self.attention(items, mask))))


def cut(tokens: Tensor) -> Tensor:
    """Token ids [B, T], 0 where there is none, without the columns behind the longest row."""
    return tokens[:, : max(1, int((tokens != 0).sum(1).max())) if len(tokens) else 1]


def unit(vectors: Tensor) -> Tensor:
    """Vectors [..., D] at length 1, in float32 at least."""
    precise = vectors if vectors.dtype == torch.float64 else vectors.float()
    return functional.normalize(precise, dim=-1)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Around a block or function: torch draws from `seed`, and afterwards as if it had not."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
