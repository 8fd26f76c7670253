"""Engines at equal work: `build-sets` on a few clips, and units that are nothing but their handling.

python -m bench engines        Ray where it is installed (`make peers`)
"""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.footage import opening
from bench.table import Row, in_turns
from ctxr.engine.engines import Engine, map_units
from ctxr.engine.progress import SILENT
from ctxr.engine.units import Job, WorkUnit
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets

CLIPS = (6, 7, 8, 9)
"""Seconds of the clips, whose content must differ."""

EMPTY = 2_000
WORKERS = 2
ROUNDS = 2


@dataclass
class Nothing(Job[None]):
    """Returns at once."""

    def __call__(self, unit: WorkUnit) -> None:
        """Do nothing."""


def handle(engine: str) -> None:
    """Give out units that do nothing."""
    units = [WorkUnit(str(number), None) for number in range(EMPTY)]
    assert sum(1 for _ in map_units(Nothing(), units, Engine(engine, WORKERS), SILENT, "nothing")) == EMPTY


def measure() -> list[Row]:
    """Each engine against threads; the start of processes and of Ray is part of it."""
    engines = ["threads", "processes", *(["ray"] if find_spec("ray") else [])]
    note = f"{WORKERS} workers, their start included" + (
        "" if "ray" in engines else "; Ray is not installed: make peers"
    )
    folder, numbers = Path(tempfile.mkdtemp(prefix="ctxr-bench-")), itertools.count()
    clips = [str(opening(seconds)) for seconds in CLIPS]

    def build(engine: str) -> None:
        options: dict[str, Any] = {"encoder": "ctxr-tiny", "jobs": WORKERS, "engine": engine}
        run(BuildSets(sources=tuple(clips), out=folder / str(next(numbers)), **options))

    try:
        return [
            *_rows(f"build-sets, {len(clips)} clips", build, engines, note),
            *_rows(f"{EMPTY:,} empty units", handle, engines, note),
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _rows(figure: str, call: Callable[[str], object], engines: Sequence[str], note: str) -> list[Row]:
    threads, *others = in_turns(*(partial(call, engine) for engine in engines), repeat=ROUNDS)
    return [
        Row(f"{figure}, {engine}", seconds, "threads", threads, note=note)
        for engine, seconds in zip(engines[1:], others, strict=True)
    ]
