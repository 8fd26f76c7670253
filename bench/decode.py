"""Decoding and shot detection against ffmpeg and PySceneDetect, as a library and as its own program, on the clips of `bench.footage`."""

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from scenedetect import AdaptiveDetector, detect

from bench.footage import FRAMES, RATE, THREADS, clip_with_cuts, ffmpeg_null, real_videos, soft_cuts
from bench.table import Row, in_turns
from ctxr.media.decoder_process import CandidateFrame, ScanEnd, Scanner
from ctxr.media.opencv_video import open_video
from ctxr.media.scan import ScanOptions

ROUNDS = 3


def measure() -> list[Row]:
    """The rows: decode only, shots only, the default scan; floor and peer run in turns with them. First on real clips, then drawn."""
    with Scanner() as scanner, tempfile.TemporaryDirectory() as folder:
        rows = _rows(scanner, Path(folder), drawn=False) if real_videos() else []
        return rows + _rows(scanner, Path(folder), drawn=True)


def _rows(scanner: Scanner, folder: Path, drawn: bool) -> list[Row]:
    clip, cuts = clip_with_cuts(drawn)
    soft = set() if drawn else soft_cuts()
    found: list[int] = []
    events: list[int] = []
    _scan(scanner, clip, ScanOptions(frames="samples"), [])  # the child's imports are not what is measured
    runs: dict[str, Callable[[], object]] = {
        "decode": lambda: _decode(clip),
        "shots": lambda: _scan(scanner, clip, ScanOptions(frames="samples", still_below=255, threads=THREADS), found),
        "scan": lambda: events.append(_scan(scanner, clip, ScanOptions(frames="samples", rate=5, threads=THREADS), [])),
    }
    if shutil.which("ffmpeg"):
        runs["floor"] = lambda: ffmpeg_null(clip)
        runs["three"] = lambda: _run(["ffmpeg", "-threads", str(THREADS + 1), "-i", str(clip), "-f", "null", "-"])
    library: list[int] = []
    runs["program"] = lambda: _pyscenedetect(clip, folder)
    runs["library"] = lambda: library.__setitem__(slice(None), _library_cuts(clip))
    taken = dict(zip(runs, in_turns(*runs.values(), repeat=ROUNDS), strict=True))
    peers = {
        "scenedetect detect-adaptive": ("program", _pyscenedetect_cuts(folder)),
        "scenedetect.detect": ("library", library),
    }
    floor, shots, scan = taken.get("floor"), taken["shots"], taken["scan"]
    against = f"ffmpeg to null, {THREADS} threads" if floor else ""
    about = f"{FRAMES} frames 1280x720 H.264, {len(cuts)} known cuts"
    recall, kind = _recall(found, cuts, soft), "light drawn footage" if drawn else "real footage"
    figure = f"shots with decode, in the child, {kind}"
    rows = [
        Row(f"decode only (PyAV, frames untouched), {kind}", taken["decode"], against, floor, note=about),
        Row(figure, shots, against, floor, "<= 1.15", _within(1.15, shots, floor), recall),
        *(
            Row(figure, shots, peer, taken[run], "< 1", shots < taken[run], f"theirs: {_recall(theirs, cuts, soft)}")
            for peer, (run, theirs) in peers.items()
        ),
        Row(
            f"scan of samples at 5 frames/s, pixels to the parent, {kind}",
            scan,
            against,
            floor,
            "<= 1.25",
            _within(1.25, scan, floor),
            f"{events[-1]} frames with pixels",
        ),
    ]
    if floor:
        note = "PyAV has as many: one waits while Python looks at a frame"
        rows.append(Row(f"ffmpeg to null, {THREADS + 1} threads, {kind}", taken["three"], against, floor, note=note))
    return rows


def _within(limit: float, ours: float, floor: float | None) -> bool | None:
    return None if floor is None else ours <= limit * floor


def _recall(found: list[int], cuts: list[int], soft: set[int]) -> str:
    hit, other = set(found) & set(cuts), set(found) - set(cuts)
    return f"recall {len(hit) / len(cuts):.3f} of hard cuts, {len(other & soft)} soft ones, {len(other - soft)} others"


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


def _library_cuts(clip: Path) -> list[int]:
    """The same detector in this process, with the program's settings."""
    scenes = detect(str(clip), AdaptiveDetector(window_width=3, min_scene_len=round(0.6 * RATE)))
    return [start.frame_num for start, _ in scenes][1:]


def _pyscenedetect_cuts(folder: Path) -> list[int]:
    with (folder / "shots.csv").open(newline="") as file:
        return [int(row["Start Frame"]) - 1 for row in csv.DictReader(file)][1:]
