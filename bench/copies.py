"""Copies: which variants of photos are found, and which different pictures are taken for copies.

python -m bench copies                          photos of the drawn world with variants of each, then 1,435 scenes at once
python -m bench.copies FOLDER [VIDEO ...]       every second photo of a folder (the rule was chosen on the others), then frames of
                                                videos, five a second, that look nearly alike
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
from ctxr.media.video import turned
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.neighbours import nearest
from ctxr.pipelines.curation.copies import CopyRule, Positions, find_copies
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


def captioned(rgb: Pixels, share: float, tone: int = 255, top: bool = False) -> Pixels:
    """With a bar of `share` of the height that holds words, below or on top."""
    bar = np.full((max(8, round(rgb.shape[0] * share)), rgb.shape[1], 3), tone, np.uint8)
    size, ink = rgb.shape[1] / 500, (255 - tone,) * 3
    cv2.putText(bar, "when the photo has a caption", (9, round(0.7 * len(bar))), 0, size, ink, 1, cv2.LINE_AA)
    return np.concatenate([bar, rgb] if top else [rgb, bar])


def part(rgb: Pixels, share: float, down: float, right: float) -> Pixels:
    """`share` of the height and width, beginning at shares of what is left."""
    height, width = (round(side * share) for side in rgb.shape[:2])
    top, left = round((rgb.shape[0] - height) * down), round((rgb.shape[1] - width) * right)
    return np.ascontiguousarray(rgb[top : top + height, left : left + width])


def grey(rgb: Pixels) -> Pixels:
    """Luma in all channels."""
    return np.asarray(Image.fromarray(rgb).convert("L").convert("RGB"))


FAMILIES: dict[str, Callable[[Pixels], Pixels]] = {
    **{f"scale {share:.0%}": partial(scaled, share=share) for share in (0.25, 0.5, 0.75)},
    **{f"JPEG q{quality}": partial(saved, quality=quality) for quality in (20, 40, 70, 95)},
    "scale 50%, q40": lambda rgb: saved(scaled(rgb, 0.5), 40),
    "thumbnail, 64 pixels, q85": lambda rgb: saved(scaled(rgb, 64 / max(rgb.shape)), 85),
    "grey": grey,
    "grey, q40": lambda rgb: saved(grey(rgb), 40),
    **{f"border {share:.0%}": partial(bordered, share=share) for share in (0.03, 0.08, 0.15)},
    "border 8%, white": partial(bordered, share=0.08, tone=255),
    "border 3%, q40": lambda rgb: saved(bordered(rgb, 0.03), 40),
    "border 15%, white, q40": lambda rgb: saved(bordered(rgb, 0.15, 255), 40),
    "caption 12% below": partial(captioned, share=0.12),
    "caption 15% on top, black": partial(captioned, share=0.15, tone=0, top=True),
    "caption 20% below, q60": lambda rgb: saved(captioned(rgb, 0.2), 60),
    **{f"crop to {1 - 2 * share:.0%}": partial(cropped, share=share) for share in (0.01, 0.025, 0.05, 0.075)},
    "crop to 96%, two sides": partial(cropped, share=0.04, corner=True),
    "crop to 90%, at a corner": partial(part, share=0.9, down=0, right=0),
    "crop to 85%, at a corner": partial(part, share=0.85, down=1, right=0),
    "crop to 85%, q60": lambda rgb: saved(part(rgb, 0.85, 0.3, 0.8), 60),
    "crop to 85% of the width": lambda rgb: np.ascontiguousarray(rgb[:, round(0.15 * rgb.shape[1]) :]),
    "crop to 90%, scale 50%, q40": lambda rgb: saved(scaled(cropped(rgb, 0.05), 0.5), 40),
    "mirror": partial(turned, turn=1),
    "mirror, q60": lambda rgb: saved(turned(rgb, 1), 60),
    "upside down": partial(turned, turn=3),
    "turn by 90°": partial(turned, turn=5),
    "turn by 270°, q60": lambda rgb: saved(turned(rgb, 6), 60),
}
"""Variants of a photo."""


def drawn(count: int = 80, seed: int = 77) -> list[Pixels]:
    """Photos of the drawn world without its copies: scenes, and neighbours that differ from them by one visible thing."""
    album = sample_album(np.random.default_rng(seed), count)
    return [render(shot.scene, shot.width, shot.height) for shot in album if not shot.copy]


def groups_among(pictures: Sequence[Pixels], encoder: Encoder) -> Positions:
    """The group of each picture, with the others that are its copies, if the files of all differ."""
    around, _ = nearest(encoder.encode_images(pictures), min(64, len(pictures) - 1))
    contents, hashes = [str(at) for at in range(len(pictures))], [perceptual_hash(rgb) for rgb in pictures]
    return find_copies(contents, around, pictures.__getitem__, CopyRule(), hashes=hashes)


def judged(pictures: Sequence[Pixels], labels: Sequence[int], encoder: Encoder, family: str) -> Row:
    """How many of the pictures beyond the first of each label are found, and what else stands in a group with them."""
    start, groups, of = time.perf_counter(), groups_among(pictures, encoder), np.array(labels)
    count = len(set(labels))
    found = int((groups[count:] == groups[of[count:]]).sum())
    mixed = [np.unique(of[groups == group]) for group in np.unique(groups)]
    wrong = sum(len(some) * (len(some) - 1) // 2 for some in mixed)
    note = f"{found} of {len(of) - count} found ({found / max(1, len(of) - count):.1%}), " if len(of) > count else ""
    pairs = (len(of) ** 2 - int((np.bincount(of) ** 2).sum())) // 2
    note += f"{wrong} pairs of different photos in one group, of {pairs:,} pairs of different photos' pictures"
    return Row(family, time.perf_counter() - start, note=note)


def measure(folder: str | None = None, videos: Sequence[str] = ()) -> list[Row]:
    """Recall by family, and pairs of different photos that stand in one group."""
    encoder = load_encoder("ctxr-tiny")
    if folder is None:
        photos = drawn()
    else:
        files = sorted(file for file in Path(folder).iterdir() if file.suffix.lower() in PHOTO_SUFFIXES)
        photos = [read_image(file) for file in files[1::2]]
    count, rows, everything = len(photos), list[Row](), list(photos)
    for family, make in FAMILIES.items():
        variants = [make(rgb) for rgb in photos]
        everything += variants
        rows.append(judged([*photos, *variants], [*range(count)] * 2, encoder, family))
    if folder is None:
        scenes = drawn(1640, 78)
        rows.append(judged(scenes, range(len(scenes)), encoder, f"{len(scenes):,} scenes"))
    else:
        labels = [*range(count)] * (1 + len(FAMILIES))
        rows.append(judged(everything, labels, encoder, "all of these at once"))
    return rows + [near_still(Path(video), encoder) for video in videos]


def near_still(video: Path, encoder: Encoder) -> Row:
    """Neighbouring frames of a video, five a second, that the motion gate lets pass: how many are called copies."""
    start, last, frames = time.perf_counter(), -1.0, list[Pixels]()
    with av.open(str(video)) as container:
        for frame in container.decode(video=0):
            rgb = frame.to_ndarray(format="rgb24")
            still = frames and np.abs(rgb.mean(axis=2) - frames[-1].mean(axis=2)).mean() < STILL
            if float(frame.time or 0) - last >= 0.2 - 1e-6 and not still:
                frames.append(rgb)
                last = float(frame.time or 0)
    found = groups_among(frames, encoder)
    beside, groups = int((found[1:] == found[:-1]).sum()), len(np.unique(found))
    note = f"{beside} of {len(frames) - 1} neighbours called copies; {groups} groups of {len(frames)} frames"
    return Row(f"frames of {video.name}", time.perf_counter() - start, note=note)


if __name__ == "__main__":
    from bench.__main__ import show

    show("copies", measure(sys.argv[1] if len(sys.argv) > 1 else None, sys.argv[2:]))
