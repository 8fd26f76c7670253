"""The engine of Ray: actors, which are processes on this machine or on those of a cluster, run whole units (https://docs.ray.io)."""

import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray import cloudpickle
from ray.exceptions import ObjectLostError, OutOfMemoryError, RayActorError, RayError, RayTaskError

from ctxr.engine.units import Job, Results, WorkUnit
from ctxr.errors import CtxrError

R = TypeVar("R")

DEATHS = 2
"""Of workers on one unit, after which it is lost: what ends its process would do so again."""

STORE_BYTES = 256 << 20
"""Of the memory through which processes share objects: jobs, units and results are small."""


def run_ray(job: Job[R], units: Sequence[WorkUnit], workers: int, address: str = "") -> Results[WorkUnit, R]:
    """The engine of Ray, on the cluster at an address or in RAY_ADDRESS, or on this machine; 0 workers: all processors of a cluster, or
    half of the cores.

    A unit whose worker died is begun again by another; where that dies too, it is `job.lost`.
    """
    # what Ray has to say is no result
    with (
        redirect_stdout(sys.stderr),
        _cluster(address, min(workers or max(1, (os.cpu_count() or 2) // 2), len(units))) as most,
    ):
        try:
            with _noting_interrupts() as stop, closing(_Pool(job, units, min(workers or most, len(units)))) as pool:
                yield from pool.results(stop)
        except RayTaskError as error:
            job.stop()
            raise error.cause from error
        except (RayError, ConnectionError) as error:
            hint = "run the same command again: it continues where it stopped"
            raise CtxrError(f"Ray ended: {_line(error)}", hint) from error


@contextmanager
def _noting_interrupts() -> Iterator[threading.Event]:
    """An event that each Ctrl-C sets, because one that arrives within a callback of Ray is lost."""
    interrupted = threading.Event()

    def note(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _cluster(address: str, workers: int) -> Iterator[int]:
    """Ray for the duration of the block, unless the caller runs one already; yields its number of processors."""
    if ours := not ray.is_initialized():
        address = address or os.environ.get("RAY_ADDRESS", "")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if not address:
            options |= {"num_cpus": workers, "include_dashboard": False, "object_store_memory": STORE_BYTES}
        try:
            ray.init(address or "local", **options)
        except (OSError, RuntimeError, ValueError, RayError) as error:
            problem = f"Ray {f'at {address} cannot be reached' if address else 'does not start'}: {_line(error)}"
            hint = "ray status shows whether it runs; once it does, run the same command again (RAY_AUTH_TOKEN, if it asks for one)"
            hint = hint if address else "use --engine processes"
            raise CtxrError(problem, hint) from error
    try:
        yield int(ray.cluster_resources().get("CPU", 1))
    finally:
        if ours:
            ray.shutdown()


def _line(error: Exception) -> str:
    """The last line of an error of Ray, which may hold many."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)


class UnitActor:
    """A worker: a process that takes the job once, then runs units."""

    job: Job[Any]

    def begin(self, stored: Sequence[Any], folder: str, importable: Sequence[str], threads: int) -> None:
        """Take the job, and go to the folder of the command, from where relative paths lead."""
        # Ray imports from that folder too, where a numpy.py of the user may lie
        sys.path[:] = [path for path in sys.path if path != folder or path in importable]
        try:
            os.chdir(folder)
        except OSError as error:
            problem = f"{folder} cannot be opened on {socket.gethostname()}: {error.strerror}"
            raise CtxrError(problem, "run the command in a folder that all machines of the cluster share") from error
        # Ray would allow torch one thread, which rounds otherwise than several; those that wait leave the processor to other workers
        os.environ |= {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self.job = ray.get(stored[0])

    def make(self, unit: WorkUnit) -> bytes:
        """What the job returned, pickled: an array in the memory of Ray would not outlive it."""
        result: bytes = cloudpickle.dumps(self.job(unit))
        return result


class _Pool:
    """Actors that run a unit at a time; `flying`: their calls, without a unit at their start."""

    def __init__(self, job: Job[Any], units: Sequence[WorkUnit], workers: int) -> None:
        # Ray itself repeats nothing, and keeps no history of calls
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "enable_task_events": False}
        self._start = ray.remote(**options)(UnitActor).remote
        self._job, self._stored, self._left, self._rest = job, [ray.put(job)], len(units), iter(units)
        self._flying: dict[Any, tuple[Any, WorkUnit | None]] = {}
        self._free, self._again, self._deaths = list[Any](), list[WorkUnit](), Counter[str]()
        self._patience = DEATHS * workers  # with actors that do not begin
        for _ in range(workers):
            self._begin()

    def results(self, interrupted: threading.Event) -> Results[WorkUnit, Any]:
        """Each unit with its result, as they finish."""
        while self._left:
            found, _ = ray.wait([*self._flying], timeout=1)
            if interrupted.is_set():
                raise KeyboardInterrupt
            if not found:
                continue
            (ready,) = found
            actor, unit = self._flying.pop(ready)
            name = unit.name if unit else ""
            try:
                content = ray.get(ready)
            except (RayActorError, OutOfMemoryError, ObjectLostError) as error:
                ray.kill(actor)  # it may live where it cannot be reached
                self._begin()
                self._deaths[name] += 1
                if unit is None and self._deaths[name] > self._patience:
                    hint = "every machine of the cluster needs the same ctxr, and the same Python and Ray"
                    raise CtxrError(f"workers of Ray do not start: {_line(error)}", hint) from error
                if unit and self._deaths[name] < DEATHS:
                    self._again.append(unit)
                    unit = None
                result = unit and self._job.lost(unit)
            else:
                self._free.append(actor)
                self._deaths.pop(name, None)
                result = content and cloudpickle.loads(content)
            while self._free and (following := self._again.pop() if self._again else next(self._rest, None)):
                actor = self._free.pop()
                self._flying[actor.make.remote(following)] = actor, following
            if unit:
                self._left -= 1
                yield unit, result

    def close(self) -> None:
        """End the actors."""
        for actor in (*self._free, *(actor for actor, _ in self._flying.values())):
            with suppress(RayError):
                ray.kill(actor)

    def _begin(self) -> None:
        actor, importable = self._start(), [str(Path(path).resolve()) for path in sys.path]
        torch = sys.modules.get("torch")
        threads = torch.get_num_threads() if torch else int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        self._flying[actor.begin.remote(self._stored, str(Path.cwd()), importable, threads)] = actor, None
