"""What ctxr-lite knows of real photos, and the distances on which its threshold rests.

python -m bench.lite FOLDER CAPTIONS.json VIDEO [VIDEO ...]    photos of COCO's format with their captions; clips

Photos: nearest neighbours and text to image, by halves (every second photo by name), the first of which chose the share λ. Clips: an
image counts as different beyond the distances to the same frame saved again.
"""

import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bench.copies import cropped, saved, scaled
from bench.table import Row
from ctxr.media.images import Pixels, read_image
from ctxr.models.encoders import Encoder, find_source, load_encoder
from ctxr.models.lite import SHARE
from ctxr.models.neighbours import nearest

Array = npt.NDArray[np.float64]

NEIGHBOURS, CAPTIONS, FEATURES = 9, 5, 1280
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
ENCODERS = ("ctxr-tiny", "ctxr-lite")

AGAIN: dict[str, Callable[[Pixels], Pixels]] = {
    "JPEG q50": partial(saved, quality=50),
    "half size": partial(scaled, share=0.5),
    "brighter by a tenth": lambda rgb: np.minimum(rgb * 1.1, 255).astype(np.uint8),
    "crop 2.5 %": partial(cropped, share=0.025),
}
"""What is done to a frame that still shows the same."""

APART = (0.2, 1.0, 5.0)
"""Seconds between two frames."""


def photos_of(folder: Path, captions: Path) -> tuple[list[Pixels], list[list[str]]]:
    """Pictures, by name, with their captions."""
    listed, texts = json.loads(captions.read_bytes()), dict[int, list[str]]()
    for row in listed["annotations"]:
        texts.setdefault(row["image_id"], []).append(row["caption"])
    rows = sorted(listed["images"], key=lambda row: row["file_name"])
    here = [(file, row["id"]) for row in rows if (file := folder / row["file_name"]).is_file()]
    return [read_image(file) for file, _ in here], [texts[image][:CAPTIONS] for _, image in here]


def overlap(captions: Sequence[Sequence[str]]) -> Array:
    """Cosines [N, N] of the words of each photo's captions, weighted by log(N / photos that have the word)."""
    words = [{*re.findall(r"[a-z]+", " ".join(own).lower())} for own in captions]
    counts = Counter(word for own in words for word in own)
    table = np.array(
        [[math.log(len(words) / counts[word]) if word in own else 0.0 for word in counts] for own in words]
    )
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def means(values: Array) -> str:
    """Of the first half, of the second, and of all."""
    return f"{values.mean():.3f} ({values[::2].mean():.3f}, {values[1::2].mean():.3f})"


def of_photos(folder: Path, captions: Path) -> Iterator[Row]:
    """Rows of neighbours and of text to image."""
    pictures, texts = photos_of(folder, captions)
    count = len(pictures)
    judge = load_encoder("ctxr-lite")
    said = np.stack([judge.encode_texts(own) for own in texts])
    # a text of ctxr-lite is MiniLM's vector behind zeros
    likeness = np.einsum("iad,jbd->ij", said, said).astype(np.float64) / CAPTIONS**2
    tables = {"MiniLM": likeness, "words": overlap(texts)}
    others = ~np.eye(count, dtype=bool)
    note = ", ".join(f"{name} {means((table * others).sum(1) / (count - 1))}" for name, table in tables.items())
    yield Row(f"{NEIGHBOURS} neighbours of {count}: random", 0.0, note=note)
    for name in ENCODERS:
        start, encoder = time.perf_counter(), load_encoder(name)
        vectors = encoder.encode_images(pictures)
        around, _ = nearest(vectors, NEIGHBOURS)
        own = {judge: np.take_along_axis(table, around, 1).mean(1) for judge, table in tables.items()}
        note = ", ".join(f"{judge} {means(values)}" for judge, values in own.items())
        yield Row(f"{NEIGHBOURS} neighbours of {count}: {name}", time.perf_counter() - start, note=note)
        graph = coo_array(np.linalg.norm(vectors[:, None] - vectors, axis=-1) < encoder.threshold)
        groups = np.bincount(connected_components(graph, directed=False)[1])
        note = f"{len(groups)} groups nearer than {encoder.threshold:g}, the largest of {groups.max()}"
        yield Row(f"{count} photos: {name}", 0.0, note=note)
        if name == judge.name:
            yield of_shares(vectors, tables)
        start, ranks = time.perf_counter(), []
        for image, lines in enumerate(texts):
            scores = encoder.encode_texts(lines) @ vectors.T
            ranks.append((scores > scores[:, [image]]).sum(1))
        found = {most: np.mean(np.array(ranks) < most, axis=1) for most in (1, 5)}
        note = ", ".join(f"R@{most} {means(share)}, chance {most / count:.3f}" for most, share in found.items())
        yield Row(f"text to image of {count}: {name}", time.perf_counter() - start, note=note)


def of_shares(vectors: npt.NDArray[np.float32], tables: Mapping[str, Array]) -> Row:
    """Neighbours at other shares λ of what the classifier sees."""
    parts, notes = [vectors[:, :FEATURES] / (1 - SHARE) ** 0.5, vectors[:, FEATURES:] / SHARE**0.5], list[str]()
    for share in SHARES:
        weighed = np.concatenate([(1 - share) ** 0.5 * parts[0], share**0.5 * parts[1]], axis=1)
        around, _ = nearest(weighed, NEIGHBOURS)
        own = (f"{name} {means(np.take_along_axis(table, around, 1).mean(1))}" for name, table in tables.items())
        notes.append(f"{share:g}: {', '.join(own)}")
    return Row(f"{NEIGHBOURS} neighbours by share", 0.0, note="; ".join(notes))


def frames_of(video: Path) -> tuple[list[Pixels], Array]:
    """Frames, five a second, with their seconds."""
    frames, times = list[Pixels](), list[float]()
    with av.open(str(video)) as container:
        for frame in container.decode(video=0):
            if not times or float(frame.time or 0) - times[-1] >= 0.2 - 1e-6:
                frames.append(frame.to_ndarray(format="rgb24"))
                times.append(float(frame.time or 0))
    return frames, np.array(times)


def of_clip(video: Path) -> Iterator[Row]:
    """Rows of distances: to the same frame saved again, and to frames that come later."""
    encoder, (frames, times) = load_encoder("ctxr-lite"), frames_of(video)
    vectors = encoder.encode_images(frames)
    parts = list[str]()
    for name, make in AGAIN.items():
        far = np.linalg.norm(encoder.encode_images([make(rgb) for rgb in frames]) - vectors, axis=1)
        parts.append(f"{name} {np.median(far):.2f}, 90 % below {np.quantile(far, 0.9):.2f}")
    yield Row(f"{video.name}: the same frame", 0.0, note="; ".join(parts))
    parts = []
    for seconds in APART:
        later = np.searchsorted(times, times + seconds - 1e-3)
        ahead = later < len(times)
        if ahead.any():
            far = np.linalg.norm(vectors[later[ahead]] - vectors[ahead], axis=1)
            parts.append(
                f"{seconds:g} s {np.median(far):.2f}, {np.mean(far > encoder.threshold):.0%} beyond {encoder.threshold}"
            )
    yield Row(f"{video.name}: later frames", 0.0, note="; ".join(parts))
    # which no option allows
    rough = Encoder(replace(find_source("ctxr-lite"), rounds=True), "cpu", "bf16", print)
    errors = np.linalg.norm(rough.encode_images(frames) - vectors, axis=1)
    note = f"margin {rough.margin:.2f}, a distance errs by up to {2 * errors.max():.2f}"
    yield Row(f"{video.name}: bf16", 0.0, note=note)


def measure(folder: str, captions: str, *videos: str) -> list[Row]:
    """All rows."""
    clips = (row for video in videos for row in of_clip(Path(video)))
    return [*of_photos(Path(folder), Path(captions)), *clips]


if __name__ == "__main__":
    from bench.__main__ import show

    show("lite", measure(*sys.argv[1:]))
