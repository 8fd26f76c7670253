"""Shot boundaries: PySceneDetect's detectors fed frame by frame, and ffmpeg's scene filter, behind one interface.

PySceneDetect calls its detector interface unstable, so this is the only file that knows it (versions 0.7.x).
"""

import bisect
import contextlib
import math
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Protocol

import cv2

from ctxr.engine.processes import die_with_parent
from ctxr.media.opencv_video import open_video
from ctxr.media.scan import THRESHOLDS
from ctxr.media.video import Frame, Pixels, VideoError, VideoHeader

_ADAPTIVE_WINDOW = 3
# PySceneDetect's: no cut has a smaller content score, and a smaller mean score counts as none at all.
_LEAST_CONTENT, _STILL = 15.0, 1e-5
_VIEW_WIDTH = 256
_FALLBACK_RATE = Fraction(25)


class CutFinder(Protocol):
    """Finds the first frames of new shots, fed with every frame of a video in order.

    Attributes:
        lag_frames: a cut is reported at most so many frames after the frame that it lies at ...
        lag_seconds: ... plus those that begin within so many seconds after it.
    """

    lag_frames: int
    lag_seconds: float

    def feed(self, frame: Frame) -> Sequence[int]:
        """Indices of frames, this one or earlier ones, that have now been found to begin a shot."""


def cut_finder(
    path: Path,
    header: VideoHeader,
    detector: str = "adaptive",
    threshold: float | None = None,
    min_shot: float = 0.6,
    *,
    threads: int = 2,
    beat: Callable[[], object] = lambda: None,
) -> CutFinder:
    """A finder for the frames of the video at `path` with `header`.

    "adaptive", "content", "histogram" and "hash" decide as frames come by; "threshold" puts a cut into the middle of a fade that may be
    of any length and "ffmpeg" is another program: these two look at the whole file here, calling `beat` at every frame.

    Args:
        detector, threshold: see `THRESHOLDS`; None is the default.
        min_shot: seconds; a cut that comes sooner after the previous one (or the first frame) is not taken. 0 takes all.
        threads: as for `open_video`.

    Raises VideoError as `open_video` where it looks at the whole file.
    """
    limit = THRESHOLDS[detector] if threshold is None else threshold
    shortest, rate = float(min_shot), header.rate or _FALLBACK_RATE
    if detector == "ffmpeg":
        return FixedCuts(_ffmpeg_cuts(path, limit, shortest, header.decoder, threads, beat=beat))
    if detector == "threshold":
        return FixedCuts(_fade_cuts(path, limit, shortest, rate, header.decoder, threads=threads, beat=beat))
    if detector == "adaptive":
        return AdaptiveCuts(limit, shortest)
    from scenedetect import detectors

    if detector == "content":
        content = type("Content", (_Scored, detectors.ContentDetector), {})
        # Cuts that follow each other closely are merged; the last of them is reported once `min_shot` has passed without another.
        return PySceneDetectCuts(content(threshold=limit, min_scene_len=shortest), rate, 1, shortest)
    kind = detectors.HashDetector if detector == "hash" else detectors.HistogramDetector
    return PySceneDetectCuts(kind(threshold=limit, min_scene_len=shortest), rate, 0, 0)


class FixedCuts:
    """A finder for cuts whose times (seconds, ascending) are known: a shot begins with the first frame at or after each."""

    lag_frames = 0
    lag_seconds = 0.0

    def __init__(self, times: Sequence[Fraction]) -> None:
        self._times, self._passed = times, 0

    def feed(self, frame: Frame) -> Sequence[int]:
        """See `CutFinder.feed`."""
        before, self._passed = self._passed, bisect.bisect_right(self._times, frame.time, lo=self._passed)
        return [frame.index] if self._passed > before else []


class _Views:
    """Small views of frames, all of the size of the first: a stream may change its size, and detectors compare pixel by pixel."""

    _shape: tuple[int, ...] | None = None

    def _view(self, frame: Frame) -> Pixels:
        view = frame.small_bgr(_VIEW_WIDTH)
        self._shape = self._shape or view.shape
        return view if view.shape == self._shape else cv2.resize(view, self._shape[1::-1])


class PySceneDetectCuts(_Views):
    """A finder that feeds one of PySceneDetect's detectors with small views and exact times."""

    def __init__(self, detector: Any, rate: Fraction, lag_frames: int, lag_seconds: float) -> None:
        from scenedetect.common import FrameTimecode, Timecode

        class FrameTime(FrameTimecode):  # type: ignore[misc]  # an untyped base
            """A time that remembers its frame: detectors hand back the very objects that they were given."""

            def __init__(self, time: Timecode, rate: FrameTimecode, index: int) -> None:
                super().__init__(time, rate)
                self.index = index

        self.lag_frames, self.lag_seconds = lag_frames, lag_seconds
        self._detector, self._rate = detector, FrameTimecode(0, rate)
        self._timecode, self._frame_time = Timecode, FrameTime
        self._first: Fraction | None = None
        self._ticks, self._time_base = 1, Fraction(1)

    def feed(self, frame: Frame) -> Sequence[int]:
        """See `CutFinder.feed`."""
        return [cut.index for cut in self.cuts(frame)]

    def cuts(self, frame: Frame) -> Sequence[Any]:
        """What PySceneDetect answers to the frame. Times are counted from the first frame, as negative ones are not allowed."""
        time = frame.time
        if self._first is None:
            self._first = time
        if self._ticks % time.denominator:
            # One time base for all: differences are then exact, and cheap.
            self._ticks = math.lcm(self._ticks, time.denominator, self._first.denominator)
            self._time_base = Fraction(1, self._ticks)
        ticks = time.numerator * (self._ticks // time.denominator)
        ticks -= self._first.numerator * (self._ticks // self._first.denominator)
        stamp = self._frame_time(self._timecode(max(0, ticks), self._time_base), self._rate, frame.index)
        answers: Sequence[Any] = self._detector.process_frame(stamp, self._view(frame))
        return answers


def spaced(times: Sequence[Fraction], shortest: float) -> list[Fraction]:
    """`times` without those less than `shortest` seconds after the one taken before; the first is the video's and not returned."""
    taken = list(times[:1])
    for time in times[1:]:
        if time - taken[-1] >= shortest:
            taken.append(time)
    return taken[1:]


class _Scored:
    """PySceneDetect's content score (equal weights, no edges) in one fused call: mean absolute HSV difference to the frame before.

    The same sum as ContentDetector's own, which makes twelve temporary arrays for it and costs as much as the rest of the detector.
    """

    _hsv: Any = None

    def _calculate_frame_score(self, timecode: Any, frame_img: Pixels) -> float:
        before, self._hsv = self._hsv, cv2.cvtColor(frame_img, cv2.COLOR_BGR2HSV)
        return 0.0 if before is None else float(cv2.norm(before, self._hsv, cv2.NORM_L1)) / self._hsv.size


class AdaptiveCuts(_Views, _Scored):
    """The cuts of PySceneDetect's AdaptiveDetector without its time codes: a frame whose content score is at least `threshold` times
    the mean score of its neighbours, and `shortest` seconds or more after the cut before (or the first frame)."""

    lag_frames = _ADAPTIVE_WINDOW
    lag_seconds = 0.0

    def __init__(self, threshold: float, shortest: float) -> None:
        self._threshold, self._shortest = threshold, shortest
        self._recent: deque[tuple[int, Fraction, float]] = deque(maxlen=2 * _ADAPTIVE_WINDOW + 1)
        self._last: Fraction | None = None

    def feed(self, frame: Frame) -> Sequence[int]:
        """See `CutFinder.feed`."""
        self._last = frame.time if self._last is None else self._last
        self._recent.append((frame.index, frame.time, self._calculate_frame_score(None, self._view(frame))))
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


def _fade_cuts(
    path: Path,
    threshold: float,
    shortest: float,
    rate: Fraction,
    decoder: str,
    *,
    threads: int,
    beat: Callable[[], object],
) -> list[Fraction]:
    """Times of the middles of fades. PySceneDetect names a frame number by the average rate; the frame nearest to it begins the shot."""
    from scenedetect.detectors import ThresholdDetector

    finder = PySceneDetectCuts(ThresholdDetector(threshold=threshold, min_scene_len=shortest), rate, 0, 0)
    start: Fraction | None = None
    cuts: list[Fraction] = []
    with open_video(path, decoder, threads) as video:
        for frame in video:
            start = frame.time if start is None else start
            # Half a frame early: rounding to a frame number moved it by up to that much.
            cuts += [start + (cut.frame_num - Fraction(1, 2)) / rate for cut in finder.cuts(frame)]
            beat()
    return cuts


def _ffmpeg_cuts(
    path: Path, threshold: float, shortest: float, decoder: str, threads: int, *, beat: Callable[[], object]
) -> list[Fraction]:
    """Times at which ffmpeg's scene score exceeds `threshold`.

    `metadata=print` names every frame's stamp and score: the stamps are in microseconds (`settb`) and rounded, so half a one is taken off.
    """
    filters = "settb=1/1000000,select='gte(scene,0)',metadata=print:key=lavfi.scene_score:file=-:direct=1"
    options = f"-nostdin -v error -threads {threads} -noautorotate -copyts -protocol_whitelist file,pipe"
    source = ("-i", f"file:{path.absolute()}", "-map", "0:V:0")
    command = ["ffmpeg", *options.split(), *source, "-vf", filters, "-f", "null", "-"]
    times: list[Fraction] = []
    stamp = Fraction(0)
    with tempfile.TemporaryFile() as noise, _running(command, noise) as process:
        for line in process.stdout or ():
            if line.startswith(b"frame:"):
                stamp = Fraction(2 * int(line.split(b"pts:", 1)[1].split()[0]) - 1, 2_000_000)
                beat()
            elif line.startswith(b"lavfi.scene_score=") and (not times or float(line.partition(b"=")[2]) > threshold):
                times.append(stamp)
        if process.wait() and not times:
            noise.seek(0)
            complaint = noise.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise VideoError("unreadable", f"ffmpeg cannot decode the file: {complaint}", file=path)
    if decoder == "opencv" and times:
        # OpenCV counts from the first frame.
        times = [time - times[0] for time in times]
    return spaced(times, shortest)


@contextlib.contextmanager
def _running(command: Sequence[str], noise: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block, or with this process."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=noise, preexec_fn=die_with_parent()) as process:
        try:
            yield process
        finally:
            process.kill()
