"""The decoding child process: what it answers, what ends it, and how its messages travel."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ctxr.media import decoder_process as scan_process
from ctxr.media.decoder_process import (
    SHARED_BYTES,
    CandidateFrame,
    ChildFrameReader,
    Message,
    ScanEnd,
    Scanner,
    SharedPixels,
    read_as,
    receive,
    send,
)
from ctxr.media.opencv_video import FrameReader, open_video
from ctxr.media.scan import ScanOptions
from ctxr.media.video import VideoError, VideoHeader
from tests.media.clips import RATE, pictures, write_clip, write_sound

SAMPLES = ScanOptions(frames="samples")
PYAV = ScanOptions(decoder="pyav", frames="samples")
# Stands in for the child: reads the question, then does what follows.
ASKED = "import json, os, signal, sys, time; question = json.loads(sys.stdin.buffer.readline()); "


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clips") / "clip.mp4", pictures((1, 30), (2, 30)), options={"g": "10"})


def _python(code: str) -> Sequence[str]:
    return [sys.executable, "-c", code]


def _real_but(code: str) -> Sequence[str]:
    """The real child, except that `code` runs before each answer."""
    lines = [
        "import json, os, signal, sys, time",
        "from ctxr.media import decoder_child",
        "answer = decoder_child.Decoder.answer",
        "def other(self, question):",
        f"    {code}",
        "    answer(self, question)",
        "decoder_child.Decoder.answer = other",
        "decoder_child.main()",
    ]
    return _python("\n".join(lines))


def _scanner(command: Sequence[str]) -> Scanner:
    scanner = Scanner()
    scanner.command = command
    return scanner


def _failure(command: Sequence[str], path: Path, options: ScanOptions = PYAV) -> VideoError:
    with _scanner(command) as scanner, pytest.raises(VideoError, match=path.name) as failed:
        list(scanner.scan(path, options))
    return failed.value


def _wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60  # only ends a test that hangs
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def _is_gone(process: int) -> bool:
    status = Path(f"/proc/{process}/status")
    return not status.exists() or "State:\tZ" in status.read_text()


def test_what_is_no_video_is_told_in_one_sentence_each(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("Dear diary,\n" * 200)
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "folder.mp4").mkdir()
    write_sound(tmp_path / "sound.mp4")
    answers = {}
    with Scanner() as scanner:
        for name in ("text", "empty", "folder", "sound", "nothing"):
            path = tmp_path / f"{name}.mp4"
            with pytest.raises(VideoError, match=str(path)) as failed:
                list(scanner.scan(path, SAMPLES))
            answers[name] = failed.value.reason
        # None of them harmed the child.
        first = scanner._child
        with pytest.raises(VideoError, match="no such file"):
            list(scanner.scan(tmp_path / "again.mp4", SAMPLES))
        assert scanner._child is first
    assert answers == {
        "text": "not_a_video",
        "empty": "empty_file",
        "folder": "not_a_file",
        "sound": "no_video_stream",
        "nothing": "no_such_file",
    }


def test_a_relative_path_is_told_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Scanner() as scanner, pytest.raises(VideoError, match=r"^here\.mp4: no such file$"):
        list(scanner.scan(Path("here.mp4"), SAMPLES))


def test_a_crash_costs_only_its_file(clip: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(clip.read_bytes())
    command = _real_but("'bad' in question['path'] and os.kill(os.getpid(), signal.SIGSEGV)")
    with _scanner(command) as scanner:
        with pytest.raises(VideoError, match="killed by SIGSEGV") as failed:
            list(scanner.scan(bad, PYAV))
        assert failed.value.reason == "decoder_crashed"
        *_, end = scanner.scan(clip, PYAV)
        assert isinstance(end, ScanEnd)
        assert end.frames == 60


@pytest.mark.parametrize(
    ("code", "limits", "reason", "message"),
    [
        (
            ASKED + "print('x\\nout of luck', file=sys.stderr); sys.exit(3)",
            {},
            "decoder_crashed",
            "status 3 (out of luck)",
        ),
        (ASKED, {}, "decoder_crashed", "without a result"),
        ("pass", {}, "decoder_crashed", ""),
        (
            ASKED + "sys.stdout.write('Hello, I am a decoder! ' * 99); sys.stdout.flush(); time.sleep(600)",
            {},
            "decoder_crashed",
            "not a message",
        ),
        (ASKED + "time.sleep(600)", {"stall_seconds": 0.3}, "stalled", "decoder for 0.3 s"),
        (
            ASKED + "from ctxr.media.decoder_process import send\nwhile True: send(1, {'beat': 7}); time.sleep(0.05)",
            {"stall_seconds": 60, "time_limit": 1},
            "time_limit",
            "not done after 1 s",
        ),
        (ASKED + "print('MemoryError', file=sys.stderr); os.abort()", {}, "memory_limit", ""),
        (
            ASKED
            + """print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr); os.abort()""",
            {},
            "memory_limit",
            "",
        ),
    ],
    ids=["status", "silence", "not there", "nonsense", "stalled", "busy", "MemoryError", "bad_alloc"],
)
def test_what_ends_a_child_is_told(clip: Path, code: str, limits: dict[str, Any], reason: str, message: str) -> None:
    failure = _failure(_python(code), clip, replace(PYAV, **limits))
    assert failure.reason == reason
    assert message in failure.message


@pytest.mark.parametrize("ahead", [1, 88 << 20])
def test_a_slow_consumer_is_no_silent_decoder(clip: Path, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    clock = [0.0]
    monkeypatch.setattr(scan_process, "_AHEAD_BYTES", ahead)
    monkeypatch.setattr(scan_process, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Scanner() as scanner:
        taken = 0
        for _ in scanner.scan(clip, ScanOptions(frames="every", stall_seconds=300, time_limit=500)):
            taken += 1
            clock[0] += 400 if taken in (2, 30) else 0
    assert taken == 62


def test_a_child_out_of_memory_says_so_itself(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "large.mp4", pictures((1, 4), size=(1920, 1080)))
    failure = _failure(_real_but("pass"), path, replace(PYAV, memory_limit=0.05))
    assert failure.reason == "memory_limit"
    assert "the 0.05 GiB" in failure.message


def test_after_a_crash_on_the_way_a_second_header_starts_the_file_anew(clip: Path) -> None:
    code = "\n".join(
        [
            "import os",
            "from ctxr.media import decoder_child",
            "release = decoder_child.ScanPass._release",
            "def crashing(self):",
            "    release(self)",
            "    if self.crashes and len(self.starts) == 2: os.kill(os.getpid(), 11)",
            "decoder_child.ScanPass._release = crashing",
            "answer = decoder_child.Decoder.answer",
            "def other(self, question):",
            "    decoder_child.ScanPass.crashes = question['options']['decoder'] == 'pyav'",
            "    answer(self, question)",
            "decoder_child.Decoder.answer = other",
            "decoder_child.main()",
        ]
    )
    with _scanner(_python(code)) as scanner:
        events = list(scanner.scan(clip, SAMPLES))
    headers = [place for place, event in enumerate(events) if isinstance(event, VideoHeader)]
    assert [events[place].decoder for place in headers] == ["pyav", "opencv"]  # type: ignore[union-attr]
    again = [event for event in events[headers[1] :] if isinstance(event, CandidateFrame)]
    assert [candidate.shot for candidate in again] == sorted(candidate.shot for candidate in again)
    assert again[0].index == 0


def test_both_failures_are_told(clip: Path) -> None:
    failure = _failure(_real_but("os.kill(os.getpid(), signal.SIGSEGV)"), clip, SAMPLES)
    assert failure.reason == "decoder_crashed"
    assert failure.message.count("SIGSEGV") == 2
    assert "; opencv: " in failure.message


def test_an_exception_in_the_child_is_told_and_opencv_tries(clip: Path) -> None:
    command = _real_but("question['options']['decoder'] == 'pyav' and question['options'].update(still_below='wide')")
    with _scanner(command) as scanner:
        *_, end = scanner.scan(clip, SAMPLES)
        assert isinstance(end, ScanEnd)
        assert end.header.decoder == "opencv"
        with pytest.raises(VideoError, match=r"ValidationError: .*still_below") as failed:
            list(scanner.scan(clip, PYAV))
    assert failed.value.reason == "decoder_failed"


def test_a_scan_left_early_does_not_spoil_the_next(clip: Path) -> None:
    with Scanner() as scanner:
        for event in scanner.scan(clip, SAMPLES):
            if isinstance(event, CandidateFrame):
                break
        *_, end = scanner.scan(clip, SAMPLES)
        assert isinstance(end, ScanEnd)


def test_noise_of_libraries_does_not_come_between_the_messages(clip: Path) -> None:
    with _scanner(_real_but("print('noise'); os.write(1, b'more noise')")) as scanner:
        *_, end = scanner.scan(clip, SAMPLES)
    assert isinstance(end, ScanEnd)


def test_the_child_imports_no_torch_and_by_default_no_pyscenedetect(clip: Path) -> None:
    code = "import sys; from ctxr.media import decoder_child; decoder_child.main(); open({!r}, 'w').write(' '.join(sys.modules))"
    listing = clip.with_suffix(".modules")
    asked = json.dumps({"path": str(clip), "options": asdict(PYAV)}).encode() + b"\n"
    subprocess.run(_python(code.format(str(listing))), input=asked, stdout=subprocess.DEVNULL, check=True)
    modules = set(listing.read_text().split())
    assert {"av", "cv2"} <= modules
    assert not {"torch", "torchvision", "open_clip", "skimage", "typer", "scenedetect"} & modules


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a child with its parent")
def test_the_child_dies_with_its_parent_whatever_it_is_doing(clip: Path, tmp_path: Path) -> None:
    note = tmp_path / "child"
    command = _real_but(
        f"open({str(note)!r}, 'w').write(str(os.getpid())); os.rename({str(note)!r}, {str(note) + '.id'!r}); time.sleep(600)"
    )
    code = "from pathlib import Path; from ctxr.media.decoder_process import Scanner; from ctxr.media.scan import ScanOptions"
    code += f"; Scanner.command = {command!r}; list(Scanner().scan(Path({str(clip)!r}), ScanOptions()))"
    written = Path(f"{note}.id")
    with subprocess.Popen(_python(code)) as parent:
        assert _wait_until(written.exists)
        child = int(written.read_text())
        assert not _is_gone(child)
        os.kill(parent.pid, signal.SIGKILL)
    assert _wait_until(lambda: _is_gone(child))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_closing_a_scanner_ends_its_child_and_what_it_started(clip: Path, tmp_path: Path) -> None:
    note = tmp_path / "grandchild"
    start = f"import subprocess; p = subprocess.Popen(['sleep', '600']); open({str(note)!r}, 'w').write(str(p.pid)); "
    nonsense = "sys.stdout.write('Hello, I am a decoder! ' * 99); sys.stdout.flush(); time.sleep(600)"
    with _scanner(_python(ASKED + start + nonsense)) as scanner:
        with pytest.raises(VideoError) as failed:
            list(scanner.scan(clip, PYAV))
        assert (failed.value.reason, scanner._child) == ("decoder_crashed", None)
    assert _wait_until(lambda: _is_gone(int(note.read_text())))


def _bytes(*messages: tuple[dict[str, object], np.ndarray | None]) -> bytes:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        for fields, pixels in messages:
            send(writing, fields, pixels)
        os.close(writing)
        return stream.read()


def test_what_is_sent_is_received() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    stream = io.BytesIO(_bytes(({"beat": 3}, None), ({"candidate": {"index": 1}}, pixels), ({"end": [1, "ü"]}, None)))
    assert receive(stream) == Message("beat", 3, None)
    received = receive(stream)
    assert received is not None
    assert received[:2] == ("candidate", {"index": 1})
    assert received.pixels is not None
    assert np.array_equal(received.pixels, pixels)
    assert receive(stream) == Message("end", [1, "ü"], None)
    assert receive(stream) is None


def test_a_frame_larger_than_the_pipe_arrives_whole() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (720, 1280, 3), np.uint8)
    reading, writing = os.pipe()

    def write() -> None:
        send(writing, {"candidate": {}}, pixels)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading, "rb") as stream:
        received = receive(stream)
        assert receive(stream) is None
    thread.join()
    assert received is not None
    assert received.pixels is not None
    assert np.array_equal(received.pixels, pixels)


@pytest.mark.parametrize("cut", [1, 5, 15, 16, 20, 60, 70])
def test_an_end_in_the_middle_of_a_message_is_an_end(cut: int) -> None:
    whole = _bytes(({"candidate": {"index": 1}}, np.zeros((2, 4, 3), np.uint8)))
    assert cut < len(whole)
    assert receive(io.BytesIO(whole[:cut])) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"Hello, I am a decoder and I talk.", "Hello"),
        (b"no", "no"),
        (b"ctxR\xff\xff\xff\xff" + b"\0" * 8, "ctxR"),
        (b"ctxR\x02\0\0\0" + b"\xff" * 8 + b"{}", "ctxR"),
        (b"ctxR\x02\0\0\0" + b"\0" * 8 + b"{[", "malformed"),
        (b"ctxR\x02\0\0\0" + b"\x05" + b"\0" * 7 + b"{}12345", "unpack"),
        (b"ctxR\x02\0\0\0" + b"\x05" + b"\0" * 7 + b"[]12345", "array"),
        (b"ctxR\x07\0\0\0" + b"\x05" + b"\0" * 7 + b'{"x":1}12345', "null"),
        (b"ctxR\x0d\0\0\0" + b"\x05" + b"\0" * 7 + b'{"shape":[9]}12345', "unpack"),
        (b"ctxR\x14\0\0\0" + b"\x05" + b"\0" * 7 + b'{"shape":[9],"x":{}}12345', r"\(9,\)"),
    ],
)
def test_what_is_no_message_is_nonsense(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        receive(io.BytesIO(content))


def test_fractions_and_headers_travel_exactly() -> None:
    header = VideoHeader(640, 272, Fraction(24000, 1001), None, 250, "pyav")
    received = receive(io.BytesIO(_bytes(({"header": header}, None))))
    assert received is not None
    assert received.fields["rate"] == "24000/1001"
    assert read_as(VideoHeader, received.fields) == header


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_frames_are_those_of_a_reader_in_process(clip: Path, decoder: str) -> None:
    with ChildFrameReader(clip, decoder) as child, FrameReader(clip, decoder) as own:
        for index in (3, 4, 40, 12, 12, 59):
            time = Fraction(index, RATE)
            assert child.read(index, time).tobytes() == own.read(index, time).tobytes()


@pytest.fixture
def ends() -> tuple[SharedPixels, SharedPixels]:
    """Shared memory as the parent and as the child see it."""
    if sys.platform != "linux":
        pytest.skip("no files in memory here")
    descriptor = os.memfd_create("pixels")
    os.ftruncate(descriptor, SHARED_BYTES)
    try:
        return SharedPixels(descriptor), SharedPixels(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.prove
def test_shared_pixels_are_those_of_the_child_until_the_last_view_is_gone(
    ends: tuple[SharedPixels, SharedPixels],
) -> None:
    parent, child = ends
    random = np.random.default_rng(0)
    alive, places = dict[int, tuple[np.ndarray, np.ndarray]](), set[int]()
    for _ in range(200):
        height, width = (int(side) for side in random.integers(200, 2000, 2))
        pixels = random.integers(0, 256, (height, 1, 3), np.uint8).repeat(width, 1)
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb"):
            threading.Thread(target=send, args=(writing, {"frame": {}}, pixels, child)).start()
            received = receive(stream, parent)
        assert received is not None
        assert received.pixels is not None
        parent.taken += np.uint64(received.nbytes)
        places.add(received.pixels.__array_interface__["data"][0])
        # of half of them only a view stays
        alive[int(random.integers(60))] = (
            (received.pixels[1:], pixels[1:]) if random.random() < 0.5 else (pixels, pixels)
        )
        assert np.array_equal(received.pixels, pixels)
        del received
        assert all(np.array_equal(*pair) for pair in alive.values())
    assert len(places) < 150  # places are used again


def test_where_no_block_is_free_pixels_come_through_the_pipe(ends: tuple[SharedPixels, SharedPixels]) -> None:
    parent, child = ends
    pixels = np.ones((SHARED_BYTES // 4, 1, 1), np.uint8)
    held = []
    for _ in range(3):
        place = child.put(pixels)
        parent.taken += np.uint64(pixels.nbytes)
        held.append(parent.get(place, pixels.shape))
    assert child.put(pixels) == 0
    parent.taken += np.uint64(pixels.nbytes)
    del held[1]
    assert child.put(pixels) > 0


@pytest.mark.parametrize("shared", [0, 3, 256])
def test_frames_are_the_same_with_little_shared_memory_and_when_the_child_is_gone(clip: Path, shared: int) -> None:
    with open_video(clip) as video:
        expected = [frame.rgb() for frame in video]
    code = f"sys.modules['ctxr.media.decoder_process'].SHARED_BYTES = {shared * expected[0].nbytes}"
    with _scanner(_real_but(code)) as scanner:
        frames = [
            event.rgb for event in scanner.scan(clip, ScanOptions(frames="every")) if isinstance(event, CandidateFrame)
        ]
    assert len(frames) == len(expected)
    for received, own in zip(frames, expected, strict=True):
        assert received is not None
        assert np.array_equal(received, own)
