"""Jobs that worker processes import, so this module is light."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from bench.processes import held
from ctxr.engine.engines import Engine, map_units
from ctxr.engine.progress import SILENT
from ctxr.engine.units import Job, WorkUnit
from ctxr.errors import DataError


@dataclass
class Tried(Job[str]):
    """What is asked of a unit in its payload; a file in `folder` has a letter for each time that it was begun."""

    folder: Path

    def __call__(self, unit: WorkUnit) -> str:
        with (self.folder / unit.name).open("a") as file:
            file.write("x")
        if unit.payload == "die" or (unit.payload == "die once" and self.begun(unit.name) == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if unit.payload == "refuse":
            raise DataError("refused", hint="by its payload")
        return str(Path.cwd())

    def lost(self, unit: WorkUnit) -> str:
        return "lost"

    def begun(self, name: str) -> int:
        return len((self.folder / name).read_text())


@dataclass
class Unopened(Job[str]):
    """Ends each process that opens it."""

    folder: Path

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (1,)

    def __call__(self, unit: WorkUnit) -> str:
        return unit.name

    def lost(self, unit: WorkUnit) -> str:
        return "lost"


@dataclass
class CountThreads(Job[int]):
    """How many threads torch computes with."""

    def __call__(self, unit: WorkUnit) -> int:
        import torch

        return torch.get_num_threads()


class Units(Sequence[WorkUnit]):
    """So many units, none of which is in memory."""

    def __init__(self, count: int) -> None:
        self.number = count

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, at: int) -> WorkUnit: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[WorkUnit]: ...
    def __getitem__(self, at: int | slice) -> WorkUnit | Sequence[WorkUnit]:
        if isinstance(at, slice) or at >= self.number:
            raise IndexError(at)
        return WorkUnit(f"unit{at}", None)


@dataclass
class Empty(Job[None]):
    """Does nothing."""

    def __call__(self, unit: WorkUnit) -> None:
        return None


def do_nothing(*counts: int) -> None:
    """As many empty jobs; prints the memory of this process after each of these numbers of them, KiB."""
    done = map_units(Empty(), Units(counts[-1]), Engine("ray", 2), SILENT, "nothing")
    for at, _ in enumerate(done, 1):
        if at in counts:
            print(held(os.getpid()), file=sys.__stdout__, flush=True)


@dataclass
class Written(Job[None]):
    """A folder for each unit, made in a folder beside it, as those of videos are."""

    folder: Path
    seconds: float

    def __call__(self, unit: WorkUnit) -> None:
        making = self.folder / f".{unit.name}.making"
        making.mkdir(exist_ok=True)
        for part in range(4):
            (making / str(part)).write_text(f"{unit.name} {part}")
            time.sleep(self.seconds / 4)
        making.rename(self.folder / unit.name)

    def lost(self, unit: WorkUnit) -> None:
        """It is missing, and made by the next run."""


def write_units(place: str, count: int, seconds: float, engine: str) -> None:
    """What a driver does: make the units that are not there, each in so many seconds."""
    folder = Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    units = [WorkUnit(f"{at:03}", None) for at in range(count) if not (folder / f"{at:03}").exists()]
    for _ in map_units(Written(folder, seconds), units, Engine(engine, 2), SILENT, "writing"):
        pass
