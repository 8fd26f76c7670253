"""Sets, embeddings and seconds of `--frames` auto, search and samples beside those of `every`, the literal procedure, with ctxr-tiny.

python -m bench sampling             the real clips at hand, and drawn films, apart
python -m bench.sampling FOLDER      the videos of a folder; names after it leave the others out

The search was designed on other clips than those of any folder that a figure of docs/experiments.md names as held out.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench.footage import OUT, real_folder
from bench.table import Row, seconds_of
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets
from ctxr.store.records import Image, ImageSet, LedgerRow
from ctxr.store.tables import read_table
from ctxr.synthetic.world.films import FORMATS, sample_film
from ctxr.synthetic.world.footage import encode

REAL = (
    "big_buck_bunny_0_30", "test_video_structuralize", "issue-236-split-copy", "no_duration", "bikes", "fades", "5d24e4ea",
    "71217dfc",
)  # fmt: skip
"""Real clips, on which the search was designed."""

SEED = 100
"""Of the first drawn film; there is one of each format."""

THRESHOLDS = {0.35: 0.5, 0.25: 0.5, 0.1569: 0.65}
"""The paper's threshold, one between, and that of ctxr-tiny, each with the share of the literal embeddings that a search may take."""

LEAST = 0.95
"""Share of the literal sets that a search is to find."""

SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "search": {"frames": "search"},
    "search, --rate 8": {"frames": "search", "rate": 8.0},
    "samples": {"frames": "samples"},
}


@dataclass(frozen=True)
class Build:
    """A finished build and its seconds."""

    folder: Path
    seconds: float

    @cached_property
    def sets(self) -> int:
        """Sets of all videos."""
        return len(read_table(self.folder / "sets.jsonl", ImageSet))

    @cached_property
    def embedded(self) -> int:
        """Frames that were embedded."""
        ledgers = [read_table(path, LedgerRow) for path in self.folder.glob("sources/*/ledger.jsonl")]
        return sum(row.row is not None for ledger in ledgers for row in ledger)

    @cached_property
    def frames(self) -> set[tuple[str, int]]:
        """Videos and numbers of the frames in sets."""
        return {(row.group, row.index or 0) for row in read_table(self.folder / "images.jsonl", Image)}

    def near(self, literal: "Build") -> float:
        """Share of its frames that are, or stand beside, one of the literal build."""
        beside = {(name, index + step) for name, index in literal.frames for step in (-1, 0, 1)}
        return len(self.frames & beside) / max(1, len(self.frames))


def real() -> list[Path]:
    """Those of `REAL` that are at hand."""
    at_hand = {path.stem: path for part in ("videos", "narratives/videos") for path in (real_folder() / part).glob("*")}
    return [at_hand[name] for name in REAL if name in at_hand]


def drawn() -> Iterator[Path]:
    """Drawn films, which are made once."""
    for seed, shape in enumerate(FORMATS.values(), SEED):
        path = OUT / f"film-{shape.name}-{seed}{shape.suffix}"
        if not path.exists():
            OUT.mkdir(parents=True, exist_ok=True)
            encode(sample_film(np.random.default_rng(seed), shape.name, 12), part := path.with_stem("part"))
            part.replace(path)
        yield path


def measure(folder: str = "", *names: str) -> Iterator[Row]:
    """Rows of each kind of clips and threshold: the goals, and every setting beside the literal procedure; takes a few minutes."""
    if folder:
        found = [path for path in sorted(Path(folder).iterdir()) if not names or path.name in names]
        yield from compared(f"{len(found)} clips of {Path(folder).name}", found)
        return
    if clips := real():
        yield from compared(f"{len(clips)} real clips", clips)
    films = [*drawn()]
    yield from compared(f"{len(films)} drawn films", films)


def compared(kind: str, videos: list[Path]) -> Iterator[Row]:
    """The rows of some videos."""
    with tempfile.TemporaryDirectory(prefix="ctxr-bench-") as name:

        def build(folder: str, **options: Any) -> Build:
            config = BuildSets(sources=tuple(map(str, videos)), out=Path(name, folder), encoder="ctxr-tiny")
            return Build(Path(name, folder), seconds_of(lambda: run(replace(config, keep_damaged=True, **options))))

        for threshold, most in THRESHOLDS.items():
            literal = build(f"{threshold}", threshold=threshold, frames="every")
            builds = {key: build(f"{threshold} {key}", threshold=threshold, **SETTINGS[key]) for key in SETTINGS}
            for key, made in builds.items():
                figure, beside = f"{kind}, threshold {threshold}, {key}", "--frames every"
                if key == "search":
                    least, sets, embedded = f">= {LEAST}", made.sets, made.embedded
                    found, spent = sets >= LEAST * literal.sets, embedded <= most * literal.embedded
                    yield Row(f"{figure}, sets", sets, beside, literal.sets, least, found, unit="")
                    yield Row(f"{figure}, embeddings", embedded, beside, literal.embedded, f"<= {most}", spent, unit="")
                note = f"{made.sets} of {literal.sets} sets; {made.embedded:,} of {literal.embedded:,} embeddings; "
                note += f"{made.near(literal):.1%} of its frames near a literal one"
                goal, met = ("<= 1.05", made.seconds <= 1.05 * literal.seconds) if key == "auto" else ("", None)
                yield Row(figure, made.seconds, beside, literal.seconds, goal, met, note)


if __name__ == "__main__":
    from bench.__main__ import show

    show("sampling", list(measure(*sys.argv[1:])))
