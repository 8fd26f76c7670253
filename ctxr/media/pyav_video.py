"""Decoding with PyAV: exact times, cheap views of planes, damage that is seen, jumps to keyframes."""

import bisect
import errno
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.video.reformatter import VideoReformatter

from ctxr.media import planes
from ctxr.media.video import Damage, Frame, Pixels, Video, VideoError, VideoHeader

# No other file or address may be opened on behalf of a playlist that calls itself a video.
_OPTIONS = {"protocol_whitelist": "file"}
# A packet that fails costs itself and what refers to it. So many in a row, and the rest is taken for garbage.
_MAX_FAILURES_IN_A_ROW = 256
# A jump throws away what the decoding threads have ahead: fewer frames than this are decoded rather than jumped over.
_FRAMES_WORTH_A_JUMP = 12
_DEFAULT_RATE = Fraction(25)
# More packets than this are not between a decoder's input and its output.
_TAIL = 512
# A container without a frame count makes libraries compute absurd ones: no video has so many frames.
MOST_FRAMES = 100_000_000
# Containers under FFmpeg's names.
MP4, MATROSKA, FLV, AVI, ASF = "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "flv", "avi", "asf"
NO_FRAMES = "the file has a video stream, but not one frame of it could be decoded"


class PyavFrame(Frame):
    """A frame of PyAV, kept as the decoder's own planes."""

    __slots__ = ("_frame", "_video")

    def __init__(self, index: int, time: Fraction, nbytes: int, frame: Any, video: "PyavVideo") -> None:
        super().__init__(index, time, nbytes)
        self._frame = frame
        self._video = video

    def luma_thumbnail(self) -> Pixels:
        """See `Frame.luma_thumbnail`."""
        return planes.luma_thumbnail(self._frame)

    def small_bgr(self, width: int = 256) -> Pixels:
        """See `Frame.small_bgr`."""
        return planes.small_bgr(self._frame, width)

    def rgb(self) -> Pixels:
        """See `Frame.rgb`."""
        return self._video.rgb_of(self._frame)


class PyavVideo(Video):
    """A video decoded by FFmpeg through PyAV.

    After a packet that cannot be decoded, frames are left out until the next keyframe: they would be drawn on a reference that is not
    there. So the same frames come out whatever the number of threads.
    """

    def __init__(self, path: Path, threads: int) -> None:
        self._path = path
        self._packets = self._count = self._failures = self._failures_in_a_row = self._left_out = 0
        self._waiting_for_keyframe = False
        self._keys: list[int] | None = None
        self._gap, self._end = 0, Fraction(0)
        self._last_stamp, self._last_packets = 0, deque[int](maxlen=_TAIL)
        self._container = _open_container(path)
        try:
            self._stream = self._video_stream()
            self.stream = int(self._stream.index)
            context = self._stream.codec_context
            context.thread_type = "AUTO"
            # one thread more: while a caller looks at a frame, the thread that decoded it waits to be given the next packet
            context.thread_count = threads + (threads > 1)
            self._time_base = Fraction(self._stream.time_base or Fraction(1, 1_000_000))
            self._aspect, self._reformatter = self._stream.sample_aspect_ratio, VideoReformatter()
            self._decoded = self._decode()
            first = next(self._decoded, None)
            if first is None:
                raise VideoError("no_frames", NO_FRAMES, file=path)
            self._first: Any = first
            self._upright = planes.upright_of(first)
            self._nbytes = first.width * first.height * first.format.bits_per_pixel // 8
            self.header = self._read_header(first)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Frame]:
        frame, self._first = self._first, None
        time_base, frame_seconds = self._time_base, 1 / (self.header.rate or _DEFAULT_RATE)
        time, index = -frame_seconds, 0
        stamp: int | None = None
        shown = 0
        while frame is not None:
            before, stamp = stamp, frame.pts
            time = time + frame_seconds if stamp is None else stamp * time_base
            if before is not None and stamp is not None and stamp - before > self._gap:
                self._gap = stamp - before
            self._end, shown = time, frame.duration or 0
            yield PyavFrame(index, time, self._nbytes, frame, self)
            self._count = index = index + 1
            frame = next(self._decoded, None)
        self._end += max(frame_seconds, shown * time_base)

    @property
    def damage(self) -> Damage | None:
        """Lost packets against the container's list; without such a list the worst of failed packets, an end long before the stated
        one, and a file that ends inside a piece of its container.

        Fewer frames than promised are no loss where every packet was there and decoded: some streams put a frame into two packets.
        More packets than promised: the list was that of the first fragment.
        """
        promised = self.header.promised_frames
        # at the end of a file, some of what threads fail to decode goes missing without an error
        step = 1 / (self.header.rate or _DEFAULT_RATE) / self._time_base
        after = sum(stamp > self._last_stamp + 0.75 * step for stamp in self._last_packets)
        lost = self._failures + self._left_out + max(0, after - self._failures_in_a_row)
        if promised and self._packets <= promised:
            lost += promised - self._packets
            message = f"{self._count} of {promised} promised frames could be decoded"
            return Damage(message, lost / promised) if lost else None
        form, seen = self._container.format.name, self._end - self._start()
        cut, length = _is_cut(self._path, form), self._promised_seconds(form)
        gap = self._gap * self._time_base * (not cut)
        short = short_of(length, seen, gap)
        if cut and not short and (form not in (AVI, MATROSKA) or not length):
            short = Damage(f"the file is cut off, and {float(seen):.1f} seconds of it could be decoded", 1.0)
        elif short and not cut and (form == AVI or not short_of(length, self._end_of_others(), gap)):
            # AVI counts frames without a packet, which repeat the one before; elsewhere, the sound goes on
            short = None
        share = lost / max(1, self._packets)
        if not lost or (short and short.share >= share):
            return short
        failed = f"{self._failures} of {self._packets} packets could not be decoded"
        return Damage(f"{failed} and {self._left_out} frames were left out", share)

    def _promised_seconds(self, form: str) -> Fraction | None:
        """The length that the container states; None without one, and where FFmpeg computed it."""
        if form == AVI:
            return self._stream.frames * self._time_base if self._stream.frames < MOST_FRAMES else None
        # one length for all streams; one that FFmpeg computed from the bit rate it gives to each stream
        of_all = form in (MATROSKA, FLV) and self._stream.duration is None
        return self.header.duration if of_all or form in (MP4, ASF) else None

    def _end_of_others(self) -> Fraction:
        """Seconds at which the last packet of the other streams ends."""
        end = Fraction(0)
        with _open_container(self._path) as container, suppress(av.FFmpegError):
            others = [stream for stream in container.streams if stream.index != self.stream]
            for packet in container.demux(others) if others else ():
                end = max(end, ((packet.pts or 0) + (packet.duration or 0)) * Fraction(packet.time_base or 0))
        return end

    def rgb_of(self, frame: Any) -> Pixels:
        """One of its PyAV frames as upright RGB."""
        return planes.rgb(frame, self._upright, self._reformatter, self._aspect)

    def close(self) -> None:
        """See `Video.close`."""
        self._container.close()

    def rgb_at(self, time: Fraction) -> Pixels | None:
        """See `Video.rgb_at`: from the keyframe before `time`, if the container lists it."""
        if self._keys is None:
            self._keys = self._keyframes()
        stamp = time / self._time_base
        if stamp.denominator != 1:
            return None
        frame, key = self._first, bisect.bisect_right(self._keys, stamp) - 1
        if key >= 0 and (
            frame is None or frame.pts is None or frame.pts > stamp or self._worth_a_jump(frame, self._keys[key])
        ):
            frame = self._jump(self._keys[max(0, key - 2) : key + 1], stamp.numerator)
        while frame is not None and frame.pts is not None and frame.pts < stamp:
            frame = next(self._decoded, None)
        self._first = following = None
        if frame is not None and frame.pts == stamp:
            self._first = following = next(self._decoded, None)
        if frame is None or frame.pts != stamp or self._failures or (following is not None and following.pts == stamp):
            return None
        return self.rgb_of(frame)

    def _worth_a_jump(self, frame: Any, key: int) -> bool:
        """Whether the keyframe lies so far ahead that jumping to it is faster than decoding up to it."""
        return bool((key - frame.pts) * self._time_base * (self.header.rate or _DEFAULT_RATE) >= _FRAMES_WORTH_A_JUMP)

    def _jump(self, keys: Sequence[int], stamp: int) -> Any | None:
        """The first frame after a jump to the last of `keys` from which `stamp` can be reached exactly; None if there is none.

        Exact means: the first frame that comes out is a keyframe, and not later than the wanted one. (The index may list decoding times,
        and a picture before a keyframe in presentation order may need the pictures before it.)
        """
        for key in reversed(keys):
            self._container.seek(key, stream=self._stream, backward=True)
            self._decoded = self._decode()
            frame = next(self._decoded, None)
            if frame is not None and frame.key_frame and frame.pts is not None and frame.pts <= stamp:
                return frame
        return None

    def _keyframes(self) -> list[int]:
        """Time stamps of the keyframes that the container lists, ascending; empty if it lists none."""
        stamps = sorted(entry.timestamp for entry in self._stream.index_entries if entry.is_keyframe)
        if len(stamps) < 2 and self._stream.start_time is not None:
            # Matroska reads its list of cues at the first jump.
            self._container.seek(self._stream.start_time, stream=self._stream, backward=True)
            self._decoded, self._first = self._decode(), None
            stamps = sorted(entry.timestamp for entry in self._stream.index_entries if entry.is_keyframe)
            self._first = next(self._decoded, None)
        return stamps

    def _decode(self) -> Iterator[Any]:
        """PyAV's frames in presentation order, going on after failures a bounded number of times."""
        self._failures_in_a_row = 0
        while self._failures_in_a_row < _MAX_FAILURES_IN_A_ROW:
            try:
                for packet in self._container.demux(self._stream):
                    self._packets += packet.pts is not None or packet.size > 0
                    if packet.pts is not None and not packet.is_discard:
                        self._last_packets.append(packet.pts)
                    yield from self._frames_of(packet)
                    if self._failures_in_a_row >= _MAX_FAILURES_IN_A_ROW:
                        return
                return
            except EOFError:
                return
            except av.FFmpegError as error:
                self._fail(error)

    def _frames_of(self, packet: Any) -> Iterator[Any]:
        try:
            frames = packet.decode()
        except av.FFmpegError as error:
            self._fail(error)
            return
        for frame in frames:
            self._failures_in_a_row = 0
            self._last_stamp = max(self._last_stamp, frame.pts or 0)
            if frame.is_corrupt or (self._waiting_for_keyframe and not frame.key_frame):
                self._left_out += 1
            else:
                self._waiting_for_keyframe = False
                yield frame

    def _fail(self, error: av.FFmpegError) -> None:
        if error.errno == errno.ENOMEM:
            raise MemoryError from error
        self._failures += 1
        self._failures_in_a_row += 1
        self._waiting_for_keyframe = True

    def _video_stream(self) -> Any:
        """The first video stream that is no cover picture."""
        streams = [s for s in self._container.streams.video if not s.disposition & s.disposition.attached_pic]
        if not streams:
            raise VideoError("no_video_stream", "the file has no video stream", file=self._path)
        if getattr(streams[0], "codec_context", None) is None:
            raise VideoError("no_decoder", "there is no decoder for the video stream of the file", file=self._path)
        return streams[0]

    def _read_header(self, first: Any) -> VideoHeader:
        stream = self._stream
        size = planes.square_size(first.width, first.height, self._aspect)
        size = size[::-1] if self._upright.transpose else size
        rate = stream.average_rate or stream.guessed_rate
        own, whole = stream.duration, self._container.duration
        duration = own * self._time_base if own else Fraction(whole or 0, 1_000_000)
        return VideoHeader(
            width=size[0],
            height=size[1],
            rotation=self._upright.rotation,
            rate=Fraction(rate) if rate else None,
            duration=duration if duration > 0 else None,
            # AVI counts frames that repeat the one before them and have no packet: that is no promise.
            promised_frames=None if self._container.format.name == AVI else stream.frames or None,
            codec=stream.codec_context.name,
            decoder="pyav",
        )

    def _start(self) -> Fraction:
        """Where the stated duration begins: a stream's own is counted from its start, a container's from 0."""
        if self._stream.duration and self._stream.start_time is not None:
            return Fraction(self._stream.start_time * self._time_base)
        return Fraction(0)


def short_of(duration: Fraction | None, seen: Fraction, gap: Fraction) -> Damage | None:
    """Damage if a video ends before its stated duration by more than twice its longest frame `gap`, since muxers count the last frame
    in their own ways, and by more than a hundredth, since they round."""
    if not duration or duration - seen <= max(duration / 100, 2 * gap):
        return None
    message = f"{float(seen):.1f} of {float(duration):.1f} promised seconds could be decoded"
    return Damage(message, float(1 - seen / duration))


def _open_container(path: Path) -> Any:
    try:
        # An absolute path cannot be read as a protocol ("concat:...") or an option.
        return av.open(str(path.absolute()), options=dict(_OPTIONS), metadata_errors="replace")
    except av.InvalidDataError as error:
        with path.open("rb") as file:
            head = file.read(12)
        if head[4:8] == b"ftyp":
            problem = "the file is cut off: its index (moov) is missing"
            raise VideoError("truncated", problem, "download or copy it again", path) from error
        problem = "the file is not a video: its content fits no known format"
        raise VideoError("not_a_video", problem, file=path) from error
    except MemoryError:
        raise
    except (av.FFmpegError, OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENOMEM:
            raise MemoryError from error
        problem = f"the file cannot be opened: {getattr(error, 'strerror', None) or error}"
        raise VideoError("unreadable", problem, file=path) from error


def _is_cut(path: Path, container: str) -> bool:
    """Whether a file ends inside a box of MP4, a chunk of AVI or a packet of a transport stream, or before the size that ASF or
    Matroska state. False for other containers, and for files that were written to a pipe: they state no size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head, at = file.read(4096), 0
        if container == "mpegts":  # packets of 188, 192 or 204 bytes, each with a sync byte at its place
            units = (unit for unit, sync in ((188, 0), (192, 4), (204, 0)) if set(head[sync:1024:unit]) == {0x47})
            return size % next(units, 1) != 0
        if container == ASF and (found := head.find(bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365"))) >= 0:
            return size < int.from_bytes(head[found + 40 : found + 48], "little")
        if container == MATROSKA and (found := head.find(bytes.fromhex("18538067")) + 4) >= 4:
            # as many bytes as the first has leading zeros, and 1; all other bits 1: unknown
            width = 9 - head[found].bit_length()
            length = int.from_bytes(head[found : found + width]) % (1 << 7 * width)
            return length + 1 != 1 << 7 * width and size < found + width + length
        while container in (MP4, AVI) and at + 8 <= size:
            file.seek(at)
            box = file.read(16)
            length, kind = int.from_bytes(box[:4]), box[4:8]
            if container == AVI:
                length, kind = int.from_bytes(box[4:8], "little") + 8, box[:4]
            elif length == 1:
                length = int.from_bytes(box[8:16])
            at += length
            if at > size or length < 8:
                return length >= 8 and (kind in (b"moof", b"mdat") or (kind == b"RIFF" and length < 0xFFFF_0000))
    return False
