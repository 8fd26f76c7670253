"""What a training makes smaller."""

import torch
from torch import Tensor
from torch.nn import functional

from ctxr.models.base import Batch


def loss_of(scores: Tensor, batch: Batch, kind: str, weak: Tensor | None = None, soft: float | None = 0.0) -> Tensor:
    """The loss, summed over queries.

    Args:
        scores: [B, K], -inf where there is no candidate.
        batch: with known targets.
        kind: "softmax", cross-entropy over the candidates of a query; or "binary", cross-entropy of each candidate by itself
            (target or not), averaged over the candidates of a query.
        weak: bool [B, K], candidates beside the target that were found to be right too; None where none was.
        soft: the share of a positive to which each of these is right: 0 makes them negatives like any other; None leaves
            them out, as if they were no candidates.
    """
    counted, right = batch.mask, functional.one_hot(batch.target, scores.shape[1]).to(scores.dtype)
    if weak is not None and soft is None:
        scores, counted = scores.masked_fill(weak, float("-inf")), counted & ~weak
    if weak is not None and soft:
        right = right + soft * weak.to(scores.dtype)
        if kind == "softmax":
            logs = scores.log_softmax(1).masked_fill(right == 0, 0.0)
            return -(right / right.sum(1, keepdim=True) * logs).sum()
    if kind == "softmax":
        return functional.cross_entropy(scores, batch.target, reduction="sum")
    logits = torch.where(counted, scores, 0.0)
    each = functional.binary_cross_entropy_with_logits(logits, right, reduction="none") * counted
    summed: Tensor = (each.sum(1) / counted.sum(1)).sum()
    return summed
