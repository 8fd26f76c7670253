from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from ctxr.errors import UsageError
from ctxr.media import pyav_video
from ctxr.media.opencv_video import FrameReader, open_video
from ctxr.media.pyav_video import square_size
from ctxr.media.video import Frame, VideoError
from tests.media.clips import MILLISECOND, RATE, SIZE, break_packet, pictures, scene, write_clip

# Frames that each real clip gives, as its README says.
REAL_FRAMES = {
    "bikes.mp4": 250,
    "big_buck_bunny_0_30.webm": 720,
    "corrupted.mp4": 28,
    "fades.mp4": 250,
    "issue-236-split-copy.mkv": 48,
    "no_duration.webm": 74,
    "test_video_structuralize.mp4": 300,
    "video_90.mov": 3,
}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clips") / "two_shots.mp4", pictures((1, 30), (2, 30)))


def _frames(path: Path, decoder: str = "pyav", threads: int = 2) -> list[Frame]:
    with open_video(path, decoder, threads) as video:
        return list(video)


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_every_frame_has_its_count_and_its_exact_time(clip: Path, decoder: str) -> None:
    frames = _frames(clip, decoder)
    assert [frame.index for frame in frames] == list(range(60))
    assert [frame.time for frame in frames] == [Fraction(index, RATE) for index in range(60)]


def test_the_header_says_what_the_container_says(clip: Path) -> None:
    with open_video(clip) as video:
        header = video.header
    assert (header.width, header.height) == SIZE
    assert (header.rate, header.duration, header.promised_frames) == (Fraction(RATE), Fraction(60, RATE), 60)
    assert header.decoder == "pyav"


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_a_variable_frame_rate_keeps_its_times_and_a_late_start_with_pyav(tmp_path: Path, decoder: str) -> None:
    start = 2000 if decoder == "pyav" else 0
    stamps = [start + stamp for stamp in (0, 7, 40, 41, 400, 1000, 1033, 1500)]
    path = write_clip(tmp_path / "vfr.mkv", pictures((1, 8)), stamps=stamps, time_base=MILLISECOND)
    assert [frame.time for frame in _frames(path, decoder)] == [stamp * MILLISECOND for stamp in stamps]


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
@pytest.mark.parametrize(("stored", "turn"), [(0, 0), (-90, 90), (180, 180), (90, 270)])
def test_a_rotated_clip_comes_out_upright(tmp_path: Path, decoder: str, stored: int, turn: int) -> None:
    # A player turns by `turn` degrees clockwise: so the picture was stored turned the other way.
    upright = scene(3, 0)
    path = write_clip(
        tmp_path / "turned.mp4", [np.rot90(upright, turn // 90)] * 3, rotation=stored, options={"crf": "1"}
    )
    with open_video(path, decoder) as video:
        pixels = next(iter(video)).rgb()
        header = video.header
    assert pixels.shape == upright.shape
    assert np.abs(pixels.astype(int) - upright).mean() < 6
    assert (header.width, header.height) == SIZE


def test_a_mirrored_clip_comes_out_as_a_player_shows_it(tmp_path: Path) -> None:
    picture = scene(3, 0)
    path = write_clip(tmp_path / "mirror.mp4", [picture] * 3, mirrored=True, options={"crf": "1"})
    assert np.abs(_frames(path)[0].rgb().astype(int) - picture[:, ::-1]).mean() < 6


@pytest.mark.parametrize(
    "pixel_format", ["yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv444p12le", "gray", "gray10le", "bgr0"]
)
@pytest.mark.parametrize("size", [(160, 96), (640, 360), (1280, 720), (90, 200), (33, 17)])
def test_the_small_views_show_the_same_as_the_whole_picture(
    tmp_path: Path, pixel_format: str, size: tuple[int, int]
) -> None:
    path = write_clip(tmp_path / "clip.mkv", [scene(4, 0, size)], codec="ffv1", pixel_format=pixel_format)
    frame = _frames(path)[0]
    picture = frame.rgb()
    assert picture.shape == (size[1], size[0], 3)
    small = frame.small_bgr(64)
    assert max(small.shape[:2]) <= 64
    assert size != (33, 17) or small.shape == (16, 32, 3)  # never enlarged beyond even sides
    assert small.dtype == np.uint8
    reference = cv2.resize(picture, small.shape[1::-1], interpolation=cv2.INTER_LINEAR)[:, :, ::-1].astype(float)
    if pixel_format.startswith("gray"):
        # Grey is stored in the full range and viewed as if it were the limited one.
        reference = np.clip((reference - 16) * 255 / 219, 0, 255)
    # In a tiny picture, where chroma is subsampled decides much.
    assert np.abs(small.astype(int) - reference).mean() < (6 if min(size) > 32 else 12)
    grey = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (64, 36), interpolation=cv2.INTER_AREA).astype(float)
    thumbnail = frame.luma_thumbnail()
    assert thumbnail.shape == (36, 64)
    assert thumbnail.dtype == np.uint8
    # Luma may be stored in the limited range 16..235.
    limited = np.abs(thumbnail - (16 + grey * 219 / 255)).mean()
    assert min(limited, np.abs(thumbnail - grey).mean()) < 4


@pytest.mark.parametrize("ratio", [1, 2, 3, 4, 5, 7.5, 10, 15])
def test_planes_are_reduced_bilinearly_at_every_ratio(tmp_path: Path, ratio: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (round(36 * ratio), round(64 * ratio), 3), np.uint8)
    frame = _frames(write_clip(tmp_path / "noise.mkv", [noise], codec="ffv1", pixel_format="gray"))[0]
    luma = cv2.resize(frame.rgb()[:, :, 0], (64, 36), interpolation=cv2.INTER_LINEAR).astype(float)
    reference = np.clip((luma - 16) * 255 / 219, 0, 255)[:, :, np.newaxis]
    assert np.abs(frame.small_bgr(64) - reference).mean() < 1


def test_colours_follow_the_tagged_matrix(tmp_path: Path) -> None:
    picture = np.full((96, 160, 3), (200, 80, 40), np.uint8)
    plain = write_clip(tmp_path / "plain.mp4", [picture] * 2)
    tagged = write_clip(tmp_path / "tagged.mp4", [picture] * 2, options={"x264-params": "colormatrix=bt709"})
    here, there = (_frames(path)[0].rgb()[40, 40].astype(int) for path in (plain, tagged))
    assert np.abs(here - picture[0, 0]).max() <= 4
    # The encoder was given BT.601 planes under a BT.709 tag: a reader that ignored the tag would see the same colour.
    assert np.abs(here - there).max() > 8


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
@pytest.mark.parametrize(
    ("aspect", "stored", "size"),
    [
        (Fraction(16, 11), None, (233, 96)),
        (Fraction(8, 9), None, (160, 108)),
        (Fraction(16, 11), -90, (96, 233)),
        (Fraction(1, 1), None, (160, 96)),
        (Fraction(1, 40), None, (160, 96)),
    ],
)
def test_pixels_that_are_not_square_are_shown_as_people_see_them(
    tmp_path: Path, suffix: str, decoder: str, aspect: Fraction, stored: int | None, size: tuple[int, int]
) -> None:
    rotation = stored if suffix == "mp4" else None
    size = size if rotation == stored else size[::-1]
    path = write_clip(tmp_path / f"clip.{suffix}", pictures((3, 3)), aspect=aspect, rotation=rotation)
    with open_video(path, decoder) as video:
        frame = next(iter(video))
        pixels, small = frame.rgb(), frame.small_bgr()
        header = video.header
    assert (header.width, header.height) == size
    assert pixels.shape == (size[1], size[0], 3)
    back = np.rot90(pixels, 1) if rotation else pixels
    seen = cv2.resize(np.ascontiguousarray(back), SIZE)
    assert np.abs(seen.astype(int) - scene(3, 0)).mean() < 8
    assert max(small.shape) <= 256


@pytest.mark.parametrize(
    ("aspect", "size"), [(0.1, (9, 90)), (10.0, (90, 9)), (0.09, (9, 9)), (10.1, (9, 9)), (0.0, (9, 9)), (None, (9, 9))]
)
def test_shapes_of_pixels_from_a_tenth_to_ten_are_believed(aspect: float | None, size: tuple[int, int]) -> None:
    assert square_size(9, 9, aspect) == size


def test_a_reserved_colour_tag_is_read_as_no_tag(tmp_path: Path) -> None:
    frames = _frames(write_clip(tmp_path / "clip.mp4", pictures((1, 2))))
    expected = frames[0].rgb()
    frames[0]._frame.colorspace = 3  # type: ignore[attr-defined]
    assert np.array_equal(frames[0].rgb(), expected)


def test_frames_outlive_their_video(clip: Path) -> None:
    with open_video(clip) as video:
        frame = next(iter(video))
        before = frame.rgb().copy()
    assert np.array_equal(frame.rgb(), before)


def test_the_number_of_threads_changes_no_pixel(clip: Path) -> None:
    passes = [[frame.rgb().tobytes() for frame in _frames(clip, threads=threads)] for threads in (1, 2, 4)]
    assert passes[0] == passes[1] == passes[2]


def test_both_decoders_show_the_same_pictures(clip: Path) -> None:
    for ours, theirs in zip(_frames(clip), _frames(clip, "opencv"), strict=True):
        assert np.abs(ours.rgb().astype(int) - theirs.rgb()).mean() < 2
        assert np.abs(ours.small_bgr().astype(int) - theirs.small_bgr()).mean() < 3


def test_an_unknown_decoder_is_a_usage_error(clip: Path) -> None:
    with pytest.raises(UsageError, match="unknown decoder 'decord'"):
        open_video(clip, "decord")


@pytest.mark.parametrize(("name", "count"), REAL_FRAMES.items())
def test_a_real_clip_gives_the_frames_its_readme_names(real_files: Path, name: str, count: int) -> None:
    with open_video(real_files / "videos" / name) as video:
        times = [frame.time for frame in video]
        damage = video.damage
    assert len(times) == count
    assert times == sorted(set(times))
    if name == "corrupted.mp4":
        assert damage is not None
        assert damage.message.startswith("22 of 50 ")
    else:
        assert damage is None


Full = list[tuple[int, Fraction, bytes]]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many frames PyAV has decoded since the last time this was asked."""
    count = 0
    original = pyav_video.PyavVideo._decode

    def counting(self: pyav_video.PyavVideo) -> Any:
        nonlocal count
        for frame in original(self):
            count += 1
            yield frame

    def taken() -> int:
        nonlocal count
        so_far, count = count, 0
        return so_far

    monkeypatch.setattr(pyav_video.PyavVideo, "_decode", counting)
    return taken


def _full(path: Path, decoder: str = "pyav") -> Full:
    with open_video(path, decoder) as video:
        return [(frame.index, frame.time, frame.rgb().tobytes()) for frame in video]


def _assert_bit_equal(path: Path, full: Full, chosen: list[int], decoder: str = "pyav") -> None:
    with FrameReader(path, decoder) as reader:
        for index, time, pixels in (full[at] for at in sorted(set(chosen))):
            assert reader.read(index, time).tobytes() == pixels


def _assert_any_choice_is_bit_equal(
    path: Path, decoder: str = "pyav", sizes: tuple[int, ...] = (1, 1, 2, 5, 12)
) -> None:
    full = _full(path, decoder)
    random = np.random.default_rng(0)
    for size in sizes:
        _assert_bit_equal(path, full, random.integers(0, len(full), size).tolist(), decoder)
    _assert_bit_equal(path, full, [0, len(full) - 1], decoder)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.prove] if count > 500 else []) for name, count in REAL_FRAMES.items()],
)
def test_frames_of_real_clips_are_read_again_bit_for_bit(real_files: Path, name: str) -> None:
    _assert_any_choice_is_bit_equal(real_files / "videos" / name, sizes=(8,))


STAMPS = np.cumsum(np.random.default_rng(1).integers(1, 90, 80)).tolist()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("closed.mp4", {"options": {"g": "20", "bf": "3"}}),
        ("open.mkv", {"options": {"g": "20", "bf": "3", "x264-params": "open-gop=1"}}),
        ("refresh.mp4", {"options": {"g": "20", "x264-params": "intra-refresh=1"}}),
        ("pieces.ts", {"options": {"g": "20", "bf": "2"}}),
        ("old.avi", {"codec": "mpeg4", "options": {"g": "12", "bf": "2"}}),
        ("vp9.webm", {"codec": "libvpx-vp9", "options": {"g": "20", "deadline": "realtime", "cpu-used": "8"}}),
        ("variable.mkv", {"stamps": STAMPS, "time_base": MILLISECOND, "options": {"g": "10"}}),
        ("broken.mp4", {"options": {"g": "10"}}),
        ("wide.mp4", {"aspect": Fraction(16, 11)}),
        ("by_opencv.mp4", {}),
    ],
)
def test_frames_are_read_again_bit_for_bit(tmp_path: Path, name: str, settings: dict[str, Any]) -> None:
    path = write_clip(tmp_path / name, pictures((1, 40), (2, 40)), **settings)
    if name == "broken.mp4":
        break_packet(path, 33)
    _assert_any_choice_is_bit_equal(path, "opencv" if name == "by_opencv.mp4" else "pyav")


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


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
@pytest.mark.parametrize(("index", "time"), [(5, Fraction(1, 7)), (5, Fraction(1, 3)), (99, Fraction(99, RATE))])
def test_a_frame_that_is_not_there_is_not_made_up(tmp_path: Path, decoder: str, index: int, time: Fraction) -> None:
    path = tmp_path / "clip.mp4"
    with FrameReader(path, decoder) as reader:  # which opens nothing yet
        write_clip(path, pictures((1, 30)))
        with pytest.raises(VideoError, match=rf"frame {index} at .*the file") as failed:
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
