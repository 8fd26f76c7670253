"""Albums: photographs of near neighbours, with exact duplicates among them."""

from typing import Literal

import msgspec
import numpy as np

from ctxr.synthetic.world.scenes import Scene, sample_scene
from ctxr.synthetic.world.sets import neighbours

SIZES = ((400, 300), (300, 400), (480, 320), (360, 360))
"""Widths and heights of photos, in pixels; all photos of one base scene are of one size."""

Copy = Literal["", "bytes", "encoding"]
"""Not a copy, a copy of the file's bytes, or the same picture encoded again at another quality."""


class Snapshot(msgspec.Struct, frozen=True):
    """One photo before it is saved, `width` x `height` pixels when upright.

    Attributes:
        group: exact duplicates share it; every other photo has its own. copy: how it was made from the first photo of its group.
        quality: of the JPEG, 0..100. orientation: EXIF value; 6 means that a viewer must turn the stored picture clockwise.
    """

    scene: Scene
    width: int
    height: int
    group: int
    copy: Copy = ""
    quality: int = 92
    orientation: int = 1


def sample_album(rng: np.random.Generator, count: int) -> list[Snapshot]:
    """Return `count` photos in random order: base scenes with up to eleven near neighbours each.

    From four photos on, one in eight is an exact duplicate of another, in turn of its bytes and of its picture, and one
    photo has its orientation in EXIF.
    """
    copies = max(2, count // 8) if count >= 4 else 0
    photos: list[Snapshot] = []
    while len(photos) < count - copies:
        width, height = SIZES[int(rng.integers(len(SIZES)))]
        base = sample_scene(rng, width / height)
        family = [base, *neighbours(rng, base, min(11, count - copies - len(photos) - 1))]
        photos += [Snapshot(scene, width, height, len(photos) + i) for i, scene in enumerate(family)]
    if count >= 4:
        turned = int(rng.integers(len(photos)))
        photos[turned] = msgspec.structs.replace(photos[turned], orientation=6)
    for index in range(copies):
        original = photos[int(rng.integers(count - copies))]
        kind: Copy = "bytes" if index % 2 == 0 else "encoding"
        quality = original.quality if kind == "bytes" else 80
        photos.append(msgspec.structs.replace(original, copy=kind, quality=quality))
    return [photos[i] for i in rng.permutation(len(photos))]
