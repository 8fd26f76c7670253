"""Steps of the weights: the optimiser of a recipe, its rate over time, and the fp16 masters of the released code."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from ctxr.models.training.recipe import Recipe

_FUSED = ("cpu", "cuda")
_IN_FP16 = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.MultiheadAttention)
# what the published CLIP keeps in fp16: layers of these kinds, and parameters of these names
_PROJECTIONS = ("text_projection", "proj")


def laid_out_as(weights: Tensor, tensor: Tensor) -> Tensor:
    """`tensor` with the memory layout of `weights`: fused steps go through memory, not indices, and would silently mix up numbers."""
    return tensor if tensor.stride() == weights.stride() else torch.empty_like(weights).copy_(tensor)


def make_optimiser(weights: Iterable[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """Adam with L2, or AdamW, as the recipe says; fused where torch can."""
    weights, betas = list(weights), (recipe.beta1, recipe.beta2)
    fused = all(weight.device.type in _FUSED for weight in weights) or None
    groups: list[dict[str, object]] = [{"params": weights}]
    if recipe.undecayed_vectors:
        matrices, vectors = ([weight for weight in weights if (weight.ndim > 1) == wide] for wide in (True, False))
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, recipe.lr, betas, recipe.eps, recipe.decay, fused=fused)


def rate_at(recipe: Recipe, step: int, steps: int, measures: Sequence[float | None] = ()) -> float:
    """The learning rate of step `step` (from 0) of `steps`, after epochs with these measures."""
    warm = math.ceil(recipe.warmup * steps)
    if step < warm:
        return recipe.lr * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    match recipe.schedule:
        case "linear":
            return recipe.lr * (1 - share)
        case "cosine":
            return recipe.lr * 0.5 * (1 + math.cos(math.pi * share))
    return recipe.rate(measures)


@torch.no_grad()
def round_to_fp16(scorer: nn.Module) -> None:
    """Round each weight that the published CLIP keeps in fp16 (specs A0.6.3)."""
    for module in scorer.modules():
        for name, weights in module.named_parameters(recurse=False):
            if isinstance(module, _IN_FP16) or name in _PROJECTIONS:
                weights.copy_(weights.half().to(weights.dtype))
