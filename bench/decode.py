"""Decoding and shot detection against ffmpeg and PySceneDetect's own program, on the clip of `bench.footage`."""

import csv
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.footage import FRAMES, THREADS, clip_with_cuts, ffmpeg_null, soft_cuts
from bench.table import Row, median_seconds
from ctxr.media.decoder_process import CandidateFrame, ScanEnd, ScanOptions
from ctxr.media.opencv_video import open_video
from ctxr.media.scan import Scanner

ROUNDS = 3


def measure() -> list[Row]:
    """The rows: decode only, shots only, the default scan; floor and peer run in turns with them."""
    clip, cuts = clip_with_cuts()
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
            runs["floor"] = lambda: ffmpeg_null(clip)
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
    soft = len([cut for cut in other if cut in soft_cuts()])
    return f"recall {len(hit) / len(cuts):.3f} of hard cuts, {soft} soft ones, {len(other) - soft} others"


def _decode(clip: Path) -> None:
    with open_video(clip, threads=THREADS) as video:
        for _ in video:
            pass


def _scan(scanner: Scanner, clip: Path, options: ScanOptions, cuts: list[int]) -> int:
    """Scan, put the cuts into `cuts`; the number of frames that came with pixels."""
    pixels = 0
    for event in scanner.scan(clip, options):
        if isinstance(event, CandidateFrame):
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
