"""The transformer block of BERT: normalised after each sublayer, exact GELU (specs A0.2)."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-12
"""Of layer normalisation, as in BERT."""


class Attention(nn.Module):
    """Self-attention over the items that are not masked."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, items: Tensor, mask: Tensor) -> Tensor:
        """[B, K, D] of items [B, K, D]; items where `mask` [B, K] is False receive no attention."""
        batch, count, width = items.shape
        query, key, value = self._parted(items)
        dropout = self.dropout if self.training else 0.0
        seen = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :], dropout_p=dropout
        )
        return cast("Tensor", self.out(seen.transpose(1, 2).reshape(batch, count, width)))

    def shares(self, items: Tensor, mask: Tensor) -> Tensor:
        """How much each item looks at each other, [B, heads, K, K], rows sum to 1: what `forward` uses and does not keep."""
        query, key, _ = self._parted(items)
        fits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return cast("Tensor", fits.masked_fill(~mask[:, None, None, :], float("-inf")).softmax(-1))

    def _parted(self, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the heads, [B, heads, K, D / heads] each."""
        batch, count, width = items.shape
        shape = batch, count, self.heads, width // self.heads
        query, key, value = (layer(items).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        return query, key, value


class Block(nn.Module):
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
        items = self.after_attention(items + self.dropout(self.attention(items, mask)))
        wide = functional.gelu(self.widen(items), approximate="none")
        return cast("Tensor", self.after_widening(items + self.dropout(self.narrow(wide))))


def unit(vectors: Tensor) -> Tensor:
    """Vectors [..., D] at length 1, in float32 at least."""
    precise = vectors if vectors.dtype == torch.float64 else vectors.float()
    return functional.normalize(precise, dim=-1)
