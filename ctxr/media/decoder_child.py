"""The decoding child process, `python -m ctxr.media.decoder_child`: JSON lines on standard input, messages on standard output.

It imports no torch, so it starts fast and stays small; a file that crashes or hangs a decoder ends this process alone.
"""

import contextlib
import itertools
import os
import queue
import resource
import sys
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
import numpy as np

from ctxr.engine.units import die_with_parent
from ctxr.media.decoder_process import OUT_OF_MEMORY, SHARED_BYTES, CandidateFrame, ScanEnd, SharedPixels, read_as, send
from ctxr.media.opencv_video import FrameReader, open_video
from ctxr.media.scan import ScanOptions
from ctxr.media.shots import CutFinder, cut_finder
from ctxr.media.video import KEEP_DAMAGED, Frame, Pixels, Video, VideoError
from ctxr.store.records import Shot

_BEAT_SECONDS = 0.25  # between signs of life
TOLERATED_LOSS = 0.02  # share of lost packets above which a video counts as damaged; a few are common in recordings
_LEAST_SIDE = 64  # pixels; below it, shots, motion and vectors say little
_HELD_SHARE = 0.25  # of the memory limit, for frames held back for the detector
_SEARCH_SHARE = 0.08  # of the memory limit, for frames kept for the search
_SPAN_FRAMES = 32  # kept for the search before one sample, at most
_BLOCKS = (16, 9)  # columns and rows of 4 x 4 cells of a thumbnail, which the gate compares


class Questions:
    """Lines of standard input, read by a thread: the parent also asks during a video."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        # not through sys.stdin, whose lock a waiting thread would keep while Python shuts down
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
        return msgspec.json.decode(line, type=dict[str, Any])


class Heartbeat:
    """Sends the parent a sign of life when it is called, at most every `_BEAT_SECONDS`."""

    def __init__(self, out: int) -> None:
        self._out, self._due = out, 0.0

    def __call__(self) -> None:
        """Send one if it is due."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _BEAT_SECONDS
            send(self._out, {"beat": 0})


class ScanPass:
    """One pass over a video: every frame to the shot detector, sampled frames to the parent.

    Frames are held until the detector can no longer report a cut before them, and each is sent with its final shot. Where memory
    does not suffice the oldest is sent early, and a cut found too late is put at the oldest frame held.
    """

    def __init__(
        self,
        options: ScanOptions,
        finder: CutFinder,
        rate: Fraction | None,
        out: int,
        questions: Questions | None = None,
        *,
        shared: SharedPixels | None = None,
    ) -> None:
        self._shared = shared
        self._out, self._questions, self._beat = out, questions or Questions(), Heartbeat(out)
        self._options, self._finder = options, finder
        self._steps_per_second = Fraction(str(options.rate))
        self._frame_seconds = 1 / rate if rate else Fraction(0)
        self._largest_hold, self._most_kept = (
            int(options.memory_limit * share * (1 << 30)) for share in (_HELD_SHARE, _SEARCH_SHARE)
        )
        # frames for the search: those since the last sample that passed, and those that the parent has not released
        self._span, self._kept = deque[Frame](), dict[int, Frame]()
        self._held, self._held_bytes = deque[Frame](), 0
        self._cuts: set[int] = set()
        self._step: int | None = None
        self._sample = -1
        self._reference: Pixels | None = None
        self.frames = 0
        self.late_cuts = 0
        self.starts: list[tuple[int, Fraction]] = []
        self.end = Fraction(0)

    def run(self, video: Video) -> None:
        """Scan all frames."""
        held, finder = self._held, self._finder
        lag_frames, lag_seconds = finder.lag_frames, Fraction(finder.lag_seconds)
        for frame in video:
            held.append(frame)
            self._held_bytes += frame.nbytes
            self.frames += 1
            self.end = frame.time
            for cut in finder.feed(frame):
                self.late_cuts += cut < held[0].index
                self._cuts.add(max(cut, held[0].index))
            while held:
                settled = frame.index - held[0].index >= lag_frames
                settled = settled and (not lag_seconds or frame.time - held[0].time >= lag_seconds)
                if not settled and self._held_bytes <= self._largest_hold:
                    break
                self._release()
            self._answer()
            self._beat()
        self.end += self._frame_seconds
        while held:
            self._release()
        self._close_shot()
        self._settle()

    def _release(self) -> None:
        """Settle the oldest held frame: the first of a shot and samples are sent, after the last of the shot before."""
        frame = self._held.popleft()
        self._held_bytes -= frame.nbytes
        opens = not self.starts or frame.index in self._cuts
        if opens:
            self._close_shot()
            self._cuts.discard(frame.index)
            self.starts.append((frame.index, frame.time))
            self._reference = None
        # a frame is sampled when it is in another interval of 1/rate than the frame before: exact at any frame rate, also a variable one
        rate = self._steps_per_second
        step = frame.time.numerator * rate.numerator // (frame.time.denominator * rate.denominator)
        sampled = opens or step != self._step
        self._step = step
        if sampled or self._options.frames == "every":
            self._consider(frame, sampled)
        else:
            self._keep(frame)

    def _close_shot(self) -> None:
        """Send the last frame of the shot, if the search may need it and it was no sample."""
        if self._span and self._span[-1].index != self._sample:
            self._consider(self._span.pop())
        self._span.clear()

    def _consider(self, frame: Frame, sampled: bool = True) -> None:
        """Send a frame, with its pixels if it opens a shot or passes the gate."""
        self._sample = frame.index
        thumbnail, difference = frame.luma_thumbnail(), None
        if self._reference is not None:
            changes = cv2.absdiff(thumbnail, self._reference).astype(np.float32)
            difference = float(cv2.resize(changes, _BLOCKS, interpolation=cv2.INTER_AREA).max())
        passes = difference is None or self._options.frames == "every" or difference >= self._options.still_below
        between = list(self._span) if passes else []
        if passes:
            self._reference = thumbnail
            self._kept |= {kept.index: kept for kept in between}
            self._span.clear()
        else:
            self._keep(frame)
        place = frame.index, frame.time, len(self.starts) - 1
        digest, held = blake2b(thumbnail.tobytes(), digest_size=8), [(kept.index, kept.time) for kept in between]
        candidate = CandidateFrame(*place, difference, digest.hexdigest(), None, held, sampled)
        send(self._out, {"candidate": candidate}, frame.rgb() if passes else None, self._shared)
        self._settle(self._most_kept)

    def _keep(self, frame: Frame) -> None:
        """Keep a frame for the search before the next sample that passes."""
        if self._options.frames == "search":
            self._span.append(frame)
            while len(self._span) > min(_SPAN_FRAMES, self._most_kept // (2 * frame.nbytes)):
                self._span.popleft()

    def _settle(self, most: int = 0) -> None:
        """Wait until the parent has released all kept frames but `most` bytes."""
        while sum(kept.nbytes for kept in self._kept.values()) > most:
            send(self._out, {"settle": {}})
            self._answer(wait=True)

    def _answer(self, wait: bool = False) -> None:
        """Send the kept frames that the parent wants, and forget those that it released; `wait` until it has released some."""
        while self._kept and (question := self._questions.next(wait)):
            if "want" in question:
                for index in question["want"]:
                    send(self._out, {"pixels": index}, self._kept[index].rgb(), self._shared)
            else:
                wait = False
                self._kept = {index: kept for index, kept in self._kept.items() if index > question["release"]}


class Decoder:
    """Answers questions of the parent, and keeps a file open between questions about it."""

    def __init__(self, out: int, shared: SharedPixels | None) -> None:
        self.questions, self._out, self._shared = Questions(), out, shared
        self._reader: FrameReader | None = None
        self._file: tuple[Path, str] | None = None

    def answer(self, question: dict[str, Any]) -> None:
        """Answer one question, failures included; one that is not a failure of the file leaves the process unfit (`spent`)."""
        path, limit = Path(question["path"]), question["options"]["memory_limit"]
        try:
            _limit_memory(limit)
            options = read_as(ScanOptions, question["options"])
            if options.keep_damaged:
                options = replace(options, threads=1)  # several conceal the same damage in different ways
            if "frame" in question:
                if self._reader is None or self._file != (path, options.decoder):
                    if self._reader is not None:
                        self._reader.close()
                    self._file = (path, options.decoder)
                    self._reader = FrameReader(*self._file, options.threads, Heartbeat(self._out))
                index, time = question["frame"]
                pixels = self._reader.read(index, Fraction(time))
                send(self._out, {"frame": {"index": index, "stream": self._reader.stream}}, pixels, self._shared)
            else:
                self._scan(path, options)
        except BrokenPipeError:
            raise
        except Exception as error:
            if isinstance(error, VideoError):
                failure = error
            else:
                _limit_memory(0)
                failure = VideoError("decoder_failed", " ".join(f"{type(error).__name__}: {error}".split())[:300])
                if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(failure.problem):
                    problem = f"the decoder needs more than the {limit:g} GiB it may take"
                    failure = VideoError("memory_limit", problem, "raise --memory-limit")
            fields = {"reason": failure.reason, "problem": failure.problem, "hint": failure.hint}
            send(self._out, {"failed": fields | {"spent": failure is not error}})

    def _scan(self, path: Path, options: ScanOptions) -> None:
        """Send a header, candidates, and an end."""
        with open_video(path, options.decoder, options.threads) as video:
            header = video.header
            if min(header.width, header.height) < _LEAST_SIDE:
                problem = f"{header.width} x {header.height} pixels are too few: the shorter side needs at least {_LEAST_SIDE}"
                raise VideoError("too_small", problem, "use a larger copy of the video", path)
            send(self._out, {"header": header})
            finder = cut_finder(path, header, options, Heartbeat(self._out))
            scan = ScanPass(options, finder, header.rate, self._out, self.questions, shared=self._shared)
            scan.run(video)
            damage = video.damage
        if damage and damage.share > TOLERATED_LOSS and not options.keep_damaged:
            raise VideoError("truncated", damage.message, KEEP_DAMAGED, path)
        message = damage.message if damage else None
        spans = itertools.pairwise([*scan.starts, (scan.frames, scan.end)])
        shots = [Shot("", number, *first, *after) for number, (first, after) in enumerate(spans)]
        send(self._out, {"end": ScanEnd(header, scan.frames, shots, message, scan.late_cuts)})


def _limit_memory(gibibytes: float) -> None:
    """Bound the address space of this process besides shared pixels, where the system can; 0 removes the bound."""
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (SHARED_BYTES + int(gibibytes * (1 << 30)) if gibibytes else hard, hard))


def main() -> None:
    """Answer questions until standard input ends."""
    die_with_parent()()
    cv2.setNumThreads(1)
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not come between the messages
    decoder = Decoder(out, SharedPixels(int(sys.argv[1])) if len(sys.argv) > 1 else None)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        while question := decoder.questions.next():
            if "path" in question:  # else it is about a scan that ended early
                decoder.answer(question)


if __name__ == "__main__":
    main()
