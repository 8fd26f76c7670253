"""A picture's brightness, and the same at half the size: the two planes on which BRISQUE looks.

Both follow `piq.brisque` to the last bit where its result hangs on it (see `scene_statistics`), hence float32 and the order of
the additions.
"""

import math
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ctxr.errors import DataError
from ctxr.models.scratch import Scratch

# a plane of whole numbers (uint8) or of float32, [H, W], 0..255
Plane = NDArray[Any]

CUBIC_SUPPORT = 4
BLOCK = 64  # rows done at a time, so that they stay in the cache
NEARLY_HALF = 0.4998  # float32 errs by 3e-5; the nearest that is not a tie is 0.499 away
LANES = 64  # float32 columns that torch sums one after the other with AVX-512; the rest go in four lanes


def check_picture(rgb: NDArray[np.uint8]) -> None:
    """DataError, saying what to do, unless `rgb` is uint8 and [H, W, 3] or grey [H, W]."""
    if rgb.dtype != np.uint8:
        raise DataError(
            f"pixels are {rgb.dtype}, not uint8", hint="scale to 0..255 and round: (x * 255).round().astype('uint8')"
        )
    if rgb.ndim == 3 and rgb.shape[2] == 4:
        raise DataError(f"a picture of shape {rgb.shape} has an alpha channel", hint="drop it: image.convert('RGB')")
    if not (rgb.ndim == 2 or (rgb.ndim == 3 and rgb.shape[2] == 3)):
        raise DataError(f"a picture of shape {rgb.shape} is neither [H, W] nor [H, W, 3]", hint="image.convert('RGB')")


def luma(rgb: NDArray[np.uint8], scratch: Scratch) -> NDArray[np.uint8]:
    """Brightness of `rgb` [H, W, 3]: 0.299 R + 0.587 G + 0.114 B, rounded half to even, uint8 [H, W].

    cv2's own conversion of uint8 is off by one in one pixel of 200, which is enough to move a score by 0.01 of 100.
    """
    height, width = rgb.shape[:2]
    found = np.empty((height, width), np.uint8)
    for start in range(0, height, BLOCK):
        block = rgb[start : start + BLOCK]
        channels = scratch.take("channels", block.shape, np.float32)
        np.copyto(channels, block)
        exact = cv2.cvtColor(channels, cv2.COLOR_RGB2GRAY, dst=scratch.take("exact", block.shape[:2], np.float32))
        rounded = np.rint(exact, out=scratch.take("rounded", exact.shape, np.float32))
        distance = np.abs(np.subtract(exact, rounded, out=exact), out=exact)
        ties = np.flatnonzero(distance > NEARLY_HALF)
        if ties.size:
            red, green, blue = block.reshape(-1, 3)[ties].T.astype(np.float64)
            rounded.reshape(-1)[ties] = np.rint(0.299 * red + 0.587 * green + 0.114 * blue)
        np.copyto(found[start : start + BLOCK], rounded, casting="unsafe")
    return found


def halve(plane: Plane, scratch: Scratch) -> NDArray[np.float32]:
    """`plane` at half the size (sides rounded down), float32: cubic, its kernel widened against aliasing, edges mirrored."""
    across = cv2.transpose(_halve_rows(plane, scratch))
    return np.asarray(cv2.transpose(_halve_rows(across, scratch)))


def _halve_rows(plane: Plane, scratch: Scratch) -> NDArray[np.float32]:
    """Every row of half the height; the memory is that of the next call."""
    size, width = plane.shape
    margin, taps, weights = _halving(size)
    padded = scratch.take("mirrored", (size + 2 * margin, width), np.float32)
    np.copyto(padded[margin:-margin], plane)
    padded[:margin] = plane[margin - 1 :: -1]
    padded[-margin:] = plane[: -margin - 1 : -1]
    half = weights.shape[1]
    total = scratch.take("total", (half, width), np.float32)
    term = scratch.take("term", (BLOCK, width), np.float32)
    even = size % 2 == 0  # then all rows share their weights, and steps of 2 make a view
    for start in range(0, half, BLOCK):
        block = total[start : start + BLOCK]
        block.fill(0)
        for first, weight in zip(taps[:, start : start + BLOCK], weights[:, start : start + BLOCK], strict=True):
            rows = slice(first[0], first[-1] + 1, 2) if even else first
            block += np.multiply(padded[rows], weight[0] if even else weight[:, None], out=term[: len(block)])
    return total


@lru_cache(maxsize=64)
def _halving(size: int) -> tuple[int, NDArray[np.int64], NDArray[np.float32]]:
    """For a side of `size`: rows to mirror at each edge; for each tap and target row, its source row and its weight."""
    half = size // 2
    scale = half / size
    count = math.ceil(CUBIC_SUPPORT / scale) + 2
    centre = (np.arange(half, dtype=np.float32) + np.float32(0.5)) / np.float32(scale) - np.float32(0.5)
    first = np.floor(centre) - (count // 2) + 1
    at = np.abs((centre - first - np.arange(count, dtype=np.float32)[:, None]) * np.float32(scale))
    square = at * at
    cube = at * square
    near = np.float32(1.5) * cube - np.float32(2.5) * square + np.float32(1)
    far = np.float32(-0.5) * cube + np.float32(2.5) * square - np.float32(4) * at + np.float32(2)
    weights = np.where(at <= 1, near, np.where(at <= 2, far, np.float32(0)))
    weights /= _column_sums(weights)
    used = np.flatnonzero(weights.any(axis=1))
    taps = first.astype(np.int64) + count + used[:, None]
    return count, taps, np.ascontiguousarray(weights[used])


def _column_sums(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums of the columns in torch's order, which decides the last bit and with it the noise of flat areas in odd sizes."""
    sums = np.add.accumulate(weights)[-1]
    tail = weights[:, weights.shape[1] // LANES * LANES :]
    whole = len(weights) // 4 * 4
    lanes = [np.add.accumulate(tail[lane:whole:4])[-1] for lane in range(4)]
    lanes[0] = np.add.accumulate(np.vstack([lanes[0][None], tail[whole:]]))[-1]
    sums[weights.shape[1] // LANES * LANES :] = ((lanes[0] + lanes[1]) + lanes[2]) + lanes[3]
    return np.asarray(sums)
