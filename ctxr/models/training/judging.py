"""Scores of many queries, and how often the target has the highest."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ctxr.models.precision import choose_precision
from ctxr.models.training.passes import in_passes
from ctxr.models.training.questions import Questions


@torch.no_grad()
def score_all(
    scorer: nn.Module,
    questions: Questions,
    at_once: int,
    device: str = "cpu",
    bf16: bool = False,
    advance: Callable[[float], None] | None = None,
    seed: int | None = None,
) -> Tensor:
    """float32 [Q, K] on the CPU, -inf where there is no candidate.

    Args:
        scorer: as it is, in evaluation mode or not.
        questions: what to score; queries of one set stand together, so its images are looked at once.
        at_once: queries in one pass, fewer where memory runs out.
        device: where the scorer lives. bf16: compute in it by autocast.
        advance: told of every pass how many queries are done.
        seed: of what a scorer that is not in evaluation mode draws; None to draw on from wherever torch is.
    """
    scores = torch.full(questions.mask.shape, float("-inf"))

    def score(rows: Tensor) -> None:
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            scores[rows] = scorer(questions.batch(rows).to(device)).float().cpu()
        if advance is not None:
            advance(len(rows))

    gpus = list(range(torch.cuda.device_count())) if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=gpus, enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        in_passes(questions.sets.sort(stable=True).indices, at_once, device, score)
    return scores


def in_bf16(precision: str, device: str) -> bool:
    """Whether a recipe's precision means autocast on this device."""
    # on a CPU autocast wins or loses by the architecture: it has to be asked for
    return precision == "bf16" or (
        precision == "auto" and device == "cuda" and choose_precision("auto", "cuda", 0) == "bf16"
    )


def resolved(precision: str, device: str) -> str:
    """A recipe's precision as an encoder of vectors takes it, so that it trains and scores in the same: "fp32" or "bf16"."""
    return "bf16" if in_bf16(precision, device) else "fp32"


def accuracy_of(scores: Tensor, target: Tensor) -> float | None:
    """Share of queries 0..1 whose target scores highest; of n candidates that share the top each counts 1/n.

    None where no query has a known target. `scores` [Q, K], `target` [Q] with -1 where unknown.
    """
    known = target >= 0
    if not bool(known.any()):
        return None
    top = scores[known] == scores[known].amax(1, keepdim=True)
    hit = top.gather(1, target[known][:, None]).squeeze(1)
    return float((hit.double() / top.sum(1)).mean())
