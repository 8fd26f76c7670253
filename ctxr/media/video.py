"""Videos as a stream of frames with exact times.

Frames come out upright. What is wrong with a file is a `VideoError` whose `reason` can be counted. Nothing here loads a decoder:
`ctxr.media.opencv_video.open_video` does.
"""

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

Pixels = npt.NDArray[np.uint8]

DECODERS: tuple[str, ...] = ("pyav", "opencv")

THUMBNAIL_SHAPE = (36, 64)
"""Rows and columns of a luma thumbnail."""


KEEP_DAMAGED = "the same command with --keep-damaged takes what can be decoded"
"""Hint for a video that can be used in part."""


class VideoError(DataError):
    """A file from which no frames, or not all frames, can be had.

    Attributes:
        reason: why, in snake_case: no_such_file, not_a_file, empty_file, unreadable, not_a_video, no_video_stream, no_decoder,
            no_frames, truncated, frame_not_found; of the process that decodes decoder_crashed, decoder_failed, stalled, time_limit,
            memory_limit, cancelled.
        problem: the sentence that says what is wrong; the message puts `file` before it, if one is given.
    """

    def __init__(self, reason: str, problem: str, hint: str = "", file: Path | None = None) -> None:
        super().__init__(problem if file is None else f"{file}: {problem}", hint)
        self.reason, self.problem = reason, problem


@dataclass(frozen=True)
class VideoHeader:
    """What is known of a video once its first frame is decoded.

    Attributes:
        width, height: pixels, upright; square ones.
        rotation: degrees clockwise by which stored frames were turned: 0, 90, 180 or 270.
        rate: average frames per second as the container says; None if it does not.
        duration: seconds as the container says; None if it does not.
        promised_frames: number of frames the container's own index lists; None if it has no such list.
        codec: the codec's short name, such as "h264".
        decoder: "pyav" or "opencv".
    """

    width: int
    height: int
    rotation: int
    rate: Fraction | None
    duration: Fraction | None
    promised_frames: int | None
    codec: str
    decoder: str


@dataclass(frozen=True)
class Damage:
    """A part of a video that cannot be decoded.

    Attributes:
        message: the missing part, within a sentence.
        share: lost part of the video, 0..1; higher is worse; 1 where the length is unknown.
    """

    message: str
    share: float


class Frame(ABC):
    """One decoded frame; pixels are converted only when asked for.

    Attributes:
        index: 0-based count of decoded frames in presentation order.
        time: exact seconds, presentation timestamp times time base, starting where the stream says.
        nbytes: bytes that the decoded picture occupies, for bounding how many are held.
    """

    __slots__ = ("index", "nbytes", "time")

    def __init__(self, index: int, time: Fraction, nbytes: int) -> None:
        self.index = index
        self.time = time
        self.nbytes = nbytes

    @abstractmethod
    def luma_thumbnail(self) -> Pixels:
        """Luma as stored (not turned upright), uint8 [36, 64], 0..255: area means of a bilinear 256 x 144 reduction.

        The two steps cost a seventh of the area mean over the whole plane and average the same noise away, 16 samples to a pixel.
        """

    @abstractmethod
    def small_bgr(self, width: int = 256) -> Pixels:
        """A small view for shot detectors, uint8 [h, w, 3], blue first, as stored (not turned upright).

        The longer side is at most `width` pixels, both sides are even. Never enlarged beyond rounding to even.
        """

    @abstractmethod
    def rgb(self) -> Pixels:
        """The whole picture, upright and in square pixels, uint8 [height, width, 3], contiguous."""


class Closing:
    """What is closed at the end of a block."""

    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Video(Closing, ABC):
    """An open video: `header`, then its frames once, in presentation order. A context manager.

    Attributes:
        stream: number of the video stream in its container; None where the decoder does not tell.
    """

    header: VideoHeader
    stream: int | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Frame]:
        """The frames, once. What a damaged stretch cannot give is left out and shows in `damage`."""

    @property
    @abstractmethod
    def damage(self) -> Damage | None:
        """After the last frame: what was lost; None if nothing was."""

    @abstractmethod
    def close(self) -> None:
        """Release the decoder. Frames that were handed out stay valid."""

    def rgb_at(self, time: Fraction) -> Pixels | None:
        """The picture that a full pass yields at `time`, by jumping; None where that is not certain. Not to be mixed with iterating."""
        return None


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
