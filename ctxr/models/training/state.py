"""The state of a training after an epoch, in one safetensors file that is written atomically."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ctxr.store.atomic import DRY_RUN, disk_errors

_IN_FP16 = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.MultiheadAttention)
# what the published CLIP keeps in fp16: layers of these kinds, and parameters of these names
_PROJECTIONS = ("text_projection", "proj")


def laid_out_as(weights: Tensor, tensor: Tensor) -> Tensor:
    """`tensor` with the memory layout of `weights`: fused steps, which ignore indices, would mix up numbers."""
    return tensor if tensor.stride() == weights.stride() else torch.empty_like(weights).copy_(tensor)


@torch.no_grad()
def round_to_fp16(scorer: nn.Module) -> None:
    """Round each weight that the published CLIP keeps in fp16."""
    for module in scorer.modules():
        for name, weights in module.named_parameters(recurse=False):
            if isinstance(module, _IN_FP16) or name in _PROJECTIONS:
                weights.copy_(weights.half().to(weights.dtype))


@dataclass
class Epoch:
    """Metrics of one epoch, from 1; `accuracy` or another measure is None without validation."""

    epoch: int
    loss: float
    accuracy: float | None
    seconds: float
    figures: dict[str, float] = field(default_factory=dict)


@dataclass
class TrainingState:
    """Every epoch so far, the number of the best, and how many queries fit into memory."""

    history: list[Epoch] = field(default_factory=list)
    best: int | None = None
    at_once: int = 0

    @property
    def epochs(self) -> int:
        """Epochs of training that are done."""
        return len(self.history)


def save_tensors(path: Path, tensors: dict[str, Tensor], notes: Mapping[str, object]) -> None:
    """Replace `path` in one step, unless nothing may be written; `notes` go into the header as JSON."""
    if DRY_RUN.get():
        return
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        passing = path.with_name(f".{path.name}.part")
        # a copy of each, as tied weights share memory, which safetensors refuses
        whole = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        save_file(whole, passing, metadata={"notes": json.dumps(notes)})
        passing.replace(path)


def save_state(
    path: Path, scorer: nn.Module, optimiser: torch.optim.Optimizer, progress: TrainingState, key: str
) -> None:
    """Save everything that the next epoch starts from, with gradients for its first step."""
    tensors = {f"model.{name}": weights for name, weights in scorer.state_dict().items()}
    for number, kept in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in kept.items()}
    named = scorer.named_parameters()
    tensors |= {f"gradient.{name}": weights.grad for name, weights in named if weights.grad is not None}
    save_tensors(path, tensors, {"key": key, "progress": asdict(progress)})


def load_state(path: Path, scorer: nn.Module, optimiser: torch.optim.Optimizer, key: str) -> TrainingState | None:
    """Restore scorer and optimiser; None without a usable state of this `key`."""
    try:
        with safe_open(path, "pt") as opened:
            notes = json.loads((opened.metadata() or {})["notes"])
            if notes["key"] != key:
                return None
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no dict)
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError):
        return None  # not there, or damaged: training starts again
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "gradient": {}}
    for name, tensor in tensors.items():
        kind, _, tensor_name = name.partition(".")
        parts[kind][tensor_name] = tensor
    scorer.load_state_dict(parts["model"])
    kept: dict[int, dict[str, Tensor]] = {}
    stepped = [weights for group in optimiser.param_groups for weights in group["params"]]
    for name, tensor in parts["optimiser"].items():
        number, _, value = name.partition(".")
        weights = stepped[int(number)]
        same = tensor.shape == weights.shape
        kept.setdefault(int(number), {})[value] = laid_out_as(weights, tensor.to(weights)) if same else tensor
    optimiser.load_state_dict({"state": kept, "param_groups": optimiser.state_dict()["param_groups"]})
    for name, weights in scorer.named_parameters():
        if name in parts["gradient"]:
            weights.grad = laid_out_as(weights, parts["gradient"][name].to(weights.device))
    progress = notes["progress"]
    return TrainingState([Epoch(**row) for row in progress["history"]], progress["best"], progress["at_once"])
