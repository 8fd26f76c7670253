"""Sets, embeddings and seconds of the search between samples and of samples alone, beside those of `--every-frame`, with ctxr-tiny.

The search was designed on the clips of `DESIGNED_ON` and on other drawn films than these; the figures name the other clips apart.
"""

import tempfile
from collections.abc import Iterator, Sequence
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

DESIGNED_ON = ("big_buck_bunny_0_30", "test_video_structuralize", "issue-236-split-copy", "no_duration")
OTHERS = ("bikes", "fades", "5d24e4ea", "71217dfc")
SEED = 100
"""Of the first drawn film; there is one of each format."""

THRESHOLDS = (0.35, 0.25, 0.1569)
"""The paper's, one between, and that of ctxr-tiny."""

LEAST = 0.93
"""Share of the literal sets that the search is to find."""

MOST = {0.35: 0.5, 0.1569: 0.75}
"""Share of the literal embeddings that the search may take, by threshold."""

SETTINGS: dict[str, dict[str, Any]] = {
    "search (default)": {},
    "search, --rate 2.5": {"rate": 2.5},
    "search, --rate 10": {"rate": 10.0},
    "search, --gate 2": {"gate": 2.0},
    "samples only": {"samples_only": True},
    "samples only, --rate 15": {"samples_only": True, "rate": 15.0},
}


@dataclass(frozen=True)
class Build:
    """A finished build and its seconds."""

    folder: Path
    seconds: float

    @cached_property
    def sets(self) -> dict[str, int]:
        """Sets by video."""
        sources = [row.source for row in read_table(self.folder / "sets.jsonl", ImageSet)]
        return {name: sources.count(name) for name in sources}

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


def clips() -> list[Path]:
    """The real clips that are at hand, and drawn films, which are made once."""
    found = {path.stem: path for part in ("videos", "narratives/videos") for path in (real_folder() / part).glob("*")}
    real = [found[name] for name in (*DESIGNED_ON, *OTHERS) if name in found]
    drawn = []
    for seed, shape in enumerate(FORMATS.values(), SEED):
        path = OUT / f"film-{shape.name}-{seed}{shape.suffix}"
        if not path.exists():
            OUT.mkdir(parents=True, exist_ok=True)
            encode(sample_film(np.random.default_rng(seed), shape.name, 12), part := path.with_stem("part"))
            part.replace(path)
        drawn.append(path)
    return real + drawn


def measure() -> Iterator[Row]:
    """Rows for each threshold: the goals, then every setting beside the literal procedure; takes a few minutes."""
    videos = clips()
    with tempfile.TemporaryDirectory(prefix="ctxr-bench-") as name:

        def build(folder: str, **options: Any) -> Build:
            config = BuildSets(sources=tuple(map(str, videos)), out=Path(name, folder), encoder="ctxr-tiny")
            return Build(Path(name, folder), seconds_of(lambda: run(replace(config, **options))))

        for threshold in THRESHOLDS:
            literal = build(f"{threshold}", threshold=threshold, every_frame=True)
            builds = {key: build(f"{threshold} {key}", threshold=threshold, **SETTINGS[key]) for key in SETTINGS}
            yield from goals(threshold, builds["search (default)"], literal)
            for key, made in builds.items():
                note = f"{sum(made.sets.values())} of {sum(literal.sets.values())} sets"
                note += f" ({counted(made, literal, OTHERS)} in {len(OTHERS)} real clips not designed on"
                note += f", {counted(made, literal, [path.stem for path in videos if 'film-' in path.stem])} in drawn films)"
                note += f"; {made.embedded:,} of {literal.embedded:,} embeddings; {made.near(literal):.1%} of its frames near a literal one"
                yield Row(f"threshold {threshold}, {key}", made.seconds, "--every-frame", literal.seconds, note=note)


def counted(made: Build, literal: Build, names: Sequence[str]) -> str:
    """Sets in some videos, beside the literal ones."""
    return " of ".join(str(sum(one.sets.get(name, 0) for name in names)) for one in (made, literal))


def goals(threshold: float, made: Build, literal: Build) -> Iterator[Row]:
    """Sets and embeddings beside the literal ones."""
    sets, wanted = sum(made.sets.values()), sum(literal.sets.values())
    rows = [Row(f"threshold {threshold}, sets", sets, "--every-frame", wanted, unit="")]
    rows += [Row(f"threshold {threshold}, embeddings", made.embedded, "--every-frame", literal.embedded, unit="")]
    if most := MOST.get(threshold):
        rows[0] = replace(rows[0], target=f">= {LEAST}", met=sets >= LEAST * wanted)
        rows[1] = replace(rows[1], target=f"<= {most}", met=made.embedded <= most * literal.embedded)
    yield from rows
