"""Videos as a stream of frames with exact times.

`open_video` decodes once, from the first frame to the last; `extract_frames` fetches named frames again, bit for bit. Frames come out
upright. What is wrong with a file is a `VideoError` whose `reason` can be counted.
"""

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError, UsageError

Pixels = npt.NDArray[np.uint8]

DECODERS: tuple[str, ...] = ("pyav", "opencv")

THUMBNAIL_SHAPE = (36, 64)
"""Rows and columns of a luma thumbnail."""


class VideoError(DataError):
    """A file from which no frames, or not all frames, can be had.

    Attributes:
        reason: why, in snake_case: no_such_file, not_a_file, empty_file, unreadable, not_a_video, no_video_stream, no_decoder,
            no_frames, truncated, frame_not_found.
    """

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason


@dataclass(frozen=True)
class VideoHeader:
    """What is known of a video once its first frame is decoded.

    Attributes:
        width: pixels, upright.
        height: pixels, upright.
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
    """What could not be decoded.

    Attributes:
        message: what is missing, as part of a sentence.
        share: lost part of the video, 0..1; higher is worse.
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
        """The whole picture, upright, uint8 [height, width, 3], contiguous."""


class Video(ABC):
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

    def __enter__(self) -> "Video":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_video(path: Path, decoder: str = "pyav", threads: int = 2) -> Video:
    """Open a video file and decode its first frame.

    Args:
        path: a file; what it is called does not matter.
        decoder: "pyav" (exact times, sees damage) or "opencv" (a second chance: times relative to the first frame, to the microsecond).
        threads: decoding threads, fixed so that memory does not depend on the machine.

    Raises:
        VideoError: with a reason, if the file is not a video that this decoder can decode.
        UsageError: unknown decoder.
    """
    if decoder not in DECODERS:
        raise UsageError(f"unknown decoder {decoder!r}", f"one of: {', '.join(DECODERS)}")
    check_file(path)
    if decoder == "opencv":
        from ctxr.data.opencv_video import OpencvVideo

        return OpencvVideo(path, threads)
    from ctxr.data.pyav_video import PyavVideo

    return PyavVideo(path, threads)


class FrameReader:
    """Reads frames again by their (index, time): the same pixels as a full pass of the same decoder. A context manager.

    PyAV jumps to the keyframe before a wanted time where the container lists its keyframes and the jump saves decoding, and falls back to
    decoding from the start where the jump cannot be trusted. OpenCV always decodes from the start. Reading in ascending order is fastest.
    Nothing is opened before the first read. `passed` is called for every frame that only had to be passed on the way.
    """

    def __init__(
        self, path: Path, decoder: str = "pyav", threads: int = 2, passed: Callable[[], None] = lambda: None
    ) -> None:
        self._path, self._decoder, self._threads, self._passed = path, decoder, threads, passed
        self._video: Video | None = None
        self._frames: Iterator[Frame] | None = None
        self._position = -1

    def read(self, index: int, time: Fraction) -> Pixels:
        """The frame as RGB uint8 [H, W, 3], upright.

        Raises:
            VideoError: "frame_not_found" if there is no such frame (the file is not the one that was scanned), or as `open_video`.
        """
        if self._frames is None:
            self._video = self._video or self._open()
            pixels = self._video.rgb_at(time)
            if pixels is not None:
                return pixels
        if self._frames is None or index <= self._position:
            self.close()
            self._video = self._open()
            self._frames = iter(self._video)
        for frame in self._frames:
            self._position = frame.index
            if frame.index == index:
                if frame.time != time:
                    break
                return frame.rgb()
            self._passed()
        raise VideoError(
            "frame_not_found",
            f"frame {index} at {float(time):.3f} s is not in the file",
            "the file changed since it was scanned: scan it again",
        )

    @property
    def stream(self) -> int | None:
        """Number of the stream that was read last; None before the first read, and where the decoder does not tell."""
        return self._video.stream if self._video is not None else None

    def _open(self) -> Video:
        return open_video(self._path, self._decoder, self._threads)

    def close(self) -> None:
        """Release the decoder."""
        if self._video is not None:
            self._video.close()
        self._video = None

    def __enter__(self) -> "FrameReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def extract_frames(
    path: Path, wanted: Sequence[tuple[int, Fraction]], decoder: str = "pyav", threads: int = 2
) -> Iterator[tuple[int, Pixels]]:
    """The frames that a full pass of the same decoder yields at (index, time), as (index, rgb uint8 [H, W, 3]), sorted by index.

    Raises as `FrameReader.read`.
    """
    with FrameReader(path, decoder, threads) as reader:
        for index, time in sorted(set(wanted)):
            yield index, reader.read(index, time)


def check_file(path: Path) -> None:
    """Raise VideoError if `path` is not a regular file with readable content."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise VideoError("not_a_file", f"{path}: is {kind}, not a video file")
        if status.st_size == 0:
            raise VideoError("empty_file", f"{path}: the file is empty (0 bytes)")
        os.close(os.open(path, os.O_RDONLY))
    except FileNotFoundError as error:
        raise VideoError("no_such_file", f"{path}: no such file") from error
    except OSError as error:
        raise VideoError("unreadable", f"{path}: cannot be read: {error.strerror}") from error
