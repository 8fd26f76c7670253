"""Small clips made on the spot."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from ctxr.media.video import Pixels

SIZE = (160, 96)
RATE = 25
MILLISECOND = Fraction(1, 1000)


def scene(seed: int, step: int, size: tuple[int, int] = SIZE) -> Pixels:
    """A picture of smooth coloured noise, another for each seed, that pans by one pixel a step: uint8 [h, w, 3]."""
    width, height = size
    grain = np.random.default_rng(seed).integers(0, 256, (4, 8, 3), np.uint8)
    wide = cv2.resize(grain, (width + 256, height), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(wide[:, step % 256 : step % 256 + width], dtype=np.uint8)


def pictures(*shots: tuple[int, int], size: tuple[int, int] = SIZE) -> list[Pixels]:
    """The pictures of shots given as (seed, number of frames)."""
    return [scene(seed, step, size) for seed, frames in shots for step in range(frames)]


def write_clip(
    path: Path,
    frames: Sequence[Pixels],
    *,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    rate: int = RATE,
    stamps: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    rotation: float | None = None,
    mirrored: bool = False,
    aspect: Fraction | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Encode `frames` (RGB); `stamps` are in `time_base`, by default one per 1/rate."""
    defaults = {"preset": "ultrafast", "bf": "2"} if codec == "libx264" else {}
    with av.open(str(path), "w", container_options=container_options or {}) as container:
        stream = container.add_stream(codec, rate=rate, options={**defaults, **(options or {})})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pixel_format
        stream.codec_context.time_base = time_base or Fraction(1, rate)
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if rotation is not None or mirrored:
            stream.set_display_rotation(rotation or 0, hflip=mirrored)
        for index, pixels in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(pixels, "rgb24")
            picture.pts = index if stamps is None else stamps[index]
            picture.time_base = time_base or Fraction(1, rate)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def break_packet(path: Path, number: int) -> Path:
    """Overwrite one packet's bytes with garbage of the same length."""
    with av.open(str(path)) as container:
        packet = next(packet for count, packet in enumerate(container.demux(video=0)) if count == number)
        position, size = packet.pos, packet.size
    content = bytearray(path.read_bytes())
    content[position : position + size] = b"\xff" * size
    path.write_bytes(content)
    return path


def write_sound(path: Path) -> Path:
    """A second of silence and no picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        for _ in range(16):
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            silence.sample_rate = 16000
            container.mux(stream.encode(silence))
        container.mux(stream.encode(None))
    return path
