import io
import os
import threading
from fractions import Fraction

import numpy as np
import pytest

from ctxr.media.decoder_process import Message, NonsenseError, read_as, receive, send
from ctxr.media.video import VideoHeader


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
    "content",
    [
        b"Hello, I am a decoder and I talk.",
        b"no",
        b"ctxR\xff\xff\xff\xff" + b"\0" * 8,
        b"ctxR\x02\0\0\0" + b"\xff" * 8 + b"{}",
        b"ctxR\x02\0\0\0" + b"\0" * 8 + b"{[",
        b"ctxR\x02\0\0\0" + b"\x05" + b"\0" * 7 + b"{}12345",
        b"ctxR\x0d\0\0\0" + b"\x05" + b"\0" * 7 + b'{"shape":[9]}12345',
    ],
)
def test_what_is_no_message_is_nonsense(content: bytes) -> None:
    with pytest.raises(NonsenseError):
        receive(io.BytesIO(content))


def test_fractions_and_headers_travel_exactly() -> None:
    header = VideoHeader(640, 272, Fraction(24000, 1001), None, 250, "pyav")
    received = receive(io.BytesIO(_bytes(({"header": header}, None))))
    assert received is not None
    assert received.fields["rate"] == "24000/1001"
    assert read_as(VideoHeader, received.fields) == header
