"""What the drawn datasets share: their life as an artifact, their pictures, and the processes that draw."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np

from ctxr.engine.progress import Progress
from ctxr.engine.stage import Inputs, Stage
from ctxr.engine.units import parallel
from ctxr.media.images import encode_jpeg
from ctxr.store.kinds import DATASET
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.scenes import Scene

AUTHOR = "world"
"""Who wrote the texts."""

_AHEAD = 8
"""Draws that wait for each process."""

_ENLARGED = 3
"""Scenes are drawn this many times larger than they are saved: small things then have soft edges, as in photographs."""

K = TypeVar("K")
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


def draw_picture(scene: Scene, side: int) -> bytes:
    """The scene as a JPEG of side x side pixels."""
    large = render(scene, _ENLARGED * side, _ENLARGED * side)
    return encode_jpeg(np.asarray(cv2.resize(large, (side, side), interpolation=cv2.INTER_AREA), np.uint8))


def draws(
    config: Any, draw: Callable[[Any, K, int], T], wanted: Mapping[K, int], size: Callable[[T], int]
) -> Iterator[tuple[K, T, int]]:
    """draw(config, key, 0), draw(config, key, 1), … of each key until their sizes add up to what is wanted of it.

    Each comes with how much of it is wanted. It has a seed of its own, so the number of processes changes nothing.
    """
    left, several = dict(wanted), config.workers > 1

    def items() -> Iterator[tuple[K, int]]:
        for key in wanted:
            numbers = itertools.count()
            while left[key] > 0:
                yield key, next(numbers)

    # the next ones are drawn while this one is written
    queued = _AHEAD * config.workers if several else 0
    work = partial(_draw, draw, config)
    for (key, _), item in parallel(work, items(), config.workers, processes=several, ordered=True, queued=queued):
        kept = min(left[key], size(item))
        left[key] -= kept
        if kept:
            yield key, item, kept


def _draw(draw: Callable[[Any, K, int], T], config: Any, item: tuple[K, int]) -> T:
    return draw(config, *item)
