"""The clip that the benches share: 1280 x 720, H.264, with known cuts, made once in `bench/out/`.

Real clips joined where they are at hand (`CTXR_REAL_DATA` or `../shared/data`), else drawn ones.
"""

import itertools
import os
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from ctxr.media.opencv_video import open_video
from ctxr.media.video import Pixels

OUT = Path(__file__).parent / "out"
SIZE = (1280, 720)
RATE = 30
FRAMES = 2700
THREADS = 2

# Of each real clip: how many frames are taken, its hard cuts and its soft ones. The joins are hard cuts as well; the last shot of bikes
# is left out, because it is shorter than the shortest shot that a detector is asked for, and the next join would be lost in it.
REAL: dict[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
    "bikes.mp4": (242, (30, 76, 137, 187), ()),
    "big_buck_bunny_0_30.webm": (720, (283, 376, 551), (31, 139)),
    "test_video_structuralize.mp4": (300, (), ()),
}


def real_folder() -> Path:
    """Where real files are looked for; the folder need not be there."""
    return Path(os.environ.get("CTXR_REAL_DATA", "../shared/data"))


def real_videos() -> list[Path]:
    """The real clips that the joined one is made of; empty where they are not at hand."""
    paths = [real_folder() / "videos" / name for name in REAL]
    return paths if all(path.exists() for path in paths) else []


def footage(repeat: int = 1) -> Path:
    """The clip, or the clip played `repeat` times without encoding it again."""
    path, _ = clip_with_cuts()
    return repeated(path, repeat)


def repeated(path: Path, times: int) -> Path:
    """A file beside `path` that plays it so many times, made once; `path` itself for once."""
    longer = path.with_stem(f"{path.stem}-x{times}") if times > 1 else path
    if not longer.exists():
        listing, part = longer.with_suffix(".txt"), longer.with_stem("part")
        listing.write_text(f"file '{path.name}'\n" * times)
        command = ["ffmpeg", "-v", "error", "-y", "-f", "concat", "-i", str(listing), "-c", "copy", str(part)]
        subprocess.run(command, check=True)
        part.replace(longer)
    return longer


def opening(seconds: int) -> Path:
    """The first seconds of the clip, without encoding them again."""
    path = footage()
    shorter = path.with_stem(f"{path.stem}-first{seconds}")
    if not shorter.exists():
        part = shorter.with_stem("part")
        subprocess.run(
            ["ffmpeg", "-v", "error", "-y", "-i", str(path), "-t", str(seconds), "-c", "copy", str(part)], check=True
        )
        part.replace(shorter)
    return shorter


def ffmpeg_null(path: Path) -> None:
    """Decode with ffmpeg and throw the frames away: the floor."""
    subprocess.run(["ffmpeg", "-v", "error", "-threads", str(THREADS), "-i", str(path), "-f", "null", "-"], check=True)


def clip_with_cuts(drawn: bool = False) -> tuple[Path, list[int]]:
    """The clip and its hard cuts (first frames of new shots); the drawn one, which decodes twice as fast, also where real ones are."""
    real, is_real = real_folder() / "videos", bool(real_videos()) and not drawn
    path = OUT / ("decode-real.mp4" if is_real else "decode-drawn.mp4")
    cuts_file = path.with_suffix(".cuts")
    if path.exists() and cuts_file.exists():
        return path, [int(cut) for cut in cuts_file.read_text().split()]
    OUT.mkdir(parents=True, exist_ok=True)
    cuts: list[int] = []
    with av.open(str(part := path.with_stem(f"part-{os.getpid()}")), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"preset": "fast"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.thread_count = THREADS
        for index, (opens, pixels) in enumerate(_real(real) if is_real else _drawn()):
            if opens and index:
                cuts.append(index)
            picture = av.VideoFrame.from_ndarray(np.asarray(cv2.resize(pixels, SIZE), np.uint8), "rgb24")
            picture.pts, picture.time_base = index, Fraction(1, RATE)
            container.mux(stream.encode(picture))
            if index + 1 == FRAMES:
                break
        container.mux(stream.encode(None))
    part.replace(path)
    cuts_file.write_text(" ".join(map(str, cuts)))
    return path, cuts


def _real(folder: Path) -> Iterator[tuple[bool, Pixels]]:
    """(opens a shot, picture) of the real clips over and over."""
    while True:
        for name, (frames, cuts, _) in REAL.items():
            with open_video(folder / name, threads=THREADS) as video:
                for frame in itertools.islice(video, frames):
                    yield frame.index == 0 or frame.index in cuts, frame.rgb()


def soft_cuts() -> set[int]:
    """Where the soft cuts of the real clips lie in the joined one."""
    soft, start = set(), 0
    while start < FRAMES:
        for frames, _, cuts in REAL.values():
            soft |= {start + cut for cut in cuts}
            start += frames
    return soft


def _drawn() -> Iterator[tuple[bool, Pixels]]:
    """(opens a shot, picture): a slow pan over another smooth noise every two seconds."""
    random = np.random.default_rng(0)
    while True:
        small = random.integers(0, 256, (24, 40, 3), np.uint8)
        scene = np.asarray(cv2.resize(small, (SIZE[0] + 128, SIZE[1]), interpolation=cv2.INTER_CUBIC), np.uint8)
        for step in range(2 * RATE):
            yield step == 0, np.ascontiguousarray(scene[:, 2 * step : 2 * step + SIZE[0]])
