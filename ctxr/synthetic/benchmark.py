"""A benchmark from the drawn world: sets of scenes with contextual descriptions whose truth is computed.

It is an artifact of kind `dataset` like one that people made, so every verb that reads one can be tried on it, and a model
that cannot learn it need not be tried on photographs.
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ctxr.datasets.readers.phenomena import WORKER
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import refuse_seed
from ctxr.engine.units import parallel
from ctxr.errors import UsageError
from ctxr.media.images import decode_jpeg, encode_jpeg
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.store.arrays import pairwise_distances
from ctxr.store.artifacts import Artifact, Content, finish, finished, locked, require_ours, take_manifest
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Image, ImageSet, Judgment, Kind, Query, Split, SplitName, Text
from ctxr.store.tables import write_table
from ctxr.synthetic.world.describing import contextual_description
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.sets import SIZE, sample_sets
from ctxr.synthetic.world.tags import TAGS

AUTHOR = "world"
"""Who wrote the descriptions."""

_AHEAD = 8
"""Sets that wait for each process that draws."""


@dataclass(frozen=True)
class WorldBenchmark:
    """What to draw.

    Attributes:
        out: artifact folder to write.
        train, valid, test: queries on each side.
        targets: images of a train set that are described, at most; 0: one to three, as in ImageCoDe. Valid and test sets always
            have one to three. More on train teach more for each picture that is drawn and encoded.
        video: share of the sets, 0..1, whose scenes follow each other in time; the others are near neighbours.
        side: of the square pictures, pixels.
        seed: of everything; the same one draws the same bytes.
        encoder: makes the distances of the sets. device: where it runs.
        workers: processes that draw; they change nothing.
    """

    out: Path
    train: int = 2000
    valid: int = 250
    test: int = 500
    targets: int = 0
    video: float = 0.7
    side: int = 96
    seed: int = 0
    encoder: str = "ctxr-tiny"
    device: str = "auto"
    workers: int = 2


@dataclass(frozen=True)
class BenchmarkSet:
    """A set as it is drawn: its pictures as JPEG bytes, and (target, text, phenomena) of each description."""

    name: str
    pictures: tuple[bytes, ...]
    descriptions: tuple[tuple[int, str, tuple[str, ...]], ...]


def write_benchmark(config: WorldBenchmark, progress: Progress | None = None) -> "Artifact":
    """Draw the benchmark, or leave it if it is there. Raises UsageError for numbers that make no sense."""
    progress = progress or Silent()
    refuse_seed(config.seed)
    if (
        not 0 <= config.video <= 1
        or min(config.train, config.valid, config.test, config.targets) < 0
        or config.side < 16
    ):
        raise UsageError(
            "a world benchmark needs counts of at least 0, a share of video in 0..1 and a side of 16 pixels"
        )
    decides = {name: value for name, value in asdict(config).items() if name not in ("out", "device", "workers")}
    ready = finished(config.out, "dataset", "world", decides, [])
    if ready is not None:
        return ready
    require_ours(config.out)
    with locked(config.out):
        take_manifest(config.out)
        counts, models = _write(config, progress)
        return finish(
            config.out,
            kind="dataset",
            verb="world",
            config=decides,
            parents=[],
            content=Content([f"{name}.jsonl" for name in counts], counts, models),
        )


def _write(config: WorldBenchmark, progress: Progress) -> tuple[dict[str, int], dict[str, object]]:
    encoder = load_encoder(config.encoder, config.device, warn=progress.warn)
    rows: dict[str, list[object]] = {name: [] for name in ("sets", "images", "splits", "texts", "queries", "judgments")}
    wanted: dict[SplitName, int] = {"train": config.train, "valid": config.valid, "test": config.test}
    with progress.task("drawing queries", sum(wanted.values())) as task:
        for split, count in wanted.items():
            left = count
            for kind, told in _draw(config, split, count):
                if not left:
                    break
                kept = told.descriptions[:left]
                left -= len(kept)
                for name, found in rows_of(config.out, split, kind, told, kept, encoder, config.side).items():
                    rows[name] += found
                task.advance(len(kept))
    counts = {name: write_table(config.out / f"{name}.jsonl", content) for name, content in rows.items()}  # type: ignore[type-var]
    return counts, {"encoder": encoder.describe()}


def _draw(config: WorldBenchmark, split: str, count: int) -> "Iterator[tuple[Kind, BenchmarkSet]]":
    """Sets of a side, more than enough: each has a seed of its own, so the number of processes changes nothing."""
    targets = config.targets if split == "train" else 0
    if not count:
        return
    draw = partial(draw_set, config.seed, split, video=config.video, side=config.side, targets=targets)
    # the next sets are drawn while this one is encoded and written
    queued = _AHEAD * config.workers if config.workers > 1 else 0
    drawn = parallel(draw, itertools.count(), config.workers, processes=config.workers > 1, ordered=True, queued=queued)
    yield from (found for _, found in drawn)


_SIDES = ("train", "valid", "test")

_TARGETS = ((1, 0.18), (2, 0.37), (3, 0.45))
"""How many targets a set has in ImageCoDe's train split, and its share of the sets (specs A0.1)."""

_DRAWN_AT = 3
"""Scenes are drawn this many times larger than they are saved: small things then have soft edges, as in photographs."""


def draw_set(
    seed: int, split: str, number: int, video: float, side: int, targets: int = 0
) -> tuple[Kind, BenchmarkSet]:
    """Set `number` of a side: ("video" or "photos", what is in it). Up to `targets` of its images are described; 0: one to three."""
    import cv2

    rng = np.random.default_rng((seed, _SIDES.index(split), number))
    kind: Kind = "video" if rng.random() < video else "photos"
    (drawn,) = sample_sets(rng, 1, kind)
    count = targets or int(rng.choice([count for count, _ in _TARGETS], p=[share for _, share in _TARGETS]))
    descriptions = []
    for target in rng.permutation(SIZE)[:count].tolist():
        said = contextual_description(drawn.scenes, target, rng, drawn.ordered)
        if said is not None:
            descriptions.append((target, said.text, said.tags))
    large = [render(scene, _DRAWN_AT * side, _DRAWN_AT * side) for scene in drawn.scenes] if descriptions else []
    small = [np.asarray(cv2.resize(one, (side, side), interpolation=cv2.INTER_AREA), np.uint8) for one in large]
    name = f"{split}-{kind}{number:05d}"
    return kind, BenchmarkSet(name, tuple(encode_jpeg(one) for one in small), tuple(descriptions))


def rows_of(
    out: Path,
    split: SplitName,
    kind: Kind,
    told: BenchmarkSet,
    kept: tuple[tuple[int, str, tuple[str, ...]], ...],
    encoder: "Encoder",
    side: int,
) -> dict[str, list[object]]:
    """The rows of a set by table, with the descriptions in `kept`; its pictures are written. Nothing without a description."""
    if not kept:
        return {}
    ids = [f"{told.name}/img{place}" for place in range(SIZE)]
    images: list[object] = []
    for place, content in enumerate(told.pictures):
        path = f"images/{told.name}/img{place}.jpg"
        write_bytes(out / path, content, durable=False)
        index = place if kind == "video" else None
        images.append(Image(ids[place], path, sha256_bytes(content), told.name, side, side, index))
    vectors = encoder.encode_images([decode_jpeg(content) for content in told.pictures])
    upper = pairwise_distances(vectors)[np.triu_indices(SIZE, 1)]
    closest, mean = float(upper.min()), float(upper.mean())
    shot = 0 if kind == "video" else None
    rows: dict[str, list[object]] = {
        "sets": [ImageSet(told.name, kind, tuple(ids), told.name, told.name, shot, closest, mean)],
        "images": images,
        "splits": [Split(told.name, split)],
    }
    for target, text, tags in kept:
        key = f"{told.name}/{target}"
        asked = f"{WORKER}/{key}"
        rows.setdefault("texts", []).append(Text(key, text, AUTHOR))
        rows.setdefault("queries", []).extend([Query(key, told.name, (key,)), Query(asked, told.name, (key,), TAGS)])
        rows.setdefault("judgments", []).append(Judgment(key, ids[target], "gold", 1.0))
        rows["judgments"] += [Judgment(asked, tag, WORKER, float(tag in tags)) for tag in TAGS]
    return rows
