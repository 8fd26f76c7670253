"""Decoding with OpenCV, for files on which PyAV fails, at about half the speed; and the choice between the two.

`open_video` decodes from the first frame to the last; `FrameReader` reads given frames again, bit for bit.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np

from ctxr.errors import UsageError
from ctxr.media.pyav_video import (
    MOST_FRAMES,
    NO_FRAMES,
    PyavVideo,
    ends_early,
    is_short,
    small_size,
    square_size,
    thumbnail_of,
)
from ctxr.media.scan import ScanOptions
from ctxr.media.video import DECODERS, Closeable, Damage, Frame, Pixels, Video, VideoError, VideoHeader, check_file

_LARGEST_DENOMINATOR = 1_000_000  # below it, common time bases (1/90000, 1/1000) are exact in milliseconds
_LEAST_GAP = Fraction(1, 2)  # durations may be estimates, or those of the sound: less than a second is not a loss


class OpencvFrame(Frame):
    """A frame of OpenCV: BGR, upright, in square pixels."""

    __slots__ = ("_bgr",)

    def __init__(self, index: int, time: Fraction, bgr: Pixels) -> None:
        super().__init__(index, time, bgr.nbytes)
        self._bgr = bgr

    def luma_thumbnail(self) -> Pixels:
        """As `Frame.luma_thumbnail`, but upright and from the reduced BGR picture."""
        return thumbnail_of(np.asarray(cv2.cvtColor(self.small_bgr(), cv2.COLOR_BGR2GRAY), np.uint8))

    def small_bgr(self, width: int = 256) -> Pixels:
        """As `Frame.small_bgr`, but upright."""
        size = small_size(self._bgr.shape[1], self._bgr.shape[0], width)
        return np.asarray(cv2.resize(self._bgr, size, interpolation=cv2.INTER_LINEAR), np.uint8)

    def rgb(self) -> Pixels:
        """See `Frame.rgb`."""
        return np.asarray(cv2.cvtColor(self._bgr, cv2.COLOR_BGR2RGB), np.uint8)


class OpencvVideo(Video):
    """A video decoded through OpenCV's FFmpeg backend. Times are relative to the first frame that the container announces."""

    def __init__(self, path: Path, threads: int) -> None:
        self._path = path
        self._gap, self._end, self._count = Fraction(0), Fraction(0), 0
        self._capture = cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, threads])
        if not self._capture.isOpened():
            self.close()
            raise VideoError("not_a_video", "OpenCV finds no video in the file", file=path)
        wide, high = (self._capture.get(term) for term in (cv2.CAP_PROP_SAR_NUM, cv2.CAP_PROP_SAR_DEN))
        turned = self._capture.get(cv2.CAP_PROP_ORIENTATION_META) % 180
        self._aspect = (high / wide if turned else wide / high) if wide > 0 and high > 0 else 1.0
        self._first: Pixels | None = self._read()
        if self._first is None:
            self.close()
            raise VideoError("no_frames", NO_FRAMES, file=path)
        rate, frames = (self._capture.get(term) for term in (cv2.CAP_PROP_FPS, cv2.CAP_PROP_FRAME_COUNT))
        exact_rate = Fraction(rate).limit_denominator(1001) if 0 < rate < 1000 else None
        duration = Fraction(round(frames)) / exact_rate if exact_rate and 0 < frames < MOST_FRAMES else None
        height, width = self._first.shape[:2]
        self.header = VideoHeader(width, height, exact_rate, duration, None, "opencv")

    def __iter__(self) -> Iterator[Frame]:
        bgr, self._first = self._first, None
        index, time = 0, Fraction(0)
        while bgr is not None:
            seconds = self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
            previous, time = time, Fraction(seconds).limit_denominator(_LARGEST_DENOMINATOR)
            if index:
                self._gap = max(self._gap, time - previous)
            self._end = time + (1 / self.header.rate if self.header.rate else 0)
            yield OpencvFrame(index, time, bgr)
            self._count = index = index + 1
            bgr = self._read()

    @property
    def damage(self) -> Damage | None:
        """Damage if a video ends long before its stated end; OpenCV reports no failed packets."""
        length = self.header.duration
        if length is None or not is_short(length, self._end, max(self._gap, _LEAST_GAP)):
            return None
        return ends_early(self._count, self._end, length, self._end / self._count)

    def close(self) -> None:
        """See `Closeable.close`."""
        self._capture.release()

    def _read(self) -> Pixels | None:
        decoded, bgr = self._capture.read()
        if not decoded:
            return None
        size = square_size(bgr.shape[1], bgr.shape[0], self._aspect)
        return np.asarray(bgr if size == bgr.shape[1::-1] else cv2.resize(bgr, size), np.uint8)


def open_video(path: Path, decoder: str = "pyav", threads: int = ScanOptions.threads) -> Video:
    """Open a video file and decode its first frame.

    Args:
        decoder: "pyav" (exact times, reports damage) or "opencv" (times relative to the first frame, to the microsecond).
        threads: decoding threads at work; PyAV keeps one more waiting.

    Raises VideoError for a file that this decoder cannot decode, UsageError for an unknown decoder.
    """
    if decoder not in DECODERS:
        raise UsageError(f"unknown decoder {decoder!r}", f"one of: {', '.join(DECODERS)}")
    check_file(path)
    return OpencvVideo(path, threads) if decoder == "opencv" else PyavVideo(path, threads)


class FrameReader(Closeable):
    """Reads frames again by (index, time), with the pixels of a full pass of the same decoder; fastest in ascending order.

    PyAV jumps to the keyframe before a time where that saves decoding, and decodes from the start where the jump is not certain.
    OpenCV always decodes from the start. The file is opened at the first read. `passed` is called for every frame on the way.
    """

    def __init__(
        self,
        path: Path,
        decoder: str = "pyav",
        threads: int = ScanOptions.threads,
        passed: Callable[[], None] = lambda: None,
    ) -> None:
        self._path, self._decoder, self._threads, self._passed = path, decoder, threads, passed
        self._video: Video | None = None
        self._frames: Iterator[Frame] | None = None
        self._position = -1

    def read(self, index: int, time: Fraction) -> Pixels:
        """The frame as RGB uint8 [H, W, 3], upright. Raises VideoError if there is no such frame, or as `open_video`."""
        if self._frames is None:
            self._video = self._video or open_video(self._path, self._decoder, self._threads)
            if (pixels := self._video.rgb_at(time)) is not None:
                return pixels
        if self._frames is None or index <= self._position:
            self.close()
            self._video = open_video(self._path, self._decoder, self._threads)
            self._frames = iter(self._video)
        for frame in self._frames:
            self._position = frame.index
            if frame.index == index:
                if frame.time != time:
                    break
                return frame.rgb()
            self._passed()
        problem = f"frame {index} at {float(time):.3f} s is not in the file"
        raise VideoError("frame_not_found", problem, "the file changed since it was scanned: scan it again", self._path)

    @property
    def stream(self) -> int | None:
        """Number of the stream; None before the first read, and with OpenCV."""
        return self._video.stream if self._video is not None else None

    def close(self) -> None:
        """Release the decoder."""
        if self._video is not None:
            self._video.close()
        self._video = None
