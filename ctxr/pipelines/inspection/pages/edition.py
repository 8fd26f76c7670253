"""What the sections of a page share: the chain, thumbnails, ledger rows, times, reasons."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ctxr.engine.progress import Progress, Silent
from ctxr.engine.units import parallel
from ctxr.errors import DataError
from ctxr.media.images import ThumbnailMaker
from ctxr.pipelines.inspection.pages.chain import Chain
from ctxr.problems.question import View
from ctxr.problems.registry import question_about
from ctxr.store.artifacts import Artifact
from ctxr.store.paths import CACHE
from ctxr.store.records import LedgerReason

SIDE, LARGE = 240, 640
"""Longer side in pixels: twice the width of a picture in a strip of ten, and what fits an opened set of a page that holds its pictures."""

AT_ONCE, WORTH_PROCESSES = 32, 300
"""Pictures that a process takes at a time, and how many take longer than starting processes."""

NONE = -1
"""Number of a picture that is not expected: never saved, or not in the release."""

MISSING = -2
"""Number of a picture that should be there and is missing or broken."""


@dataclass
class Thumbnails:
    """Thumbnails of pictures of the artifact `root`, numbered in the order in which they were first asked for, kept in the cache of
    `project` and written to `folder`, None for inside the page; `missing` says of each that could not be shown why."""

    root: Path
    project: Path
    folder: Path | None = None
    side: int = SIDE
    missing: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _addresses: list[str] = field(default_factory=list)

    def number(self, path: str) -> int:
        """The number of the picture at `path`; MISSING where it cannot be shown, NONE where there is no path."""
        if path and path not in self._numbers:
            self.make([path])
        return self._numbers[path] if path else NONE

    def make(self, paths: Sequence[str], progress: Progress | None = None) -> None:
        """Number all of `paths`, many of them by several processes."""
        work = ThumbnailMaker(self.root.resolve(), self.side, self.project / CACHE / "thumbnails", self.folder)
        parts = [paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE)]
        workers = (os.cpu_count() or 1) if len(paths) > WORTH_PROCESSES else 1
        results = parallel(work, parts, workers, processes=workers > 1, ordered=True, queued=workers)
        with (progress or Silent()).task("shrinking pictures", len(paths)) as task, closing(results):
            for part, addresses in results:
                for path, address in zip(part, addresses, strict=True):
                    failed = isinstance(address, DataError)
                    self._numbers[path] = MISSING if failed else len(self._addresses)
                    (self.missing if failed else self._addresses).append(str(address))
                task.advance(len(part))

    def addresses(self, folder: str) -> list[str]:
        """Where a page finds each picture, by number: inside itself, or in the folder `folder`."""
        return [f"{folder}/{name}" for name in self._addresses] if folder else list(self._addresses)


REASONS: dict[LedgerReason, tuple[str, str, str]] = {
    "near_still": ("near-still", "too like the last embedded sample of its shot; not embedded", "luma difference"),
    "too_close": ("too close", "not farther than the threshold from a frame that was chosen before", "distance"),
    "low_quality": ("low quality", "BRISQUE / 100 above the limit", "BRISQUE / 100"),
    "too_much_text": ("too much text", "recognised words cover more than the limit", "share of the area"),
    "too_small": ("too small", "the shorter side is below the limit", "pixels"),
    "set_incomplete": ("set incomplete", "chosen, but the shot ended before its set was full", "images in the set"),
    "duplicate": ("duplicate", "a copy of a better photo", ""),
    "too_few_neighbours": ("too few neighbours", "not enough different photos near it", "found"),
    "not_sampled": ("not sampled", "the sample was full before its turn", ""),
    "unreadable": ("unreadable", "no picture", ""),
    "worker_died": ("worker died", "two processes were killed while they read it", ""),
    "unmeasurable": ("unmeasurable", "a measurement of quality failed on it", ""),
    "rejected_by_person": ("rejected by a person", "a person rejected it or its set", ""),
}
"""Why a frame or photo is in no set: what it is called, what it means, and the unit of the figure behind it."""


class LedgerLine(NamedTuple):
    """What scripts know of a frame or photo; its fate is the number of a reason, or `IN_A_SET`."""

    number: int
    time: str | None
    fate: int
    value: float | None
    nearest: int | None
    distance: float | None
    picture: int
    name: str | None


@dataclass
class PageBuilder:
    """One page in the making.

    Attributes:
        near: path from the page to the artifact, by which whole pictures are opened; "" if there is none.
        data: what scripts are given, as JSON, by name; `source_numbers` and `reason_numbers` lead into its lists.
        evaluations: those whose figures the page shows. evaluated: how much they are about, as in `12 documents`.
        views: what problems show of them. These three are known once the results are made.
        facts, paths: what was measured, and the pictures, of considered frames and photos, by source and index.
    """

    chain: Chain
    pictures: Thumbnails
    near: str
    progress: Progress = field(default_factory=Silent)
    data: dict[str, object] = field(default_factory=dict)
    evaluations: tuple[Artifact, ...] = ()
    evaluated: str = ""
    views: tuple[View, ...] = ()

    def __post_init__(self) -> None:
        self.subject = question_about(self.chain.dataset).subject
        self.facts = {(row.source, row.index): row for unit in self.chain.units for row in unit.facts}
        self.facts_by_path = {facts.path: facts for facts in self.facts.values()}
        sources = [unit.source for unit in self.chain.units]
        self.source_numbers = {source.name: number for number, source in enumerate(sources)}
        self.paths = {key: facts.path for key, facts in self.facts.items()} | {
            (image.group, image.index): image.path
            for image in self.chain.images.values()
            if image.index is not None and image.path
        }
        self.data["sources"] = [{"name": source.name, "kind": source.kind} for source in sources]
        self.reason_numbers = {reason: number for number, reason in enumerate(REASONS)}
        self.data["reasons"] = [{"key": key, "name": name, "unit": unit} for key, (name, _, unit) in REASONS.items()]

    def picture(self, image: str) -> int:
        """The number of an image's picture, by its id."""
        return self.pictures.number(self.chain.images[image].path if image in self.chain.images else "")

    @cached_property
    def ledger(self) -> list[list[LedgerLine]]:
        """By source number, rows of index, time, fate, value, nearest, distance, picture, name."""
        return [
            [
                LedgerLine(
                    row.index,
                    None if row.time is None else time_code(row.time),
                    IN_A_SET if row.reason is None else self.reason_numbers[row.reason],
                    row.value,
                    row.nearest,
                    row.distance,
                    self.pictures.number(self.paths.get((unit.source.name, row.index), "")),
                    row.name,
                )
                for row in sorted(unit.ledger, key=lambda row: row.index)
            ]
            for unit in self.chain.units
        ]


def time_code(time: Fraction) -> str:
    """A time in a video as `h:mm:ss.mmm`, rounded to milliseconds.

    >>> time_code(Fraction(321, 50))
    '0:06.420'
    """
    total = round(time * 1000)
    sign, total = ("−" if total < 0 else ""), abs(total)
    minutes, milliseconds = divmod(total, 60_000)
    hours, minutes = divmod(minutes, 60)
    tail = f"{milliseconds // 1000:02}.{milliseconds % 1000:03}"
    return f"{sign}{hours}:{minutes:02}:{tail}" if hours else f"{sign}{minutes}:{tail}"


IN_A_SET = -1
"""Fate of what is in a set; otherwise it is the number of a reason."""
