"""A child process that decodes one video: its messages, and the end of the parent that starts, reads and kills it."""

import collections
import contextlib
import math
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec
import numpy as np

import ctxr
from ctxr.engine.processes import kill_group
from ctxr.media.video import Pixels, VideoError, VideoHeader

T = TypeVar("T")

# Magic, bytes of JSON, bytes of pixels.
_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"ctxR"
# A message that claims more is none: 64 MiB of JSON are a million shots, 4 GiB of pixels a frame of 37,000 x 37,000.
_LARGEST_JSON = 64 << 20
_LARGEST_PIXELS = 4 << 30

_OUT_OF_MEMORY = re.compile(
    "memoryerror|bad_alloc|cannot allocate memory|insufficient memory|outofmemory|failed to map segment|can't start new thread",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ScanOptions:
    """How to scan.

    Attributes:
        detector: shot detector, one of `ctxr.media.shots.DETECTORS`.
        detector_threshold: see `ctxr.media.shots.THRESHOLDS`; None is the detector's default.
        min_shot: seconds; no shot is shorter, but the last.
        rate: sampled frames per second of video; higher considers more frames.
        every_frame: consider every frame, whatever `rate` says.
        search: keep frames between samples until they are released, so that their pixels can be asked for; once a shot has moved by
            `gate`, half of it lets its samples pass.
        gate: mean absolute difference (0..255) of the luma thumbnail to the last frame of the same shot that went out with pixels;
            a sampled frame that differs by less goes out without pixels. Higher skips more; 0 skips none.
        decoder: "pyav", "opencv", or "auto": PyAV, then OpenCV where PyAV crashed, hung or has no decoder.
        threads: decoding threads.
        keep_damaged: take what can be decoded of a damaged file instead of failing.
        stall_seconds: without any sign of life for so long the child is killed; 0 waits forever.
        time_limit: seconds spent waiting for one file, over which the child is killed; 0 is none.
        memory_limit: GiB of address space that the child may take; 0 is none. A child takes 0.6 GiB at 1280 x 720.
    """

    detector: str = "adaptive"
    detector_threshold: float | None = None
    min_shot: float = 0.6
    rate: float = 5.0
    every_frame: bool = False
    search: bool = False
    gate: float = 4.0
    decoder: str = "auto"
    threads: int = 2
    keep_damaged: bool = False
    stall_seconds: float = 60.0
    time_limit: float = 0.0
    memory_limit: float = 4.0


@dataclass(frozen=True)
class CandidateFrame:
    """A considered frame.

    Attributes:
        index: 0-based count of decoded frames in presentation order.
        time: exact seconds.
        shot: number of its shot.
        gate_difference: mean absolute difference 0..255 of the luma thumbnail to the last frame of the shot that went out with pixels;
            None for the first frame of a shot.
        thumbnail_hash: 16 hexadecimal digits of the luma thumbnail's BLAKE2b.
        rgb: the upright picture uint8 [H, W, 3]; None where the gate skipped the frame.
        held: index and time of the frames before it that are kept, in order.
    """

    index: int
    time: Fraction
    shot: int
    gate_difference: float | None
    thumbnail_hash: str
    rgb: Pixels | None
    held: Sequence[tuple[int, Fraction]] = ()


@dataclass(frozen=True)
class Settle:
    """The child waits until the frames that it keeps are released."""


@dataclass(frozen=True)
class ShotSpan:
    """A shot: frames start_index <= index < end_index, from start_time to the time at which the next shot, or nothing, begins."""

    number: int
    start_index: int
    start_time: Fraction
    end_index: int
    end_time: Fraction


@dataclass(frozen=True)
class ScanEnd:
    """The end of a scan that succeeded.

    Attributes:
        header: what the container said.
        frames: number of frames decoded.
        shots: all shots in order; together they are all frames.
        damage: what could not be decoded, such as "28 of 50 promised frames could be decoded"; None if nothing is missing.
        decoder: "pyav" or "opencv".
        late_cuts: cuts that the detector told too late and that were put at the oldest frame still held.
    """

    header: VideoHeader
    frames: int
    shots: list[ShotSpan]
    damage: str | None
    decoder: str
    late_cuts: int


class NonsenseError(Exception):
    """Bytes that are no message."""


def send(descriptor: int, fields: Mapping[str, Any], pixels: Pixels | None = None) -> None:
    """Write one message, in full: JSON, dataclasses as objects. `pixels` is contiguous; its shape travels with it."""
    if pixels is not None:
        fields = {**fields, "shape": pixels.shape}
    text = msgspec.json.encode(fields, enc_hook=str)
    _write(descriptor, _PREFIX.pack(_MAGIC, len(text), 0 if pixels is None else pixels.nbytes) + text)
    if pixels is not None:
        _write(descriptor, pixels.data.cast("B"))


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], Pixels | None] | None:
    """The next message as (fields, pixels uint8 of the shape sent, or None); None at the end, also in the middle of a message.

    Raises NonsenseError where what comes is not a message.
    """
    prefix = stream.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        if prefix and not _MAGIC.startswith(prefix[:4]):
            raise NonsenseError(repr(prefix))
        return None
    magic, text_bytes, pixel_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC or text_bytes > _LARGEST_JSON or pixel_bytes > _LARGEST_PIXELS:
        raise NonsenseError(repr(prefix))
    text = stream.read(text_bytes)
    if len(text) < text_bytes:
        return None
    try:
        fields = msgspec.json.decode(text)
        if not pixel_bytes:
            return fields, None
        pixels = np.empty(fields.pop("shape"), np.uint8)
        if pixels.nbytes != pixel_bytes:
            raise NonsenseError(f"{pixel_bytes} bytes for pixels of shape {pixels.shape}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NonsenseError(str(error)) from error
    # The kernel copies straight into the array that is handed on.
    view = pixels.data.cast("B")
    filled = 0
    while filled < pixel_bytes:
        count = stream.readinto(view[filled:])  # type: ignore[attr-defined]  # both of the buffered and the raw readers have it
        if not count:
            return None
        filled += count
    return fields, pixels


def read_as(kind: type[T], fields: Any) -> T:
    """A dataclass from the fields of a message. Fractions travel as text such as "1001/30000"."""
    return msgspec.convert(fields, kind, dec_hook=lambda custom, text: custom(text))


def is_out_of_memory(text: str) -> bool:
    """Whether the text of an exception, or the last line of a process, means that memory ran out: Python, FFmpeg, OpenCV, the loader."""
    return _OUT_OF_MEMORY.search(text) is not None


def _write(descriptor: int, content: bytes | memoryview) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


# Frames are read ahead up to here, so that decoding goes on while the consumer embeds a batch: the next 16 frames of 1280 x 720.
_AHEAD_BYTES = 44 << 20
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031

Message = tuple[dict[str, Any], Pixels | None]


class ChildProcess:
    """A running child: `ask` it something, then take `next` messages.

    On Linux the child is killed when the thread that made this object ends; everywhere it ends when its standard input does.
    """

    def __init__(self, command: Sequence[str]) -> None:
        # What decoders print is kept from the user; its end explains a crash.
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `kill`
        self._process = subprocess.Popen(
            [*command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._noise,
            env=_environment(),
            # Its own session: Ctrl-C reaches the parent alone, and ffmpeg below the child is killed with it.
            start_new_session=True,
        )
        self._stdin, self._stdout = (cast("IO[bytes]", pipe) for pipe in (self._process.stdin, self._process.stdout))
        self._waited = 0.0
        self._heard = time.monotonic()
        self._ahead: collections.deque[Message | Exception] = collections.deque()
        self._ahead_bytes = 0
        self._changed = threading.Condition()
        self._unwanted = False
        if sys.platform == "linux":
            import fcntl

            # a frame then takes a few switches between the processes, not dozens
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._stdout.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
        self._reader = threading.Thread(target=self._read, name="ctxr-scan-reader", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether the process runs and can be asked."""
        return self._process.poll() is None and self._reader.is_alive()

    def ask(self, question: Mapping[str, Any]) -> None:
        """Send a question as one line of JSON. A child that is gone is noticed by `next`."""
        self._waited = 0.0
        self.tell(question)

    def tell(self, fields: Mapping[str, Any]) -> None:
        """Send a line that belongs to the question before."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(msgspec.json.encode(fields, enc_hook=str) + b"\n")
            self._stdin.flush()

    def next(self, patience: float = 0, limit: float = 0) -> Message:
        """The next message.

        Args:
            patience: seconds without any sign of life, counted while waiting here, before giving up; 0: endless.
            limit: seconds of waiting here since the question, in all, before giving up; 0: endless.

        Raises VideoError where patience ran out, the limit is reached, or the process ended or sent something that is no message.
        """
        since = time.monotonic()
        with self._changed:
            try:
                while not self._ahead:
                    now = time.monotonic()
                    silent = max(since, self._heard) + patience - now if patience else math.inf
                    overdue = since + limit - self._waited - now if limit else math.inf
                    if overdue <= 0:
                        raise VideoError("time_limit", f"not done after {limit:g} s of decoding", "raise --time-limit")
                    if silent <= 0:
                        problem = f"no sign of life from the decoder for {patience:g} s"
                        raise VideoError("stalled", problem, "raise --stall-seconds if the file is on a slow disk")
                    self._changed.wait(min(silent, overdue) if patience or limit else None)
            finally:
                self._waited += time.monotonic() - since
            message = self._ahead[0]
            if isinstance(message, Exception):
                raise message
            self._ahead.popleft()
            self._ahead_bytes -= _size(message)
            self._changed.notify_all()
            return message

    def kill(self) -> None:
        """End the process, whatever it is doing, and what it started."""
        with self._changed:
            self._unwanted = True
            self._changed.notify_all()
        kill_group(self._process.pid)
        self._process.wait()
        self._reader.join()
        for stream in (self._stdin, self._stdout, self._noise):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _read(self) -> None:
        """The reader thread: move messages from the pipe to `_ahead`; wait when too much lies there."""
        ended: Exception | None = None
        while ended is None:
            try:
                message = receive(self._stdout)
            except (NonsenseError, OSError, ValueError, MemoryError) as error:
                ended = self._crashed(f"the decoder process sent something that is not a message ({error})")
                break
            self._heard = time.monotonic()
            if message is None:
                ended = self._how_it_ended()
            elif "beat" not in message[0]:
                with self._changed:
                    while self._ahead and self._ahead_bytes + _size(message) > _AHEAD_BYTES and not self._unwanted:
                        self._changed.wait()
                    self._ahead.append(message)
                    self._ahead_bytes += _size(message)
                    self._changed.notify_all()
        with self._changed:
            self._ahead.append(ended)
            self._changed.notify_all()

    def _how_it_ended(self) -> VideoError:
        status = self._process.wait()
        how = f"ended with status {status}" if status else "ended without a result"
        if status < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"was killed by {names.get(-status, f'signal {-status}')}"
        return self._crashed(f"the decoder process {how}")

    def _crashed(self, how: str) -> VideoError:
        noise = self._last_noise()
        reason = "memory_limit" if is_out_of_memory(noise) else "decoder_crashed"
        return VideoError(reason, f"{how} ({noise})" if noise else how)

    def _last_noise(self) -> str:
        if self._noise.closed:
            return ""
        # A descriptor shared with the child shares its position too: read without moving it.
        size = os.fstat(self._noise.fileno()).st_size
        tail = os.pread(self._noise.fileno(), 4096, max(0, size - 4096)) if hasattr(os, "pread") else b""
        lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""


def _size(message: Message) -> int:
    return 0 if message[1] is None else message[1].nbytes


def _environment() -> dict[str, str]:
    """The parent's environment, with this very package first, one thread for small arithmetic, and OpenCV quiet and bound to files."""
    home = str(Path(ctxr.__file__).resolve().parent.parent)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OPENCV_LOG_LEVEL": "SILENT",
        "OPENCV_FFMPEG_LOGLEVEL": "-8",
        "OPENCV_FFMPEG_CAPTURE_OPTIONS": "protocol_whitelist;file",
        # Each thread's own heap counts against the memory limit whether it is used or not.
        "MALLOC_ARENA_MAX": "2",
    }
