"""The child process that decodes videos, from the parent's side: messages, the process, scans of files, and single frames.

A file that crashes, hangs or swells a decoder costs only itself: the child is killed, the question raises `VideoError`, and the
next question starts a new child.
"""

import collections
import contextlib
import math
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

import msgspec
import numpy as np

from ctxr.media.scan import ScanOptions
from ctxr.media.video import DECODERS, Closeable, Pixels, VideoError, VideoHeader, fetch_video
from ctxr.store.records import Shot

T = TypeVar("T")

# -P: a numpy.py in the user's folder is not imported
CHILD = (sys.executable, "-P", "-m", f"{__package__}.decoder_child")

_PREFIX = struct.Struct("<4sIQ")  # magic, bytes of JSON, bytes of pixels
_MAGIC = b"ctxR"
_LARGEST_JSON = 64 << 20  # a million shots
_LARGEST_PIXELS = 4 << 30  # a frame of 37,000 x 37,000
SHARED_BYTES = 256 << 20  # of address space: memory is used up to the highest block needed
_PAGE = 4096

# texts of exceptions, and last lines of processes, of Python, FFmpeg, OpenCV and the loader
OUT_OF_MEMORY = re.compile(
    "memoryerror|bad_alloc|cannot allocate memory|insufficient memory|outofmemory|failed to map segment|can't start new thread",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CandidateFrame:
    """A considered frame.

    Attributes:
        gate_difference: mean absolute difference 0..255 of the block of the luma thumbnail that differs most from that of the last
            frame of the shot with pixels, if any.
        thumbnail_hash: 16 hexadecimal digits of the luma thumbnail's BLAKE2b.
        rgb: the upright picture uint8 [H, W, 3]; None where the gate skipped the frame.
        held: index and time of the frames before it that the child keeps, in order.
        sampled: whether it is a sample, also where every frame is considered.
    """

    index: int
    time: Fraction
    shot: int
    gate_difference: float | None
    thumbnail_hash: str
    rgb: Pixels | None
    held: Sequence[tuple[int, Fraction]] = ()
    sampled: bool = True


@dataclass(frozen=True)
class Waiting:
    """The child waits until frames that it keeps are released."""


@dataclass(frozen=True)
class ScanEnd:
    """The end of a scan that succeeded; `shots`, of a source without a name, together are all frames, `damage` is None if nothing is
    missing, and `late_cuts` were found too late and put at the oldest frame held."""

    header: VideoHeader
    frames: int
    shots: list[Shot]
    damage: str | None
    late_cuts: int


class Message(NamedTuple):
    """A message of the child: its kind, such as "candidate", its fields, and pixels uint8."""

    kind: str
    fields: Any
    pixels: Pixels | None

    @property
    def nbytes(self) -> int:
        """Size of the pixels."""
        return 0 if self.pixels is None else self.pixels.nbytes


class SharedPixels:
    """Memory of a parent and its child, through which pixels travel without a copy into a pipe and one out of it.

    The child puts pixels into free blocks, the parent gets arrays that lie there. A block is a page, whose first byte is 0 when the parent
    has no array of it any more, and pixels. Arrays stay valid without this object and the child; `taken` counts bytes put to use.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SHARED_BYTES)
        self.taken = np.frombuffer(self._memory, np.uint64, 1)
        self._sent, self._blocks = 0, dict[int, int]()  # starts and ends

    def put(self, pixels: Pixels) -> int:
        """Copy pixels into a block, once few of those before wait to be taken. Returns its place; 0 where there is no room."""
        while (waiting := self._sent - int(self.taken[0])) and waiting + pixels.nbytes > _AHEAD_BYTES:
            time.sleep(0.002)
        self._sent += pixels.nbytes
        self._blocks = {start: end for start, end in sorted(self._blocks.items()) if self._memory[start]}
        size = (1 + -(-pixels.nbytes // _PAGE)) * _PAGE
        gaps = zip([_PAGE, *self._blocks.values()], [*self._blocks, SHARED_BYTES], strict=True)
        # the lowest, whose pages are in use already
        if place := next((start for start, end in gaps if end - start >= size), 0):
            self._blocks[place], self._memory[place] = place + size, 1
            np.copyto(np.frombuffer(self._memory, np.uint8, pixels.size, place + _PAGE).reshape(pixels.shape), pixels)
        return place

    def get(self, place: int, shape: Sequence[int]) -> Pixels:
        """The pixels at a place. Raises ValueError where none can be."""
        pixels = np.frombuffer(self._memory, np.uint8, math.prod(shape), place + _PAGE)
        # views refer to this array, not to each other: it is the last to go
        weakref.finalize(pixels, self._memory.__setitem__, place, 0).atexit = False
        return pixels.reshape(shape)


def send(
    descriptor: int, fields: Mapping[str, Any], pixels: Pixels | None = None, shared: SharedPixels | None = None
) -> None:
    """Write one message: JSON, dataclasses as objects, contiguous pixels with shape, or their place in `shared`."""
    if pixels is not None:
        fields = {**fields, "shape": pixels.shape}
        if shared and (place := shared.put(pixels)):
            fields, pixels = {**fields, "place": place}, None
    text = msgspec.json.encode(fields, enc_hook=str)
    prefix = _PREFIX.pack(_MAGIC, len(text), 0 if pixels is None else pixels.nbytes)
    for content in (prefix + text, b"" if pixels is None else pixels.data.cast("B")):
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]


def receive(stream: IO[bytes], shared: SharedPixels | None = None) -> Message | None:
    """The next message; None at the end, also in the middle of a message. Raises ValueError for anything else."""
    prefix = stream.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        if prefix and not _MAGIC.startswith(prefix[:4]):
            raise ValueError(repr(prefix))
        return None
    magic, text_bytes, pixel_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC or text_bytes > _LARGEST_JSON or pixel_bytes > _LARGEST_PIXELS:
        raise ValueError(repr(prefix))
    text = stream.read(text_bytes)
    if len(text) < text_bytes:
        return None
    content = msgspec.json.decode(text, type=dict[str, Any])
    shape, place = content.pop("shape", None), content.pop("place", None)
    ((kind, fields),) = content.items()
    if shared and place is not None:
        return Message(kind, fields, shared.get(*msgspec.convert((place, shape), tuple[int, list[int]])))
    if not pixel_bytes:
        return Message(kind, fields, None)
    pixels = np.empty(msgspec.convert(shape, list[int]), np.uint8)
    if pixels.nbytes != pixel_bytes:
        raise ValueError(f"{pixel_bytes} bytes for pixels of shape {pixels.shape}")
    view = pixels.data.cast("B")  # the kernel copies straight into the array
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]  # buffered and raw readers have it
        if not count:
            return None
        view = view[count:]
    return Message(kind, fields, pixels)


def read_as(kind: type[T], fields: Any) -> T:
    """A dataclass from the fields of a message; fractions are text such as "1001/30000"."""
    return msgspec.convert(fields, kind, dec_hook=lambda custom, text: custom(text))


# Read ahead, so that decoding goes on while a batch is embedded: the next 16 frames of 1280 x 720
_AHEAD_BYTES = 44 << 20
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class ChildProcess:
    """A running child: `ask` it a question, then take the `next` messages.

    On Linux the child is killed when the thread that made this object ends; everywhere it ends when its standard input does.
    """

    def __init__(self, command: Sequence[str]) -> None:
        # decoders print here; the last line explains a crash
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `kill`
        home = str(Path(__file__).resolve().parents[2])
        shared = [os.memfd_create("ctxr-pixels")] if sys.platform == "linux" else []
        self._shared: SharedPixels | None = None
        with contextlib.suppress(OSError):  # where files may not be so large, all pixels go through the pipe
            for descriptor in shared:
                os.ftruncate(descriptor, SHARED_BYTES)
                self._shared = SharedPixels(descriptor)
        self._process = subprocess.Popen(
            [*command, *(map(str, shared) if self._shared else ())],
            pass_fds=shared,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._noise,
            env={
                **os.environ,
                # this package first
                "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "OPENCV_LOG_LEVEL": "SILENT",
                "OPENCV_FFMPEG_LOGLEVEL": "-8",
                "OPENCV_FFMPEG_CAPTURE_OPTIONS": "protocol_whitelist;file",
                # the heap of each thread counts against the memory limit, used or not
                "MALLOC_ARENA_MAX": "2",
            },
            # in its own session, Ctrl-C reaches the parent alone, and ffmpeg below the child is killed with it
            start_new_session=True,
        )
        for descriptor in shared:
            os.close(descriptor)
        self._stdin, self._stdout = (cast("IO[bytes]", pipe) for pipe in (self._process.stdin, self._process.stdout))
        self._waited = self._patience = self._limit = 0.0
        self._heard = time.monotonic()
        self._ahead: collections.deque[Message | VideoError] = collections.deque()
        self._ahead_bytes = 0
        self._changed = threading.Condition()
        self._unwanted = False
        if sys.platform == "linux":
            import fcntl

            # a frame then takes a few switches between the processes instead of dozens
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._stdout.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
        self._reader = threading.Thread(target=self._read, name="ctxr-scan-reader", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether the process runs and can be asked."""
        return self._process.poll() is None and self._reader.is_alive()

    def ask(self, path: Path, options: ScanOptions, **question: Any) -> None:
        """Send a question about a file as a line of JSON. `next` notices if the child has ended."""
        self._waited, self._patience, self._limit = 0.0, options.stall_seconds, options.time_limit
        self.tell({"path": str(path.absolute()), "options": options, **question})

    def tell(self, fields: Mapping[str, Any]) -> None:
        """Send a line that belongs to the question before."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(msgspec.json.encode(fields, enc_hook=str) + b"\n")
            self._stdin.flush()

    def next(self) -> Message:
        """The next message. Raises VideoError after `stall_seconds` of waiting here without a sign of life, after `time_limit` of
        waiting since the question, and where the process ended or sent something else."""
        patience, limit = self._patience, self._limit
        since = time.monotonic()
        with self._changed:
            try:
                while not self._ahead:
                    now = time.monotonic()
                    silent = max(since, self._heard) + patience - now
                    overdue = since + limit - self._waited - now if limit else math.inf
                    if overdue <= 0:
                        raise VideoError("time_limit", f"not done after {limit:g} s of decoding", "raise --time-limit")
                    if silent <= 0:
                        problem = f"no sign of life from the decoder for {patience:g} s"
                        raise VideoError("stalled", problem, "raise --stall-seconds if the file is on a slow disk")
                    self._changed.wait(min(silent, overdue))
            finally:
                self._waited += time.monotonic() - since
            message = self._ahead[0]
            if isinstance(message, VideoError):
                raise message
            self._ahead.popleft()
            self._ahead_bytes -= message.nbytes
            if self._shared:
                self._shared.taken += np.uint64(message.nbytes)
            self._changed.notify_all()
            return message

    def kill(self) -> None:
        """End the process and its children."""
        with self._changed:
            self._unwanted = True
            self._changed.notify_all()
        leader = self._process.pid
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if os.getpgid(leader) == leader else os.kill)(leader, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for stream in (self._stdin, self._stdout, self._noise):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _read(self) -> None:
        """The reader thread: move messages from the pipe to `_ahead`, and wait while there are too many."""
        try:
            while message := receive(self._stdout, self._shared):
                self._heard = time.monotonic()
                if message.kind == "beat":
                    continue
                with self._changed:
                    while self._ahead and self._ahead_bytes + message.nbytes > _AHEAD_BYTES and not self._unwanted:
                        self._changed.wait()
                    self._ahead.append(message)
                    self._ahead_bytes += message.nbytes
                    self._changed.notify_all()
            self._heard = time.monotonic()
            status = self._process.wait()
            how = f"ended with status {status}" if status else "ended without a result"
            if status < 0:
                names = {number.value: number.name for number in signal.Signals}
                how = f"was killed by {names.get(-status, f'signal {-status}')}"
        except (OSError, ValueError, MemoryError) as error:
            how = f"sent something that is not a message ({error})"
        noise = ""
        if not self._noise.closed:
            # the descriptor shares its position with the child: read without moving it
            size = os.fstat(self._noise.fileno()).st_size
            lines = os.pread(self._noise.fileno(), 4096, max(0, size - 4096)).decode("utf-8", "replace").splitlines()
            noise = next((line.strip() for line in reversed(lines) if line.strip()), "")[:200]
        problem = f"the decoder process {how} ({noise})" if noise else f"the decoder process {how}"
        with self._changed:
            self._ahead.append(
                VideoError("memory_limit" if OUT_OF_MEMORY.search(noise) else "decoder_crashed", problem)
            )
            self._changed.notify_all()


# reasons after which another decoder is tried
_SECOND_CHANCE = ("decoder_crashed", "decoder_failed", "stalled", "no_decoder", "no_frames")

Event = VideoHeader | CandidateFrame | Waiting | ScanEnd
_EVENTS: dict[str, type[Event]] = {
    "header": VideoHeader,
    "candidate": CandidateFrame,
    "settle": Waiting,
    "end": ScanEnd,
}


class FrameGone(VideoError):
    """A kept frame is lost; the running scan then raises the reason, or begins again."""


class DecoderClient(Closeable):
    """Asks one decoding child process, `command`, started on demand; for one thread."""

    command: Sequence[str] = CHILD

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._waiting: collections.deque[Message] = collections.deque()
        self._cancelled = threading.Event()

    def messages(self, path: Path, options: ScanOptions, **question: Any) -> Iterator[Message]:
        """The child's messages about the file at `path`, up to the last. The child is kept only if it came to its end.

        Raises VideoError for a failure of the file, and for one that ends the child.
        """
        fetch_video(path)
        if self._child is None or not self._child.alive:
            self.close()
            self._child = ChildProcess(self.command)
        child, fit = self._child, False
        self._waiting.clear()
        try:
            child.ask(path, options, **question)
            while not fit:
                message = self._waiting.popleft() if self._waiting else child.next()
                kind, fields, _ = message
                fit = kind in ("end", "frame") or (kind == "failed" and not fields["spent"])
                if kind == "failed":
                    raise VideoError(fields["reason"], fields["problem"], fields["hint"])
                yield message
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
    """Scans files one after the other in one child process."""

    def scan(self, path: Path, options: ScanOptions) -> Generator[Event, None, None]:
        """Events of one file: a VideoHeader, candidates in order of time, and a ScanEnd; in a search also Waiting, after each of which
        `release` must be called.

        After a second VideoHeader another decoder begins again: forget what came before.
        Raises VideoError where the file gives no frames, or is damaged and `keep_damaged` is off.
        """
        decoders = DECODERS if options.decoder == "auto" else (options.decoder,)
        failures: list[tuple[str, VideoError]] = []
        for decoder in decoders:
            try:
                if self._cancelled.is_set():
                    raise VideoError("cancelled", "the scan was cancelled", file=path)
                for kind, fields, pixels in self.messages(path, replace(options, decoder=decoder)):
                    event = read_as(_EVENTS[kind], fields)
                    yield replace(event, rgb=pixels) if isinstance(event, CandidateFrame) else event
                return
            except VideoError as failure:
                failures.append((decoder, failure))
                # a child that was killed on purpose is no reason to try another decoder
                if self._cancelled.is_set() or failure.reason not in _SECOND_CHANCE:
                    break
        first = failures[0][1]
        if len(failures) == 1:
            raise first
        problems = "; ".join(f"{decoder}: {failure.problem}" for decoder, failure in failures)
        raise VideoError(first.reason, problems, first.hint, path)

    def fetch(self, indices: Sequence[int]) -> list[Pixels]:
        """Pixels uint8 [H, W, 3] of frames that the running scan keeps. Raises FrameGone where its child failed."""
        child, fetched = self._child, list[Pixels]()
        if not indices:
            return fetched
        if child is not None and all(message.kind != "failed" for message in self._waiting):
            child.tell({"want": indices})
            try:
                while len(fetched) < len(indices) and (message := child.next()).kind != "failed":
                    if message.kind == "pixels" and message.pixels is not None:
                        fetched.append(message.pixels)
                    else:
                        self._waiting.append(message)
                if len(fetched) == len(indices):
                    return fetched
                self._waiting.append(message)
            except VideoError:
                self.close()  # its answer would come too late, and the scan needs it
        raise FrameGone("decoder_failed", f"frames {indices} are gone")

    def release(self, index: int) -> None:
        """Tell the running scan that frames up to `index` are no longer needed."""
        if self._child is not None:
            self._child.tell({"release": index})

    def cancel(self) -> None:
        """Stop the running scan, from any thread: it raises VideoError; none starts again."""
        self._cancelled.set()
        self.close()


class ChildFrameReader(DecoderClient):
    """`ctxr.media.opencv_video.FrameReader` in a child process, with the limits of `options`; the time limit is that of one frame.

    Attributes:
        stream: number of the stream of the last frame; None with OpenCV.
    """

    def __init__(self, path: Path, decoder: str, options: ScanOptions | None = None) -> None:
        super().__init__()
        self._path, self._options = path, replace(options or ScanOptions(), decoder=decoder)
        self.stream: int | None = None

    def read(self, index: int, time: Fraction) -> Pixels:
        """The frame as RGB uint8 [H, W, 3], upright. Raises VideoError where there is none, or the child failed."""
        kind, fields, pixels = next(self.messages(self._path, self._options, frame=[index, time]))
        if kind != "frame" or pixels is None:
            self.close()
            raise VideoError("decoder_failed", f"the decoder process answered {kind}, not a frame", file=self._path)
        self.stream = fields["stream"] if isinstance(fields, dict) else None
        return pixels
