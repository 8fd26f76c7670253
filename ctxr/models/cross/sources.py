"""What a name of a cross-encoder stands for: a model that can be built, and what it wants to be given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ctxr.models.preprocess import Preprocess


@dataclass(frozen=True)
class CrossSource:
    """A cross-encoder that can be built, as often as wanted, always the same.

    Attributes:
        name: as it was asked for.
        fingerprint: sha256 in hex over weights and config; independent of the file that the weights came from.
        width: D of a pair.
        looks_at: "pixels" [N, 3, H, W], or "regions" [N, R, features + BOX].
        features: F of a region; 0 for pixels.
        build: makes the module (a `ctxr.models.pairs.PairEncoder`) on the CPU, fp32, in evaluation mode.
        tokenize: texts to int64 token ids [B, T], 0 where there is none.
        preprocess: what is done to a picture first; None for regions.
    """

    name: str
    fingerprint: str
    width: int
    looks_at: Literal["pixels", "regions"]
    features: int
    build: Callable[[], nn.Module]
    tokenize: Callable[[Sequence[str]], Tensor]
    preprocess: Preprocess | None
