"""Work in units: one loop over threads or processes, and ranks, whose units another run merges; child processes."""

import math
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields
from multiprocessing import active_children, get_context
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, SIGKILL, pthread_sigmask
from typing import Annotated, Any, Generic, TypeVar

from ctxr.engine.options import NotDecisive, Range
from ctxr.engine.progress import ProgressTask, Silent
from ctxr.errors import CtxrError, UsageError

T = TypeVar("T")
R = TypeVar("R")
Results = Generator[tuple[T, R], None, None]

KILLED = "two processes that worked on it were killed"
"""What a unit is reported with that is `Job.lost`."""

Rank = Annotated[int | None, NotDecisive, Range(0, math.inf, "a whole number from 0, below --world-size")]
WorldSize = Annotated[int | None, NotDecisive, Range(1, math.inf, "a number of ranks, at least 1")]


@dataclass(frozen=True)
class WorkUnit:
    """A part of the work, with an output of its own.

    Attributes:
        name: unique. stamp: the key of its bytes. payload: input of the job; picklable.
    """

    name: str
    stamp: Any
    payload: Any = None


@dataclass(frozen=True)
class RankShard:
    """The units of a rank: every `world`-th by name, from number `rank` on."""

    rank: int
    world: int


def this_process() -> RankShard:
    """This process among those that torchrun started; the only one without it. Raises UsageError for an environment that names none."""
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "1")
    if world == "1":
        return RankShard(0, 1)
    if not (rank + world).isdecimal() or int(rank or world) >= int(world) or "MASTER_ADDR" not in os.environ:
        hint = "start with torchrun, or unset WORLD_SIZE"
        raise UsageError(f"WORLD_SIZE={world} and RANK={rank} are set without the address of other processes", hint)
    return RankShard(int(rank), int(world))


class Portable:
    """A dataclass that can be pickled. Fields with `init=False`, such as locks, are not: they get their defaults again."""

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (part for part in fields(self) if part.init)  # type: ignore[arg-type]
        return type(self), tuple(getattr(self, part.name) for part in arguments)


@dataclass
class Job(Portable, ABC, Generic[R]):
    """What is done to each unit, by several threads or processes at once.

    Attributes:
        task: shows what happens within a unit, if an engine works in this process. shares: how much of a unit it has shown.
        stopping: set when what is under way is to end.
    """

    task: ProgressTask = field(default_factory=Silent, init=False)
    shares: dict[str, float] = field(default_factory=dict, init=False)
    stopping: threading.Event = field(default_factory=threading.Event, init=False)

    @abstractmethod
    def __call__(self, unit: WorkUnit) -> R:
        """Write the unit. A unit that cannot be made is a result; an exception ends all work."""

    def show(self, name: str, share: float) -> None:
        """Show that `share` of a unit, 0..1, is done."""
        before = self.shares.get(name, 0.0)
        self.shares[name] = max(before, min(0.99, share))
        self.task.advance(self.shares[name] - before)

    def lost(self, unit: WorkUnit) -> R:
        """The result of a unit that ended the processes of two workers. Raises CtxrError where it is none."""
        raise CtxrError(
            f"{unit.name} ended two worker processes",
            hint="see whether memory runs out, and run the same command again",
        )

    def stop(self) -> None:
        """End what is under way, from any thread."""
        self.stopping.set()

    def close(self) -> None:
        """Let go of what threads shared."""


class WorkerKilled(CtxrError):
    """A worker process ended in the midst of its work."""


def parallel(
    work: Callable[[T], R],
    items: Iterable[T | None],
    workers: int = 0,
    *,
    processes: bool = False,
    ordered: bool = False,
    queued: int = 0,
    stop: Callable[[], object] = lambda: None,
) -> Results[T, R]:
    """Each item with what `work` returned, as they finish, or in order.

    An item is taken when a worker is free. The first exception, Ctrl-C included, calls `stop`, drops the items that have not
    begun, and is raised when no thread works any more; so does closing the iterator. WorkerKilled is raised without calling `stop`.

    Args:
        items: may have no end; a None among them waits until an item has finished.
        workers: threads, or processes, for which `work` is pickled once; 0 = half the cores.
        queued: items to take beyond those, for a caller that fetches results slowly.
    """
    workers = workers or max(1, (os.cpu_count() or 2) // 2)
    flying: dict[Future[R], T] = {}

    def arrived() -> Iterator[tuple[T, R]]:
        first = [next(iter(flying))] if ordered else flying
        for future in wait(first, return_when=FIRST_COMPLETED).done:
            yield flying.pop(future), future.result()

    others = active_children()
    call: Any = _call if processes else work
    spawned = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (work,)) if processes else None
    with spawned or ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                if item is not None:
                    mask = pthread_sigmask(SIG_BLOCK, {SIGINT} if processes else ())  # in children, for good
                    try:
                        flying[pool.submit(call, item)] = item
                    finally:
                        pthread_sigmask(SIG_SETMASK, mask)
                if flying and (item is None or len(flying) >= workers + queued):
                    yield from arrived()
            while flying:
                yield from arrived()
        except BaseException as error:
            if not (killed := isinstance(error, BrokenExecutor)):
                stop()
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children() if processes else ():
                if child not in others:
                    child.kill()
            if killed:
                problem = "a worker process was killed, as happens where memory runs out"
                raise WorkerKilled(problem, hint="free memory, and run the same command again") from error
            raise


def die_with_parent() -> Callable[[], None]:
    """A function that, called in a child (`preexec_fn` of `Popen`), makes the kernel kill it when its parent ends, on Linux alone.

    Elsewhere the child must notice that its standard input ended.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    prctl, pr_set_pdeathsig = ctypes.CDLL(None).prctl, 1
    return lambda: prctl(pr_set_pdeathsig, SIGKILL)


_WORK: list[Callable[..., object]] = []  # what a child process works on


def _begin(work: Callable[..., object]) -> None:
    die_with_parent()()
    _WORK.append(work)


def _call(item: object) -> object:
    return _WORK[0](item)
