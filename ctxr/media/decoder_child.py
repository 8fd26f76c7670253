"""The decoding child process, `python -m ctxr.media.decoder_child`: JSON lines on standard input, messages on standard output.

It imports no torch, so it starts fast and stays small; a file that crashes or hangs a decoder takes down this process alone.
"""

import contextlib
import itertools
import os
import queue
import threading
import time
from collections import deque
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import cv2
import msgspec

from ctxr.engine.processes import die_with_parent
from ctxr.media.decoder_process import CandidateFrame, ScanEnd, ShotSpan, is_out_of_memory, read_as, send
from ctxr.media.opencv_video import FrameReader, open_video
from ctxr.media.scan import ScanOptions
from ctxr.media.shots import CutFinder, cut_finder
from ctxr.media.video import KEEP_DAMAGED, Frame, Pixels, Video, VideoError

# A sign of life, also while no frame is dispatched.
_BEAT_SECONDS = 0.25
# A few lost packets are common in recordings and harm nobody; more than this share of a video and it counts as damaged.
TOLERATED_LOSS = 0.02
# Frames held back for the detector may take this share of the memory limit.
_HELD_SHARE = 0.25
_HELD_BYTES_WITHOUT_LIMIT = 1 << 30
# Frames kept for the search: those before one sample, and the share of the memory limit that all may take, at most.
_SPAN_FRAMES = 32
_SEARCH_SHARE = 0.08


class Questions:
    """Lines of standard input, read by a thread: what the parent asks can come while a video is decoded."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        # not through sys.stdin, whose lock a thread that waits there would keep while Python shuts down
        begun = b""
        while content := os.read(0, 1 << 16):
            *lines, begun = (begun + content).split(b"\n")
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def next(self, wait: bool = True) -> dict[str, Any] | None:
        """The next line; None if there is none yet and `wait` is off. Raises BrokenPipeError when standard input ended."""
        try:
            line = self._lines.get(wait)
        except queue.Empty:
            return None
        if not line:
            raise BrokenPipeError
        fields: dict[str, Any] = msgspec.json.decode(line)
        return fields


class Heartbeat:
    """Sends the parent a sign of life when it is called, at most every quarter of a second."""

    def __init__(self, out: int) -> None:
        self._out, self._due = out, 0.0

    def __call__(self) -> None:
        """Send it if it is due."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _BEAT_SECONDS
            send(self._out, {"beat": 0})


class ScanPass:
    """One pass over a video: every frame to the shot detector, sampled frames to the parent.

    Frames are held back until the detector can no longer report a cut before them: each frame is sent with its final
    shot. Where holding them would take too much memory the oldest goes out early; a cut found too late is put at the oldest frame held.
    """

    def __init__(
        self,
        options: ScanOptions,
        finder: CutFinder,
        rate: Fraction | None,
        out: int,
        questions: Questions | None = None,
    ) -> None:
        self._out, self._questions = out, questions or Questions()
        self._finder = finder
        self._every_frame, self._gate = options.every_frame, options.still
        self._search, self._moved = options.searches, False
        self._steps_per_second = Fraction(str(options.rate))
        self._frame_seconds = 1 / rate if rate else Fraction(0)
        limit = options.memory_limit
        self._largest_hold = int(limit * _HELD_SHARE * (1 << 30)) if limit else _HELD_BYTES_WITHOUT_LIMIT
        self._most_kept = int((limit or 4.0) * _SEARCH_SHARE * (1 << 30))
        self._span: deque[Frame] = deque()
        self._kept: dict[int, Frame] = {}
        self._held: deque[Frame] = deque()
        self._held_bytes = 0
        self._cuts: set[int] = set()
        self._step: int | None = None
        self._reference: Pixels | None = None
        self._beat = Heartbeat(out)
        self.frames = 0
        self.late_cuts = 0
        self.starts: list[tuple[int, Fraction]] = []
        self.end = Fraction(0)

    def run(self, video: Video) -> None:
        """Walk to the end."""
        waiting, finder = self._held, self._finder
        lag_frames, lag_seconds = finder.lag_frames, Fraction(finder.lag_seconds)
        frame: Frame | None = None
        for frame in video:
            waiting.append(frame)
            self._held_bytes += frame.nbytes
            self.frames += 1
            for cut in finder.feed(frame):
                self.late_cuts += cut < waiting[0].index
                self._cuts.add(max(cut, waiting[0].index))
            while waiting and (
                (
                    frame.index - waiting[0].index >= lag_frames
                    and (not lag_seconds or frame.time - waiting[0].time >= lag_seconds)
                )
                or self._held_bytes > self._largest_hold
            ):
                self._release()
            self._answer()
            self._beat()
        while waiting:
            self._release()
        self._settle()
        if frame is not None:
            self.end = frame.time + self._frame_seconds

    def _release(self) -> None:
        """Let the oldest held frame go: to the parent if it is sampled, with its pixels if it opens a shot or passes the gate."""
        frame = self._held.popleft()
        self._held_bytes -= frame.nbytes
        opens = not self.starts or frame.index in self._cuts
        if opens:
            self._cuts.discard(frame.index)
            self.starts.append((frame.index, frame.time))
            self._span.clear()
            self._moved = False
        # A frame is sampled when its time lies in another interval of 1/rate than the frame before: exact, at any or no fixed frame rate.
        rate = self._steps_per_second
        step = frame.time.numerator * rate.numerator // (frame.time.denominator * rate.denominator)
        sampled = opens or self._every_frame or step != self._step
        self._step = step
        if not sampled:
            self._keep(frame)
            return
        thumbnail = frame.luma_thumbnail()
        difference = None
        if not opens and self._reference is not None:
            difference = float(cv2.norm(thumbnail, self._reference, cv2.NORM_L1)) / thumbnail.size
        self._moved = self._search and (self._moved or (difference or 0) >= self._gate)
        passes = difference is None or difference >= self._gate / (1 + self._moved)
        held = [(one.index, one.time) for one in self._span] if passes else []
        if passes:
            self._reference = thumbnail
            self._kept |= {one.index: one for one in self._span}
            self._span.clear()
        else:
            self._keep(frame)
        thumbnail_hash = blake2b(thumbnail.tobytes(), digest_size=8).hexdigest()
        place = frame.index, frame.time, len(self.starts) - 1
        candidate = CandidateFrame(*place, difference, thumbnail_hash, None, held)
        send(self._out, {"candidate": candidate}, frame.rgb() if passes else None)
        if sum(one.nbytes for one in self._kept.values()) > self._most_kept:
            self._settle()

    def _keep(self, frame: Frame) -> None:
        """Keep a frame for the search before the next sample that passes."""
        if self._search:
            self._span.append(frame)
            while len(self._span) > min(_SPAN_FRAMES, self._most_kept // (2 * frame.nbytes)):
                self._span.popleft()

    def _settle(self) -> None:
        """Wait until the parent has released all kept frames."""
        if self._kept:
            send(self._out, {"settle": {}})
            self._answer(wait=True)

    def _answer(self, wait: bool = False) -> None:
        """Send the kept frames that the parent wants, and let go of those that it released."""
        while self._kept and (question := self._questions.next(wait)):
            if "want" in question:
                index = question["want"]
                send(self._out, {"pixels": index}, self._kept[index].rgb())
            else:
                self._kept = {index: one for index, one in self._kept.items() if index > question["release"]}

    def shots(self) -> list[ShotSpan]:
        """All shots, after the last frame."""
        spans = itertools.pairwise([*self.starts, (self.frames, self.end)])
        return [ShotSpan(number, *first, *after) for number, (first, after) in enumerate(spans)]


def scan(path: Path, options: ScanOptions, out: int, questions: Questions) -> None:
    """Answer one question: a header, beats and candidates, then an end; failures are raised."""
    with open_video(path, options.decoder, options.threads) as video:
        header = video.header
        send(out, {"header": header})
        detector = options.detector, options.detector_threshold, options.min_shot
        finder = cut_finder(path, header, *detector, threads=options.threads, beat=Heartbeat(out))
        walk = ScanPass(options, finder, header.rate, out, questions)
        walk.run(video)
        damage = video.damage
    if damage and damage.share > TOLERATED_LOSS and not options.keep_damaged:
        raise VideoError("truncated", damage.message, KEEP_DAMAGED, path)
    message = damage.message if damage else None
    send(out, {"end": ScanEnd(header, walk.frames, walk.shots(), message, options.decoder, walk.late_cuts)})


class Frames:
    """Reads single frames, and keeps the file open between two questions about it."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        self._reader: FrameReader | None = None
        self._file: tuple[Path, str] | None = None

    def send(self, path: Path, index: int, time: Fraction, options: ScanOptions, out: int) -> None:
        """Answer with the pixels of a frame."""
        if self._reader is None or self._file != (path, options.decoder):
            if self._reader is not None:
                self._reader.close()
            self._file = (path, options.decoder)
            self._reader = FrameReader(*self._file, options.threads, Heartbeat(out))
        pixels = self._reader.read(index, time)
        send(out, {"frame": {"index": index, "stream": self._reader.stream}}, pixels)


def answer(question: dict[str, Any], out: int, frames: Frames) -> None:
    """Answer one question, failures included. What is not a failure of the file but of the process leaves the process unfit (`spent`)."""
    path, limit = Path(question["path"]), question["options"]["memory_limit"]
    try:
        _limit_memory(limit)
        options = read_as(ScanOptions, question["options"])
        if options.keep_damaged:
            options = replace(options, threads=1)  # several conceal the same damage in different ways
        if "frame" in question:
            index, time = question["frame"]
            frames.send(path, index, Fraction(time), options, out)
        else:
            scan(path, options, out, frames.questions)
    except VideoError as error:
        _fail(out, error.reason, error.problem, error.hint)
    except BrokenPipeError:
        raise
    except Exception as error:
        _limit_memory(0)
        problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if isinstance(error, MemoryError) or is_out_of_memory(problem):
            problem = f"the decoder needs more than the {limit:g} GiB it may take"
            _fail(out, "memory_limit", problem, "raise --memory-limit", spent=True)
        else:
            _fail(out, "decoder_failed", problem, "", spent=True)


def _fail(out: int, reason: str, problem: str, hint: str, spent: bool = False) -> None:
    send(out, {"failed": {"reason": reason, "problem": problem, "hint": hint, "spent": spent}})


def _limit_memory(gibibytes: float) -> None:
    """Bound the address space of this process; 0 takes the bound away. Where the system has no such bound, nothing happens."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = int(gibibytes * (1 << 30)) if gibibytes else hard
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> None:
    """Answer questions until standard input ends."""
    die_with_parent()()
    cv2.setNumThreads(1)
    out = os.dup(1)
    # Whatever a library prints must not come between the messages.
    os.dup2(2, 1)
    questions = Questions()
    frames = Frames(questions)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        while question := questions.next():
            if "path" in question:  # else it is about a scan that ended early
                answer(question, out, frames)


if __name__ == "__main__":
    main()
