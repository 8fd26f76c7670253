"""Gradients of a loss over all vectors of a batch that is too large for one pass (GradCache, arXiv:2101.06983).

A loss that compares everything with everything cannot be accumulated part by part. But its gradient by the vectors is small, and
from there each part can go back by itself: vectors are computed once without a graph, then the loss and its gradient by the vectors,
then each part again with the same chance and with its graph. That is exact, dropout included, for one more forward pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Gradients = list[Tensor | None]


Encode = Callable[[], Tensor]
"""Makes the vectors [n, D] of some rows of a batch, by chance as torch has it at that time."""


def cached_gradients(
    towers: Sequence[Sequence[Encode]],
    loss_of: Callable[[Sequence[Tensor]], Tensor],
    weights: Sequence[Tensor],
    device: str = "cpu",
) -> tuple[float, Gradients]:
    """The loss of a whole batch and its gradient by each weight, None for one that it does not depend on.

    Args:
        towers: the parts of each tower (images, texts).
        loss_of: the loss of the vectors of each tower, [N, D] of all of its parts in order.
        weights: what learns; the loss may also depend on some of them directly, as on a temperature.
        device: where the parts draw their chance, beside the CPU.
    """
    if all(len(parts) <= 1 for parts in towers):
        whole = loss_of([_joined([encode() for encode in parts]) for parts in towers])
        return float(whole.detach()), list(torch.autograd.grad(whole, weights, allow_unused=True))
    states: list[list[_Chance]] = []
    vectors: list[Tensor] = []
    with torch.no_grad():
        for parts in towers:
            made, before = [], []
            for encode in parts:
                before.append(_Chance.now(device))
                made.append(encode())
            states.append(before)
            vectors.append(_joined(made).detach().requires_grad_())
    loss = loss_of(vectors)
    found = torch.autograd.grad(loss, [*vectors, *weights], allow_unused=True)
    total: Gradients = list(found[len(vectors) :])
    for parts, before, gradient in zip(towers, states, found, strict=False):
        start = 0
        for encode, chance in zip(parts, before, strict=True):
            with chance.again():
                made_again = encode()
            if gradient is not None and made_again.requires_grad:
                own = gradient[start : start + len(made_again)]
                _add(total, torch.autograd.grad(made_again, weights, own, allow_unused=True))
            start += len(made_again)
    return float(loss.detach()), total


@dataclass(frozen=True)
class _Chance:
    """What torch would draw next, on the CPU and on the device."""

    device: str
    cpu: Tensor
    other: Tensor | None

    @classmethod
    def now(cls, device: str) -> "_Chance":
        other = torch.cuda.get_rng_state(device) if device.startswith("cuda") else None
        return cls(device, torch.get_rng_state(), other)

    def again(self) -> "_Replay":
        return _Replay(self)


class _Replay:
    """Within the block torch draws what it drew then; after it, what it would have drawn without the block."""

    def __init__(self, chance: _Chance) -> None:
        self._then, self._before = chance, _Chance.now(chance.device)

    def __enter__(self) -> None:
        _restore(self._then)

    def __exit__(self, *_: object) -> None:
        _restore(self._before)


def _restore(chance: _Chance) -> None:
    torch.set_rng_state(chance.cpu)
    if chance.other is not None:
        torch.cuda.set_rng_state(chance.other, chance.device)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _add(total: Gradients, more: Sequence[Tensor | None]) -> None:
    for place, gradient in enumerate(more):
        if gradient is not None:
            known = total[place]
            total[place] = gradient if known is None else known + gradient
