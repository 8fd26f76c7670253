import os
import socket
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from ctxr.media.decoder_child import TOLERATED_LOSS
from ctxr.media.opencv_video import open_video
from ctxr.media.pyav_video import short_of
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
    [("clip.mp4", "pyav", "{} of 80 "), ("clip.mp4", "opencv", ""), ("clip.mkv", "pyav", "of 3.2 promised seconds")],
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
    assert said.format(len(frames)) in damage.message


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
        assert "seconds" in damage.message


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
    assert short_of(Fraction(36), Fraction(27), Fraction(9)) is None
    assert short_of(Fraction(36), Fraction(3565, 100), Fraction(1, 25)) is None
    for length, seen, gap, share in ((36, 27, 1, 0.25), (1, 0.9, 0.04, 0.1)):
        short = short_of(Fraction(length), Fraction(str(seen)), Fraction(str(gap)))
        assert short is not None
        assert short.message.startswith(f"{seen:.1f} of {length:.1f} ")
        assert short.share == share
    assert short_of(None, Fraction(27), Fraction(1)) is None


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_after_a_broken_packet_frames_wait_for_the_next_keyframe(tmp_path: Path, threads: int) -> None:
    path = write_clip(tmp_path / "clip.mp4", pictures((1, 40)), options={"g": "10", "bf": "0", "sc_threshold": "0"})
    whole, _ = _decoded(path)
    frames, damage = _decoded(break_packet(path, 13), threads=threads)
    assert frames == whole[:13] + whole[20:]
    assert damage is not None
    assert damage.message.startswith("33 of 40 ")
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
