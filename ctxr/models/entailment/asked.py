"""A text branch that stays as it is: what it says of premise and hypothesis is asked once, and heads learn from that."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ctxr.models.entailment.fusion import cut
from ctxr.models.entailment.sources import TextSource

if TYPE_CHECKING:
    from ctxr.models.entailment.training import Branches

AT_ONCE = 16
"""Claims in one pass, those of like length together."""


class AskedBranch(nn.Module):
    """h^t that is known beforehand: no weights.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, told: Tensor, types: Tensor) -> Tensor:
        """h^t [B, D], as it is."""
        return told


def asked_source(source: TextSource, device: str = "cpu") -> TextSource:
    """The branch of `source` as it is; the encoder is built when it is first asked, and runs on `device`."""
    made: list[nn.Module] = []

    @torch.no_grad()
    def ask(premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tensor, Tensor]:
        if not made:
            made.append(source.build().to(device).eval())
        found = torch.zeros(len(premises), source.width)
        order = sorted(range(len(premises)), key=lambda row: len(premises[row]) + len(hypotheses[row]))
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            ids, types = source.tokenize([premises[row] for row in rows], [hypotheses[row] for row in rows])
            ids = cut(ids)
            found[rows] = made[0](ids.to(device), types[:, : ids.shape[1]].to(device)).float().cpu()
        return found, torch.zeros(len(premises), 1, dtype=torch.int64)

    fingerprint = hashlib.sha256(f"{source.fingerprint} as it is".encode()).hexdigest()
    return TextSource(source.name, fingerprint, source.width, lambda: AskedBranch(source.width), ask, asked=True)


def looking_up(
    texts: Sequence[tuple[str, str]], said: npt.NDArray[np.float32], branches: Branches
) -> Callable[[Sequence[str], Sequence[str]], tuple[Tensor, Tensor, Tensor]]:
    """As `Branches.tokenize`, from what was said [N, D] of premises and hypotheses; zeros for others, whose text counts in no loss."""
    known = torch.from_numpy(np.concatenate([said, np.zeros((1, said.shape[1]), np.float32)]))
    row = {pair: number for number, pair in enumerate(texts)}

    def tokenize(premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        rows = [row.get(pair, len(texts)) for pair in zip(premises, hypotheses, strict=True)]
        nothing = torch.zeros(len(rows), 1, dtype=torch.int64)
        return known[rows], nothing, branches.image.tokenize(hypotheses) if branches.image else nothing

    return tokenize
