"""Decoding and shot detection against ffmpeg and PySceneDetect's own program, on one 1280 x 720 H.264 clip with known cuts.

The clip is made once, in `bench/out/`: real clips joined where they are at hand (`CTXR_REAL_DATA` or `../shared/data`), else drawn ones.
"""

import csv
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from bench.table import Row, median_seconds
from ctxr.data.video import Pixels, open_video
from ctxr.pipelines.scan import Candidate, ScanEnd, Scanner, ScanOptions

OUT = Path(__file__).parent / "out"
SIZE = (1280, 720)
RATE = 30
FRAMES = 2700
ROUNDS = 3
THREADS = 2

# Of each real clip: how many frames are taken, its hard cuts and its soft ones. The joins are hard cuts as well; the last shot of bikes
# is left out, because it is shorter than the shortest shot that a detector is asked for, and the next join would be lost in it.
REAL: dict[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
    "bikes.mp4": (242, (30, 76, 137, 187), ()),
    "big_buck_bunny_0_30.webm": (720, (283, 376, 551), (31, 139)),
    "test_video_structuralize.mp4": (300, (), ()),
}


def measure() -> list[Row]:
    """The rows: decode only, shots only, the default scan; floor and peer run in turns with them."""
    clip, cuts = _clip()
    found: list[int] = []
    events: list[int] = []
    with Scanner() as scanner, tempfile.TemporaryDirectory() as folder:
        for _ in scanner.scan(clip, ScanOptions(gate=255)):
            break  # the child's imports are not what is measured
        runs: dict[str, Callable[[], object]] = {
            "decode": lambda: _decode(clip),
            "shots": lambda: _scan(scanner, clip, ScanOptions(gate=255, threads=THREADS), found),
            "scan": lambda: events.append(_scan(scanner, clip, ScanOptions(threads=THREADS), [])),
        }
        if shutil.which("ffmpeg"):
            runs["floor"] = lambda: _run(
                ["ffmpeg", "-v", "error", "-threads", str(THREADS), "-i", str(clip), "-f", "null", "-"]
            )
        runs["peer"] = lambda: _pyscenedetect(clip, Path(folder))
        _decode(clip)
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, call in runs.items():
                seconds[name].append(median_seconds(call, repeat=1))
        theirs = _pyscenedetect_cuts(Path(folder))
    taken = {name: statistics.median(times) for name, times in seconds.items()}
    floor = taken.get("floor")
    against = f"ffmpeg to null, {THREADS} threads" if floor else ""
    about = f"{FRAMES} frames 1280x720 H.264, {len(cuts)} known cuts"
    recall, their_recall = _recall(found, cuts), _recall(theirs, cuts)
    return [
        Row("decode only (PyAV, frames untouched)", taken["decode"], against, floor, note=about),
        Row(
            "shots with decode, in the child",
            taken["shots"],
            against,
            floor,
            "<= 1.15",
            _within(taken["shots"], floor),
            recall,
        ),
        Row(
            "shots with decode, in the child",
            taken["shots"],
            "scenedetect detect-adaptive",
            taken["peer"],
            "< 1",
            taken["shots"] < taken["peer"],
            f"theirs: {their_recall}",
        ),
        Row(
            "scan at 5 frames/s, gate 4, pixels to the parent",
            taken["scan"],
            against,
            floor,
            note=f"{events[-1]} frames with pixels",
        ),
    ]


def _within(ours: float, floor: float | None) -> bool | None:
    return None if floor is None else ours <= 1.15 * floor


def _recall(found: list[int], cuts: list[int]) -> str:
    hit, other = set(found) & set(cuts), sorted(set(found) - set(cuts))
    soft = len([cut for cut in other if cut in _soft_cuts()])
    return f"recall {len(hit) / len(cuts):.3f} of hard cuts, {soft} soft ones, {len(other) - soft} others"


def _decode(clip: Path) -> None:
    with open_video(clip, threads=THREADS) as video:
        for _ in video:
            pass


def _scan(scanner: Scanner, clip: Path, options: ScanOptions, cuts: list[int]) -> int:
    """Scan, put the cuts into `cuts`; the number of frames that came with pixels."""
    pixels = 0
    for event in scanner.scan(clip, options):
        if isinstance(event, Candidate):
            pixels += event.rgb is not None
        elif isinstance(event, ScanEnd):
            cuts[:] = [shot.start_index for shot in event.shots[1:]]
    return pixels


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _pyscenedetect(clip: Path, folder: Path) -> None:
    program = str(Path(sys.executable).with_name("scenedetect"))
    detect = ["detect-adaptive", "--frame-window", "3", "--min-scene-len", "0.6s"]
    _run([program, "-q", "-i", str(clip), "-o", str(folder), *detect, "list-scenes", "--skip-cuts", "-f", "shots.csv"])


def _pyscenedetect_cuts(folder: Path) -> list[int]:
    with (folder / "shots.csv").open(newline="") as file:
        return [int(row["Start Frame"]) - 1 for row in csv.DictReader(file)][1:]


def _clip() -> tuple[Path, list[int]]:
    """The clip and its hard cuts (first frames of new shots)."""
    real = Path(os.environ.get("CTXR_REAL_DATA", "../shared/data")) / "videos"
    is_real = all((real / name).exists() for name in REAL)
    path = OUT / ("decode-real.mp4" if is_real else "decode-drawn.mp4")
    cuts_file = path.with_suffix(".cuts")
    if path.exists() and cuts_file.exists():
        return path, [int(cut) for cut in cuts_file.read_text().split()]
    OUT.mkdir(parents=True, exist_ok=True)
    cuts: list[int] = []
    with av.open(str(path), "w") as container:
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
    cuts_file.write_text(" ".join(map(str, cuts)))
    return path, cuts


def _real(folder: Path) -> Iterator[tuple[bool, Pixels]]:
    """(opens a shot, picture) of the real clips over and over."""
    while True:
        for name, (frames, cuts, _) in REAL.items():
            with open_video(folder / name, threads=THREADS) as video:
                for frame in itertools.islice(video, frames):
                    yield frame.index == 0 or frame.index in cuts, frame.rgb()


def _soft_cuts() -> set[int]:
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
