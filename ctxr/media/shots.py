"""Shot boundaries: PySceneDetect's detectors frame by frame, and ffmpeg's scene filter, behind one interface.

PySceneDetect calls its detector interface unstable; only this file uses it (versions 0.7.x).
"""

import bisect
import math
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import cv2

from ctxr.engine.units import die_with_parent
from ctxr.media.opencv_video import open_video
from ctxr.media.scan import THRESHOLDS, ScanOptions
from ctxr.media.video import Frame, Pixels, VideoError, VideoHeader

_ADAPTIVE_WINDOW = 3
# PySceneDetect's: a cut has at least this content score, and a smaller mean score counts as 0
_LEAST_CONTENT, _STILL = 15.0, 1e-5
_FALLBACK_RATE = Fraction(25)


class CutFinder(Protocol):
    """Finds the first frames of new shots, fed with every frame of a video in order.

    Attributes:
        lag_frames: a cut is reported at most so many frames after its own ...
        lag_seconds: ... plus those that begin within so many seconds after it.
    """

    lag_frames: int
    lag_seconds: float

    def feed(self, frame: Frame) -> Sequence[int]:
        """Indices of frames, up to this one, that were now found to begin a shot."""


def cut_finder(
    path: Path, header: VideoHeader, options: ScanOptions, beat: Callable[[], object] = lambda: None
) -> CutFinder:
    """A finder for the frames of the video at `path`.

    "threshold" puts a cut into the middle of a fade of any length, and "ffmpeg" is another program: these two read the whole file
    here, call `beat` at every frame, and raise VideoError as `open_video` does. The others decide as frames come.
    """
    limit, shortest = options.detector_threshold, options.min_shot
    limit = THRESHOLDS[options.detector] if limit is None else limit
    rate = header.rate or _FALLBACK_RATE
    if options.detector == "adaptive":
        return AdaptiveCuts(limit, shortest)
    if options.detector == "ffmpeg":
        times = list(_ffmpeg_cuts(path, limit, options.threads, beat))
        # OpenCV counts from the first frame
        return FixedCuts(spaced([time - times[0] for time in times] if header.decoder == "opencv" else times, shortest))
    from scenedetect import detectors

    if options.detector == "content":
        content = type("Content", (_ContentScore, detectors.ContentDetector), {})
        # cuts that follow each other closely are merged; the last is reported once `min_shot` has passed without another
        return PySceneDetectCuts(content(threshold=limit, min_scene_len=shortest), rate, 1, shortest)
    kinds = {
        "hash": detectors.HashDetector,
        "histogram": detectors.HistogramDetector,
        "threshold": detectors.ThresholdDetector,
    }
    finder = PySceneDetectCuts(kinds[options.detector](threshold=limit, min_scene_len=shortest), rate, 0, 0)
    if options.detector != "threshold":
        return finder
    start: Fraction | None = None
    fades: list[Fraction] = []
    with open_video(path, header.decoder, options.threads) as video:
        for frame in video:
            start = frame.time if start is None else start
            # PySceneDetect names a frame number by the average rate, to which it rounds: hence half a frame earlier
            fades += [start + (cut.frame_num - Fraction(1, 2)) / rate for cut in finder.cuts(frame)]
            beat()
    return FixedCuts(fades)


class FixedCuts:
    """A finder for known, ascending times of cuts: a shot begins at the first frame from each."""

    lag_frames = 0
    lag_seconds = 0.0

    def __init__(self, times: Sequence[Fraction]) -> None:
        self._times, self._passed = times, 0

    def feed(self, frame: Frame) -> Sequence[int]:
        """See `CutFinder.feed`."""
        before, self._passed = self._passed, bisect.bisect_right(self._times, frame.time, lo=self._passed)
        return [frame.index] if self._passed > before else []


class PySceneDetectCuts:
    """A finder that feeds a detector of PySceneDetect with small views and exact times."""

    def __init__(self, detector: Any, rate: Fraction, lag_frames: int, lag_seconds: float) -> None:
        from scenedetect.common import FrameTimecode, Timecode

        self.lag_frames, self.lag_seconds = lag_frames, lag_seconds
        self._detector, self._rate = detector, FrameTimecode(0, rate)
        self._timecode, self._frame_time = Timecode, FrameTimecode
        self._first: Fraction | None = None
        self._size: tuple[int, ...] = ()
        self._ticks, self._time_base = 1, Fraction(1)

    def feed(self, frame: Frame) -> Sequence[int]:
        """See `CutFinder.feed`."""
        return [cut.index for cut in self.cuts(frame)]

    def cuts(self, frame: Frame) -> Sequence[Any]:
        """PySceneDetect's cuts at the frame. Times are counted from the first frame, as negative ones are not allowed."""
        time = frame.time
        if self._first is None:
            self._first = time
        if self._ticks % time.denominator:
            # with one time base for all, differences are exact and cheap
            self._ticks = math.lcm(self._ticks, time.denominator, self._first.denominator)
            self._time_base = Fraction(1, self._ticks)
        ticks = time.numerator * (self._ticks // time.denominator)
        ticks -= self._first.numerator * (self._ticks // self._first.denominator)
        stamp = self._frame_time(self._timecode(max(0, ticks), self._time_base), self._rate)
        stamp.index = frame.index  # detectors return the objects that they were given
        view = frame.small_bgr()
        self._size = self._size or view.shape[1::-1]
        view = view if view.shape[1::-1] == self._size else cv2.resize(view, self._size)
        return list(self._detector.process_frame(stamp, view))


def spaced(times: Sequence[Fraction], shortest: float) -> list[Fraction]:
    """`times` without the first, the video's, and those less than `shortest` seconds after the one taken before."""
    taken = list(times[:1])
    for time in times[1:]:
        if time - taken[-1] >= shortest:
            taken.append(time)
    return taken[1:]


class _ContentScore:
    """PySceneDetect's content score (equal weights, no edges), the mean absolute HSV difference to the frame before, in one call.

    ContentDetector's own makes twelve temporary arrays for it, and costs as much as the rest of the detector. A stream may change its
    size: all frames are compared at that of the first.
    """

    _hsv: Any = None

    def _calculate_frame_score(self, timecode: Any, frame_img: Pixels) -> float:
        before = self._hsv
        if before is not None and before.shape != frame_img.shape:
            frame_img = cv2.resize(frame_img, before.shape[1::-1])
        self._hsv = cv2.cvtColor(frame_img, cv2.COLOR_BGR2HSV)
        return 0.0 if before is None else float(cv2.norm(before, self._hsv, cv2.NORM_L1)) / self._hsv.size


class AdaptiveCuts(_ContentScore):
    """The cuts of PySceneDetect's AdaptiveDetector without its time codes: frames whose content score is at least `threshold` times
    the mean of their neighbours, `shortest` seconds or more after the cut before (or the first frame)."""

    lag_frames = _ADAPTIVE_WINDOW
    lag_seconds = 0.0

    def __init__(self, threshold: float, shortest: float) -> None:
        self._threshold, self._shortest = threshold, shortest
        self._recent: deque[tuple[int, Fraction, float]] = deque(maxlen=2 * _ADAPTIVE_WINDOW + 1)
        self._last: Fraction | None = None

    def feed(self, frame: Frame) -> Sequence[int]:
        """See `CutFinder.feed`."""
        self._last = frame.time if self._last is None else self._last
        self._recent.append((frame.index, frame.time, self._calculate_frame_score(None, frame.small_bgr())))
        if len(self._recent) <= 2 * _ADAPTIVE_WINDOW:
            return []
        index, time, score = self._recent[_ADAPTIVE_WINDOW]
        if score < _LEAST_CONTENT or float(time - self._last) < self._shortest:
            return []
        around = [other for number, _, other in self._recent if number != index]
        mean = sum(around) / len(around)
        if mean >= _STILL and score / mean < self._threshold:
            return []
        self._last = time
        return [index]


def _ffmpeg_cuts(path: Path, threshold: float, threads: int, beat: Callable[[], object]) -> Iterator[Fraction]:
    """The time of the first frame, and times at which ffmpeg's scene score exceeds `threshold`.

    `metadata=print` names every frame's stamp and score; stamps are rounded to microseconds (`settb`), so half a one is taken off.
    """
    filters = "settb=1/1000000,select='gte(scene,0)',metadata=print:key=lavfi.scene_score:file=-:direct=1"
    options = f"-nostdin -v error -threads {threads} -noautorotate -copyts -protocol_whitelist file,pipe"
    source = ("-i", f"file:{path.absolute()}", "-map", "0:V:0")
    command = ["ffmpeg", *options.split(), *source, "-vf", filters, "-f", "null", "-"]
    stamp, first = Fraction(0), True
    with (
        tempfile.TemporaryFile() as noise,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=noise, preexec_fn=die_with_parent()) as process,
    ):
        try:
            for line in process.stdout or ():
                if line.startswith(b"frame:"):
                    stamp = Fraction(2 * int(line.split(b"pts:", 1)[1].split()[0]) - 1, 2_000_000)
                    beat()
                elif line.startswith(b"lavfi.scene_score=") and (first or float(line.partition(b"=")[2]) > threshold):
                    first = False
                    yield stamp
            if process.wait() and first:
                noise.seek(0)
                complaint = noise.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise VideoError("unreadable", f"ffmpeg cannot decode the file: {complaint}", file=path)
        finally:
            process.kill()
