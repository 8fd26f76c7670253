"""Encoders that look at an image and a text together, as scorers: alone, or below a context head (specs A0.2, 6).

Letters: B queries, K candidates, N images, R regions, F features of a region, T tokens, D width of a pair.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from ctxr.models.base import Batch
from ctxr.models.context import ContextHead


class PairEncoder(Protocol):
    """Makes one vector of an image and a text that looked at each other.

    Attributes:
        width: D of the vector.
    """

    width: int

    def pairs(self, images: Tensor, texts: Tensor, candidates: Tensor, mask: Tensor) -> Tensor:
        """Pair features [B, K, D]; those where `mask` is False mean nothing.

        Args:
            images: what the encoder looks at: pixels [N, 3, H, W], or regions [N, R, F + BOX].
            texts: int64 [B, T] token ids, 0 where there is none.
            candidates: int64 [B, K] rows of `images`.
            mask: bool [B, K].
        """

    def match(self, pairs: Tensor) -> Tensor:
        """How well image and text match [B, K], as the published head says, from pair features [B, K, D]; higher is better."""


class PairScorer(nn.Module):
    """What a head makes of the pairs of a set; or each pair by itself, by the published head or by a new one.

    Args:
        encoder: a module that is a `PairEncoder`; None if the batch's images are pair features [N, D] already, and then
            `candidates` names the pair of each query and candidate.
        head: looks at all candidates of a set. alone: a layer [D] -> [1] that scores each by itself.
            With neither, the encoder's published head does.
    """

    def __init__(
        self, encoder: nn.Module | None = None, head: ContextHead | None = None, alone: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.alone = encoder, head, alone

    def forward(self, batch: Batch) -> Tensor:
        """float32 [B, K], higher is better, -inf where there is no candidate."""
        pairs = self.pairs(batch)
        if self.head is not None:
            scores = self.head(pairs, batch.mask, batch.ordered)
        elif self.alone is not None:
            scores = self.alone(pairs).squeeze(-1)
        elif self.encoder is not None:
            scores = self.encoder.match(pairs)  # type: ignore[operator]
        else:
            raise ValueError("a scorer of pair features needs a head or a layer")
        precise = scores if scores.dtype == torch.float64 else scores.float()
        masked: Tensor = precise.masked_fill(~batch.mask, float("-inf"))
        return masked

    def pairs(self, batch: Batch) -> Tensor:
        """Features of each pair [B, K, D]."""
        if self.encoder is None:
            return batch.images[batch.candidates]
        made: Tensor = self.encoder.pairs(batch.images, batch.texts, batch.candidates, batch.mask)  # type: ignore[operator]
        return made
