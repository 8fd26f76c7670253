"""A benchmark of the drawn world: sets of scenes with descriptions whose truth is computed.

It is an artifact of kind `dataset` like one that people made, so every verb that reads one can be tried on it, and a model
that cannot learn it need not be tried on photographs.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import cv2
import numpy as np

from ctxr.datasets.readers.phenomena import WORKER
from ctxr.datasets.splits import SPLITS
from ctxr.engine.options import NotDecisive, Options, Range, Seed
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.engine.units import parallel
from ctxr.media.images import decode_jpeg, encode_jpeg
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.store.arrays import pairwise_distances
from ctxr.store.artifacts import Content
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.kinds import DATASET
from ctxr.store.records import Image, ImageSet, Judgment, Kind, Query, Record, Split, SplitName, Text
from ctxr.store.tables import write_tables
from ctxr.synthetic.config import Count
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.scenes import Scene
from ctxr.synthetic.world.sets import SIZE, sample_sets
from ctxr.synthetic.world.statements import TAGS, contextual_description

AUTHOR = "world"
_AHEAD = 8
"""Draws that wait for each process."""

_ENLARGED = 3
"""Scenes are drawn this many times larger than they are saved: small things then have soft edges, as in photographs."""

K = TypeVar("K")
T = TypeVar("T")


class SyntheticDataset(Stage[Inputs]):
    """A dataset that is drawn from its options alone, into the folder `out` of these."""

    KIND = DATASET
    options: Any

    def inputs(self, progress: Progress) -> Inputs:
        """Nothing but the options."""
        return Inputs([], self.options.key())


def draw_picture(scene: Scene, side: int) -> bytes:
    """The scene as a JPEG of side x side pixels."""
    large = render(scene, _ENLARGED * side, _ENLARGED * side)
    return encode_jpeg(np.asarray(cv2.resize(large, (side, side), interpolation=cv2.INTER_AREA), np.uint8))


def draws(
    draw: Callable[[K, int], T], wanted: Mapping[K, int], size: Callable[[T], int], workers: int
) -> Iterator[tuple[K, T, int]]:
    """draw(key, 0), draw(key, 1), … of each key until their sizes add up to what is wanted of it.

    Each comes with how much of it is wanted. It has a seed of its own, so the number of processes changes nothing.
    """
    left, several = dict(wanted), workers > 1

    def items() -> Iterator[tuple[K, int]]:
        for key in wanted:
            numbers = itertools.count()
            while left[key] > 0:
                yield key, next(numbers)

    # the next ones are drawn while this one is written
    queued = _AHEAD * workers if several else 0
    work = partial(_draw, draw)
    for (key, _), item in parallel(work, items(), workers, processes=several, ordered=True, queued=queued):
        kept = min(left[key], size(item))
        left[key] -= kept
        if kept:
            yield key, item, kept


def _draw(draw: Callable[[K, int], T], item: tuple[K, int]) -> T:
    return draw(*item)


TABLES = ("sets", "images", "splits", "texts", "queries", "judgments")


@dataclass(frozen=True)
class WorldBenchmark(Options):
    """What to draw.

    Attributes:
        train, valid, test: queries on each side.
        targets: images of a train set that are described, at most; 0: one to three, as in ImageCoDe and always on valid and test.
        video: share of the sets, 0..1, whose scenes follow each other in time; the others are near neighbours.
        side: of the square pictures, pixels. workers: processes that draw.
    """

    COMMAND: ClassVar[str] = "world"

    out: Path = Path("dataset")
    train: Count = 2000
    valid: Count = 250
    test: Count = 500
    targets: Count = 0
    video: Annotated[float, Range(0, 1, "a share of the sets, 0..1")] = 0.7
    side: Annotated[int, Range(16, math.inf, "at least 16 pixels")] = 96
    seed: Seed = 0
    workers: Annotated[int, NotDecisive] = 2


@dataclass(frozen=True)
class BenchmarkSet:
    """A set as it is drawn: its pictures as JPEG bytes, and (target, text, phenomena) of each description."""

    name: str
    kind: Kind
    pictures: tuple[bytes, ...]
    descriptions: tuple[tuple[int, str, tuple[str, ...]], ...]


def write_benchmark(config: WorldBenchmark, progress: Progress = SILENT) -> None:
    """Draw the benchmark, unless it exists. Raises UsageError for options that are out of range."""
    execute(_Benchmark(config), progress)


class _Benchmark(SyntheticDataset):
    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        config: WorldBenchmark = replace(self.options, out=out)
        encoder = load_encoder("ctxr-tiny", warn=progress.warn)
        rows: dict[str, list[Record]] = {name: [] for name in TABLES}
        wanted = {split: getattr(config, split) for split in SPLITS if getattr(config, split)}
        with progress.task("drawing queries", sum(wanted.values())) as task:
            sets = draws(partial(draw_set, config), wanted, lambda one: len(one.descriptions), config.workers)
            for split, image_set, kept in sets:
                add_set(rows, config, split, replace(image_set, descriptions=image_set.descriptions[:kept]), encoder)
                task.advance(kept)
        counts = write_tables(out, rows)
        return Content([f"{name}.jsonl" for name in counts], counts, {"encoder": encoder.describe()})


_TARGETS = {1: 0.18, 2: 0.37, 3: 0.45}
"""How many targets a set has in ImageCoDe's train split, and its share of the sets."""


def draw_set(config: WorldBenchmark, split: SplitName, number: int) -> BenchmarkSet:
    """Set `number` of a split; without pictures where targets cannot be told from other images."""
    rng = np.random.default_rng((config.seed, SPLITS.index(split), number))
    kind: Literal["video", "photos"] = "video" if rng.random() < config.video else "photos"
    (image_set,) = sample_sets(rng, 1, kind)
    count = config.targets if split == "train" else 0
    count = count or int(rng.choice([*_TARGETS], p=[*_TARGETS.values()]))
    descriptions = []
    for target in rng.permutation(SIZE)[:count].tolist():
        description = contextual_description(image_set.scenes, target, rng, image_set.ordered)
        if description is not None:
            descriptions.append((target, description.text, description.tags))
    pictures = (draw_picture(scene, config.side) for scene in (image_set.scenes if descriptions else ()))
    return BenchmarkSet(f"{split}-{kind}{number:05d}", kind, tuple(pictures), tuple(descriptions))


def add_set(
    rows: dict[str, list[Record]],
    config: WorldBenchmark,
    split: SplitName,
    image_set: BenchmarkSet,
    encoder: Encoder,
) -> None:
    """Add the rows of a set by table, and write its pictures."""
    name, video = image_set.name, image_set.kind == "video"
    ids = tuple(f"{name}/img{position}" for position in range(SIZE))
    for position, content in enumerate(image_set.pictures):
        path = f"images/{ids[position]}.jpg"
        write_bytes(config.out / path, content, durable=False)
        index = position if video else None
        rows["images"].append(Image(ids[position], path, sha256_bytes(content), name, config.side, config.side, index))
    vectors = encoder.encode_images([decode_jpeg(content) for content in image_set.pictures])
    distances = pairwise_distances(vectors)[np.triu_indices(SIZE, 1)]
    closest, mean = float(distances.min()), float(distances.mean())
    rows["sets"].append(ImageSet(name, image_set.kind, ids, name, name, 0 if video else None, closest, mean))
    rows["splits"].append(Split(name, split))
    for target, text, tags in image_set.descriptions:
        key = f"{name}/{target}"
        labelled = f"{WORKER}/{key}"
        rows["texts"].append(Text(key, text, AUTHOR))
        rows["queries"] += [Query(key, name, (key,)), Query(labelled, name, (key,), TAGS)]
        rows["judgments"].append(Judgment(key, ids[target], "gold", 1.0))
        rows["judgments"] += [Judgment(labelled, tag, WORKER, float(tag in tags)) for tag in TAGS]
