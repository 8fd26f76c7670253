"""The processes that train one model together, as torchrun starts them."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import current_thread, main_thread
from typing import Any, TypeVar

import torch
from torch import Tensor

from ctxr.engine.units import RankShard, this_process
from ctxr.errors import CtxrError, UsageError, first_line
from ctxr.models.precision import is_memory, kind_of

T = TypeVar("T")
Gradients = list[Tensor | None]

dist: Any = torch.distributed

LONGEST = timedelta(days=7)
"""A process waits so long for the others: the first one reads pictures, validates and writes alone."""


@dataclass(frozen=True)
class Processes:
    """This process among those that train together, or the only one. All have the same weights, plan the same steps and know the same
    random numbers; of a step each differentiates its own rows, and takes the sum."""

    rank: int = 0
    world: int = 1

    def most(self, rows: int) -> int:
        """Rows that a process has of so many; the last processes have fewer, or none."""
        return -(-rows // self.world)

    def own(self, rows: Tensor) -> Tensor:
        """The rows of this process."""
        return rows[self.rank * self.most(len(rows)) :][: self.most(len(rows))]

    def filled(self, rows: Tensor) -> Tensor:
        """The same, as many in each process: the last row stands for those that are lacking."""
        places = torch.arange(self.most(len(rows))) + self.rank * self.most(len(rows))
        return rows[places.clamp(max=len(rows) - 1)]

    def gathered(self, filled: Tensor, rows: int) -> Tensor:
        """The vectors [rows, ...] of all processes from those of each."""
        if self.world == 1:
            return filled
        parts = [torch.empty_like(filled) for _ in range(self.world)]
        _call(dist.all_gather, parts, filled.contiguous())
        return torch.cat(parts)[:rows]

    def summed(
        self, loss: float, gradients: Sequence[Tensor | None], weights: Sequence[Tensor]
    ) -> tuple[float, Sequence[Tensor | None]]:
        """The sums over the processes of their losses and of their gradients by each weight."""
        if self.world == 1:
            return loss, gradients
        known = torch.tensor([loss, *(one is not None for one in gradients)], dtype=torch.float64)
        _call(dist.all_reduce, known)
        total, there = Gradients([None] * len(weights)), known[1:].nonzero().flatten().tolist()
        parts = [(torch.zeros_like(weights[at]) if (one := gradients[at]) is None else one).flatten() for at in there]
        flat = torch.cat(parts)
        _call(dist.all_reduce, flat)
        for at, part in zip(there, torch.split(flat, [len(part) for part in parts]), strict=True):
            total[at] = part.view(weights[at].shape)
        return float(known[0]), total

    def agreed(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises MemoryError in all processes where memory ran out in one of them."""
        if self.world == 1:
            return work()
        done = list[T]()
        try:
            done.append(work())
        except (RuntimeError, MemoryError) as error:
            if not is_memory(error):
                raise
        missing = torch.tensor(1 - len(done))
        _call(dist.all_reduce, missing)
        if missing:
            raise MemoryError
        return done[0]

    def told(self, value: float | None) -> float | None:
        """What the first process says, in all of them."""
        if self.world == 1:
            return value
        number = torch.tensor(torch.nan if value is None else value, dtype=torch.float64)
        _call(dist.broadcast, number, 0)
        return None if number.isnan() else float(number)

    @contextmanager
    def chance(self, device: str, *about: int) -> Iterator[None]:
        """Where there are several processes, random numbers that follow from what they are for alone; the others stay as they were."""
        several = self.world > 1
        with torch.random.fork_rng([device] if several and kind_of(device) == "cuda" else [], enabled=several):
            if several:
                torch.manual_seed(hash(about))
            yield


ALONE = Processes()


def processes(device: str) -> Processes:
    """This process among the others, which are waited for the first time.

    Raises UsageError for an environment or a device that cannot be meant, CtxrError where processes do not reach one another.
    """
    one: RankShard = this_process()
    if one.world > 1 and not dist.is_initialized():
        if (kind := kind_of(device)) not in ("cpu", "cuda"):
            raise UsageError(f"one process alone can train on {kind}", hint="leave out torchrun, or use --device cpu")
        if kind == "cuda":
            torch.cuda.set_device(device)
        _call(dist.init_process_group, "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo", timeout=LONGEST)
        if current_thread() is main_thread():
            # the first one says what happened; nothing of the others is shown
            signal.signal(signal.SIGTERM, signal.SIG_DFL if one.rank else _ended)
            signal.signal(signal.SIGINT, signal.SIG_DFL if one.rank else signal.default_int_handler)
    return Processes(one.rank, one.world)


def _ended(*_: object) -> None:
    raise KeyboardInterrupt("torchrun ended this training, as it does when one of its processes ends")


def _call(work: Callable[..., object], *args: object, **options: object) -> None:
    try:
        work(*args, **options)
    except (RuntimeError, ValueError) as error:
        hint = "see what another one says; the same command goes on after the last whole epoch"
        raise CtxrError(f"the processes of this training lost one another: {first_line(error)}", hint=hint) from error
