"""Scores, pair features, losses and accuracy of many queries."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.models.precision import choose_precision, device_kind, in_microbatches
from ctxr.models.scorers import Batch, ClipScorer, PairScorer, attention_of
from ctxr.models.training.examples import ExampleTable


@torch.no_grad()
def score_all(
    scorer: nn.Module,
    questions: ExampleTable,
    at_once: int,
    device: str = "cpu",
    bf16: bool = False,
    *,
    advance: Callable[[float], None] | None = None,
    seed: int | None = None,
) -> Tensor:
    """float32 [Q, K] on the CPU, -inf where there is no candidate; queries of one set are scored together.

    `scorer`: in any mode, on `device`; `seed`: of its dropout. `at_once`: queries in one pass. `bf16`: compute in it by autocast.
    `advance`: called after each pass with its number of queries.
    """
    scores = torch.full(questions.mask.shape, float("-inf"))

    def score(rows: Tensor) -> None:
        with torch.autocast(device_kind(device), torch.bfloat16, enabled=bf16):
            scores[rows] = scorer(questions.batch(rows).to(device)).float().cpu()
        if advance is not None:
            advance(len(rows))

    gpus = list(range(torch.cuda.device_count())) if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=gpus, enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        in_microbatches(questions.sets.sort(stable=True).indices, at_once, device, score)
    return scores


def in_bf16(precision: str, device: str) -> bool:
    """Whether a recipe's precision means autocast on this device."""
    # on a CPU autocast gains or loses by the architecture, so auto leaves it out
    return precision == "bf16" or (
        precision == "auto" and device_kind(device) == "cuda" and choose_precision("auto", device, 0) == "bf16"
    )


def accuracy_of(scores: Tensor, targets: Tensor) -> float | None:
    """The share of queries, 0..1, whose target [Q, K] scores highest; None without a known target.

    A tie of n candidates counts 1/n.
    """
    known = targets.any(1)
    if not bool(known.any()):
        return None
    top = scores[known] == scores[known].amax(1, keepdim=True)
    return float(((top & targets[known]).sum(1).double() / top.sum(1)).mean())


def loss_of(scores: Tensor, batch: Batch, kind: str, weak: Tensor | None = None, soft: float | None = 0.0) -> Tensor:
    """The loss of scores [B, K], summed over queries with known targets.

    Args:
        kind: "softmax", cross-entropy over the candidates of a query, whose targets are right in equal shares; or "binary",
            cross-entropy of each candidate by itself, averaged over the candidates of a query.
        weak: bool [B, K], candidates beside the targets that were found to be right too.
        soft: as how much of a positive each of these counts: 0 as a negative; None leaves them out.
    """
    counted, labels, one_each = batch.mask, batch.targets.to(scores.dtype), bool((batch.targets.sum(1) == 1).all())
    if weak is not None and soft is None:
        scores, counted = scores.masked_fill(weak, float("-inf")), counted & ~weak
    if weak is not None and soft:
        labels, one_each = labels + soft * weak.to(scores.dtype), False
    if kind == "softmax":
        if one_each:
            return functional.cross_entropy(scores, batch.targets.int().argmax(1), reduction="sum")
        logs = scores.log_softmax(1).masked_fill(labels == 0, 0.0)
        return -(labels / labels.sum(1, keepdim=True) * logs).sum()
    logits = torch.where(counted, scores, 0.0)
    losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none") * counted
    return (losses.sum(1) / counted.sum(1)).sum()


@torch.no_grad()
def features_of(
    encoder: Any, questions: ExampleTable, rows: Sequence[int], at_once: int, device: str, *, bf16: bool
) -> npt.NDArray[np.float32]:
    """Pair features [n, K, D] of some queries by a frozen encoder, 0 where there is no candidate."""

    def encode(part: Tensor) -> Tensor:
        batch = questions.batch(part).to(device)
        with torch.autocast(device_kind(device), torch.bfloat16, enabled=bf16):
            pairs: Tensor = encoder.pairs(batch.images, batch.texts, batch.candidates, batch.mask)
        return (pairs.float() * batch.mask[..., None]).cpu()

    parts = in_microbatches(torch.tensor(rows, dtype=torch.int64), at_once, device, encode)
    return np.asarray(torch.cat(parts).numpy())


@torch.no_grad()
def attend_all(
    scorer: ClipScorer | PairScorer, questions: ExampleTable, wanted: Sequence[int], at_once: int, device: str = "cpu"
) -> Tensor:
    """float32 [n, K, K] on the CPU: attention of candidates (rows) in the last layer, mean over heads.

    `scorer`: with a head, in any mode. `questions`: with vectors of images and texts. `wanted`: n rows of them.
    Raises ValueError for a scorer without a head.
    """
    if scorer.head is None:
        raise ValueError("a scorer without a head attends to nothing")
    count = questions.mask.shape[1]
    attention = [torch.zeros(0, count, count)]
    for rows in torch.split(torch.tensor(wanted, dtype=torch.long), at_once):
        batch = questions.batch(rows).to(device)
        shares = attention_of(scorer.head, scorer.pairs(batch), batch.mask, batch.ordered)
        attention.append(shares[:, -1].mean(1).float().cpu())
    return torch.cat(attention)
