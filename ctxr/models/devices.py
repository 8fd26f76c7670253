"""Where a model can run on this machine, and work in passes as large as its memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctxr.errors import CtxrError

if TYPE_CHECKING:
    from torch import Tensor


def devices() -> list[str]:
    """Names of the devices that torch can use here, the processor first, with what is known about each."""
    import torch
    import torchvision.ops  # the two must have been built for one another: a mismatch shows here

    found = [f"cpu ({torch.get_num_threads()} threads)"]
    if torch.cuda.is_available():
        found += [f"cuda:{at} ({torch.cuda.get_device_name(at)})" for at in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found if torchvision.ops is not None else []


NO_MEMORY = ("allocate memory", "out of memory", "not enough memory")
"""How torch says so in plain RuntimeErrors: on a CPU, on MPS, and on a CPU under Windows."""


def is_memory(error: BaseException) -> bool:
    """Whether an error means that there is no memory; on a CPU and on MPS torch says so in words alone."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


@contextmanager
def memory_for(what: str, device: str, hint: str) -> Iterator[None]:
    """Raises CtxrError with `hint` where there is no memory on `device` for what the block builds."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_memory(error):
            raise
        raise CtxrError(f"no memory on {device} for {what}", hint=hint) from error


def in_microbatches(rows: Tensor, at_once: int, device: str, work: Callable[[Tensor], None]) -> None:
    """Do `work` on all rows in their order, `at_once` in a pass; when memory runs out, with half as many from then on.

    Raises CtxrError when there is no memory for a single row.
    """
    while len(rows):
        part = rows[:at_once]
        try:
            work(part)
        except (RuntimeError, MemoryError) as error:
            if not is_memory(error):
                raise
            if len(part) == 1:
                raise CtxrError(
                    f"no memory left on {device} for one query", hint="use a smaller encoder, or --device cpu"
                ) from error
            at_once = len(part) // 2
            continue
        rows = rows[len(part) :]
