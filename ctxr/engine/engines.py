"""Engines by name: what runs the units of a job."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Annotated, Any, Generic, TypeVar

from ctxr.engine.options import NotDecisive, Range
from ctxr.engine.progress import Progress
from ctxr.engine.units import Job, Results, WorkerKilled, WorkUnit, parallel
from ctxr.errors import did_you_mean

T = TypeVar("T")
R = TypeVar("R")

Jobs = Annotated[int, Range(0, 256, "a number up to 256; 0 = half the cores"), NotDecisive]
EngineName = Annotated[str, NotDecisive, "Workers: threads, processes, ray, or ray://HOST:PORT; the latter need Ray."]

ENGINES = {
    "threads": "ctxr.engine.engines:run_threads",
    "processes": "ctxr.engine.engines:run_processes",
    "ray": "ctxr.engine.ray:run_ray",
}
"""Functions that run a job on units with a number of workers, by the name of the engine; of one with an address behind its name, such
as ray://host:10001, that too.

They yield each unit with what the job returned, in any order, from any machine that sees the folder; each process unpickles the
job once. They raise what the job raises, after `job.stop`; a unit that ended two workers is `job.lost`. Another engine is a
row, and a module with a function.
"""


RAY_ADDRESS = re.compile(r"ray://(\[[\da-fA-F:.]+\]|[\w.-]+):\d{1,5}", re.ASCII)


def engine_rules(name: str, device: str = "cpu") -> Iterator[tuple[str, str]]:
    """What is wrong with an engine and the device of its encoders, as `Options.rules` tells it."""
    kind, place, _ = name.partition("://")
    if kind not in ENGINES or (place and not RAY_ADDRESS.fullmatch(name)):
        known = [*ENGINES, "ray://HOST:PORT"]
        hint = (
            f"--engine {known[-1]}"
            if kind == "ray"
            else did_you_mean(name, known, f"engines are {', '.join(known)}", "--engine {}")
        )
        yield f"--engine {name} is unknown", hint
    elif kind == "ray" and find_spec("ray") is None:
        yield f"--engine {name} needs Ray, which is not installed", "pip install 'ray[client]'"
    elif kind == "ray" and device not in ("auto", "cpu"):
        yield f"--engine {name} computes on processors, not on {device}", "--device cpu, or --engine threads"


def device_of(engine: str, device: str) -> str:
    """The device of encoders; workers of Ray have processors alone."""
    return "cpu" if engine.startswith("ray") else device


def run_threads(job: Job[R], units: Sequence[WorkUnit], workers: int) -> Results[WorkUnit, R]:
    """The engine of threads of this process."""
    return parallel(job, units, workers, stop=job.stop)


def run_processes(job: Job[R], units: Sequence[WorkUnit], workers: int) -> Results[WorkUnit, R]:
    """The engine of processes of this machine.

    Where one dies, the units under way are begun again one by one, each in a process of its own; one that ends that too is `job.lost`.
    """
    begun = dict[str, WorkUnit]()

    def done(units: Iterable[WorkUnit], workers: int) -> Results[WorkUnit, R]:
        with closing(parallel(job, units, workers, processes=True, stop=job.stop)) as results:
            for unit, result in results:
                del begun[unit.name]
                yield unit, result

    started = (begun.setdefault(unit.name, unit) for unit in units)
    while True:
        try:
            yield from done(started, workers)
            return
        except WorkerKilled:
            for unit in [*begun.values()]:
                try:
                    yield from done([unit], 1)
                except WorkerKilled:
                    # raises the same where no process gets as far as its work, which is then no fault of the unit
                    list(parallel(partial(isinstance, job), [object], 1, processes=True))
                    yield begun.pop(unit.name), job.lost(unit)


@dataclass(frozen=True)
class Engine:
    """One of `ENGINES` by name, which options have checked, and its number of workers; 0 = half the cores."""

    name: str = "threads"
    workers: int = 0


def map_units(
    job: Job[R], units: Sequence[WorkUnit], engine: Engine, progress: Progress, label: str
) -> Iterator[tuple[WorkUnit, R]]:
    """Each unit with what the job returned, as they finish; without units, nothing is started."""
    kind, _, place = (engine if units else Engine()).name.partition("://")
    results: Results[WorkUnit, R] = resolve_name(ENGINES[kind])(
        job, units, engine.workers, *[engine.name] * bool(place)
    )
    with closing(job), progress.task(label, len(units)) as job.task, closing(results):
        for unit, result in results:
            job.task.advance(1 - job.shares.pop(unit.name, 0.0))
            yield unit, result


DEADLY = 8  # things tried one by one at which all workers died, after which no more are tried


class ThingsJob(Job[R | None], Generic[R]):
    """A job whose units hold several things. Two workers died at those whose own units are named in `deadly`: it leaves them out."""

    deadly: set[str]

    @abstractmethod
    def alone(self, unit: WorkUnit) -> Sequence[WorkUnit]:
        """A unit of each thing in a unit."""

    def lost(self, unit: WorkUnit) -> None:
        """Nothing: `map_things` finds out at which of its things the workers died."""


def map_things(job: ThingsJob[R], units: Sequence[WorkUnit], engine: Engine, progress: Progress, label: str) -> list[R]:
    """What the job returned for each unit, in their order. Where two workers died at one, each of its things is tried by itself, and it
    is made again without those at which two died. Raises CtxrError where they die at each of several things, or again without them."""
    made: dict[str, Any] = {unit.name: result for unit, result in map_units(job, units, engine, progress, label)}
    for unit in [unit for unit in units if made[unit.name] is None]:
        alone, before = job.alone(unit), len(job.deadly)
        tried = map_units(job, alone, engine, progress, "trying pictures one by one")
        for number, (one, result) in enumerate(tried, 1):
            job.deadly |= {one.name} if result is None else set()
            if len(alone) > 1 and len(job.deadly) - before == number == min(len(alone), DEADLY):
                Job.lost(job, unit)  # raises: it is no fault of things where workers die at each
        ((_, made[unit.name]),) = map_units(job, [unit], engine, progress, "going on without them")
        if made[unit.name] is None:
            Job.lost(job, unit)
    return [made[unit.name] for unit in units]


PART = 64  # items that `map_items` makes a unit of


@dataclass
class _Items(Job[list[Any]]):
    work: Callable[[Any], Any]

    def __call__(self, unit: WorkUnit) -> list[Any]:
        return [self.work(item) for item in unit.payload if not self.stopping.is_set()]


def map_items(work: Callable[[T], R], items: Sequence[T], engine: Engine, progress: Progress, label: str) -> list[R]:
    """What `work`, which can be pickled, returned for each of many small items."""
    units = [WorkUnit(f"part {at}", None, items[at : at + PART]) for at in range(0, len(items), PART)]
    engine = engine if len(units) > 1 else Engine(workers=1)  # one unit is not worth the start of a process
    made = {unit.name: results for unit, results in map_units(_Items(work), units, engine, progress, label)}
    return [result for unit in units for result in made[unit.name]]
