"""What a text branch makes of premise and hypothesis: h^t, read at once or each apart. Letters: B claims, T tokens, D width."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.models.entailment.fusion import cut
from ctxr.models.entailment.pooling import CLS, pooled

MIDDLE, SPREAD = 0.6, 6.0
"""Where cosines of sentences and of their words lie, and by how much they are drawn apart for heads that start at random."""


class BertBranch(nn.Module):
    """h^t of a model of transformers over "[CLS] premise [SEP] hypothesis [SEP]".

    Args:
        pooling: as `read_pooling` says: [CLS], or the mean of all tokens.

    Attributes:
        width: D.
    """

    def __init__(self, model: Any, pooling: str = CLS) -> None:
        super().__init__()
        self.model, self.width, self.pooling = model, int(model.config.hidden_size), pooling
        self.typed = int(getattr(model.config, "type_vocab_size", 0) or 0) > 1

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, D] of ids and types [B, T], 0 where there is none."""
        return pooled(self.states(ids, types), ids, self.pooling)

    def states(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, T, D] of each token."""
        told = {"token_type_ids": types} if self.typed else {}
        found: Tensor = self.model(input_ids=ids, attention_mask=(ids != 0).long(), **told).last_hidden_state
        return found


def leftwards(told: Tensor, ids: Tensor) -> Tensor:
    """What is told of tokens [B, T], those that are none (id 0) behind all others; the order stays otherwise."""
    return told.gather(1, (ids == 0).to(torch.uint8).argsort(dim=1, stable=True))


class LateBranch(BertBranch):
    """h^t of four likenesses of vectors that know nothing of the other text (late interaction, Khattab and Zaharia 2020).

    The cosine of both texts; for each word of the hypothesis the cosine with the word of the premise that is most like it, their mean
    and their least; and the mean of the same for each word of the premise. What all words of the hypothesis find in the premise may
    follow from it, whatever else the premise says: unlike a product of two vectors that is not symmetric, as entailment is not.
    Each number fills a quarter of h^t; with so few, heads learn from some hundred pairs.
    """

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        """[B, D] of ids and types [B, T]: the premise is of type 0, the hypothesis, with a [CLS] of its own, of type 1."""
        premise, hypothesis = (self._read(cut(leftwards(own, own))) for own in (ids * (types == one) for one in (0, 1)))
        whole = (premise[0] * hypothesis[0]).sum(-1)
        words = hypothesis[2][:, :, None] & premise[2][:, None]
        alike = (hypothesis[1] @ premise[1].transpose(1, 2)).masked_fill(~words, -1.0)
        covered, back = alike.amax(2), alike.amax(1)
        least = covered.masked_fill(~hypothesis[2], 1.0).amin(1)
        told = torch.stack([whole, _mean(covered, hypothesis[2]), least, _mean(back, premise[2])], 1)
        found: Tensor = (SPREAD * (told - MIDDLE)).repeat_interleave(-(-self.width // 4), 1)[:, : self.width]
        return found

    def _read(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(unit vectors [B, D], of each token [B, T, D], which tokens are words [B, T]: neither the first nor the last)."""
        states = self.states(ids, torch.zeros_like(ids)).float()
        last = (ids != 0).sum(1, keepdim=True) - 1
        at = torch.arange(ids.shape[1], device=ids.device)
        units = functional.normalize(pooled(states, ids, self.pooling)), functional.normalize(states, dim=-1)
        return *units, (at > 0) & (at < last)


def _mean(values: Tensor, there: Tensor) -> Tensor:
    """[B] over what is there of [B, T]; 0 of nothing."""
    found: Tensor = (values * there).sum(1) / there.sum(1).clamp(min=1)
    return found
