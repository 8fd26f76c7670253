"""What the decoding child process and its parent say to each other: a few JSON fields and, with a frame, its pixels."""

import json
import os
import struct
from collections.abc import Mapping
from fractions import Fraction
from typing import IO, Any

import numpy as np

from ctxr.data.video import Pixels, VideoHeader

# Magic, bytes of JSON, bytes of pixels.
_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"ctxR"
# A message that claims more is none: 64 MiB of JSON are a million shots, 4 GiB of pixels a frame of 37,000 x 37,000.
_LARGEST_JSON = 64 << 20
_LARGEST_PIXELS = 4 << 30


_OUT_OF_MEMORY = (
    "memoryerror",
    "bad_alloc",
    "cannot allocate memory",
    "insufficient memory",
    "outofmemory",
    "failed to map segment",
    "can't start new thread",
)


class NonsenseError(Exception):
    """Bytes that are no message."""


def send(descriptor: int, fields: Mapping[str, Any], pixels: Pixels | None = None) -> None:
    """Write one message, in full. `pixels` is contiguous; its shape travels with it."""
    if pixels is not None:
        fields = {**fields, "shape": pixels.shape}
    text = json.dumps(fields, separators=(",", ":")).encode()
    _write(descriptor, _PREFIX.pack(_MAGIC, len(text), 0 if pixels is None else pixels.nbytes) + text)
    if pixels is not None:
        _write(descriptor, pixels.data.cast("B"))


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], Pixels | None] | None:
    """The next message as (fields, pixels uint8 of the shape sent, or None); None at the end, also in the middle of a message.

    Raises:
        NonsenseError: what comes is not a message.
    """
    prefix = stream.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        if prefix and not _MAGIC.startswith(prefix[:4]):
            raise NonsenseError(repr(prefix))
        return None
    magic, text_bytes, pixel_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC or text_bytes > _LARGEST_JSON or pixel_bytes > _LARGEST_PIXELS:
        raise NonsenseError(repr(prefix))
    text = stream.read(text_bytes)
    if len(text) < text_bytes:
        return None
    try:
        fields = json.loads(text)
        if not pixel_bytes:
            return fields, None
        pixels = np.empty(fields.pop("shape"), np.uint8)
        if pixels.nbytes != pixel_bytes:
            raise NonsenseError(f"{pixel_bytes} bytes for pixels of shape {pixels.shape}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NonsenseError(str(error)) from error
    # The kernel copies straight into the array that is handed on.
    view = pixels.data.cast("B")
    filled = 0
    while filled < pixel_bytes:
        count = stream.readinto(view[filled:])  # type: ignore[attr-defined]  # both of the buffered and the raw readers have it
        if not count:
            return None
        filled += count
    return fields, pixels


def pair(number: Fraction | None) -> list[int] | None:
    """A fraction as [numerator, denominator]."""
    return None if number is None else [number.numerator, number.denominator]


def fraction(numbers: list[int] | None) -> Fraction | None:
    """The reverse of `pair`."""
    return None if numbers is None else Fraction(*numbers)


def header_fields(header: VideoHeader) -> dict[str, Any]:
    """A header as JSON fields."""
    return {**vars(header), "rate": pair(header.rate), "duration": pair(header.duration)}


def header_of(fields: Mapping[str, Any]) -> VideoHeader:
    """The reverse of `header_fields`."""
    return VideoHeader(**{**fields, "rate": fraction(fields["rate"]), "duration": fraction(fields["duration"])})


def is_out_of_memory(said: str) -> bool:
    """Whether the text of an exception, or the last words of a process, mean that memory ran out: Python, FFmpeg, OpenCV, the loader."""
    text = said.lower()
    return any(sign in text for sign in _OUT_OF_MEMORY)


def _write(descriptor: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
