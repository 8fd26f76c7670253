"""Frames read again behind a process boundary are those of a pass in process; what goes wrong there stays there."""

import sys
from fractions import Fraction
from pathlib import Path

import pytest

from ctxr.media.decoder_process import ChildFrameReader
from ctxr.media.opencv_video import FrameReader
from ctxr.media.scan import ScanOptions
from ctxr.media.video import VideoError
from tests.media.clips import RATE, pictures, write_clip


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", pictures((1, 60)), options={"g": "10"})


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_frames_are_those_of_a_reader_in_process(clip: Path, decoder: str) -> None:
    with ChildFrameReader(clip, decoder) as child, FrameReader(clip, decoder) as own:
        for index in (3, 4, 40, 12, 12, 59):
            time = Fraction(index, RATE)
            assert child.read(index, time).tobytes() == own.read(index, time).tobytes()


def test_a_frame_that_is_not_there_leaves_the_child_fit(clip: Path) -> None:
    with ChildFrameReader(clip) as reader:
        first = reader.read(1, Fraction(1, RATE))
        with pytest.raises(VideoError, match=r"clip\.mp4: frame 99 at .*in the file") as failed:
            reader.read(99, Fraction(99, RATE))
        assert failed.value.reason == "frame_not_found"
        assert reader.read(1, Fraction(1, RATE)).tobytes() == first.tobytes()


@pytest.mark.parametrize(
    ("code", "patience", "reason"),
    [
        ("os.abort()", 60, "decoder_crashed"),
        ("time.sleep(600)", 0.1, "stalled"),
        ("print('nonsense that is no message', flush=True)", 60, "decoder_crashed"),
    ],
)
def test_a_child_that_breaks_is_one_failure_with_its_reason(
    clip: Path, code: str, patience: float, reason: str
) -> None:
    command = (sys.executable, "-c", f"import os, sys, time; sys.stdin.readline(); {code}")
    options = ScanOptions(stall_seconds=patience)
    with ChildFrameReader(clip, "pyav", options, command) as reader, pytest.raises(VideoError) as failed:
        reader.read(0, Fraction(0))
    assert failed.value.reason == reason
