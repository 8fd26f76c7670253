"""Positives whose most looked-at patches are blackened become negatives (paper, section 3.2; attention as in EViT)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ctxr.models.entailment.base import IMAGE, TEXT
from ctxr.models.entailment.classifier import PairBatch


def most_seen(shares: Tensor, ratio: float) -> Tensor:
    """True [N, P] for the `ratio` of patches with the highest attention [N, P], at least one; of equal ones the first.

    >>> most_seen(torch.tensor([[0.1, 0.5, 0.2, 0.2, 0.0]]), 0.4).tolist()
    [[False, True, True, False, False]]
    """
    count = max(1, round(ratio * shares.shape[1]))
    order = shares.argsort(dim=1, descending=True, stable=True)[:, :count]
    return torch.zeros_like(shares, dtype=torch.bool).scatter(1, order, True)


def to_mask(label: Tensor, theta: Tensor, place: Tensor, most: int) -> Tensor:
    """Which of the claims [B] of a step are masked: up to `most` positives that have a picture, int64, in their order.

    Every picture is masked once, for the first claim about it. To be asked of a whole step, however many passes it takes.

    >>> theta = torch.tensor([[False, True, False]] * 4)
    >>> to_mask(torch.tensor([0, 1, 1, 1]), theta, torch.tensor([1, 2, 2, 3]), 4).tolist()
    [1, 3]
    """
    positive = ((label == 1) & theta[:, IMAGE:].any(1)).nonzero().flatten().tolist()
    chosen = {int(place[row]): row for row in reversed(positive)}
    return torch.tensor(sorted(chosen.values())[:most], dtype=torch.int64)


def with_masked(batch: PairBatch, branch: Any, ratio: float, rows: Tensor) -> PairBatch:
    """The batch with some of its claims once more, masked and not entailed.

    Their textual loss is left out: nothing of the text was changed.

    Args:
        branch: the image branch, which says what it looks at, in evaluation mode.
        ratio: share of patches, 0..1. rows: of the batch (`to_mask`).
    """
    if not len(rows):
        return batch
    rows = rows.to(batch.label.device)
    pictures = batch.images[batch.place[rows]]
    training = branch.training
    branch.eval()
    with torch.no_grad():
        hidden = most_seen(branch.cls_attention(pictures).float(), ratio)
        masked = branch.blackened(pictures, hidden)
    branch.train(training)
    theta = batch.theta[rows].clone()
    theta[:, TEXT] = False
    copies = {
        "text": batch.text[rows], "types": batch.types[rows], "told": batch.told[rows],
        "label": torch.zeros_like(rows), "theta": theta,
    }  # fmt: skip
    places = len(batch.images) + torch.arange(len(rows), device=rows.device)
    grown = {name: torch.cat([getattr(batch, name), copy]) for name, copy in copies.items()}
    return replace(batch, images=torch.cat([batch.images, masked]), place=torch.cat([batch.place, places]), **grown)
