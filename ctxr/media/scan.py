"""Scan a video in a child process: its shots, and the frames that are worth embedding, in one decoding pass.

A file that crashes, hangs or swells a decoder costs only itself: the child is killed, the scan raises `VideoError`, the next scan starts
a new child.
"""

import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctxr.errors import UsageError
from ctxr.media.decoder_process import CandidateFrame, ChildProcess, ScanEnd, ScanOptions, Settle, read_as
from ctxr.media.shots import check_detector
from ctxr.media.video import DECODERS, Closing, Pixels, VideoError, VideoHeader

# -P: a numpy.py in the user's folder is not ours.
CHILD = (sys.executable, "-P", "-m", "ctxr.media.decoder_child")
"""The command that starts the decoding child process."""

_SECOND_CHANCE = ("decoder_crashed", "decoder_failed", "stalled", "no_decoder", "no_frames")
"""Reasons after which another decoder is tried: not those of a file that is no video at all, nor those of its size."""

_LAST = ("end", "frame")
"""Kinds of messages that end an answer."""

Event = VideoHeader | CandidateFrame | Settle | ScanEnd
_EVENTS: dict[str, type[Event]] = {"header": VideoHeader, "candidate": CandidateFrame, "settle": Settle, "end": ScanEnd}
Message = tuple[str, Any, Pixels | None]
"""Kind, fields and pixels."""


class FrameGone(VideoError):
    """A frame that the running scan kept cannot be had any more; the scan goes on to say why, or begins again."""


class DecoderClient(Closing):
    """Asks one decoding child process, which is started when it is needed. A context manager, to be used from one thread.

    Args:
        command: what to start instead of the real child; for tests.
    """

    def __init__(self, command: Sequence[str] = CHILD) -> None:
        self._command = command
        self._child: ChildProcess | None = None
        self._waiting: deque[tuple[dict[str, Any], Pixels | None]] = deque()

    def messages(self, path: Path, question: dict[str, Any], options: ScanOptions) -> Iterator[Message]:
        """The child's messages about the file at `path`, up to the last. The child is kept only if it came to its end.

        Raises VideoError or UsageError for what the child says of the file, and VideoError for what ends the child.
        """
        if self._child is None or not self._child.alive:
            self.close()
            self._child = ChildProcess(self._command)
        child, fit = self._child, False
        self._waiting.clear()
        try:
            child.ask({"path": str(path.absolute()), "options": options, **question})
            while not fit:
                waiting = self._waiting
                message, pixels = (
                    waiting.popleft() if waiting else child.next(options.stall_seconds, options.time_limit)
                )
                kind, fields = next(iter(message.items()))
                fit = kind in _LAST or (kind == "failed" and not fields["spent"])
                if kind == "failed" and fields["reason"] == "usage":
                    raise UsageError(fields["problem"], fields["hint"])
                if kind == "failed":
                    raise VideoError(fields["reason"], fields["problem"], fields["hint"])
                yield kind, fields, pixels
        except VideoError as error:
            raise VideoError(error.reason, error.problem, error.hint, path) from error
        finally:
            if not fit and self._child is child:
                self.close()

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.kill()
            self._child = None


class Scanner(DecoderClient):
    """Scans files one after the other in one reusable child process."""

    _cancelled = False
    _options = ScanOptions()

    def scan(self, path: Path, options: ScanOptions | None = None) -> Generator[Event, None, None]:
        """Events of one file: its VideoHeader, Candidates in order of time, and last one ScanEnd; in a search also Settle, after which
        `release` must be called for the last candidate.

        A second VideoHeader means that another decoder began the file again from its first frame: forget what came before.

        Raises VideoError where the file gave nothing, or is damaged and `keep_damaged` is off; UsageError where the detector or its
        threshold is invalid.
        """
        self._options = options = options or ScanOptions()
        check_detector(options.detector, options.detector_threshold)
        decoders = DECODERS if options.decoder == "auto" else (options.decoder,)
        failures: list[tuple[str, VideoError]] = []
        for decoder in decoders:
            try:
                if self._cancelled:
                    raise VideoError("cancelled", "the scan was cancelled", file=path)
                for kind, fields, pixels in self.messages(path, {}, replace(options, decoder=decoder)):
                    event = read_as(_EVENTS[kind], fields)
                    yield replace(event, rgb=pixels) if isinstance(event, CandidateFrame) else event
                return
            except VideoError as failure:
                failures.append((decoder, failure))
                # a child that was killed on purpose is no reason to try another decoder
                if self._cancelled or failure.reason not in _SECOND_CHANCE:
                    break
        first = failures[0][1]
        if len(failures) == 1:
            raise first
        problems = "; ".join(f"{decoder}: {failure.problem}" for decoder, failure in failures)
        raise VideoError(first.reason, problems, first.hint, path)

    def fetch(self, index: int) -> Pixels:
        """Pixels uint8 [H, W, 3] of a frame that the running scan keeps. Raises FrameGone where its child failed."""
        child, gone = self._child, FrameGone("decoder_failed", f"frame {index} is gone")
        if child is None or any("failed" in message for message, _ in self._waiting):
            raise gone
        child.tell({"want": index})
        try:
            while True:
                message, pixels = child.next(self._options.stall_seconds, self._options.time_limit)
                if "pixels" in message and pixels is not None:
                    return pixels
                self._waiting.append((message, pixels))
                if "failed" in message:
                    raise gone
        except VideoError as error:
            raise gone from error

    def release(self, index: int) -> None:
        """Tell the running scan that frames up to `index` are needed no more."""
        if self._child is not None:
            self._child.tell({"release": index})

    def cancel(self) -> None:
        """Stop the running scan, from any thread: it raises VideoError, and no scan starts again."""
        self._cancelled = True
        self.close()
