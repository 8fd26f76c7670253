import os
import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest
from scenedetect.common import FrameTimecode, Timecode
from scenedetect.detectors import AdaptiveDetector, ContentDetector, HashDetector, HistogramDetector, ThresholdDetector

from ctxr.errors import UsageError
from ctxr.media.opencv_video import open_video
from ctxr.media.scan import THRESHOLDS, ScanOptions
from ctxr.media.shots import FixedCuts, PySceneDetectCuts, cut_finder, spaced
from ctxr.media.video import Frame, Pixels, VideoError, VideoHeader
from tests.media.clips import MILLISECOND, RATE, pictures, scene, write_clip

# First frames of new shots in the real clips that the default detector must find, and no others.
REAL_CUTS = {
    "bikes.mp4": [30, 76, 137, 187, 242],
    "big_buck_bunny_0_30.webm": [31, 139, 283, 376, 551],
    "corrupted.mp4": [],
    "fades.mp4": [],
    "issue-236-split-copy.mkv": [19],
    "no_duration.webm": [],
    "test_video_structuralize.mp4": [],
    "video_90.mov": [],
}
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg program is not installed")
EVERY_FRAME = ["adaptive", "content", "histogram", "hash", pytest.param("ffmpeg", marks=needs_ffmpeg)]


class Picture(Frame):
    """A frame made of a small BGR view."""

    def __init__(self, index: int, time: Fraction, view: Pixels) -> None:
        super().__init__(index, time, view.nbytes)
        self._view = view

    def luma_thumbnail(self) -> Pixels:
        return np.ascontiguousarray(self._view[:36, :64, 0])

    def small_bgr(self, width: int = 256) -> Pixels:
        return self._view

    def rgb(self) -> Pixels:
        return self._view


def _header(rate: int = RATE, decoder: str = "pyav") -> VideoHeader:
    return VideoHeader(160, 96, Fraction(rate), None, None, decoder)


def _cuts(path: Path, detector: str = "adaptive", min_shot: float = 0.6, decoder: str = "pyav") -> list[int]:
    with open_video(path, decoder) as video:
        finder = cut_finder(path, video.header, ScanOptions(detector=detector, min_shot=min_shot))
        return [cut for frame in video for cut in finder.feed(frame)]


def _restless(seed: int, frames: int = 300, motion: int = 30) -> list[Picture]:
    """A scene that changes at random moments, sometimes twice within a few frames, at a variable rate; without motion at 1."""
    random = np.random.default_rng(seed)
    found, time, shot = [], Fraction(0), 0
    for index in range(frames):
        shot += random.random() < 0.06
        found.append(Picture(index, time, scene(shot, index % motion, (64, 36))))
        time += int(random.integers(20, 60)) * MILLISECOND
    return found


@pytest.mark.parametrize("detector", EVERY_FRAME)
@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_a_hard_cut_is_found_at_its_very_frame(tmp_path: Path, detector: str, decoder: str) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 33), (2, 40), (3, 27)))
    assert _cuts(path, detector, decoder=decoder) == [33, 73]


@pytest.mark.parametrize("detector", EVERY_FRAME)
@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_a_variable_frame_rate_and_a_late_start_move_no_cut(tmp_path: Path, detector: str, decoder: str) -> None:
    stamps = (5000 + np.cumsum(np.random.default_rng(3).integers(15, 90, 100))).tolist()
    path = write_clip(tmp_path / "v.mkv", pictures((1, 37), (2, 63)), stamps=stamps, time_base=MILLISECOND)
    assert _cuts(path, detector, decoder=decoder) == [37]


@pytest.mark.parametrize("detector", ["adaptive", "histogram", "hash", pytest.param("ffmpeg", marks=needs_ffmpeg)])
def test_no_shot_is_shorter_than_asked(tmp_path: Path, detector: str) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 30), (2, 10), (3, 30)))
    assert _cuts(path, detector, min_shot=0.2) == [30, 40]
    assert _cuts(path, detector, min_shot=0.6) == [30]


def test_a_fade_through_black_is_cut_in_its_middle(tmp_path: Path) -> None:
    black = np.zeros((96, 160, 3), np.uint8)
    path = write_clip(tmp_path / "clip.mp4", [*pictures((1, 30)), *[black] * 20, *pictures((2, 30))])
    own = ThresholdDetector(threshold=12, min_scene_len=0.6)
    with open_video(path) as video:
        times = [FrameTimecode(Timecode(frame.index, Fraction(1, RATE)), Fraction(RATE)) for frame in video]
    with open_video(path) as video:
        [named] = [
            cut.frame_num
            for time, frame in zip(times, video, strict=True)
            for cut in own.process_frame(time, frame.small_bgr())
        ]
    assert 38 <= named <= 41
    assert _cuts(path, "threshold") == _cuts(path, "threshold", decoder="opencv") == [named]
    # stamps that are cut to milliseconds lie before the time that the frame number and the rate name
    stamps = [5000 + index * 1000 // 30 for index in range(80)]
    late = write_clip(
        tmp_path / "v.mkv",
        [*pictures((1, 30)), *[black] * 20, *pictures((2, 30))],
        rate=30,
        stamps=stamps,
        time_base=MILLISECOND,
    )
    assert _cuts(late, "threshold") == [named]


@pytest.mark.parametrize(("name", "cuts"), REAL_CUTS.items())
def test_the_default_detector_finds_the_known_cuts_of_real_clips_and_that_of_fades_the_fades(
    real_files: Path, name: str, cuts: list[int]
) -> None:
    assert _cuts(real_files / "videos" / name) == cuts
    if name == "fades.mp4":
        assert _cuts(real_files / "videos" / name, "threshold") == [84, 167]


@pytest.mark.parametrize(("seed", "motion"), [(0, 30), (1, 30), (2, 30), (3, 30), (4, 1)])
@pytest.mark.parametrize("detector", EVERY_FRAME[:4])
def test_cuts_are_those_of_pyscenedetects_own_classes(detector: str, seed: int, motion: int) -> None:
    own = {
        "adaptive": AdaptiveDetector(adaptive_threshold=3.0, min_scene_len=0.6, window_width=3),
        "content": ContentDetector(threshold=31.0, min_scene_len=0.6),
        "histogram": HistogramDetector(threshold=0.20, min_scene_len=0.6),
        "hash": HashDetector(threshold=0.35, min_scene_len=0.6),
    }[detector]
    frames = _restless(seed, motion=motion)
    indices = {frame.time: frame.index for frame in frames}
    expected = []
    for frame in frames:
        stamp = FrameTimecode(Timecode(frame.time.numerator, Fraction(1, frame.time.denominator)), Fraction(RATE))
        expected += [indices[cut.pts * cut.time_base] for cut in own.process_frame(stamp, frame.small_bgr())]
    finder = cut_finder(Path("unused"), _header(), ScanOptions(detector=detector))
    assert [cut for frame in frames for cut in finder.feed(frame)] == expected
    assert expected


def test_the_fused_score_is_pyscenedetects_score() -> None:
    ours, own = cut_finder(Path("unused"), _header(), ScanOptions(detector="content")), ContentDetector()
    assert isinstance(ours, PySceneDetectCuts)
    for frame in _restless(9, 40):
        ours.feed(frame)
        slow = own._calculate_frame_score(FrameTimecode(frame.index, 25.0), frame.small_bgr())
        assert ours._detector._frame_score == pytest.approx(slow, rel=1e-12)


@pytest.mark.parametrize("detector", EVERY_FRAME[:4])
def test_no_cut_is_told_later_than_the_promised_lag(detector: str) -> None:
    latest = 0
    for seed in range(6):
        finder = cut_finder(Path("unused"), _header(), ScanOptions(detector=detector))
        frames = _restless(seed)
        for frame in frames:
            for cut in finder.feed(frame):
                latest = max(latest, frame.index - cut)
                # The frame before this one had not let the cut go: it was still held.
                before = frames[frame.index - 1]
                assert (
                    before.index - cut < finder.lag_frames
                    or before.time - frames[cut].time < Fraction(finder.lag_seconds)
                    or frame.index == cut
                )
    assert latest > 0 or finder.lag_frames == 0


def test_a_picture_that_changes_its_size_is_compared_at_the_first_size() -> None:
    finder = cut_finder(Path("unused"), _header(), ScanOptions())
    views = [scene(1, 0, (64, 36)), cv2.resize(scene(1, 0, (64, 36)), (48, 26))]
    frames = [Picture(index, Fraction(index, RATE), views[index >= 30]) for index in range(60)]
    assert [cut for frame in frames for cut in finder.feed(frame)] == []


def test_time_before_zero_is_allowed() -> None:
    finder = cut_finder(Path("unused"), _header(), ScanOptions())
    frames = [Picture(i, Fraction(i - 50, RATE), scene(1 + (i >= 40), i, (64, 36))) for i in range(80)]
    assert [cut for frame in frames for cut in finder.feed(frame)] == [40]


def _told(times: Sequence[float], cuts: Sequence[float]) -> list[int]:
    finder = FixedCuts([Fraction(cut) for cut in cuts])
    frames = [Picture(index, Fraction(time), scene(1, 0)) for index, time in enumerate(times)]
    return [cut for frame in frames for cut in finder.feed(frame)]


def test_a_known_cut_is_at_the_first_frame_not_before_it() -> None:
    assert _told([0, 1, 2, 3, 4], [2]) == [2]
    assert _told([0, 1, 2, 3, 4], [1.5, 3.25]) == [2, 4]
    assert _told([0, 1, 2, 3, 4], [2.25, 2.75]) == [3]
    assert _told([0, 1, 2, 3, 4], [9]) == []


def test_cuts_apart_count_from_the_last_one_taken() -> None:
    times = [Fraction(tenths, 10) for tenths in (0, 4, 7, 10, 13, 20)]
    assert spaced(times, 0.6) == [Fraction(7, 10), Fraction(13, 10), Fraction(2)]
    assert spaced(times, 0) == times[1:]
    halves = [Fraction(number, 2) for number in range(3)]
    assert spaced(halves, 0.5) == halves[1:]
    assert spaced([], 0.6) == []


@pytest.mark.parametrize("detector", THRESHOLDS)
def test_an_unknown_detector_and_a_threshold_out_of_its_range_are_usage_errors(detector: str) -> None:
    with pytest.raises(UsageError, match="--detector best"):
        ScanOptions(detector="best").check()
    largest = 1.0 if detector in ("histogram", "hash", "ffmpeg") else 255.0
    for threshold in (0, -1, largest + 1, float("nan")):
        with pytest.raises(UsageError, match=f"--detector-threshold of {detector} "):
            ScanOptions(detector=detector, detector_threshold=threshold).check()
    if detector != "ffmpeg":  # which may not be installed
        assert ScanOptions(detector=detector, detector_threshold=largest).check()


def test_ffmpeg_that_is_not_installed_is_a_usage_error_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(UsageError, match="the ffmpeg program") as failed:
        ScanOptions(detector="ffmpeg").check()
    assert "adaptive" in failed.value.hint


@needs_ffmpeg
def test_what_ffmpeg_cannot_decode_is_a_failure_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "text.mp4"
    path.write_text("no video\n" * 99)
    with pytest.raises(VideoError, match=r"ffmpeg .*: .*Invalid data"):
        cut_finder(path, _header(), ScanOptions(detector="ffmpeg"))


def test_a_look_at_the_whole_file_gives_signs_of_life(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 20)))
    beats: list[int] = []
    cut_finder(path, _header(), ScanOptions(detector="threshold"), beat=lambda: beats.append(1))
    assert len(beats) == 20
