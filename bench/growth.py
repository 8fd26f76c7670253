"""Growth: seconds, memory and disk by minutes of video, by photos, by judgments; whole commands, as a user calls them.

python -m bench growth
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.crowd_answers import write_answers
from bench.footage import FRAMES, OUT, RATE, SIZE, footage, real_videos
from bench.processes import Finished, ctxr, gigabytes
from bench.sampling import drawn, real
from bench.table import Row, number
from ctxr.store.paths import CACHE
from ctxr.store.records import ImageSet, Source
from ctxr.store.tables import read_table
from ctxr.synthetic.world.footage import jpeg, sample_album

TINY, VIT = "ctxr-tiny", "random:ViT-B-32"
REPEATS = {TINY: (1, 2, 4), VIT: (1, 2)}
"""How often the clip is played, by encoder."""

LIMITS = ("--brisque", "0.65", *(("--max-text", "0.02") if shutil.which("tesseract") else ()))
VIDEO, FILTERED_VIDEO = "minutes of video, build-sets, {}", f"minutes of video, filter {' '.join(LIMITS)}"
PHOTOS, JUDGMENTS = f"photos, build-sets, {TINY}", "judgments, aggregate"
UNLOOPED, FILTERED_UNLOOPED = (
    "minutes of different clips, build-sets, {}",
    f"minutes of different clips, filter {' '.join(LIMITS)}",
)
"""Names of the curves; those of different clips are single points, on which the sets of an hour rest."""

FILTERED = (1, 2)
"""The same for sets that are filtered."""

THRESHOLDS = {VIT: 0.004}
"""Random weights put pictures close together."""

ALBUM = 125
ALBUMS = (4, 16, 64, 160)
"""Up to 20,000 photos: neighbours cost the square of their number."""

ANSWERS = (1000, 4000, 16_000, 64_000)
LINEAR = 1.1
"""Exponent up to which time counts as growing in proportion."""

LIMIT = 2048
"""MiB that a build may hold."""


def measure() -> Iterator[Row]:
    """The points of all curves, the cheap ones first, and for each curve its exponent and its memory."""
    with tempfile.TemporaryDirectory(prefix="ctxr-bench-") as name:
        folder = Path(name)
        yield from summed(judgments(folder))
        yield from summed(photos(folder))
        yield from summed(filtered(folder))
        for encoder, repeats in REPEATS.items():
            yield from summed(built(folder, encoder, repeats))
        yield from unlooped(folder)


def summed(curve: Iterable[Row]) -> Iterator[Row]:
    """The points, the exponent of time in size (least squares on logarithms), and the memory of the largest beside the smallest.

    Small sizes are mostly start-up, which makes the exponent small, so that between the two largest counts as well.
    """
    points = []
    for row in curve:
        points.append(row)
        yield row
    first, last, name = points[0], points[-1], points[0].curve
    places = [(row.size, float(row.seconds)) for row in points]
    power, late = exponent(places), exponent(places[-2:])
    scale, linear = f"{number(first.size)} to {number(last.size)}", max(power, late) <= LINEAR
    note = f"{scale}; {number(late)} between the two largest; of processor time "
    note += number(exponent([(row.size, row.facts["processor s"]) for row in points]))
    yield Row(f"{name}: exponent of time", power, target=f"<= {LINEAR}", met=linear, note=note, unit="")
    peak, start = last.facts["peak MiB"], first.facts["peak MiB"]
    target, met = (f"< {LIMIT:,} MiB", peak < LIMIT) if "video" in name else ("", None)
    yield Row(f"{name}: peak memory, largest", peak, "smallest", start, target, met, scale, unit="MiB")


def exponent(points: Iterable[tuple[float, float]]) -> float:
    """The slope of log time over log size: 1 where time is proportional."""
    size, time = np.log(np.array(list(points))).T
    return float(np.polyfit(size, time, 1)[0])


def point(curve: str, size: float, done: Finished, folder: Path, **facts: float) -> Row:
    """What a command took at one size."""
    known = {"processor s": done.processor, "peak MiB": done.mib, "GB": gigabytes(folder), **facts}
    return Row(f"{curve}: {number(size)}", done.seconds, curve=curve, size=size, facts=known)


def built(folder: Path, encoder: str, repeats: Iterable[int]) -> Iterator[Row]:
    """Sets from the same clip, played again and again."""
    options = ["--threshold", THRESHOLDS[encoder]] if encoder in THRESHOLDS else []
    clip = f"{'real clips joined' if real_videos() else 'drawn footage'}, {SIZE[0]} x {SIZE[1]}, {RATE} frames a second"
    for times in repeats:
        with fresh(folder) as work:
            done = ctxr("build-sets", footage(times), "--out", work / "sets", "--encoder", encoder, *options)
            facts = {"embedded": done.report["counts"]["embedded"]}
            yield replace(point(VIDEO.format(encoder), minutes(times), done, work / "sets", **facts), note=clip)


def filtered(folder: Path) -> Iterator[Row]:
    """The sets of such clips filtered; what building them took is not counted."""
    for times in FILTERED:
        with fresh(folder) as work:
            ctxr("build-sets", footage(times), "--out", work / "sets", "--encoder", TINY)
            done = ctxr("filter", "--input", work / "sets", "--out", work / "filtered", *LIMITS)
            yield point(
                FILTERED_VIDEO, minutes(times), done, work / "filtered", **{"cache GB": gigabytes(work / CACHE)}
            )


def unlooped(folder: Path) -> Iterator[Row]:
    """Sets from the clips at hand, each played once, and what the filter leaves of those by ctxr-tiny."""
    clips, kind = (real(), "real clips") if real() else ([*drawn()], "drawn films")
    for encoder in REPEATS:
        with fresh(folder) as work:
            options = ["--threshold", THRESHOLDS[encoder]] if encoder in THRESHOLDS else []
            done = ctxr("build-sets", *clips, "--out", work / "sets", "--encoder", encoder, "--keep-damaged", *options)
            sources = read_table(work / "sets" / "sources.jsonl", Source)
            size = float(sum(source.frames / source.rate for source in sources if source.rate)) / 60
            sets = Counter(row.source for row in read_table(work / "sets" / "sets.jsonl", ImageSet))
            rates = [sets[source.name] / source.frames * source.rate * 60 for source in sources if source.rate]
            note = f"{len(clips)} {kind}, each played once, {60 * size:.0f} s in all; {about(min(rates))} to {about(max(rates))} sets "
            note += "a minute by clip"
            facts = {name: done.report["counts"][name] for name in ("sets", "embedded")}
            yield replace(point(UNLOOPED.format(encoder), size, done, work / "sets", **facts), note=note)
            if encoder == TINY:
                done = ctxr("filter", "--input", work / "sets", "--out", work / "filtered", *LIMITS)
                kept = done.report["counts"]["sets"]
                yield replace(point(FILTERED_UNLOOPED, size, done, work / "filtered", sets=kept), note=note)


@contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """A folder below for one point, with a cache of its own, which goes afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        yield Path(name)


def minutes(times: int) -> float:
    """Length of the clip played so many times."""
    return times * FRAMES / RATE / 60


def photos(folder: Path) -> Iterator[Row]:
    """Albums of the drawn world."""
    albums = [album(number) for number in range(max(ALBUMS))]
    for count in ALBUMS:
        with fresh(folder) as work:
            done = ctxr("build-sets", *albums[:count], "--out", work / "sets", "--encoder", TINY)
            yield point(PHOTOS, count * ALBUM, done, work / "sets", sets=done.report["counts"]["sets"])


def album(number: int) -> Path:
    """A folder of drawn photos, made once."""
    folder = OUT / "photos" / f"album{number:02d}"
    if not folder.exists():
        part = folder.with_name("part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for at, shot in enumerate(sample_album(np.random.default_rng(number), ALBUM)):
            (part / f"{at:03d}.jpg").write_bytes(jpeg(shot))
        part.rename(folder)
    return folder


def judgments(folder: Path) -> Iterator[Row]:
    """`ctxr aggregate` on the answers of a simulated crowd."""
    for count in ANSWERS:
        with fresh(folder) as work:
            answers = write_answers(work / "judgments", count)
            done = ctxr("aggregate", "--input", work / "judgments", "--out", work / "dataset", "--workdir", work)
            queries = done.report["counts"]["queries"]
            yield point(JUDGMENTS, answers, done, work / "dataset", queries=queries)


def expectations(rows: Iterable[Row], quiet: bool = True) -> list[str]:
    """What a newcomer may expect of an hour of footage and of photos, from the largest points of the curves; without times where the
    machine was not quiet."""
    largest = {row.curve: row for row in sorted(rows, key=lambda row: row.size) if row.curve}
    said = []
    if (tiny := largest.get(UNLOOPED.format(TINY))) is not None:
        hours = 60 / tiny.size
        text = f"An hour of video ({tiny.note}, scaled)"
        if quiet:
            text += f" takes {time_in_words(tiny.seconds * hours)} with ctxr-tiny"
            if (vit := largest.get(UNLOOPED.format(VIT))) is not None:
                text += f", {time_in_words(vit.seconds * 60 / vit.size)} with ViT-B/32"
            text += ", and"
        text += f" gives about {about(tiny.facts['sets'] * hours)} sets, which fill {about(tiny.facts['GB'] * hours)} GB (ctxr-tiny)."
        said.append(text)
        if (kept := largest.get(FILTERED_UNLOOPED)) is not None:
            text = f"`ctxr filter {' '.join(LIMITS)}` then"
            text += f" takes {time_in_words(kept.seconds * hours)} and" if quiet else ""
            said.append(
                f"{text} leaves {about(kept.facts['sets'] * hours)} sets, another {about(kept.facts['GB'] * hours)} GB."
            )
    if (album := largest.get(PHOTOS)) is not None:
        text = f"{number(album.size)} drawn photos"
        text += f" take {time_in_words(album.seconds)}," if quiet else ""
        said.append(f"{text} give {about(album.facts['sets'])} sets and fill {about(album.facts['GB'])} GB.")
    return said


def time_in_words(seconds: float) -> str:
    """In minutes, from two hours on in hours."""
    minutes = seconds / 60
    return f"{about(minutes / 60)} hours" if minutes >= 120 else f"{about(minutes)} minutes"


def about(value: float) -> str:
    """Two digits, as for what differs between machines anyway."""
    return f"{float(f'{value:.2g}'):,g}"
