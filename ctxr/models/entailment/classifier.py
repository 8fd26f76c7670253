"""The classifier: text branch and image branch, gated into one, with three heads, and masked negatives (paper, section 3).

Letters: B claims, N pictures, P patches, T tokens, D width of h^t, h^v and h^m.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from ctxr.models.entailment.recipe import IMAGE, JOINT, TEXT
from ctxr.models.layers import cut


@dataclass(frozen=True)
class PairBatch:
    """Claims of all kinds in one batch. A picture is in it once, however many claims are about it.

    Attributes:
        images: [N, ...] as the image branch takes them. place: [B] rows of `images`; that of a black one where there is none.
        text, types: [B, T] ids and types of "[CLS] premise [SEP] hypothesis [SEP]", then 0; or h^t of a frozen branch, float [B, D].
        hypotheses: [B, U] ids for the image branch. label: [B] 1 entailed, 0 not. theta: [B, 3] bool, which losses count.
    """

    images: Tensor
    place: Tensor
    text: Tensor
    types: Tensor
    hypotheses: Tensor
    label: Tensor
    theta: Tensor

    def to(self, device: str) -> "PairBatch":
        """The same on another device."""
        return PairBatch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


class Gate(nn.Module):
    """sigma(W h + b) * h; one number for all of h, or one for each of its dimensions."""

    def __init__(self, width: int, scalar: bool) -> None:
        super().__init__()
        self.open = nn.Linear(width, 1 if scalar else width)

    def forward(self, hidden: Tensor) -> Tensor:
        """[B, D] of [B, D]."""
        return cast("Tensor", self.open(hidden).sigmoid() * hidden)


class EntailmentClassifier(nn.Module):
    """h^m = g^t * h^t + g^v * h^v, and a head on each of h^t, h^v and h^m.

    `text`: ids and types [B, T] to h^t [B, D]. `image`: pictures, rows and hypotheses to h^v [B, D] (`FusionBranch`). One may be None.
    `inner`: width of the heads' hidden layers; 0 for D, because the paper names none. Raises ValueError for branches of different widths.
    """

    def __init__(self, text: Any, image: Any, inner: int = 0, scalar_gate: bool = False, dropout: float = 0.1) -> None:
        super().__init__()
        widths = {branch.width for branch in (text, image) if branch is not None}
        if len(widths) != 1:
            raise ValueError(f"the branches are {sorted(widths)} wide: they are added, so both must be as wide")
        width = widths.pop()
        inner = inner or width
        self.text, self.image, self.width = text, image, width
        used = [TEXT] * (text is not None) + [IMAGE] * (image is not None)
        self.heads = nn.ModuleDict()
        for kind in [*used, JOINT] if len(used) == 2 else used:
            first, second, last = nn.Linear(width, inner), nn.Linear(inner, inner), nn.Linear(inner, 2)
            self.heads[str(kind)] = nn.Sequential(nn.Dropout(dropout), first, nn.ReLU(), second, nn.ReLU(), last)
        self.gates = nn.ModuleDict({str(kind): Gate(width, scalar_gate) for kind in used} if len(used) == 2 else {})

    def forward(self, batch: PairBatch) -> Tensor:
        """Logits [B, 3, 2], not entailed first; zeros of a head that no loss needs."""
        logits = torch.zeros(len(batch.label), 3, 2, device=batch.label.device)
        theta = batch.theta
        hidden: dict[int, Tensor] = {}
        for kind in (TEXT, IMAGE):
            rows = (theta[:, kind] | theta[:, JOINT]).nonzero().flatten()
            if str(kind) in self.heads and len(rows):
                if kind == IMAGE:
                    used, positions = torch.unique(batch.place[rows], return_inverse=True)
                    part = self.image(batch.images[used], positions, cut(batch.hypotheses[rows]))
                elif batch.text.is_floating_point():
                    part = batch.text[rows]
                else:
                    ids = cut(batch.text[rows])
                    part = self.text(ids, batch.types[rows, : ids.shape[1]])
                hidden[kind] = part.new_zeros(len(theta), self.width).index_put((rows,), part)
                own = self.heads[str(kind)](part).to(logits.dtype)
                logits = logits.index_put((rows, torch.full_like(rows, kind)), own)
        both = theta[:, JOINT].nonzero().flatten()
        if self.gates and len(both):
            joint = sum(self.gates[str(kind)](hidden[kind][both]) for kind in (TEXT, IMAGE))
            joint_logits = self.heads[str(JOINT)](joint).to(logits.dtype)
            logits = logits.index_put((both, torch.full_like(both, JOINT)), joint_logits)
        return logits


def to_mask(label: Tensor, theta: Tensor, place: Tensor, most: int) -> Tensor:
    """Which of the claims [B] of a whole step are masked: up to `most` positives that have a picture, int64, in their order.

    Every picture is masked once, for the first claim about it.

    >>> theta = torch.tensor([[False, True, False]] * 4)
    >>> to_mask(torch.tensor([0, 1, 1, 1]), theta, torch.tensor([1, 2, 2, 3]), 4).tolist()
    [1, 3]
    """
    positive = ((label == 1) & theta[:, IMAGE:].any(1)).nonzero().flatten().tolist()
    chosen = {int(place[row]): row for row in reversed(positive)}
    return torch.tensor(sorted(chosen.values())[:most], dtype=torch.int64)


def with_masked(batch: PairBatch, branch: Any, ratio: float, rows: Tensor) -> PairBatch:
    """The batch with some of its claims (`to_mask`) once more, masked and not entailed, without their textual loss.

    `branch`: the image branch, whose attention decides which `ratio` of the patches is masked.
    """
    if not len(rows):
        return batch
    rows = rows.to(batch.label.device)
    training = branch.training
    branch.eval()
    with torch.no_grad():
        masked = branch.blackened(batch.images[batch.place[rows]], ratio)
    branch.train(training)
    theta = batch.theta[rows].clone()
    theta[:, TEXT] = False
    copies = {
        "text": batch.text[rows], "types": batch.types[rows], "hypotheses": batch.hypotheses[rows],
        "label": torch.zeros_like(rows), "theta": theta,
    }  # fmt: skip
    positions = len(batch.images) + torch.arange(len(rows), device=rows.device)
    grown = {name: torch.cat([getattr(batch, name), copy]) for name, copy in copies.items()}
    return replace(batch, images=torch.cat([batch.images, masked]), place=torch.cat([batch.place, positions]), **grown)
