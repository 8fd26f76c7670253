"""What a training makes smaller."""

import torch
from torch import Tensor
from torch.nn import functional

from ctxr.models.base import Batch


def loss_of(scores: Tensor, batch: Batch, kind: str) -> Tensor:
    """The loss, summed over queries.

    Args:
        scores: [B, K], -inf where there is no candidate.
        batch: with known targets.
        kind: "softmax", cross-entropy over the candidates of a query; or "binary", cross-entropy of each candidate by itself
            (target or not), averaged over the candidates of a query.
    """
    if kind == "softmax":
        return functional.cross_entropy(scores, batch.target, reduction="sum")
    right = functional.one_hot(batch.target, scores.shape[1]).to(scores.dtype)
    logits = torch.where(batch.mask, scores, 0.0)
    each = functional.binary_cross_entropy_with_logits(logits, right, reduction="none") * batch.mask
    summed: Tensor = (each.sum(1) / batch.mask.sum(1)).sum()
    return summed
