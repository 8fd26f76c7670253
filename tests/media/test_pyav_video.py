import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from ctxr.media.decoder_child import TOLERATED_LOSS
from ctxr.media.opencv_video import open_video
from ctxr.media.pyav_video import ends_early, is_short
from ctxr.media.video import Damage, VideoError
from tests.media.clips import break_packet, pictures, scene, write_clip, write_sound

# Noise that does not compress well, so that half of the bytes are about half of the frames.
NOISE = [np.random.default_rng(seed).integers(0, 256, (96, 160, 3), np.uint8) for seed in range(40)]


def _reason(path: Path, decoder: str = "pyav") -> str:
    with pytest.raises(VideoError, match=str(path)) as failed:
        open_video(path, decoder)
    return failed.value.reason


def _decoded(path: Path, decoder: str = "pyav", threads: int = 2) -> tuple[list[bytes], Damage | None]:
    with open_video(path, decoder, threads) as video:
        return [frame.rgb().tobytes() for frame in video], video.damage


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "no_such_file"),
        (Path.mkdir, "not_a_file"),
        (lambda path: os.mkfifo(path), "not_a_file"),
        (Path.touch, "empty_file"),
        (lambda path: path.write_text("Dear diary,\n" * 200), "not_a_video"),
        (write_sound, "no_video_stream"),
        (lambda path: break_packet(write_clip(path, pictures((1, 1))), 0), "no_frames"),
        (lambda path: path.write_bytes(write_clip(path, NOISE).read_bytes()[:-2000]), "truncated"),
    ],
    ids=["nothing", "folder", "pipe", "empty", "text", "sound", "garbage", "no index"],
)
def test_what_is_no_video_file_has_its_own_reason(tmp_path: Path, make: Callable[[Path], object], reason: str) -> None:
    make(tmp_path / "clip.mp4")
    assert _reason(tmp_path / "clip.mp4") == reason
    if reason == "not_a_video":
        assert _reason(tmp_path / "clip.mp4", "opencv") == reason


@pytest.mark.parametrize("name", ["diary.txt", "diary.nfo", "diary.bin", "diary.adf"])
def test_text_is_no_video_whatever_its_suffix(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Dear diary,\n" * 400)
    assert _reason(tmp_path / name) == "not_a_video"


def test_a_file_that_cannot_be_opened_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 2)))

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(VideoError, match="cannot be read: Permission denied") as failed:
        open_video(path)
    assert failed.value.reason == "unreadable"
    assert _reason(path / "through_a_file.mp4") == "unreadable"


def test_a_playlist_opens_no_other_file_and_no_address(tmp_path: Path) -> None:
    write_clip(tmp_path / "secret.mp4", pictures((1, 5)))
    listed = tmp_path / "list.mp4"
    listed.write_text(f"ffconcat version 1.0\nfile '{tmp_path / 'secret.mp4'}'\n")
    with pytest.raises(VideoError, match=r"cannot be opened|not a video"):
        open_video(listed)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/secret.ts"
        playlist = tmp_path / "list.m3u8"
        playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{address}\n#EXT-X-ENDLIST\n")
        with pytest.raises(VideoError, match=r"list\.m3u8"):
            open_video(playlist)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_cover_picture_is_no_video_stream(tmp_path: Path) -> None:
    path = tmp_path / "song.mp4"
    with av.open(str(path), "w") as container:
        sound, cover = container.add_stream("aac", rate=16000), container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        silence.sample_rate = 16000
        picture = av.VideoFrame.from_ndarray(scene(1, 0, (64, 64)), "rgb24")
        for stream, frame in ((cover, picture), (sound, silence)):
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    assert _reason(path) == "no_video_stream"


@pytest.mark.parametrize(
    ("name", "decoder", "said"),
    [("clip.mp4", "pyav", "{} of 80 "), ("clip.mp4", "opencv", "{} of 80 "), ("clip.mkv", "pyav", "{} of 80 ")],
)
def test_a_file_cut_in_half_says_how_much_is_left(tmp_path: Path, name: str, decoder: str, said: str) -> None:
    flags = {"movflags": "faststart"} if name == "clip.mp4" else None
    path = write_clip(tmp_path / name, NOISE * 2, container_options=flags, options={"g": "10"})
    assert _decoded(path, decoder)[1] is None
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    frames, damage = _decoded(path, decoder)
    assert 20 < len(frames) < 60
    assert damage is not None
    assert damage.share == pytest.approx(1 - len(frames) / 80, abs=0.05)
    assert damage.message.startswith(said.format(80 - len(frames)))


CONTAINERS = {
    "flv": ("libx264", None),
    "avi": ("mpeg4", None),
    "ts": ("libx264", None),
    "m2ts": ("libx264", None),
    "mkv": ("libx264", None),
    "webm": ("libvpx", None),
    "wmv": ("wmv2", None),
    "mp4": ("libx264", {"movflags": "frag_keyframe+empty_moov"}),
    "mov": ("libx264", {"movflags": "frag_keyframe"}),
    "m4v": ("libx264", {"movflags": "dash+global_sidx+frag_keyframe"}),
}


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_a_video_that_ends_early_is_damaged_in_every_container_and_a_whole_one_in_none(
    tmp_path: Path, suffix: str
) -> None:
    codec, movflags = CONTAINERS[suffix]
    path = write_clip(tmp_path / f"clip.{suffix}", NOISE, codec=codec, options={"g": "10"}, container_options=movflags)
    frames, damage = _decoded(path)
    assert (len(frames), damage) == (40, None)
    content = path.read_bytes()
    for share in (0.9, 0.6):
        path.write_bytes(content[: int(len(content) * share) // 188 * 188 + 1])
        frames, damage = _decoded(path)
        assert 0 < len(frames) < 40
        assert damage is not None
        assert damage.share > TOLERATED_LOSS
        if damage.share < 1:  # of the others, no length is stated
            assert damage.share == pytest.approx(1 - len(frames) / 40, abs=0.05)
            assert "seconds" in damage.message


def _drawn(path: Path, codec: str, stamps: Sequence[int] = range(80)) -> Path:
    """A clip of noise, so that each frame has about as many bytes; a frame a stamp, of which there are 25 a second."""
    options = {"g": "10", "b": "2000000", "bf": "0", "sc_threshold": "0", "deadline": "realtime", "cpu-used": "8"}
    frames = [NOISE[number % 40][:64, :96] for number in range(len(stamps))]
    form = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    return write_clip(path, frames, codec=codec, options=options, stamps=stamps, pixel_format=form)


CODECS = [
    *(f"{suffix} libx264" for suffix in ("mp4", "mov", "3gp", "mkv", "flv", "ts", "mts")),
    *("webm libvpx", "wmv wmv2", "avi mpeg4", "avi mjpeg", "mpg mpeg1video", "mpg mpeg2video"),
    "ts mpeg2video",
]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drawn")
    return {name: _drawn(folder / f"{name.split()[1]}.{name.split()[0]}", name.split()[1]) for name in CODECS}


def _zeros(content: bytes, start: int, length: int) -> bytes:
    return content[:start] + bytes(length) + content[start + length :]


def _noise(content: bytes, start: int, length: int) -> bytes:
    return content[:start] + np.random.default_rng(1).bytes(length) + content[start + length :]


def _removed(content: bytes, start: int, length: int) -> bytes:
    return content[:start] + content[start + length :]


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("damage", [_zeros, _noise, _removed])
def test_frames_that_damage_takes_are_counted_in_every_container(
    drawn: dict[str, Path], tmp_path: Path, name: str, damage: Callable[[bytes, int, int], bytes]
) -> None:
    content = drawn[name].read_bytes()
    frames, whole = _decoded(drawn[name])
    assert (len(frames), whole) == (80, None)
    path = tmp_path / drawn[name].name
    path.write_bytes(damage(content, len(content) // 2, len(content) // 24))
    if damage is _removed and path.suffix in (".mp4", ".mov", ".3gp"):
        assert _reason(path) == "truncated"  # their index is at the end
        return
    for threads in (1, 3):
        frames, found = _decoded(path, threads=threads)
        assert 40 < len(frames) < 80
        assert found is not None
        assert found.message.startswith(f"{80 - len(frames)} of 80 frames ")
        assert found.share == pytest.approx(1 - len(frames) / 80)


VARIABLE = [*range(20), *range(30, 50), 51, 53, *range(60, 80), *range(80, 280, 25), *range(300, 320)]


@pytest.mark.parametrize("name", [name for name in CODECS if "mpeg1" not in name and "mpeg2" not in name])
def test_pauses_of_a_variable_rate_are_no_damage(tmp_path: Path, name: str) -> None:
    suffix, codec = name.split()
    assert _decoded(_drawn(tmp_path / f"clip.{suffix}", codec, VARIABLE))[1] is None


LOSSY = [number + 24 * (number // 90) for number in range(480)]


@pytest.mark.parametrize("name", ["webm libvpx", "mkv libx264", "flv libx264", "wmv wmv2"])
def test_frames_that_are_lost_between_the_pauses_of_a_variable_rate_are_counted(tmp_path: Path, name: str) -> None:
    suffix, codec = name.split()
    path = _drawn(tmp_path / f"clip.{suffix}", codec, LOSSY)
    frames, whole = _decoded(path)
    assert (len(frames), whole) == (480, None)
    content = path.read_bytes()
    for share in (0.35, 0.5):
        path.write_bytes(_zeros(content, int(len(content) * share), len(content) // 8))
        frames, found = _decoded(path)
        lost = 480 - len(frames)
        assert 40 < lost < 100
        assert found is not None
        assert found.share == pytest.approx(lost / 480, rel=0.2)


@pytest.mark.parametrize("flags", ["frag_keyframe+empty_moov", "dash+global_sidx+frag_keyframe"])
def test_what_stands_between_the_fragments_of_a_variable_rate_is_no_damage(tmp_path: Path, flags: str) -> None:
    options, stamps = {"g": "250", "crf": "45", "bf": "0"}, [number + number // 10 * 3 for number in range(600)]
    still = [NOISE[0][:64, :96]] * len(stamps)
    path = write_clip(tmp_path / "c.mp4", still, options=options, stamps=stamps, container_options={"movflags": flags})
    frames, damage = _decoded(path)
    assert (len(frames), damage) == (600, None)


@pytest.mark.parametrize("suffix", ["mkv", "flv", "avi", "ts", "mp4"])
def test_sound_that_goes_on_after_the_last_picture_is_no_damage(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"clip.{suffix}"
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4" if suffix == "avi" else "libx264", rate=25)
        video.height, video.width = NOISE[0].shape[:2]
        video.pix_fmt = "yuv420p"
        sound = container.add_stream("libmp3lame", rate=44100)
        for position, pixels in enumerate(NOISE[:20]):
            frame = av.VideoFrame.from_ndarray(pixels, "rgb24")
            frame.pts = position
            container.mux(video.encode(frame))
        for position in range(60):  # 1.6 seconds beside 0.8
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 1152), np.float32), "fltp", "mono")
            silence.sample_rate, silence.pts = 44100, position * 1152
            container.mux(sound.encode(silence))
        for stream in (video, sound):
            container.mux(stream.encode(None))
    assert _decoded(path)[1] is None


def test_what_states_no_length_promises_none(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.avi", NOISE, codec="mpeg4")
    content = path.read_bytes()
    # as it is written to a pipe: the sizes stand for "unknown"
    path.write_bytes(content[:4] + b"\xff" * 4 + content[8:])
    assert _decoded(path)[1] is None
    transport = write_clip(tmp_path / "clip.ts", NOISE)
    content = transport.read_bytes()
    transport.write_bytes(content[100:])  # recorded from the middle of a packet on
    assert _decoded(transport)[1] is None


def test_a_slide_show_is_not_taken_for_a_cut_off_file() -> None:
    # Four slides of nine seconds each: the last one begins nine seconds before the end.
    assert not is_short(Fraction(36), Fraction(27), Fraction(9))
    assert not is_short(Fraction(36), Fraction(3565, 100), Fraction(1, 25))
    assert not is_short(None, Fraction(27), Fraction(1))
    for length, seen, gap, said, share in ((36, 27, 1, "9 of 36 ", 0.25), (1, 0.8, 0.04, "5 of 25 ", 0.2)):
        assert is_short(Fraction(length), Fraction(str(seen)), Fraction(str(gap)))
        step = Fraction(str(gap))
        short = ends_early(round(seen / gap), Fraction(str(seen)), Fraction(length), step)
        assert short is not None
        assert short.message.startswith(said)
        assert short.share == share


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_after_a_broken_packet_frames_wait_for_the_next_keyframe(tmp_path: Path, threads: int) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 40)), options={"g": "10", "bf": "0", "sc_threshold": "0"})
    whole, _ = _decoded(path)
    frames, damage = _decoded(break_packet(path, 13), threads=threads)
    assert frames == whole[:13] + whole[20:]
    assert damage is not None
    assert damage.message.startswith("7 of 40 ")
    assert damage.share == pytest.approx(7 / 40)


@pytest.mark.parametrize("threads", [1, 2, 3, 6])
@pytest.mark.parametrize("broken", [99, 98, 95])
def test_a_broken_packet_near_the_end_is_damage_with_any_number_of_threads(
    tmp_path: Path, broken: int, threads: int
) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 100)), options={"g": "10", "bf": "0", "sc_threshold": "0"})
    frames, damage = _decoded(break_packet(path, broken), threads=threads)
    assert len(frames) == broken
    assert damage is not None
    assert damage.share == pytest.approx((100 - broken) / 100)


def test_opening_needs_no_decoder_library_before_a_video_is_opened() -> None:
    code = "import sys, ctxr.media.video; assert not {'av', 'cv2', 'torch'} & set(sys.modules), sorted(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
