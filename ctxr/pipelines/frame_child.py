"""Read single frames of a video again in a child process that can be killed: a file that crashes a decoder costs only itself."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from ctxr.data.video import Pixels
from ctxr.pipelines.scan import CHILD, ScanFailed, ScanOptions, answers, failure_of
from ctxr.pipelines.scan_messages import pair
from ctxr.pipelines.scan_process import ChildProcess


class ChildFrameReader:
    """`ctxr.data.opencv_video.FrameReader` behind a process boundary. A context manager, to be used from one thread.

    Args:
        locate: gives the path; called before the first read only, so that a file that is not needed need not be there.
        decoder: the one that scanned the file.
        options: whose `threads`, `stall_seconds`, `time_limit` (of one frame) and `memory_limit` hold.
        command: what to start instead of the real child; for tests.

    Attributes:
        stream: number of the stream that the last frame is from; None where the decoder does not tell.
    """

    def __init__(
        self,
        locate: Callable[[], Path],
        decoder: str = "pyav",
        options: ScanOptions | None = None,
        command: Sequence[str] = CHILD,
    ) -> None:
        self._locate, self._decoder, self._command = locate, decoder, command
        self._options = options or ScanOptions()
        self.stream: int | None = None
        self._path: Path | None = None
        self._child: ChildProcess | None = None

    def read(self, index: int, time: Fraction) -> Pixels:
        """The frame as RGB uint8 [H, W, 3], upright.

        Raises:
            ScanFailed: there is no such frame, the file cannot be read, or the child crashed, fell silent or grew too large.
            DataError: what `locate` raises.
        """
        path = self._path = self._path or self._locate()
        if self._child is None or not self._child.alive:
            self.close()
            self._child = ChildProcess(self._command)
        child, fit = self._child, False
        limits = {"threads": self._options.threads, "memory_limit": self._options.memory_limit}
        try:
            child.ask(
                {
                    "path": str(path.absolute()),
                    "frame": [index, pair(time)],
                    "options": {"decoder": self._decoder, **limits},
                }
            )
            kind, fields, pixels = next(answers(child, path, self._options))
            if kind == "frame" and pixels is not None:
                fit = True
                self.stream = fields["stream"] if isinstance(fields, dict) else None
                return pixels
            if kind != "failed":
                raise ScanFailed("decoder_failed", f"{path}: the decoder process answered {kind}, not a frame")
            fit = not fields["spent"]
            raise failure_of(path, self._options, fields)
        finally:
            if not fit:
                self.close()

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def __enter__(self) -> "ChildFrameReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
