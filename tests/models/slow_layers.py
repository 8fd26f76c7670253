"""Layers of a transformer spelled out on the names of a published checkpoint, in float64, one head after the other."""

import torch
from torch import Tensor


class SlowLayers:
    """What the layers of a checkpoint make of rows of items; `state` are its weights by name."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        self.state = {name: value.double() for name, value in state.items()}

    def linear(self, name: str, rows: Tensor) -> Tensor:
        return rows @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, name: str, rows: Tensor, epsilon: float = 1e-12) -> Tensor:
        centred = rows - rows.mean(-1, keepdim=True)
        spread = (centred.pow(2).mean(-1, keepdim=True) + epsilon).sqrt()
        return self.state[f"{name}.weight"] * (centred / spread) + self.state[f"{name}.bias"]


def shares(query: Tensor, key: Tensor, heads: int, penalty: Tensor | float = 0.0) -> list[Tensor]:
    """How much each query [T, D] looks at each key [R, D], less a penalty [R], [T, R] of each head."""
    width = query.shape[1] // heads
    parts = [slice(start, start + width) for start in range(0, query.shape[1], width)]
    return [(query[:, part] @ key[:, part].T / width**0.5 + penalty).softmax(1) for part in parts]


def mixed(looks: list[Tensor], value: Tensor) -> Tensor:
    """Values [R, D] as the heads look at them, [T, D]."""
    return torch.cat([look @ part for look, part in zip(looks, value.chunk(len(looks), dim=1), strict=True)], dim=1)
