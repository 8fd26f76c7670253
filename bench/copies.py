"""Copies: which variants of photos are found by hash and vector together, and which different pictures are taken for copies.

python -m bench copies                          photos of the drawn world, most of which differ from another by one visible thing
python -m bench.copies FOLDER [VIDEO ...]       photos of a folder; frames of videos, five a second, that look nearly alike
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path

import av
import cv2
import numpy as np
from PIL import Image

from bench.table import Row
from ctxr.media.images import Pixels, perceptual_hash, read_image
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.neighbours import nearest
from ctxr.pipelines.curation.copies import CopyRule, Positions, deduplicate, find_copies
from ctxr.store.records import PHOTO_SUFFIXES
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.footage import sample_album

STILL = 4.0
"""Mean absolute luma difference from which two frames count as different: the default motion gate."""


def scaled(rgb: Pixels, share: float) -> Pixels:
    """Every side times `share`."""
    size = max(1, round(rgb.shape[1] * share)), max(1, round(rgb.shape[0] * share))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def saved(rgb: Pixels, quality: int) -> Pixels:
    """As JPEG and back."""
    content = BytesIO()
    Image.fromarray(rgb).save(content, "JPEG", quality=quality)
    return np.asarray(Image.open(content).convert("RGB"))


def cropped(rgb: Pixels, share: float, corner: bool = False) -> Pixels:
    """Without `share` of the height and width at every side, or at two sides."""
    down, right = round(rgb.shape[0] * share), round(rgb.shape[1] * share)
    stop = (None, None) if corner else (rgb.shape[0] - down, rgb.shape[1] - right)
    return np.ascontiguousarray(rgb[down : stop[0], right : stop[1]])


def bordered(rgb: Pixels, share: float, tone: int = 0) -> Pixels:
    """With `share` of the longer side around it."""
    wide = round(max(rgb.shape) * share)
    return np.pad(rgb, ((wide, wide), (wide, wide), (0, 0)), constant_values=tone)


FAMILIES: dict[str, Callable[[Pixels], Pixels]] = {
    **{f"scale {share:.0%}": partial(scaled, share=share) for share in (0.25, 0.5, 0.75)},
    **{f"JPEG q{quality}": partial(saved, quality=quality) for quality in (20, 40, 70, 95)},
    "scale 50%, q40": lambda rgb: saved(scaled(rgb, 0.5), 40),
    "thumbnail, 64 pixels, q85": lambda rgb: saved(scaled(rgb, 64 / max(rgb.shape)), 85),
    **{f"crop {share:.1%}": partial(cropped, share=share) for share in (0.01, 0.02, 0.025, 0.03, 0.04, 0.05)},
    "crop 2%, two sides": partial(cropped, share=0.02, corner=True),
    "crop 5%, scale 50%, q40": lambda rgb: saved(scaled(cropped(rgb, 0.05), 0.5), 40),
    **{f"border {share:.0%}": partial(bordered, share=share) for share in (0.03, 0.08)},
    "border 8%, white": partial(bordered, share=0.08, tone=255),
    "border 3%, q40": lambda rgb: saved(bordered(rgb, 0.03), 40),
    "grey": lambda rgb: np.asarray(Image.fromarray(rgb).convert("L").convert("RGB")),
}
"""Variants of a photo."""


def drawn(count: int = 150, seed: int = 77) -> list[Pixels]:
    """Photos of the drawn world without its copies: scenes, and neighbours that differ from them by one visible thing."""
    album = sample_album(np.random.default_rng(seed), count)
    return [render(shot.scene, shot.width, shot.height) for shot in album if not shot.copy]


def copies_among(pictures: Sequence[Pixels], encoder: Encoder, rule: CopyRule) -> Positions:
    """Pairs of copies among pictures whose files all differ."""
    vectors = encoder.encode_images(pictures)
    around, distances = nearest(vectors, min(64, len(pictures) - 1))
    contents, hashes = [str(at) for at in range(len(pictures))], [perceptual_hash(rgb) for rgb in pictures]
    pairs = find_copies(contents, vectors, around, distances, rule, hashes=hashes)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def measure(folder: str | None = None, videos: Sequence[str] = ()) -> list[Row]:
    """Recall by family, pairs of different photos called copies, and pairs of different frames called copies."""
    if folder is None:
        photos = drawn()
    else:
        files = sorted(file for file in Path(folder).iterdir() if file.suffix.lower() in PHOTO_SUFFIXES)
        photos = [read_image(file) for file in files]
    encoder = load_encoder("ctxr-tiny")
    rule, rows, everything = CopyRule.of_encoder(encoder.threshold), [], list(photos)
    for family, make in FAMILIES.items():
        start, variants = time.perf_counter(), [make(rgb) for rgb in photos]
        pairs, count = copies_among([*photos, *variants], encoder, rule), len(photos)
        old = copies_among([*photos, *variants], encoder, CopyRule(rule.strict))
        wrong = int((pairs[:, 0] % count != pairs[:, 1] % count).sum())
        found, before = (int((some[:, 1] - some[:, 0] == count).sum()) for some in (pairs, old))
        note = f"{found} of {count} found ({found / count:.1%}; by vectors alone {before}), {wrong} wrong pairs"
        rows.append(Row(family, time.perf_counter() - start, note=note))
        everything += variants
    start, pairs = time.perf_counter(), copies_among(everything, encoder, rule)
    labels, count = deduplicate(pairs, np.arange(len(everything))), len(photos)
    mixed = sum(len({int(at) % count for at in np.flatnonzero(labels == label)}) > 1 for label in np.unique(labels))
    wrong = int((pairs[:, 0] % count != pairs[:, 1] % count).sum())
    note = f"{len(pairs)} pairs, {wrong} of different photos; {mixed} groups hold different photos"
    rows.append(Row("all of these at once", time.perf_counter() - start, note=note))
    return rows + [near_still(Path(video), encoder, rule) for video in videos]


def near_still(video: Path, encoder: Encoder, rule: CopyRule) -> Row:
    """Neighbouring frames of a video, five a second, that the motion gate lets pass: how many are called copies."""
    start, last, frames = time.perf_counter(), -1.0, list[Pixels]()
    with av.open(str(video)) as container:
        for frame in container.decode(video=0):
            rgb = frame.to_ndarray(format="rgb24")
            still = frames and np.abs(rgb.mean(axis=2) - frames[-1].mean(axis=2)).mean() < STILL
            if float(frame.time or 0) - last >= 0.2 - 1e-6 and not still:
                frames.append(rgb)
                last = float(frame.time or 0)
    pairs = copies_among(frames, encoder, rule)
    groups = len(np.unique(deduplicate(pairs, np.arange(len(frames)))))
    beside = int((pairs[:, 1] - pairs[:, 0] == 1).sum())
    note = f"{beside} of {len(frames) - 1} neighbours, {len(pairs)} pairs called copies; {groups} groups of {len(frames)} frames"
    return Row(f"frames of {video.name}", time.perf_counter() - start, note=note)


if __name__ == "__main__":
    from bench.__main__ import show

    show("copies", measure(sys.argv[1] if len(sys.argv) > 1 else None, sys.argv[2:]))
