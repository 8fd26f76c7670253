"""Quality limits that apply while sets are picked, and a cache of all measurements beside the artifacts.

An artifact holds only the measurements that its own options require, which keeps equal runs byte-equal. The cache holds all: one
table per instrument, one picture per frame. It may be deleted at any time.
"""

import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ctxr.datasets.decisions import PersonChoices
from ctxr.engine.units import Portable
from ctxr.errors import DataError
from ctxr.media.brisque import Brisque
from ctxr.media.images import Pixels
from ctxr.media.text_area import TextReader
from ctxr.metrics.selection import Rejection
from ctxr.pipelines.curation.config import SetsOptions
from ctxr.store.atomic import link_or_copy
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.records import Facts
from ctxr.store.tables import read_table, write_table
from ctxr.store.units import SourceUnit

# columns of `Facts` by instrument; the first one is never None after a measurement
_COLUMNS = {"brisque": ("brisque",), "text": ("text_share", "text_words", "text_confidence")}


@dataclass(frozen=True)
class QualityLimits:
    """Limits beyond which an image is rejected; None = not measured.

    Attributes:
        brisque: highest BRISQUE / 100; smaller drops more. max_text: highest share of the area covered by words, 0..1.
        min_size: fewest pixels of the shorter side.
    """

    brisque: float | None = None
    max_text: float | None = None
    min_size: int | None = None

    @classmethod
    def of(cls, options: SetsOptions) -> "QualityLimits":
        """The limits among the options of `build-sets` or `filter`."""
        return cls(options.brisque, options.max_text, options.min_size)

    @property
    def measured(self) -> list[str]:
        """Names of the measurements that are needed."""
        wanted = {"brisque": self.brisque, "text": self.max_text}
        return [name for name, limit in wanted.items() if limit is not None]

    def judge(self, facts: Facts) -> Rejection | None:
        """The first reason to reject the image, or None (ImageCoDe, section 3.1: low quality, too much text)."""
        short = min(facts.width, facts.height)
        if self.min_size is not None and short < self.min_size:
            return Rejection("too_small", float(short))
        if self.brisque is not None and facts.brisque is not None and facts.brisque > self.brisque:
            return Rejection("low_quality", facts.brisque)
        if self.max_text is not None and facts.text_share is not None and facts.text_share > self.max_text:
            return Rejection("too_much_text", facts.text_share)
        return None


class Unmeasurable(DataError):
    """An unreadable picture, or one on which an instrument fails: its source fails, not the run."""

    reason = "unmeasurable"


@dataclass(frozen=True)
class QualityGate(Portable):
    """Measures what `limits` need, with the instruments of the options, made when first used; `people` come before them."""

    limits: QualityLimits
    brisque_weights: str = "live"
    ocr: str = "auto"
    people: PersonChoices = field(default_factory=PersonChoices)
    # one set of instruments per thread: they reuse memory, and OCR engines are not thread-safe
    _own: threading.local = field(default_factory=threading.local, init=False, repr=False, compare=False)

    def _instrument(self, name: str) -> Any:
        """This thread's BRISQUE scorer, or OCR engine."""
        if not hasattr(self._own, name):
            setattr(self._own, name, Brisque(self.brisque_weights) if name == "brisque" else TextReader(self.ocr))
        return getattr(self._own, name)

    def describe(self) -> dict[str, object]:
        """Instruments in use, for the manifest."""
        return {name: self._instrument(name).describe() for name in self.limits.measured}

    def stamps(self) -> dict[str, str]:
        """A key per measurement; facts with another key are not reused."""
        return {name: sha256_of(description)[:16] for name, description in self.describe().items()}

    def complete(self, facts: Facts) -> bool:
        """Whether everything the limits need has been measured."""
        return all(getattr(facts, _COLUMNS[name][0]) is not None for name in self.limits.measured)

    def measure(self, facts: Facts, read: Callable[[], Pixels]) -> Facts:
        """`facts` with what the limits need measured on the picture uint8 [H, W, 3], which is read only if something is missing.

        Raises Unmeasurable, with the picture's name, where it cannot be read or an instrument fails on it.
        """
        if self.complete(facts):
            return facts
        figures: dict[str, Any] = {}
        try:
            rgb = read()
            if "brisque" in self.limits.measured and facts.brisque is None:
                figures = {"brisque": round(self._instrument("brisque").score(rgb), 6)}
            if "text" in self.limits.measured and facts.text_share is None:
                text = self._instrument("text").measure(rgb)
                numbers = round(text.area_share, 6), text.words, round(text.confidence, 2)
                figures |= zip(_COLUMNS["text"], numbers, strict=True)
        except DataError as error:
            raise Unmeasurable(f"{facts.source}/img{facts.index}: {error.message}", error.hint) from error
        return msgspec.structs.replace(facts, **figures)


def forget_other_measures(facts: Iterable[Facts], old: Mapping[str, str], new: Mapping[str, str]) -> list[Facts]:
    """Facts without the columns whose instrument is not the one in use now; columns not needed now are kept."""
    other = [name for name, key in new.items() if old.get(name, key) != key]
    stale = {column: None for name in other for column in _COLUMNS[name]}
    return [msgspec.structs.replace(row, **stale) for row in facts]


@dataclass(frozen=True)
class FactCache:
    """The cached measurements of one source; the folder is created on the first write."""

    folder: Path

    def load(self, measures: Mapping[str, str], but: Container[int] = ()) -> dict[int, tuple[Facts, Path]]:
        """Facts by frame, with the file they were measured on, as far as they come from the instruments in `measures`.

        Frames in `but` are left out; nothing of them is read. A row may know only some of the measures. What is damaged, or was
        measured on another picture than lies here, is forgotten.
        """
        facts: dict[int, tuple[Facts, Path]] = {}
        hashed = cache(sha256_if_readable)
        for name, key in measures.items():
            for row in _remembered(self.folder / f"{name}-{key}.jsonl"):
                if row.index in but:
                    continue
                file = self.folder / _picture(row)
                if hashed(file) == row.sha256:
                    known = facts[row.index][0] if row.index in facts else row
                    facts[row.index] = (_with_measures(known, row, name), file)
                else:
                    file.unlink(missing_ok=True)
        return facts

    def store(self, unit: SourceUnit, artifact: Path) -> None:
        """Remember the facts of a unit of `artifact`, and their files."""
        files = {file.name for file in self.folder.iterdir()} if self.folder.is_dir() else set()
        for name, key in unit.stamp.measures.items():
            table = self.folder / f"{name}-{key}.jsonl"
            rows, changed = {row.index: row for row in _remembered(table)}, dict[int, Facts]()
            for row in unit.facts:
                picture = _picture(row)
                blank = Facts(row.source, row.index, picture, row.sha256, row.width, row.height)
                new = _with_measures(blank, row, name)
                if getattr(row, _COLUMNS[name][0]) is None or (rows.get(row.index) == new and picture in files):
                    continue
                file = self.folder / picture
                if sha256_if_readable(file) != row.sha256:
                    link_or_copy(artifact / row.path, file)
                changed[row.index] = new
            if changed:
                write_table(table, (rows | changed).values())


def _remembered(table: Path) -> list[Facts]:
    """The rows of one instrument; none where the table, a cache, is missing or damaged."""
    try:
        return read_table(table, Facts)
    except (DataError, OSError):
        return []


def _picture(row: Facts) -> str:
    """Name of a frame's picture in the cache."""
    return f"img{row.index}{Path(row.path).suffix}"


def _with_measures(facts: Facts, row: Facts, name: str) -> Facts:
    """The facts with what `row` says of one instrument."""
    return msgspec.structs.replace(facts, **{column: getattr(row, column) for column in _COLUMNS[name]})
