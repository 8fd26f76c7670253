"""Small views straight from the planes of a decoded PyAV frame, and the way up.

Colour conversion and scaling of whole frames cost as much as decoding, so the views needed of every frame are made from subsampled
planes: the planes are reduced first and only the small picture is converted.
"""

import functools
import re
import struct
from fractions import Fraction
from typing import Any, NamedTuple

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.video.reformatter import VideoReformatter

from ctxr.media.video import THUMBNAIL_SHAPE, Pixels

# Planar YUV or grey, 8 bits or little-endian words: the planes can be viewed as arrays. Anything else is reformatted by FFmpeg.
_PLANAR = re.compile(r"(?:yuvj?4[0-4][0-4]p|gray)(?P<bits>9|10|12|14|16)?(?:le)?")
_REDUCED = (THUMBNAIL_SHAPE[1] * 4, THUMBNAIL_SHAPE[0] * 4)
_NEUTRAL_CHROMA = 128
_UNSPECIFIED_COLORSPACE = 2


class Upright(NamedTuple):
    """How a stored picture becomes upright: transpose, then reverse rows, then reverse columns."""

    transpose: bool = False
    reverse_rows: bool = False
    reverse_columns: bool = False

    @property
    def rotation(self) -> int:
        """Degrees clockwise, 0, 90, 180 or 270; of a mirrored picture the turn without the mirroring."""
        if self.transpose:
            return 270 if self.reverse_rows else 90
        return 180 if self.reverse_columns else 0

    def apply(self, pixels: Pixels) -> Pixels:
        """`pixels` [rows, columns, ...] turned upright, as a view."""
        if self.transpose:
            pixels = pixels.swapaxes(0, 1)
        if self.reverse_rows:
            pixels = pixels[::-1]
        return pixels[:, ::-1] if self.reverse_columns else pixels


def upright_of(frame: Any) -> Upright:
    """The way up of a PyAV frame, from its display matrix.

    The matrix [a b u; c d v; x y w] maps a stored point (p, q) to (a p + c q, b p + d q): with b the larger of a and b,
    columns become rows. Turns that are no multiple of 90 degrees are rounded to one.

    Ask once for a video: looking at its side data ties a frame into a cycle of references, and its planes then wait for the
    garbage collector.
    """
    for data in frame.side_data:
        if data.type.name == "DISPLAYMATRIX" and len(bytes(data)) == 36:
            a, b, _, c, d = struct.unpack("=5i", bytes(data)[:20])
            if abs(b) > abs(a):
                return Upright(True, b < 0, c < 0)
            return Upright(False, d < 0, a < 0)
    return Upright()


def small_size(width: int, height: int, longest: int) -> tuple[int, int]:
    """(width, height), both even and at least 2, of a view whose longer side is at most `longest`; never enlarged but to be even."""
    scale = min(1.0, longest / max(width, height))
    return max(2, round(width * scale / 2) * 2), max(2, round(height * scale / 2) * 2)


def small_bgr(frame: Any, longest: int) -> Pixels:
    """A small BGR view uint8 [h, w, 3] of a PyAV frame: planes reduced bilinearly, then converted (BT.601, limited range).

    Detectors compare neighbouring frames of one video, so the colour matrix need not be the tagged one.
    """
    width, height = small_size(frame.width, frame.height, longest)
    bits = _planar_bits(frame.format.name)
    if bits is None:
        return _packed(frame.reformat(width, height, "bgr24", threads=1), 3)
    planes = frame.planes
    i420 = np.empty(width * height * 3 // 2, np.uint8)
    luma = width * height
    _reduce(planes[0], bits, i420[:luma].reshape(height, width))
    i420[luma:] = _NEUTRAL_CHROMA
    for plane, chroma in zip(planes[1:3], i420[luma:].reshape(2, height // 2, width // 2), strict=False):
        _reduce(plane, bits, chroma)
    return np.asarray(cv2.cvtColor(i420.reshape(height * 3 // 2, width), cv2.COLOR_YUV2BGR_I420), np.uint8)


def luma_thumbnail(frame: Any) -> Pixels:
    """The luma thumbnail uint8 [36, 64] of a PyAV frame; see `Frame.luma_thumbnail`."""
    bits = _planar_bits(frame.format.name)
    if bits is None:
        reduced = _packed(frame.reformat(*_REDUCED, "gray", threads=1), 1)
    else:
        reduced = np.empty(_REDUCED[::-1], np.uint8)
        _reduce(frame.planes[0], bits, reduced)
    return thumbnail_of(reduced)


def thumbnail_of(luma: Pixels) -> Pixels:
    """The thumbnail uint8 [36, 64] of a luma picture [h, w] of any size: bilinear to 256 x 144, then area means."""
    if luma.shape != _REDUCED[::-1]:
        luma = np.asarray(cv2.resize(luma, _REDUCED, interpolation=cv2.INTER_LINEAR), np.uint8)
    return np.asarray(cv2.resize(luma, THUMBNAIL_SHAPE[::-1], interpolation=cv2.INTER_AREA), np.uint8)


def square_size(width: int, height: int, aspect: Fraction | float | None) -> tuple[int, int]:
    """(width, height) in square pixels of a picture whose pixels are `aspect` times as wide as high, 0.1..10; no side becomes smaller."""
    if not aspect or not 0.1 <= aspect <= 10:
        return width, height
    return (round(width * aspect), height) if aspect > 1 else (width, round(height / aspect))


def rgb(frame: Any, upright: Upright, reformatter: VideoReformatter, aspect: Fraction | None = None) -> Pixels:
    """A PyAV frame as upright RGB uint8 [H, W, 3], contiguous, with the frame's own colour matrix and range where it states them, in
    square pixels where `aspect` is that of the stored ones."""
    size = square_size(frame.width, frame.height, aspect)
    try:
        converted = reformatter.reformat(frame, *size, format="rgb24", threads=1)
    except av.FFmpegError:
        # Reserved colour tags are refused by the scaler; players ignore them, and so do we.
        frame.colorspace = _UNSPECIFIED_COLORSPACE
        converted = reformatter.reformat(frame, *size, format="rgb24", threads=1)
    return np.ascontiguousarray(upright.apply(_packed(converted, 3)))


@functools.cache
def _planar_bits(name: str) -> int | None:
    match = _PLANAR.fullmatch(name)
    return None if match is None else int(match["bits"] or 8)


def _reduce(plane: Any, bits: int, into: Pixels) -> None:
    """Scale a plane bilinearly into `into` [h, w], words brought down to 8 bits.

    With an odd whole ratio, such as 1280 to 256, a target pixel's centre falls on a source pixel: bilinear is then every fifth pixel,
    which a strided view gives three times as fast.
    """
    height, width = into.shape
    words: npt.NDArray[Any] = np.frombuffer(plane, np.uint8 if bits == 8 else "<u2")
    view = words.reshape(plane.height, -1)[:, : plane.width]
    down, down_rest = divmod(plane.height, height)
    across, across_rest = divmod(plane.width, width)
    if not down_rest and not across_rest and down % 2 and across % 2:
        view = view[down // 2 :: down, across // 2 :: across]
    elif bits == 8:
        cv2.resize(view, (width, height), dst=into, interpolation=cv2.INTER_LINEAR)
        return
    else:
        view = cv2.resize(view, (width, height), interpolation=cv2.INTER_LINEAR)
    into[:] = view if bits == 8 else view >> (bits - 8)


def _packed(frame: Any, channels: int) -> Pixels:
    """A view of a packed 8-bit frame: uint8 [H, W, channels], or [H, W] for one channel. The view keeps the frame alive."""
    plane = frame.planes[0]
    rows = np.frombuffer(plane, np.uint8).reshape(frame.height, -1)[:, : frame.width * channels]
    return rows.reshape(frame.height, frame.width, channels) if channels > 1 else rows
