from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ctxr.media.decoder_child import ScanPass
from ctxr.media.decoder_process import CandidateFrame, ScanEnd, Scanner
from ctxr.media.opencv_video import open_video
from ctxr.media.scan import ScanOptions
from ctxr.media.video import Frame, VideoError, VideoHeader
from ctxr.store.records import Shot
from tests.media.clips import MILLISECOND, RATE, break_packet, pictures, scene, write_clip

EVERY = ScanOptions(frames="every")
SAMPLES = ScanOptions(frames="samples")


@pytest.fixture(scope="module")
def scanner() -> Iterator[Scanner]:
    with Scanner() as scanner:
        yield scanner


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    still = [scene(3, 0)] * 30
    return write_clip(tmp_path_factory.mktemp("clips") / "clip.mp4", [*pictures((1, 33), (2, 40)), *still])


def _scan(
    scanner: Scanner, path: Path, options: ScanOptions = SAMPLES
) -> tuple[VideoHeader, list[CandidateFrame], ScanEnd]:
    header, *candidates, end = scanner.scan(path, options)
    assert isinstance(header, VideoHeader)
    assert isinstance(end, ScanEnd)
    assert all(isinstance(candidate, CandidateFrame) for candidate in candidates)
    return header, candidates, end  # type: ignore[return-value]


def test_a_scan_is_a_header_then_candidates_then_an_end(scanner: Scanner, clip: Path) -> None:
    header, candidates, end = _scan(scanner, clip)
    with open_video(clip) as video:
        assert header == end.header == video.header
    assert [candidate.index for candidate in candidates] == sorted({candidate.index for candidate in candidates})
    assert (end.frames, end.damage, end.header.decoder, end.late_cuts) == (103, None, "pyav", 0)


def test_shots_are_all_frames_without_gap_or_overlap(scanner: Scanner, clip: Path) -> None:
    _, _, end = _scan(scanner, clip)
    assert end.shots == [
        Shot("", 0, 0, Fraction(0), 33, Fraction(33, RATE)),
        Shot("", 1, 33, Fraction(33, RATE), 73, Fraction(73, RATE)),
        Shot("", 2, 73, Fraction(73, RATE), 103, Fraction(103, RATE)),
    ]


def test_every_candidate_knows_its_shot_and_the_first_of_each_opens_it(scanner: Scanner, clip: Path) -> None:
    _, candidates, end = _scan(scanner, clip)
    for candidate in candidates:
        shot = end.shots[candidate.shot]
        assert shot.start_index <= candidate.index < shot.end_index
        first = candidate.index == shot.start_index
        assert (candidate.gate_difference is None) == first
        assert candidate.rgb is not None or not first
    assert {candidate.shot for candidate in candidates if candidate.gate_difference is None} == {0, 1, 2}


def test_pixels_are_those_of_a_plain_pass(scanner: Scanner, clip: Path) -> None:
    _, candidates, _ = _scan(scanner, clip, EVERY)
    with open_video(clip) as video:
        for candidate, frame in zip(candidates, video, strict=True):
            assert candidate.time == frame.time
            assert candidate.rgb is not None
            assert np.array_equal(candidate.rgb, frame.rgb())


@pytest.mark.parametrize("rate", [5.0, 0.7, 24.0, 1000.0])
def test_a_frame_is_sampled_when_it_enters_another_interval(scanner: Scanner, tmp_path: Path, rate: float) -> None:
    stamps = np.cumsum(np.random.default_rng(2).integers(5, 120, 90)).tolist()
    path = write_clip(tmp_path / "v.mkv", pictures((1, 45), (2, 45)), stamps=stamps, time_base=MILLISECOND)
    _, candidates, end = _scan(scanner, path, replace(SAMPLES, rate=rate, still_below=255))
    intervals = [stamp * MILLISECOND * Fraction(str(rate)) // 1 for stamp in stamps]
    expected = {index for index in range(90) if index == 0 or intervals[index] != intervals[index - 1]}
    expected |= {shot.start_index for shot in end.shots}
    assert [candidate.index for candidate in candidates] == sorted(expected)
    assert len(end.shots) == 2


def test_the_gate_compares_with_the_last_pixels_of_the_same_shot(scanner: Scanner, clip: Path) -> None:
    gate = 4.0
    _, candidates, end = _scan(scanner, clip, replace(SAMPLES, rate=1000, still_below=gate))
    with open_video(clip) as video:
        thumbnails = [frame.luma_thumbnail().astype(float) for frame in video]
    starts = {shot.start_index for shot in end.shots}
    reference = thumbnails[0]
    for candidate in candidates:
        thumbnail = thumbnails[candidate.index]
        if candidate.index in starts:
            assert candidate.gate_difference is None
            assert candidate.rgb is not None
        else:
            difference = np.abs(thumbnail - reference).reshape(9, 4, 16, 4).mean(axis=(1, 3)).max()
            assert candidate.gate_difference == pytest.approx(difference)
            assert (candidate.rgb is None) == (difference < gate)
        if candidate.rgb is not None:
            reference = thumbnail
    assert any(candidate.rgb is None for candidate in candidates)
    assert sum(candidate.rgb is not None for candidate in candidates) > 3


def test_equal_thumbnails_have_equal_hashes_and_others_do_not(scanner: Scanner, clip: Path) -> None:
    _, candidates, _ = _scan(scanner, clip, EVERY)
    with open_video(clip) as video:
        thumbnails = [frame.luma_thumbnail().tobytes() for frame in video]
    pairs = {(candidate.thumbnail_hash, thumbnails[candidate.index]) for candidate in candidates}
    assert len(pairs) == len({text for text, _ in pairs}) == len({thumbnail for _, thumbnail in pairs}) > 60
    assert all(len(candidate.thumbnail_hash) == 16 for candidate in candidates)


def test_two_scans_are_equal(scanner: Scanner, clip: Path) -> None:
    once, again = _scan(scanner, clip), _scan(scanner, clip, replace(SAMPLES, threads=4))
    assert (once[0], once[2]) == (again[0], again[2])
    assert [{**asdict(candidate), "rgb": None} for candidate in once[1]] == [
        {**asdict(candidate), "rgb": None} for candidate in again[1]
    ]


@pytest.mark.parametrize("detector", ["content", "threshold", "histogram", "hash"])
def test_other_detectors_run_through_the_same_pass(scanner: Scanner, clip: Path, detector: str) -> None:
    _, candidates, end = _scan(scanner, clip, replace(SAMPLES, detector=detector))
    assert [shot.start_index for shot in end.shots] == ([0] if detector == "threshold" else [0, 33, 73])
    assert end.late_cuts == 0
    assert candidates[-1].shot == len(end.shots) - 1


def test_a_damaged_clip_fails_unless_what_is_left_is_wanted(scanner: Scanner, tmp_path: Path) -> None:
    path = break_packet(write_clip(tmp_path / "clip.mp4", pictures((1, 40)), options={"g": "10", "bf": "0"}), 13)
    with pytest.raises(VideoError, match=r"clip\.mp4: 7 of 40 [a-z ]+$") as failed:
        _scan(scanner, path)
    assert failed.value.reason == "truncated"
    assert "--keep-damaged" in failed.value.hint
    _, candidates, end = _scan(scanner, path, ScanOptions(keep_damaged=True, frames="every"))
    assert end.frames == 33
    assert str(end.damage).startswith("7 of 40 ")
    assert len(candidates) == 33


def test_a_loss_of_a_few_frames_is_told_and_tolerated(scanner: Scanner, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 120)), options={"g": "10", "bf": "0", "sc_threshold": "0"})
    _, _, end = _scan(scanner, break_packet(path, 118))
    assert end.frames == 118
    assert str(end.damage).startswith("2 of 120 ")


class _Late:
    """A detector that tells a cut at frame 10 only at frame 16, against its word."""

    lag_frames = 3
    lag_seconds = 0.0

    def feed(self, frame: Frame) -> Sequence[int]:
        return [10] if frame.index == 16 else []


@pytest.mark.parametrize(("memory_limit", "start", "late"), [(4.0, 13, 1), (1e-9, 16, 1)])
def test_a_cut_told_too_late_is_put_at_the_oldest_frame_held(
    clip: Path, tmp_path: Path, memory_limit: float, start: int, late: int
) -> None:
    options = replace(EVERY, memory_limit=memory_limit)
    with open_video(clip) as video, (tmp_path / "messages").open("wb") as out:
        walk = ScanPass(options, _Late(), Fraction(RATE), out.fileno())
        walk.run(video)
    # While 16 is fed, 13 to 16 are held; without memory for more, 16 alone.
    assert [index for index, _ in walk.starts] == [0, start]
    assert walk.late_cuts == late
