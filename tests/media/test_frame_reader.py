from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.media import pyav_video
from ctxr.media.opencv_video import FrameReader, open_video
from ctxr.media.video import VideoError
from tests.media.clips import MILLISECOND, RATE, break_packet, pictures, write_clip

REAL_CLIPS = (
    "bikes.mp4",
    "big_buck_bunny_0_30.webm",
    "corrupted.mp4",
    "fades.mp4",
    "issue-236-split-copy.mkv",
    "no_duration.webm",
    "test_video_structuralize.mp4",
    "video_90.mov",
)
Full = list[tuple[int, Fraction, bytes]]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many frames PyAV has decoded since the last time this was asked."""
    count = 0
    original = pyav_video.PyavVideo._frames_of

    def counting(self: pyav_video.PyavVideo, packet: Any) -> Any:
        nonlocal count
        for frame in original(self, packet):
            count += 1
            yield frame

    def taken() -> int:
        nonlocal count
        so_far, count = count, 0
        return so_far

    monkeypatch.setattr(pyav_video.PyavVideo, "_frames_of", counting)
    return taken


def _full(path: Path, decoder: str = "pyav") -> Full:
    with open_video(path, decoder) as video:
        return [(frame.index, frame.time, frame.rgb().tobytes()) for frame in video]


def _assert_bit_equal(path: Path, full: Full, chosen: list[int], decoder: str = "pyav") -> None:
    with FrameReader(path, decoder) as reader:
        for index, time, pixels in (full[at] for at in sorted(set(chosen))):
            assert reader.read(index, time).tobytes() == pixels


def _assert_any_choice_is_bit_equal(path: Path, decoder: str = "pyav") -> None:
    full = _full(path, decoder)
    random = np.random.default_rng(0)
    for size in (1, 1, 2, 5, 12):
        _assert_bit_equal(path, full, random.integers(0, len(full), size).tolist(), decoder)
    _assert_bit_equal(path, full, [0, len(full) - 1], decoder)


@pytest.mark.parametrize("name", REAL_CLIPS)
def test_frames_of_real_clips_are_read_again_bit_for_bit(real_files: Path, name: str) -> None:
    _assert_any_choice_is_bit_equal(real_files / "videos" / name)


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("closed.mp4", "libx264", {"g": "20", "bf": "3"}),
        ("open.mkv", "libx264", {"g": "20", "bf": "3", "x264-params": "open-gop=1"}),
        ("refresh.mp4", "libx264", {"g": "20", "x264-params": "intra-refresh=1"}),
        ("pieces.ts", "libx264", {"g": "20", "bf": "2"}),
        ("old.avi", "mpeg4", {"g": "12", "bf": "2"}),
        ("vp9.webm", "libvpx-vp9", {"g": "20", "deadline": "realtime", "cpu-used": "8"}),
    ],
)
def test_frames_are_read_again_bit_for_bit(tmp_path: Path, name: str, codec: str, options: dict[str, str]) -> None:
    path = write_clip(tmp_path / name, pictures((1, 60), (2, 60)), codec=codec, options=options)
    _assert_any_choice_is_bit_equal(path)


def test_frames_of_a_broken_clip_are_read_again_bit_for_bit(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "broken.mp4", pictures((1, 80)), options={"g": "10"})
    _assert_any_choice_is_bit_equal(break_packet(path, 33))


def test_frames_of_a_variable_rate_are_read_again_bit_for_bit(tmp_path: Path) -> None:
    stamps = np.cumsum(np.random.default_rng(1).integers(1, 90, 80)).tolist()
    path = write_clip(tmp_path / "v.mkv", pictures((1, 80)), stamps=stamps, time_base=MILLISECOND, options={"g": "10"})
    _assert_any_choice_is_bit_equal(path)


def test_opencv_reads_its_own_frames_again(tmp_path: Path) -> None:
    _assert_any_choice_is_bit_equal(write_clip(tmp_path / "clip.mp4", pictures((1, 40))), "opencv")


def test_a_late_frame_is_reached_by_a_jump(tmp_path: Path, decoded: Callable[[], int]) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 400)), options={"g": "20"})
    with FrameReader(path) as reader:
        reader.read(390, Fraction(390, RATE))
    assert decoded() < 40


def test_near_frames_are_decoded_on_without_a_jump(tmp_path: Path, decoded: Callable[[], int]) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 100)), options={"g": "4"})
    with FrameReader(path) as reader:
        for index in range(20, 60):
            reader.read(index, Fraction(index, RATE))
    assert decoded() < 70


def test_frames_can_be_read_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write_clip(path, pictures((1, 30)), options={"g": "10", "bf": "0"})
    full = _full(path)
    with FrameReader(path) as reader:
        for index in (25, 3, 3, 29, 0):
            assert reader.read(index, full[index][1]).tobytes() == full[index][2]


def test_a_reader_that_reads_nothing_opens_nothing(tmp_path: Path) -> None:
    with FrameReader(tmp_path / "nothing.mp4"):
        pass


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
@pytest.mark.parametrize(("index", "time"), [(5, Fraction(1, 7)), (5, Fraction(1, 3)), (99, Fraction(99, RATE))])
def test_a_frame_that_is_not_there_is_not_made_up(tmp_path: Path, decoder: str, index: int, time: Fraction) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 30)))
    with (
        FrameReader(path, decoder) as reader,
        pytest.raises(VideoError, match=f"frame {index} at .* is not in the file") as failed,
    ):
        reader.read(index, time)
    assert failed.value.reason == "frame_not_found"


def test_where_times_repeat_the_count_decides(tmp_path: Path) -> None:
    stamps = [40 * index for index in range(30)]
    stamps[21] = stamps[20]
    path = write_clip(tmp_path / "twice.mkv", pictures((1, 30)), codec="ffv1", stamps=stamps, time_base=MILLISECOND)
    full = _full(path)
    assert full[20][1] == full[21][1]
    assert full[20][2] != full[21][2]
    for index in (20, 21, 22):
        _assert_bit_equal(path, full, [index])
    _assert_bit_equal(path, full, [21, 20])
