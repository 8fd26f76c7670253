"""Devices and number formats in which an encoder runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeVar

from ctxr.engine.options import DEVICE
from ctxr.errors import CtxrError, UsageError

if TYPE_CHECKING:
    from torch import Tensor, nn

T = TypeVar("T")


def devices() -> list[str]:
    """Devices that torch can use here, the processor first, each with its threads or its name."""
    import torch
    import torchvision.ops  # fails where the two were not built for one another

    names = [f"cpu ({torch.get_num_threads()} threads)"]
    if torch.cuda.is_available():
        names += [f"cuda:{at} ({torch.cuda.get_device_name(at)})" for at in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names if torchvision.ops is not None else []


# messages of torch's RuntimeErrors on a CPU, on MPS, and on a CPU under Windows
NO_MEMORY = ("allocate memory", "out of memory", "not enough memory")


def is_memory(error: BaseException) -> bool:
    """Whether an error means that there is no memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


@contextmanager
def memory_for(what: str, device: str, hint: str) -> Iterator[None]:
    """Raises CtxrError with `hint` where `device` has no memory for what the block builds."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_memory(error):
            raise
        raise CtxrError(f"no memory on {device} for {what}", hint=hint) from error


def in_microbatches(rows: Tensor, at_once: int, device: str, work: Callable[[Tensor], T]) -> list[T]:
    """`work` on all rows in order, `at_once` in a pass, halved when memory runs out. Raises CtxrError for one row."""
    done: list[T] = []
    while len(rows):
        part = rows[:at_once]
        try:
            done.append(work(part))
            rows = rows[len(part) :]
        except (RuntimeError, MemoryError) as error:
            if not is_memory(error):
                raise
            if len(part) == 1:
                hint = "use a smaller encoder, or --device cpu"
                raise CtxrError(f"no memory left on {device} for one query", hint=hint) from error
            at_once = len(part) // 2
    return done


PRECISIONS = ("auto", "fp32", "bf16")
BF16_PARAMETERS = 80_000_000
"""From ViT-B upwards (86 to 88 million) bf16 gains on a CPU; below, casts take as long."""


def choose_device(device: str = "auto") -> str:
    """ "cpu", "cuda", "cuda:N" or "mps"; `auto` prefers accelerators, and torchrun gives each process the GPU of its LOCAL_RANK.
    Raises UsageError for an absent one."""
    import torch

    DEVICE.require(lambda: "--device {}", device)
    alone = "WORLD_SIZE" not in os.environ
    mps = alone and torch.backends.mps.is_available()  # processes reach one another on GPUs and processors alone
    available = {"cuda": torch.cuda.is_available(), "mps": mps, "cpu": True}
    if device == "auto":
        device = next(name for name, is_there in available.items() if is_there)
    if device == "cuda" and not alone and (own := os.environ.get("LOCAL_RANK", "")).isdecimal():
        device = f"cuda:{own}"
    kind, _, number = device.partition(":")
    if not available[kind] or (number and int(number) >= torch.cuda.device_count()):
        raise UsageError(f"device {device} is not available on this machine", hint="use --device auto or --device cpu")
    return device


def device_kind(device: str) -> str:
    """A device without its number."""
    return device.partition(":")[0]


def choose_precision(precision: str, device: str, parameters: int) -> str:
    """The precision of an image tower with so many parameters on a device.

    "auto" takes bf16 where it is faster: on GPUs that compute in it, and on CPUs with bf16 matrix units for towers of ViT-B's size
    or larger. Raises UsageError for an unknown precision.
    """
    import torch

    if precision not in PRECISIONS:
        raise UsageError(f"unknown precision {precision!r}", hint=f"choose one of {', '.join(PRECISIONS)}")
    if precision != "auto":
        return precision
    rounded = device == "cpu" and parameters >= BF16_PARAMETERS and has_bf16_units()
    if device_kind(device) == "cuda":
        rounded = torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if rounded else "fp32"


def has_bf16_units() -> bool:
    """Whether this CPU multiplies bf16 matrices itself (AVX512-BF16 or AMX), by its flags."""
    import torch

    if (flags := getattr(torch.cpu, "get_capabilities", None)) is not None:
        supported = flags()
        return bool(supported.get("avx512_bf16") or supported.get("amx_bf16"))
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(ask is not None and bool(ask()) for ask in checks)


@lru_cache(maxsize=1)
def cpu_matmul_precision() -> Literal["highest", "medium"]:
    """The setting of `torch.set_float32_matmul_precision` for fp32 on this CPU.

    "medium" makes torch give fp32 products to oneDNN: up to twice as fast on x86, and as exact as before, except where oneDNN
    computes them in bf16 (AMX). So it is tried once on a product of a transformer's shape.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    states = torch.randn(64, 768, generator=generator)
    weights = torch.randn(768, 768, generator=generator)
    exact = states.double() @ weights.double()
    with float32_matmul("medium"):
        error = (states @ weights - exact).norm() / exact.norm()
    # fp32 sums over 768 terms err by 1e-7 to 1e-6, bf16 operands by 2e-3
    return "medium" if float(error) < 1e-5 else "highest"


@contextmanager
def float32_matmul(setting: str) -> Iterator[None]:
    """Set torch's fp32 matrix precision inside the block; convolutions on a GPU avoid TF32."""
    import torch

    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision(setting)
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@contextmanager
def half_the_threads() -> Iterator[None]:
    """Let torch use half of this thread's threads inside the block: it waits for them by spinning, which takes the others from decoding."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before // 2))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def folded(tower: nn.Module, size: tuple[int, int]) -> nn.Module:
    """An image tower for pictures of that size as a CPU computes it fastest: batch norms are folded into the convolutions before them,
    and channels lie last. One without batch norms, or whose vectors would change by more than rounding, stays as it is."""
    import torch
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    if not any(isinstance(module, nn.BatchNorm2d) for module in tower.modules()):
        return tower
    fast = deepcopy(tower)
    for module in [*fast.modules()]:
        for (first, conv), (second, norm) in pairwise([*module.named_children()]):
            if not isinstance(conv, nn.Conv2d) or not isinstance(norm, nn.BatchNorm2d):
                continue
            if conv.out_channels == norm.num_features:
                setattr(module, first, fuse_conv_bn_eval(conv, norm))
                # timm's batch norms apply the activation too
                setattr(module, second, getattr(norm, "act", nn.Identity()))
    fast = fast.to(memory_format=torch.channels_last)
    probe = torch.rand(1, 3, *size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        one, other = (nn.functional.normalize(each(probe)) for each in (tower, fast))
    return fast if torch.allclose(one, other, rtol=0, atol=1e-5) else tower
