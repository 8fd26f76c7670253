"""What the candidates of many queries attend to."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ctxr.models.clip import ClipScorer
from ctxr.models.context import attention_of
from ctxr.models.pairs import PairScorer
from ctxr.models.training.questions import Questions


@torch.no_grad()
def attend_all(
    scorer: ClipScorer | PairScorer, questions: Questions, wanted: Sequence[int], at_once: int, device: str = "cpu"
) -> Tensor:
    """float32 [n, K, K] on the CPU: how much each candidate (rows) looks at each (columns) in the last layer, mean of its heads.

    Args:
        scorer: with a head, for what the questions hold; in evaluation or not, it is looked at as in evaluation.
        questions: with vectors of images and texts. wanted: n rows of them. at_once: queries in one pass. device: where the scorer lives.

    Raises ValueError for a scorer without a head.
    """
    if scorer.head is None:
        raise ValueError("a scorer without a head attends to nothing")
    count = questions.mask.shape[1]
    found = [torch.zeros(0, count, count)]
    for rows in torch.split(torch.tensor(wanted, dtype=torch.long), at_once):
        batch = questions.batch(rows).to(device)
        shares = attention_of(scorer.head, scorer.pairs(batch), batch.mask, batch.ordered)
        found.append(shares[:, -1].mean(1).float().cpu())
    return torch.cat(found)
