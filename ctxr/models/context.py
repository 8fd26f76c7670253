"""The context head: a small transformer over the pairs of a text with all images of its set (specs A0.2, H4)."""

from typing import Literal

import torch
from torch import Tensor, nn

from ctxr.models.layers import Block

Fusion = Literal["multiply", "concat"]

SCALE = 1000.0
"""Unit vectors of 512 numbers have products of about 1/512; this makes them of order 1 (in the released code alone)."""

PLACES = 10  # positions that are learned: as many as a set of ImageCoDe has images


def fuse(images: Tensor, texts: Tensor, fusion: Fusion = "multiply", scale: float = SCALE) -> Tensor:
    """Pair features of unit vectors of images [B, K, D] and texts [B, D]: `scale` times the product [B, K, D], or both side by side
    [B, K, 2 D] without a scale."""
    spread = texts[:, None, :].expand_as(images)
    return scale * images * spread if fusion == "multiply" else torch.cat([images, spread], dim=-1)


class ContextHead(nn.Module):
    """Scores the candidates of a set together, from the pair features of any encoder.

    score_i = w (z_i + m_i) + b with z = Transformer(m + p), where p is learned for each position of an ordered set and 0
    for a set without order. Without `positions`, and for sets without order, permuting candidates permutes scores.

    Args:
        width: of a pair's features. layers: blocks. heads, inner, dropout: of each.
        positions: learn a vector for each position in an ordered set of at most `PLACES` candidates (+TemporalEmbeddings).

    Attributes:
        highway_positions: w (z_i + m_i + p_i) + b, as Eq. 1 of the paper has it.
        all_positions: positions act on sets without order too, as in the released cross-encoders (specs A0.6.8).
    """

    def __init__(
        self,
        width: int,
        layers: int = 2,
        heads: int = 8,
        inner: int = 3072,
        dropout: float = 0.1,
        *,
        positions: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads, inner, dropout) for _ in range(layers))
        self.positions = nn.Embedding(PLACES, width) if positions else None
        self.highway_positions = self.all_positions = False
        self.score = nn.Linear(width, 1)

    def forward(self, pairs: Tensor, mask: Tensor, ordered: Tensor) -> Tensor:
        """Scores [B, K] of pair features [B, K, D].

        `mask` [B, K] is True where there is a candidate; other scores mean nothing. `ordered` [B] says which sets have an order.
        Raises ValueError for an ordered set with more candidates than there are positions.
        """
        items = placed = self.placed(pairs, mask, ordered)
        for block in self.blocks:
            items = block(items, mask)
        items = items + (placed if self.highway_positions else pairs)
        # scores of one set lie close together: autocast would make ties of them
        return (items * self.score.weight[0]).sum(-1) + self.score.bias

    def placed(self, pairs: Tensor, mask: Tensor, ordered: Tensor) -> Tensor:
        """What goes into the first block, [B, K, D]: pairs, with positions where they are learned. Raises as `forward`."""
        if self.positions is None:
            return pairs
        ordered = torch.ones_like(ordered) if self.all_positions else ordered
        most, learned = int((mask.sum(1) * ordered).max()), self.positions.num_embeddings
        if most > learned:
            raise ValueError(f"an ordered set has {most} candidates, and {learned} positions are learned")
        table = pairs.new_zeros(pairs.shape[1:])
        table[:learned] = self.positions.weight[: len(table)].to(pairs.dtype)
        # 0 for sets without order
        return pairs + table * ordered[:, None, None].to(pairs.dtype)


@torch.no_grad()
def attention_of(head: ContextHead, pairs: Tensor, mask: Tensor, ordered: Tensor) -> Tensor:
    """Attention of each candidate to each other in every layer, [B, layers, heads, K, K]; rows sum to 1.

    The head does not keep these shares: they are computed again, as in evaluation. Arguments are those of the head.
    """
    mode = head.training
    head.eval()
    try:
        items, shares = head.placed(pairs, mask, ordered), []
        for block in head.blocks:
            shares.append(block.attention.shares(items, mask))  # type: ignore[union-attr, operator]
            items = block(items, mask)
        return torch.stack(shares, dim=1)
    finally:
        head.train(mode)
