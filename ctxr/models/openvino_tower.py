"""OpenVINO as the engine of an image tower on a CPU, and the choice of an engine by its time."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ctxr.errors import CtxrError, first_line
from ctxr.models.wheels import cache_folder
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of

if TYPE_CHECKING:
    from torch import Tensor, nn

GAIN = 1.15
"""How many times as fast as torch an engine must be; less is noise of the measurement."""


def openvino() -> ModuleType:
    """The package, silenced."""
    # openvino reports every import and conversion to its makers through this package, where it is installed
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return import_module("openvino")


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Raises CtxrError for what a broken library, or a tower that it cannot convert, raises."""
    try:
        yield
    except Exception as error:
        message = f"OpenVINO does not work here, or not with this image tower: {first_line(error)}"
        raise CtxrError(message, hint="use --precision fp32") from error


class OpenVinoTower:
    """An image tower, compiled for each number of rows. Raises CtxrError where OpenVINO does not work."""

    @_one_sentence()
    def __init__(self, tower: nn.Module, size: tuple[int, int], numbers: str) -> None:
        import torch

        package = openvino()
        # no pinning: several processes would be pinned to the same cores
        threads = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": torch.get_num_threads(), "ENABLE_CPU_PINNING": False}
        self._core, self._settings = package.Core(), {"INFERENCE_PRECISION_HINT": numbers, **threads}
        self._size, self._requests = size, dict[int, Any]()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # torch announces the end of tracing; names of shapes become constants
            # two rows: what is traced with a single one may hold for a single one alone
            traced = torch.jit.trace(tower, torch.zeros(2, 3, *size), strict=False, check_trace=False)  # type: ignore[no-untyped-call]
            self._model = package.convert_model(traced, example_input=torch.zeros(2, 3, *size))

    @_one_sentence()
    def __call__(self, batch: Tensor) -> Tensor:
        """Vectors of a batch, not normalised."""
        import torch

        rows = len(batch)
        if rows not in self._requests:
            model = self._model.clone()
            model.reshape([rows, 3, *self._size])
            self._requests[rows] = self._core.compile_model(model, "CPU", self._settings).create_infer_request()
        return torch.from_numpy(self._requests[rows].infer({0: batch.numpy()})[0])


@_one_sentence()
def fastest(fingerprint: str, precisions: Sequence[str], run: Callable[[str], int]) -> str:
    """The first precision, or another one that was measured to be faster by `GAIN` for the encoder of that fingerprint.

    `run` does a pass and returns its rows, or raises CtxrError. The choice is kept in the user's cache, for each encoder and kind of
    machine. Raises CtxrError where OpenVINO does not work at all.
    """
    import torch

    package = openvino()
    processor = package.Core().get_property("CPU", "FULL_DEVICE_NAME"), torch.get_num_threads()
    key = [fingerprint, *precisions, *processor, str(torch.__version__), package.get_version()]
    kept_in = f"engines/{sha256_of(key)}.json"
    with suppress(CtxrError, OSError, ValueError, TypeError, KeyError):
        if (kept := json.loads((cache_folder() / kept_in).read_bytes())["precision"]) in precisions:
            return str(kept)
    seconds = dict.fromkeys(precisions, float("inf"))  # per image, the best of passes that alternate
    for precision in (name for name in [*precisions] * 3 if name in seconds):
        try:
            start = time.perf_counter()
            rows = run(precision)
            seconds[precision] = min(seconds[precision], (time.perf_counter() - start) / rows)
        except CtxrError:
            del seconds[precision]
    chosen = min(seconds, key=lambda name: seconds[name] * GAIN ** (name != precisions[0]), default=precisions[0])
    content = json.dumps({"precision": chosen, "seconds": seconds, "of": key}).encode()
    with suppress(CtxrError):  # a cache that cannot be written is measured again
        write_bytes(cache_folder() / kept_in, content, durable=False)
    return chosen
