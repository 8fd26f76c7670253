"""OpenVINO as the engine of an image tower on a CPU, and the choice between engines by their time on this machine."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import CtxrError, first_line
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of

if TYPE_CHECKING:
    from torch import Tensor

GAIN = 1.15
"""How many times as fast as torch another engine must be to be chosen: less is within the noise of a short measurement."""


def is_installed() -> bool:
    """Whether OpenVINO is there, without loading it."""
    return find_spec("openvino") is not None


def openvino() -> Any:
    """The package, silenced."""
    # openvino reports every import and conversion to its makers through this package, where it is installed
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


class OpenVinoTower:
    """An image tower that is compiled for each number of rows once it is asked for; one thread at a time may call it.

    Raises CtxrError for a tower that OpenVINO cannot convert.
    """

    def __init__(self, tower: Any, size: tuple[int, int], numbers: str) -> None:
        import torch

        package = openvino()
        # no pinning: several processes would be pinned to the same cores
        threads = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": torch.get_num_threads(), "ENABLE_CPU_PINNING": False}
        self._core, self._settings = package.Core(), {"INFERENCE_PRECISION_HINT": numbers, **threads}
        self._size, self._requests = size, dict[int, Any]()
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")  # torch announces the end of tracing; names of shapes become constants
                # two rows: what is traced with a single one may hold for a single one alone
                traced = torch.jit.trace(tower, torch.zeros(2, 3, *size), strict=False, check_trace=False)  # type: ignore[no-untyped-call]
                self._model = package.convert_model(traced, example_input=torch.zeros(2, 3, *size))
        except Exception as error:  # whatever a tower does that tracing or conversion cannot follow
            hint = "use --precision fp32"
            raise CtxrError(f"OpenVINO cannot convert this image tower: {first_line(error)}", hint=hint) from error

    def __call__(self, batch: Tensor) -> Tensor:
        """Vectors of a batch, not normalised."""
        import torch

        rows = len(batch)
        if rows not in self._requests:
            model = self._model.clone()
            model.reshape([rows, 3, *self._size])
            compiled = self._core.compile_model(model, "CPU", self._settings)
            self._requests[rows] = compiled.create_infer_request()
        return torch.from_numpy(self._requests[rows].infer({0: batch.numpy()})[0])


def fastest(fingerprint: str, passes: Mapping[str, Callable[[], Callable[[], int]]]) -> str:
    """The first precision of `passes`, or another one that was measured to be faster by `GAIN`.

    It is measured once for each encoder and kind of machine, and kept in the user's cache, which may be deleted at any time.

    Args:
        fingerprint: of the encoder.
        passes: by precision, a function that makes the tower ready; it gives a function that does one pass and returns its rows.
    """
    import torch

    package = openvino()
    processor = [
        package.Core().get_property("CPU", "FULL_DEVICE_NAME"),
        torch.get_num_threads(),
        str(torch.__version__),
    ]
    key = [fingerprint, *processor, package.get_version(), [*passes]]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "ctxr", "engines", f"{sha256_of(key)}.json")
    with suppress(OSError, RuntimeError, ValueError, TypeError, KeyError):  # of these, RuntimeError: nobody has a home
        cache = cache.expanduser()
        kept = json.loads(cache.read_bytes())["precision"]
        if kept in [*passes]:
            return str(kept)
    seconds = _seconds(passes)
    first = next(iter(passes))
    best = min(seconds, key=seconds.__getitem__)
    chosen = best if seconds[best] * GAIN <= seconds[first] else first
    content = {"precision": chosen, "seconds per image": seconds, "measured for": key}
    with suppress(CtxrError):  # a cache that cannot be written is measured again
        write_bytes(cache, json.dumps(content, indent=1).encode(), durable=False)
    return chosen


def _seconds(passes: Mapping[str, Callable[[], Callable[[], int]]]) -> dict[str, float]:
    """Seconds per image of each precision, at best of two passes that alternate; those that cannot be used are left out."""
    ready, seconds = dict[str, Callable[[], int]](), dict[str, float]()
    for name, prepare in passes.items():
        with suppress(CtxrError):
            ready[name] = prepare()
            ready[name]()
    for _ in range(2):
        for name, run in ready.items():
            start = time.perf_counter()
            rows = run()
            seconds[name] = min(seconds.get(name, float("inf")), (time.perf_counter() - start) / rows)
    return seconds
