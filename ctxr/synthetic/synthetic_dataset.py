"""What the drawn datasets share: their life as an artifact, their pictures, and the processes that draw."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np

from ctxr.engine.progress import Progress
from ctxr.engine.stage import Inputs, Stage
from ctxr.media.images import encode_jpeg
from ctxr.store.kinds import DATASET
from ctxr.store.tables import write_table
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.scenes import Scene

AUTHOR = "world"
"""Who wrote the texts."""

_AHEAD = 8
"""Draws that wait for each process."""

_ENLARGED = 3
"""Scenes are drawn this many times larger than they are saved: small things then have soft edges, as in photographs."""

T = TypeVar("T")


class SyntheticDataset(Stage):
    """A dataset that is drawn from its options alone, which name the folder as `out`."""

    KIND = DATASET
    options: Any

    def out(self) -> Path:
        """The folder of the options."""
        return Path(self.options.out)

    def inputs(self, progress: Progress) -> Inputs:
        """Nothing."""
        return Inputs([])


def write_tables(folder: Path, tables: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """Write each table to `NAME.jsonl`; how many rows each has."""
    return {name: write_table(folder / f"{name}.jsonl", rows) for name, rows in tables.items()}


def draw_picture(scene: Scene, side: int) -> bytes:
    """The scene as a JPEG of side x side pixels."""
    large = render(scene, _ENLARGED * side, _ENLARGED * side)
    return encode_jpeg(np.asarray(cv2.resize(large, (side, side), interpolation=cv2.INTER_AREA), np.uint8))


def processes(workers: int) -> AbstractContextManager[Executor | None]:
    """A pool of processes that draw; None for a single worker."""
    return nullcontext() if workers == 1 else ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def draws(pool: Executor | None, workers: int, draw: Callable[..., T], *args: object) -> Iterator[T]:
    """draw(*args, 0), draw(*args, 1), … without end; each has a seed of its own, so the number of processes changes nothing."""
    if pool is None:
        yield from (draw(*args, number) for number in itertools.count())
        return
    ahead: deque[Future[T]] = deque()
    try:
        for number in itertools.count():
            # the next ones are drawn while this one is written
            ahead.append(pool.submit(draw, *args, number))
            if len(ahead) > _AHEAD * workers:
                yield ahead.popleft().result()
    finally:
        for waiting in ahead:
            waiting.cancel()
