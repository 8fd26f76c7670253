"""The processes that train one model together, as torchrun starts them."""

import atexit
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ctxr.engine.units import RankShard, this_process
from ctxr.errors import CtxrError, first_line
from ctxr.models.precision import device_kind, is_memory

T = TypeVar("T")
Gradients = list[Tensor | None]

dist: Any = torch.distributed

LONGEST = timedelta(days=7)
"""How long a process waits: the first one reads pictures, validates and writes alone."""


class LossGradients(NamedTuple):
    """A loss, and its gradient by each weight; None for one that it does not depend on."""

    loss: float
    gradients: Sequence[Tensor | None]


class Processes(RankShard):
    """This process among those that train together, or the only one. All have the same weights, plan the same steps and know the same
    random numbers; of a step each differentiates its own rows, and takes the sum."""

    def most(self, rows: int) -> int:
        """Rows that a process has of so many; the last processes have fewer, or none."""
        return -(-rows // self.world)

    def own(self, rows: Tensor, filled: bool = False) -> Tensor:
        """The rows of this process; `filled` up to as many as the others have by the last row of all."""
        places = torch.arange(self.most(len(rows))) + self.rank * self.most(len(rows))
        return rows[places.clamp(max=len(rows) - 1) if filled else places[places < len(rows)]]

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the processes, in place. Raises CtxrError where one of them has ended."""
        with _reached():
            if self.world > 1:
                dist.all_reduce(values)
        return values

    def gathered(self, filled: Tensor, rows: int) -> Tensor:
        """The vectors [rows, ...] of all processes from those of each."""
        whole = filled.new_zeros(self.world * len(filled), *filled.shape[1:])
        whole[self.rank * len(filled) :][: len(filled)] = filled
        return self.sum(whole)[:rows]

    def summed(self, one: LossGradients, weights: Sequence[Tensor]) -> LossGradients:
        """The sums of losses, and of gradients by each weight."""
        if self.world == 1:
            return one
        known = torch.tensor([one.loss, *(part is not None for part in one.gradients)], dtype=torch.float64)
        loss, *counts = self.sum(known).tolist()
        there = [at for at, count in enumerate(counts) if count]
        parts = [torch.zeros_like(weights[at]) if (part := one.gradients[at]) is None else part for at in there]
        sums = torch.split(self.sum(torch.cat([part.flatten() for part in parts])), [part.numel() for part in parts])
        total = dict(zip(there, sums, strict=True))
        return LossGradients(loss, [total[at].view(w.shape) if at in total else None for at, w in enumerate(weights)])

    def agreed(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises MemoryError in all processes where memory ran out in one of them."""
        done = list[T]()
        try:
            done.append(work())
        except (RuntimeError, MemoryError) as error:
            if self.world == 1 or not is_memory(error):
                raise
        if self.sum(torch.tensor(1 - len(done))):
            raise MemoryError
        return done[0]

    def told(self, value: float | None) -> float | None:
        """What the first process says, in all of them."""
        number = torch.tensor(torch.nan if value is None else value, dtype=torch.float64)
        number = self.sum(torch.zeros_like(number) if self.rank else number)
        return None if number.isnan() else float(number)


ALONE = Processes(0, 1)


def processes(device: str) -> Processes:
    """This process among the others, which it waits for the first time. Raises CtxrError where they do not reach one another."""
    own = this_process()
    if own.world > 1 and not dist.is_initialized():
        if gpu := device_kind(device) == "cuda":
            torch.cuda.set_device(device)
        with _reached():
            dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=LONGEST)
        atexit.register(
            dist.destroy_process_group
        )  # its threads would abort an interpreter that ends after the first process
        with suppress(ValueError):  # outside the main thread
            # the first one says how it ended, the others are silent
            signal.signal(*((signal.SIGINT, signal.SIG_DFL) if own.rank else (signal.SIGTERM, _ended)))
    return Processes(own.rank, own.world)


def _ended(*_: object) -> None:
    raise KeyboardInterrupt("torchrun ended this training, as it does when one of its processes ends")


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        hint = "see what another one says; the same command goes on after the last whole epoch"
        raise CtxrError(
            f"the processes of this training lost one another: {first_line(error).partition('. ')[0]}", hint=hint
        ) from error
