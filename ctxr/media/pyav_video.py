"""Decoding with PyAV: exact times, small views of planes, damage, jumps to keyframes.

Converting and scaling whole frames costs as much as decoding, so small views are made from reduced planes.
"""

import bisect
import errno
import functools
import re
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.video.reformatter import VideoReformatter

from ctxr.errors import plural
from ctxr.media.video import THUMBNAIL_SHAPE, Damage, Frame, Pixels, Video, VideoError, VideoHeader, turned

_OPTIONS = {"protocol_whitelist": "file"}  # a playlist must not open other files or addresses
_MAX_FAILURES_IN_A_ROW = 256  # packets, after which the rest is taken for garbage
_FRAMES_WORTH_A_JUMP = 12  # a jump discards what the decoding threads have ahead
_DEFAULT_RATE = Fraction(25)
_TAIL = 512  # packets, more than a decoder holds
_NEAR = 6  # packets from a gap in the decoding times to what shows a loss there
_PAUSE = 1.75  # frames; pulldown repeats fields, which makes steps of 1.5
_OVERHEAD = 64  # bytes that a container puts around a packet, at most
MOST_FRAMES = 100_000_000  # without a count in the container, libraries compute absurd ones
# containers under FFmpeg's names
MP4, MATROSKA, FLV, AVI, ASF = "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "flv", "avi", "asf"
TRANSPORT, PROGRAM, OGG = "mpegts", "mpeg", "ogg"
TEXT = {"tty", "bin", "xbin", "adf", "idf"}  # drawn as an old terminal shows it; known by the suffix, such as .txt
NO_FRAMES = "the file has a video stream, but not one frame of it could be decoded"
# Planar YUV or grey, 8 bits or little-endian words, is viewed as arrays; FFmpeg reformats others.
_PLANAR = re.compile(r"(?:yuvj?4[0-4][0-4]p|gray)(?P<bits>9|10|12|14|16)?(?:le)?")
_REDUCED = (THUMBNAIL_SHAPE[1] * 4, THUMBNAIL_SHAPE[0] * 4)
_NEUTRAL_CHROMA = 128
_UNSPECIFIED_COLORSPACE = 2


def upright_turn(frame: Any) -> int:
    """What makes a PyAV frame upright, for `turned`, from its display matrix, turns rounded to 90 degrees.

    The matrix [a b u; c d v; x y w] maps a stored point (p, q) to (a p + c q, b p + d q): with b the larger of a and b,
    columns become rows. Ask once for a video: side data tie a frame into a cycle of references, and its planes then wait for
    the garbage collector.
    """
    for data in frame.side_data:
        if data.type.name == "DISPLAYMATRIX" and len(bytes(data)) == 36:
            a, b, _, c, d = struct.unpack("=5i", bytes(data)[:20])
            return int(4 + 2 * (b < 0) + (c < 0) if abs(b) > abs(a) else 2 * (d < 0) + (a < 0))
    return 0


def small_size(width: int, height: int, longest: int) -> tuple[int, int]:
    """(width, height), both even and at least 2, of a view whose longer side has at most `longest` pixels; see `Frame.small_bgr`."""
    scale = min(1.0, longest / max(width, height))
    return max(2, round(width * scale / 2) * 2), max(2, round(height * scale / 2) * 2)


def thumbnail_of(luma: Pixels) -> Pixels:
    """The thumbnail uint8 [36, 64] of a luma picture [h, w] of any size: bilinear to 256 x 144, then area means."""
    if luma.shape != _REDUCED[::-1]:
        luma = np.asarray(cv2.resize(luma, _REDUCED, interpolation=cv2.INTER_LINEAR), np.uint8)
    return np.asarray(cv2.resize(luma, THUMBNAIL_SHAPE[::-1], interpolation=cv2.INTER_AREA), np.uint8)


def square_size(width: int, height: int, aspect: Fraction | float | None) -> tuple[int, int]:
    """(width, height) in square pixels of a picture whose pixels are `aspect` times as wide as high, 0.1..10; no side shrinks."""
    if not aspect or not 0.1 <= aspect <= 10:
        return width, height
    return (round(width * aspect), height) if aspect > 1 else (width, round(height / aspect))


@functools.cache
def _planar_bits(name: str) -> int | None:
    match = _PLANAR.fullmatch(name)
    return None if match is None else int(match["bits"] or 8)


def _reduce(plane: Any, bits: int, into: Pixels) -> None:
    """Scale a plane bilinearly into `into` [h, w], words reduced to 8 bits.

    With an odd whole ratio, such as 1280 to 256, the centre of a target pixel is a source pixel: bilinear is then every fifth
    pixel of every fifth row. Whole rows are copied first, as a frame that another core decoded is read faster in a row.
    """
    height, width = into.shape
    words: npt.NDArray[Any] = np.frombuffer(plane, np.uint8 if bits == 8 else "<u2")
    view = words.reshape(plane.height, -1)[:, : plane.width]
    down, down_rest = divmod(plane.height, height)
    across, across_rest = divmod(plane.width, width)
    if not down_rest and not across_rest and down % 2 and across % 2:
        view = np.ascontiguousarray(view[down // 2 :: down])[:, across // 2 :: across]
    elif bits == 8:
        cv2.resize(view, (width, height), dst=into, interpolation=cv2.INTER_LINEAR)
        return
    else:
        view = cv2.resize(view, (width, height), interpolation=cv2.INTER_LINEAR)
    into[:] = view if bits == 8 else view >> (bits - 8)


def _packed(frame: Any, channels: int) -> Pixels:
    """A view of a packed 8-bit frame: uint8 [H, W, channels], or [H, W] for one channel."""
    rows = np.frombuffer(frame.planes[0], np.uint8).reshape(frame.height, -1)[:, : frame.width * channels]
    return rows.reshape(frame.height, frame.width, channels) if channels > 1 else rows


class PyavFrame(Frame):
    """A frame of PyAV. Its small views are made of the planes, reduced first."""

    __slots__ = ("_frame", "_video")

    def __init__(self, index: int, time: Fraction, nbytes: int, frame: Any, video: "PyavVideo") -> None:
        super().__init__(index, time, nbytes)
        self._frame, self._video = frame, video

    def luma_thumbnail(self) -> Pixels:
        """See `Frame.luma_thumbnail`."""
        bits = _planar_bits(self._frame.format.name)
        if bits is None:
            return thumbnail_of(_packed(self._frame.reformat(*_REDUCED, "gray", threads=1), 1))
        reduced = np.empty(_REDUCED[::-1], np.uint8)
        _reduce(self._frame.planes[0], bits, reduced)
        return thumbnail_of(reduced)

    def small_bgr(self, width: int = 256) -> Pixels:
        """See `Frame.small_bgr`. BT.601 in limited range, whatever the tags: detectors compare frames of one video."""
        frame = self._frame
        width, height = small_size(frame.width, frame.height, width)
        bits = _planar_bits(frame.format.name)
        if bits is None:
            return _packed(frame.reformat(width, height, "bgr24", threads=1), 3)
        planes, i420 = frame.planes, np.empty((height * 3 // 2, width), np.uint8)
        chroma = i420[height:].reshape(2, height // 2, width // 2)
        if len(planes) == 1:
            chroma[:] = _NEUTRAL_CHROMA
        for plane, into in zip(planes, (i420[:height], *chroma), strict=False):
            _reduce(plane, bits, into)
        return np.asarray(cv2.cvtColor(i420, cv2.COLOR_YUV2BGR_I420), np.uint8)

    def rgb(self) -> Pixels:
        """See `Frame.rgb`."""
        return self._video.rgb_of(self._frame)


class PyavVideo(Video):
    """A video decoded by FFmpeg through PyAV.

    After a packet that cannot be decoded, frames are left out until the next keyframe, because their reference is missing. So the
    same frames come out for any number of threads.
    """

    def __init__(self, path: Path, threads: int) -> None:
        self._path = path
        self._packets = self._count = self._failures = self._failures_in_a_row = 0
        self._waiting_for_keyframe = False
        self._keys: list[int] | None = None
        self._gap, self._last_stamp, self._end = 0, 0, Fraction(0)
        self._last_packets, self._left_out = deque[int](maxlen=_TAIL), list[int | None]()  # presentation times
        self._container = _open_container(path)
        try:
            # the first video stream that is not a cover picture
            streams = [s for s in self._container.streams.video if not s.disposition & s.disposition.attached_pic]
            if not streams:
                raise VideoError("no_video_stream", "the file has no video stream", file=self._path)
            if getattr(streams[0], "codec_context", None) is None:
                raise VideoError("no_decoder", "there is no decoder for the video stream of the file", file=self._path)
            self._stream = streams[0]
            self.stream = int(self._stream.index)
            context = self._stream.codec_context
            context.thread_type = "AUTO"
            # one thread more: while a caller looks at a frame, the thread that decoded it waits for the next packet
            context.thread_count = threads + (threads > 1)
            self._time_base = Fraction(self._stream.time_base or Fraction(1, 1_000_000))
            self._aspect, self._reformatter = self._stream.sample_aspect_ratio, VideoReformatter()
            self._decoded = self._decode()
            first = next(self._decoded, None)
            if first is None:
                raise VideoError("no_frames", NO_FRAMES, file=path)
            self._first: Any = first
            self._turn = upright_turn(first)
            self._nbytes = first.width * first.height * first.format.bits_per_pixel // 8
            size = square_size(first.width, first.height, self._aspect)
            rate, own = self._stream.average_rate or self._stream.guessed_rate, self._stream.duration
            duration = own * self._time_base if own else Fraction(self._container.duration or 0, 1_000_000)
            self.header = VideoHeader(
                *(size[::-1] if self._turn & 4 else size),
                rate=Fraction(rate) if rate else None,
                duration=duration if duration > 0 else None,
                promised_frames=_listed(self._container.format.name, self._stream),
                decoder="pyav",
            )
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
        """Frames promised against frames decoded; where a decoder conceals damage, the frame is not among them.

        The container's index promises frames, as many as it lists packets: some streams put a frame into two. Where there are more
        packets than that, the list was that of the first fragment. Without an index `_missing` counts packets by their times, and
        the end is that which the container states, or which a piece of it cut off at the end of the file shows.

        It cannot be told that pixels are wrong where the decoder takes them for a picture, as those of Motion JPEG, VP8, VP9, Theora
        and WMV often do; nor that a file was cut between two pieces of a container that states no length.
        """
        promised, form = self.header.promised_frames, self._container.format.name
        # at the end of a file, threads lose packets without an error
        frame_seconds = 1 / (self.header.rate or _DEFAULT_RATE)
        after = sum(stamp > self._last_stamp + 0.75 * frame_seconds / self._time_base for stamp in self._last_packets)
        lost = self._failures + len(self._left_out) + max(0, after - self._failures_in_a_row)
        seen = self._end - (start := (self._stream.start_time or 0) * self._time_base)
        # after a loss a decoder may drop frames in silence; a stream may put a frame into two packets, or show none of one
        by_time = round(seen / frame_seconds) - self._count
        lost = min(max(lost, by_time), max(0, self._packets - self._count)) if lost else 0
        if promised and self._packets <= promised:
            return lost_frames(lost + promised - self._packets, promised)
        # the length that the container states: FFmpeg gives one that it computed from the bit rate to each stream
        of_all = form in (MATROSKA, FLV) and self._stream.duration is None
        length = self.header.duration if of_all or form in (MP4, ASF) else None
        if form == AVI and self._stream.frames < MOST_FRAMES:
            length = self._stream.frames * self._time_base
        if length and not self._stream.duration:
            length -= start  # a stream's duration counts from its start, a container's from 0
        cut, gap = _is_cut(self._path, form), self._gap * self._time_base
        short = is_short(length, seen, gap * (not cut))
        missing, end = 0, Fraction(0)
        if form != AVI and (gap > _PAUSE * frame_seconds or (short and not cut)):
            missing, end = self._missing(form == ASF and cut)
        lost += missing
        if cut and (not length or form not in (AVI, MATROSKA, ASF)):
            return Damage(f"the file is cut off after {plural(self._count + lost, 'frame')}", 1.0)
        if length and short and (cut or (form != AVI and is_short(length, end - start, gap))):
            # else AVI counts frames without a packet, which repeat, or the sound goes on
            return ends_early(self._count, seen, length, frame_seconds)
        return lost_frames(lost, self._count + lost)

    def _missing(self, shrunk: bool) -> tuple[int, Fraction]:
        """Packets that are missing according to decoding times, and seconds at which the last packet of the other streams ends.

        A gap in the times is a loss where something near it shows damage: a packet that the container calls corrupt, a frame that was left
        out, or bytes that belong to no packet, at least a fourth of what the missing ones would have, and clearly more than elsewhere; not
        in transport streams, which are padded, or MP4, which lists packets between them. If nothing near a gap does, the rate is variable:
        it is a pause, and at the others no more are missing than such bytes would hold. All shows damage in a file that has `shrunk`.
        """
        end, held, left_out = Fraction(0), 0, {*self._left_out} - {None}
        rows = list[tuple[int, int, int, bool]]()
        with _open_container(self._path) as container, suppress(av.FFmpegError, IndexError):
            for number, packet in enumerate(container.demux()):
                if packet.stream_index != self.stream:
                    end = max(end, ((packet.pts or 0) + (packet.duration or 0)) * Fraction(packet.time_base or 0))
                elif packet.dts is not None:
                    trouble = packet.is_corrupt or packet.pts in left_out
                    rows.append((packet.dts, (packet.pos or 0) - held, number, trouble))
                held += packet.size
        if len(rows) < 3:
            return 0, end
        stamps, spare, numbers, trouble = np.array(rows).T
        values, counts = np.unique(np.diff(stamps), return_counts=True)
        steps = np.diff(stamps) / max(1, values[counts.argmax()])
        first, last = (np.clip(np.arange(len(steps)) + side, 0, len(steps)) for side in (-_NEAR, _NEAR + 1))
        unknown, troubles = np.maximum.accumulate(spare), np.cumsum(trouble)
        bytes_near = unknown[last] - unknown[first]
        usual = 4 * np.median(bytes_near) + _OVERHEAD * (numbers[last] - numbers[first])
        lost = np.where(steps > _PAUSE, np.round(steps) - 1, 0)
        shown = bytes_near > np.maximum(usual, lost * held / len(rows) / 4)
        shown &= self._container.format.name not in (TRANSPORT, MP4)
        shown = (shown | (troubles[last] > troubles[first]) | shrunk) & (lost > 0)
        if (lost[~shown] > 0).any():
            near = sorted({at for window in zip(first[shown], last[shown], strict=True) for at in range(*window)})
            lost = min(lost[shown].sum(), np.diff(unknown)[near].sum() * len(rows) / max(1, held))
        return round(np.sum(lost)), end

    def rgb_of(self, frame: Any) -> Pixels:
        """A PyAV frame as upright RGB uint8 [H, W, 3] in square pixels, by the colour matrix and range of its tags."""
        size = square_size(frame.width, frame.height, self._aspect)
        try:
            converted = self._reformatter.reformat(frame, *size, format="rgb24", threads=1)
        except av.FFmpegError:
            # the scaler refuses reserved colour tags, which players ignore
            frame.colorspace = _UNSPECIFIED_COLORSPACE
            converted = self._reformatter.reformat(frame, *size, format="rgb24", threads=1)
        return turned(_packed(converted, 3), self._turn)

    def close(self) -> None:
        """See `Closeable.close`."""
        self._container.close()

    def rgb_at(self, time: Fraction) -> Pixels | None:
        """See `Video.rgb_at`: from the keyframe before `time`, if the container lists it."""
        if self._keys is None:
            self._keys = self._listed_keys()
            if len(self._keys) < 2 and self._stream.start_time is not None:
                # Matroska reads its list of cues at the first jump
                self._container.seek(self._stream.start_time, stream=self._stream, backward=True)
                self._decoded, self._first = self._decode(), None
                self._keys = self._listed_keys()
                self._first = next(self._decoded, None)
        stamp = time / self._time_base
        if stamp.denominator != 1:
            return None
        frame, key = self._first, bisect.bisect_right(self._keys, stamp) - 1
        if key >= 0:
            # a jump is faster where the keyframe is far ahead
            per_frame = self._time_base * (self.header.rate or _DEFAULT_RATE)
            behind = frame is None or frame.pts is None or frame.pts > stamp
            if behind or (self._keys[key] - frame.pts) * per_frame >= _FRAMES_WORTH_A_JUMP:
                frame = self._jump(self._keys[max(0, key - 2) : key + 1], stamp.numerator)
        while frame is not None and frame.pts is not None and frame.pts < stamp:
            frame = next(self._decoded, None)
        self._first = following = None
        if frame is not None and frame.pts == stamp:
            self._first = following = next(self._decoded, None)
        if frame is None or frame.pts != stamp or self._failures or (following is not None and following.pts == stamp):
            return None
        return self.rgb_of(frame)

    def _listed_keys(self) -> list[int]:
        return sorted(entry.timestamp for entry in self._stream.index_entries if entry.is_keyframe)

    def _jump(self, keys: Sequence[int], stamp: int) -> Any | None:
        """The first frame after a jump to the last of `keys` from which `stamp` can be reached; None if there is none.

        The first frame must be a keyframe, and not later than the wanted one: the index may list decoding times, and a picture
        before a keyframe in presentation order may need those before it.
        """
        for key in reversed(keys):
            self._container.seek(key, stream=self._stream, backward=True)
            self._decoded = self._decode()
            frame = next(self._decoded, None)
            if frame is not None and frame.key_frame and frame.pts is not None and frame.pts <= stamp:
                return frame
        return None

    def _decode(self) -> Iterator[Any]:
        """PyAV's frames in presentation order, also after failures, up to a number in a row."""
        self._failures_in_a_row = 0
        while self._failures_in_a_row < _MAX_FAILURES_IN_A_ROW:
            try:
                for packet in self._container.demux(self._stream):
                    self._packets += packet.pts is not None or packet.size > 0
                    if packet.pts is not None and not packet.is_discard:
                        self._last_packets.append(packet.pts)
                    try:
                        frames = packet.decode()
                    except av.FFmpegError as error:
                        if packet.size or packet.pts is None:  # else the frame before repeats
                            self._fail(error)
                        frames = []
                    for frame in frames:
                        self._failures_in_a_row = 0
                        self._last_stamp = max(self._last_stamp, frame.pts or 0)
                        if frame.is_corrupt or (self._waiting_for_keyframe and not frame.key_frame):
                            self._left_out.append(frame.pts)
                        else:
                            self._waiting_for_keyframe = False
                            yield frame
                    if self._failures_in_a_row >= _MAX_FAILURES_IN_A_ROW:
                        return
                return
            except (EOFError, IndexError):
                return  # PyAV finds no stream where damaged FLV seems to begin one
            except av.FFmpegError as error:
                self._fail(error)

    def _fail(self, error: av.FFmpegError) -> None:
        if error.errno == errno.ENOMEM:
            raise MemoryError from error
        self._failures += 1
        self._failures_in_a_row += 1
        self._waiting_for_keyframe = True


def lost_frames(lost: int, total: int, why: str = "") -> Damage | None:
    """Damage of a video that lost some of all its frames."""
    verb = "is" if lost == 1 else "are"
    return Damage(f"{lost} of {plural(total, 'frame')} {verb} missing or damaged{why}", lost / total) if lost else None


def ends_early(frames: int, seen: Fraction, length: Fraction, frame_seconds: Fraction) -> Damage | None:
    """Damage of a video with `frames` decoded in the `seen` seconds of its `length`, at a rate that fits them or is variable."""
    before = seen / frame_seconds if frames <= seen / frame_seconds <= 1.25 * frames else frames
    total = max(frames + 1, round(before * length / max(seen, length / 1000)))
    return lost_frames(total - frames, total, f": it ends after {float(seen):.1f} of {float(length):.1f} seconds")


def is_short(duration: Fraction | None, seen: Fraction, gap: Fraction) -> bool:
    """Whether a video ends before its stated duration by more than a hundredth, since muxers round, and more than twice its
    longest frame `gap`, since they count the last frame in different ways."""
    return duration is not None and duration - seen > max(duration / 100, 2 * gap)


def _listed(container: str, stream: Any) -> int | None:
    """Frames in the index; AVI also counts those without bytes, which repeat the one before, and FFmpeg lists one by itself."""
    frames = sum(entry.size > 0 for entry in stream.index_entries) if container == AVI else stream.frames
    return frames if frames > 1 else None


def _open_container(path: Path) -> Any:
    no_video = VideoError("not_a_video", "the file is not a video: its content fits no known format", file=path)
    try:
        # an absolute path cannot be read as a protocol ("concat:...") or an option
        container = av.open(str(path.absolute()), options=dict(_OPTIONS), metadata_errors="replace")
    except av.InvalidDataError as error:
        with path.open("rb") as file:
            head = file.read(12)
        if head[4:8] == b"ftyp":
            problem = "the file is cut off: its index (moov) is missing"
            raise VideoError("truncated", problem, "download or copy it again", path) from error
        raise no_video from error
    except (av.FFmpegError, OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENOMEM:
            raise MemoryError from error
        problem = f"the file cannot be opened: {getattr(error, 'strerror', None) or error}"
        raise VideoError("unreadable", problem, file=path) from error
    if container.format.name in TEXT:
        container.close()
        raise no_video
    return container


def _is_cut(path: Path, container: str) -> bool:
    """Whether a file ends inside a box of MP4, a chunk of AVI, a page of Ogg or a packet of a transport or program stream, or before
    the size that ASF or Matroska state; False for other containers, and for files that were written to a pipe and state no size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head, at = file.read(4096), 0
        if container == TRANSPORT:  # packets of 188, 192 or 204 bytes, each with a sync byte
            for unit, sync in ((188, 0), (192, 4), (204, 0)):
                if set(head[sync:1024:unit]) == {0x47}:
                    file.seek(max(0, size - 5 * unit))
                    return set(file.read()[sync::unit]) != {0x47}
        if container in (PROGRAM, OGG):
            file.seek(max(0, size - (1 << 17)))
            tail = file.read()
            starts = [b"OggS"] if container == OGG else [bytes((0, 0, 1, kind)) for kind in range(0xE0, 0xF0)]
            at = max(tail.rfind(start) for start in starts)
            lengths = tail[at + 27 : at + 27 + int.from_bytes(tail[at + 26 : at + 27])]
            length = 27 + len(lengths) + sum(lengths) if container == OGG else 6 + int.from_bytes(tail[at + 4 : at + 6])
            return at >= 0 and len(tail) < at + length
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
