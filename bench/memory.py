"""Memory of `build-sets` by minutes of 1080p: all its processes together, which must not grow with the length.

python -m bench memory
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.footage import OUT, repeated
from bench.growth import LIMIT, THRESHOLDS, TINY, VIT
from bench.processes import ctxr
from bench.table import Row
from ctxr.synthetic.world.films import sample_film
from ctxr.synthetic.world.footage import encode

SECONDS = 20
"""Of the film that is drawn; it is played again and again."""

RUNS = ((TINY, 5), (VIT, 5), (TINY, 20))
"""Encoders and minutes; that of the first row is what the others of its encoder are held against."""

GROWTH = 1.1


def measure() -> list[Row]:
    """Short runs; `two_hours` is the long one."""
    return peaks(RUNS)


def peaks(runs: Iterable[tuple[str, float]]) -> list[Row]:
    """A row for each encoder and number of minutes."""
    rows, first = list[Row](), dict[str, tuple[float, float]]()
    with tempfile.TemporaryDirectory(prefix="ctxr-bench-") as name:
        for encoder, minutes in runs:
            out = Path(name, "sets")
            options = ["--threshold", THRESHOLDS[encoder]] if encoder in THRESHOLDS else []
            clip = repeated(film(), round(minutes * 60 / SECONDS))
            # a search holds more frames than any other way
            done = ctxr("build-sets", clip, "--out", out, "--encoder", encoder, "--frames", "search", *options)
            shutil.rmtree(out)
            known = first.setdefault(encoder, (minutes, done.mib))
            longer = known[0] != minutes
            rows.append(
                Row(
                    f"{minutes:g} minutes of 1080p, {encoder}",
                    done.mib,
                    f"{known[0]:g} minutes" if longer else "",
                    known[1] if longer else None,
                    f"< {LIMIT:,} MiB" + (f", <= {GROWTH}" if longer else ""),
                    done.mib < LIMIT and done.mib <= GROWTH * known[1],
                    f"{done.seconds:.0f} s, {done.report['counts']['embedded']:,} embedded by a search; drawn film",
                    unit="MiB",
                )
            )
    return rows


def film() -> Path:
    """A film of the drawn world, enlarged to 1920 x 1080, made once."""
    path = OUT / "film-1080p.mp4"
    if not path.exists():
        OUT.mkdir(parents=True, exist_ok=True)
        drawn = sample_film(np.random.default_rng(0), "web", SECONDS)
        small, part = path.with_stem("part-180p"), path.with_stem("part-1080p")
        encode(drawn, small)
        enlarge = ["-vf", "scale=1920:1080", "-c:v", "libx264", "-preset", "veryfast", "-crf", "30"]
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(small), *enlarge, str(part)], check=True)
        small.unlink()
        part.replace(path)
    return path
