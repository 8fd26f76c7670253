"""Videos as streams of upright frames with exact times. `ctxr.media.opencv_video.open_video` loads a decoder; nothing here does."""

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError
from ctxr.media.sources import fetch, place_of

Pixels = npt.NDArray[np.uint8]

DECODERS: tuple[str, ...] = ("pyav", "opencv")
THUMBNAIL_SHAPE = (36, 64)  # rows and columns
KEEP_DAMAGED = "the same command with --keep-damaged takes what can be decoded"


TURNS = 8  # the symmetries of a rectangle: 4 transposes, then 2 reverses rows, then 1 columns


def turned(rgb: Pixels, turn: int) -> Pixels:
    """The picture after one of `TURNS`; 0 leaves it as it is."""
    rgb = rgb.transpose(1, 0, 2) if turn & 4 else rgb
    return np.ascontiguousarray(rgb[:: -1 if turn & 2 else 1, :: -1 if turn & 1 else 1])


class VideoError(DataError):
    """A file that gives no frames, or not all.

    Attributes:
        reason: no_such_file, not_a_file, empty_file, unreadable, changed, not_a_video, no_video_stream, no_decoder, no_frames, too_small,
            truncated, frame_not_found; of the decoding process decoder_crashed, decoder_failed, stalled, time_limit, memory_limit,
            cancelled; of the process above it worker_died.
        problem: the message without the file.
    """

    def __init__(self, reason: str, problem: str, hint: str = "", file: Path | None = None) -> None:
        super().__init__(problem if file is None else f"{place_of(file)}: {problem}", hint)
        self.reason, self.problem = reason, problem

    def __reduce__(self) -> tuple[object, ...]:
        return VideoError, (self.reason, self.message, self.hint), vars(self)


@dataclass(frozen=True)
class VideoHeader:
    """What is known of a video once its first frame is decoded.

    Attributes:
        width, height: upright square pixels.
        rate, duration: average frames per second, and seconds, as the container says.
        promised_frames: number of frames in the container's index; None without one.
    """

    width: int
    height: int
    rate: Fraction | None
    duration: Fraction | None
    promised_frames: int | None
    decoder: str


@dataclass(frozen=True)
class Damage:
    """What cannot be decoded of a video, in words, and its share of the video, 0..1; 1 where the length is unknown."""

    message: str
    share: float


class Frame(ABC):
    """One decoded frame, whose pixels are converted on demand.

    Attributes:
        index: number in presentation order, from 0. time: exact seconds.
        nbytes: memory of the decoded picture.
    """

    __slots__ = ("index", "nbytes", "time")

    def __init__(self, index: int, time: Fraction, nbytes: int) -> None:
        self.index = index
        self.time = time
        self.nbytes = nbytes

    @abstractmethod
    def luma_thumbnail(self) -> Pixels:
        """Luma as stored (not turned upright), uint8 [36, 64]: area means of a bilinear reduction to 256 x 144.

        The two steps cost a seventh of area means over the whole plane, and remove the same noise.
        """

    @abstractmethod
    def small_bgr(self, width: int = 256) -> Pixels:
        """A small view for shot detectors, BGR uint8 [h, w, 3], as stored (not turned upright).

        The longer side has at most `width` pixels, both sides are even; it is enlarged to even sides alone.
        """

    @abstractmethod
    def rgb(self) -> Pixels:
        """The whole picture, upright and in square pixels, uint8 [H, W, 3], contiguous."""


class Closeable(ABC):
    """A context manager that is closed at the end of the block."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Video(Closeable):
    """An open video, whose frames can be read once, and stay valid when it is closed.

    Attributes:
        stream: number of the video stream in its container; None with OpenCV.
    """

    header: VideoHeader
    stream: int | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Frame]:
        """The frames in presentation order, without those that cannot be decoded."""

    @property
    @abstractmethod
    def damage(self) -> Damage | None:
        """After the last frame: what was lost, if anything."""

    def rgb_at(self, time: Fraction) -> Pixels | None:
        """The picture of a full pass at `time`, by jumping; None where that is not certain. Do not mix with iterating."""
        return None


def fetch_video(path: Path) -> None:
    """Copy a video of a URL again if it is no longer in the cache. Raises VideoError where that is not possible."""
    try:
        fetch(path)
    except DataError as error:
        raise VideoError("no_such_file", error.message, error.hint) from error


def check_file(path: Path) -> None:
    """Raise VideoError if `path` is not a regular file with readable content."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder, not a video file" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise VideoError("not_a_file", f"this is {kind}", file=path)
        if status.st_size == 0:
            raise VideoError("empty_file", "the file is empty (0 bytes)", file=path)
        os.close(os.open(path, os.O_RDONLY))
    except FileNotFoundError as error:
        raise VideoError("no_such_file", "no such file", file=path) from error
    except OSError as error:
        raise VideoError("unreadable", f"the file cannot be read: {error.strerror}", file=path) from error
