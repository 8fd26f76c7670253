"""A report of many pictures: seconds without and with its cache as their number grows, beside thumbnails one after the other.

python -m bench report                     1,000, 2,000 and 4,000 pictures of 640 x 360
python -m bench.report PICTURES ...        other numbers; they lie in bench/out/report, 110 kB each
"""

import shutil
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from bench.__main__ import show
from bench.table import Row
from ctxr.media.images import encode_jpeg, thumbnail
from ctxr.store.arrays import set_distances
from ctxr.store.artifacts import MANIFEST, Content, Parent, finish
from ctxr.store.hashing import sha256_bytes
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import CACHE
from ctxr.store.records import Facts, Image, ImageSet, LedgerReason, LedgerRow, Shot, Source
from ctxr.store.tables import write_table
from ctxr.store.units import SourceUnit, UnitKeys, merge_units, write_unit

OUT = Path(__file__).parent / "out" / "report"

DRAWN = 200
"""Different pictures; each copy of one has bytes of its own behind the last marker, which a decoder does not read."""

OF_A_VIDEO, OF_A_SET, CONSIDERED, EMBEDDED = 100, 10, 5, 3
"""Sets of a video, pictures of a set, and for each picture frames that were considered, and of these embedded."""

SAMPLE = 200
"""Pictures of which thumbnails are made one after the other."""


def drawn_pictures(width: int = 640, height: int = 360) -> list[bytes]:
    """JPEGs as `build-sets` saves them: blurred blocks with the grain of a camera."""
    rng = np.random.default_rng(0)
    contents = []
    for _ in range(DRAWN):
        coarse = Pillow.fromarray(rng.integers(0, 255, (18, 32, 3)).astype(np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Pillow.Resampling.BICUBIC), np.int16)
        grain = rng.normal(0, 5, (height, width, 1)).astype(np.int16)
        contents.append(encode_jpeg(np.clip(smooth + grain, 0, 255).astype(np.uint8)))
    return contents


def saved_frame(out: Path, name: str, index: int, content: bytes) -> tuple[Image, Facts]:
    """Rows of a frame of a set, whose picture is written."""
    path = f"images/{name}-shot{index // (OF_A_SET * CONSIDERED)}_0/img{index}.jpg"
    (out / path).parent.mkdir(parents=True, exist_ok=True)
    (out / path).write_bytes(content)
    digest = sha256_bytes(content)
    image = Image(f"{name}/img{index}", path, digest, name, 640, 360, index, Fraction(index, 5))
    return image, Facts(name, index, path, digest, 640, 360, index % 97 / 97, 0.0, 0, 0.0)


def video_unit(out: Path, name: str, contents: list[bytes], rng: np.random.Generator) -> SourceUnit:
    """A video of a shot and a set for every ten of `contents`."""
    raw = rng.normal(size=(len(contents) * EMBEDDED, 64))
    vectors = np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), np.float32)
    frames = [saved_frame(out, name, row * CONSIDERED, content) for row, content in enumerate(contents)]
    ledger, sets, shots = [], [], []
    for index in range(len(contents) * CONSIDERED):
        row, rest = divmod(index, CONSIDERED)
        shot, number = row // OF_A_SET, row * EMBEDDED + rest if rest < EMBEDDED else None
        chosen = None if rest else f"{name}-shot{shot}_0"
        reason: LedgerReason | None = None if chosen else "near_still" if number is None else "too_close"
        time = Fraction(index, 5)
        ledger.append(LedgerRow(name, index, time, shot, row=number, image_set=chosen, reason=reason))
    for shot in range(len(contents) // OF_A_SET):
        images = tuple(image.id for image, _ in frames[shot * OF_A_SET : (shot + 1) * OF_A_SET])
        own = vectors[shot * OF_A_SET * EMBEDDED : (shot + 1) * OF_A_SET * EMBEDDED : EMBEDDED]
        sets.append(ImageSet(f"{name}-shot{shot}_0", "video", images, name, name, shot, *set_distances(own)))
        start, end = (number * OF_A_SET * CONSIDERED for number in (shot, shot + 1))
        shots.append(Shot(name, shot, start, Fraction(start, 5), end, Fraction(end, 5)))
    source = Source(name, "video", f"{name}.mp4", sha256_bytes(name.encode()), 1, 640, 360, Fraction(5))
    saved, facts = [image for image, _ in frames], [row for _, row in frames]
    unit = SourceUnit(UnitKeys("scan", "select", {}), source, shots, ledger, facts, sets, saved, vectors, vectors[:0])
    write_unit(out, unit)
    return unit


def many_sets(work: Path, pictures: int) -> Path:
    """A project whose `sets` have that many pictures, each with a content of its own."""
    out = work / "sets"
    if (out / MANIFEST).exists():
        return work
    shutil.rmtree(work, ignore_errors=True)
    (out / "sources").mkdir(parents=True)
    (out / ".ctxr").touch()
    drawn, rng, units = drawn_pictures(), np.random.default_rng(1), []
    for first in range(0, pictures, OF_A_VIDEO * OF_A_SET):
        numbers = range(first, min(first + OF_A_VIDEO * OF_A_SET, pictures))
        contents = [drawn[number % DRAWN] + f"{number:08}".encode() for number in numbers]
        units.append(video_unit(out, f"clip{first:08}", contents, rng))
    for table in ("splits", "failures"):
        write_table(out / f"{table}.jsonl", [])
    models = {"encoder": {"name": "none"}, "selection": {"threshold": 0.9, "margin": 0.0, "set_size": OF_A_SET}}
    counts = {"sets": pictures // OF_A_SET}
    content = Content([*merge_units(out, units), "splits.jsonl", "failures.jsonl"], counts, models)
    parents = [Parent(unit.source.name, "video", unit.source.sha256) for unit in units]
    finish(out, kind=IMAGE_SETS, verb="build-sets", config={"still_below": 4.0}, parents=parents, content=content)
    return work


CALL = """
if __name__ == "__main__":
    import resource, sys, time
    from pathlib import Path
    from ctxr.pipelines.inspection.config import Report
    from ctxr.pipelines.inspection.report import run
    start = time.perf_counter()
    run(Report(workdir=Path(sys.argv[1])))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(time.perf_counter() - start, sum(one.ru_utime + one.ru_stime for one in used), *(one.ru_maxrss >> 10 for one in used))
"""
"""A report, timed; as with `ctxr report`, the processes that it starts import nothing of it that they do not need."""


def report_in_a_process(work: Path) -> tuple[float, float, int, int]:
    """Of a report in a process of its own: seconds without imports, of all processors with them, and the most MiB of it and of a child."""
    script = work / "call.py"
    script.write_text(CALL)
    done = subprocess.run([sys.executable, str(script), str(work)], check=True, capture_output=True, text=True)
    wall, busy, own, child = done.stdout.split()
    return float(wall), float(busy), int(own), int(child)


def plain_seconds(work: Path, pictures: int) -> float:
    """Seconds that thumbnails of all pictures take one after the other, each decoded whole, from a sample."""
    sample = sorted((work / "sets" / "images").rglob("*.jpg"))[:SAMPLE]
    start = time.perf_counter()
    for file in sample:
        thumbnail(file, 240)
    return (time.perf_counter() - start) * pictures / len(sample)


def measure(sizes: tuple[int, ...] = (1000, 2000, 4000)) -> list[Row]:
    """Reports of so many pictures, without and with a cache."""
    rows = []
    for pictures in sizes:
        work = many_sets(OUT / str(pictures), pictures)
        shutil.rmtree(work / CACHE, ignore_errors=True)
        before = plain_seconds(work, pictures) / 2
        runs = [report_in_a_process(work) for _ in range(2)]
        before += plain_seconds(work, pictures) / 2
        for (wall, busy, own, child), cache in zip(runs, ("empty cache", "full cache"), strict=True):
            each = f"{1000 * busy / pictures:.2f} ms of a processor a picture; {own} MiB, a child {child} MiB"
            rows.append(Row(f"report, {pictures:,} pictures, {cache}", wall, "thumbnails in a row", before, note=each))
    return rows


if __name__ == "__main__":
    show("report", measure(tuple(map(int, sys.argv[1:])) or (1000, 2000, 4000)))
