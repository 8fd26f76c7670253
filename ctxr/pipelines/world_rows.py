"""One set of the drawn world: its scenes, pictures and descriptions, and the rows that they become."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxr.data.atomic import write_bytes
from ctxr.data.embeddings import pairwise_distances
from ctxr.data.hashing import sha256_bytes
from ctxr.data.images import decode_jpeg, encode_jpeg
from ctxr.data.readers.phenomena import WORKER
from ctxr.data.records import Image, ImageSet, Judgment, Kind, Query, Split, SplitName, Text
from ctxr.data.world import TAGS, contextual_description, render, sample_sets
from ctxr.data.world.sets import SIZE
from ctxr.pipelines.world_benchmark import AUTHOR, BenchmarkSet

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder

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
