"""Rows of a published table into pairs: labels mapped, scores cut, repeats told apart."""

import math
import re
from pathlib import Path

import msgspec

from ctxr.data.entailment import EntailmentPair, coco_image, flickr_image, text_group
from ctxr.data.readers.entailment.captions import Captions
from ctxr.data.readers.entailment.formats import FORMATS, THRESHOLD, PairFormat, find_format
from ctxr.data.readers.entailment.oddities import Reading
from ctxr.data.readers.entailment.rows import Row, Rows
from ctxr.data.records import SplitName

_SIDES: dict[str, SplitName] = {
    "train": "train", "dev": "valid", "val": "valid", "valid": "valid", "validation": "valid", "test": "test",
}  # fmt: skip
_WORD = re.compile(r"[a-z]+")
_HEADLESS = next(one.headless for one in FORMATS if one.headless)


def read_pairs(
    path: Path,
    source: str | None = None,
    split: SplitName | None = None,
    captions: Captions | None = None,
    language: str = "en",
) -> Reading:
    """The pairs of a published file, with everything that is odd in it.

    Args:
        source: which dataset it is; default: by its columns.
        split: its side; default: what the file's name says (`train`, `dev`, `valid`, `test`).
        captions: give pictures their premise, and captions their text.
        language: rows of a multilingual file in another language are left out, and counted.

    Rows are kept whatever is doubtful about them, unless they have no label, no text, or say again what was said. Raises
    UsageError for a file that cannot be opened, DataError for columns that fit no dataset.
    """
    rows = Rows(path, _HEADLESS if source in (None, "sts-b") else ())
    found = find_format(str(path), rows.columns, source)
    reader = _Reader(rows, found, split or _side(path), captions or Captions(), language)
    for row in rows:
        reader.take(row)
    return Reading(tuple(reader.pairs.values()), tuple(rows.oddities), rows.read, found.source)


class _Reader:
    def __init__(
        self, rows: Rows, found: PairFormat, split: SplitName | None, captions: Captions, language: str
    ) -> None:
        self.rows, self.format, self.split, self.captions, self.language = rows, found, split, captions, language
        self.pairs: dict[str, EntailmentPair] = {}
        self.said: dict[tuple[str | None, ...], tuple[int, EntailmentPair]] = {}

    def take(self, row: Row) -> None:
        """Make a pair of a row, or note why not."""
        pair = self._pair(row)
        if pair is None:
            return
        asked = (pair.premise, pair.hypothesis, pair.image, pair.caption, pair.group)
        line, before = self.said.setdefault(asked, (row.line, pair))
        earlier = self.pairs.get(pair.id) if self.format.id else before
        if earlier is not None and earlier is not pair and _said_alike(earlier, pair):
            self.rows.note(row.line, "repeated", f"the row says what line {line} says")
            return
        if before.label != pair.label:
            differ = f"line {line} labels the same pair {before.label}, not {pair.label}"
            self.rows.note(row.line, "other_label", differ, kept=True)
        if pair.id in self.pairs:
            again = f"id {pair.id!r} stands already on another row; its line is added"
            self.rows.note(row.line, "same_id", again, kept=True)
            pair = msgspec.structs.replace(pair, id=f"{pair.id}:{row.line}")
        self.pairs[pair.id] = pair

    def _pair(self, row: Row) -> EntailmentPair | None:
        form = self.format
        told = _cell(row, form.language)
        if told and told != self.language:
            self.rows.note(row.line, "language", f"the row is in {told!r}, not {self.language!r}")
            return None
        labelled = self._label(row)
        if labelled is None:
            return None
        relation, label, score = labelled
        drawn = self._said(row)
        if drawn is None:
            return None
        premise, hypothesis, image, caption, about = drawn
        if any(text is not None and not text.strip() for text in (premise, hypothesis)):
            self.rows.note(row.line, "empty_text", "the premise or the hypothesis is empty")
            return None
        side = self.split or (self.captions.splits.get(image) if image else None)
        key = "/".join(filter(None, (form.source, side, _cell(row, form.id) or f"row{self.rows.read}")))
        group = image or text_group(form.source, about)
        return EntailmentPair(
            key, premise, hypothesis, image, 1 if label else 0, relation, form.source, side, group, caption, score
        )

    def _label(self, row: Row) -> tuple[str, int, float | None] | None:
        """Relation, label and score of a row; None, and a note, where it has none."""
        given = _cell(row, self.format.label).strip()
        if not self.format.labels:
            try:
                score = float(given)
            except ValueError:
                score = math.nan
            if not 0 <= score <= 5:
                self.rows.note(row.line, "score", f"{given!r} is no score of 0 to 5")
                return None
            entailed = score >= THRESHOLD
            return ("similar" if entailed else "dissimilar"), int(entailed), score
        if given == "-":
            self.rows.note(row.line, "no_consensus", "the annotators agreed on no label")
            return None
        if given not in self.format.labels:
            self.rows.note(row.line, "label", f"{given!r} is no label of {self.format.source}")
            return None
        return *self.format.labels[given], None

    def _said(self, row: Row) -> tuple[str | None, str | None, str | None, str | None, str] | None:
        """Premise, hypothesis, picture, caption and what tells premises apart; None, and a note, without its number."""
        form, captions = self.format, self.captions
        image = caption = None
        if form.image:
            name = _cell(row, form.image).strip()
            image = coco_image(name) if form.source == "cxc" else flickr_image(name)
            if image is None:
                self.rows.note(row.line, "image", f"{name!r} names no picture")
                return None
        if not form.caption:
            premise = _cell(row, form.premise) if form.premise else captions.premise(image or "")
            return premise, _cell(row, form.hypothesis), image, None, premise or ""
        names = [_cell(row, columns) for columns in (form.caption, form.second_caption) if columns]
        known = [_caption(name) for name in names]
        if None in known:
            self.rows.note(row.line, "image", f"{names[known.index(None)]!r} names no caption")
            return None
        caption = known[-1]
        premise = captions.premise(image, caption) if image else captions.texts.get(known[0] or "")
        return premise, captions.texts.get(caption or ""), image, caption, known[0] or ""


def _said_alike(one: EntailmentPair, other: EntailmentPair) -> bool:
    return msgspec.structs.replace(one, id="") == msgspec.structs.replace(other, id="")


def _cell(row: Row, names: tuple[str, ...]) -> str:
    """The cell of the first column that the row has; empty where it has none."""
    return next((row.cells[name] for name in names if name in row.cells), "")


def _caption(name: str) -> str | None:
    """The id of a caption such as `COCO_val2014:sentid:1234`; None for another name.

    >>> _caption("COCO_val2014:sentid:1234")
    'coco/1234'
    """
    number = name.rpartition(":")[2]
    return f"coco/{number}" if number.isascii() and number.isdigit() else None


def _side(path: Path) -> SplitName | None:
    """The side that a file's name says: the last word that is one."""
    return next((_SIDES[word] for word in reversed(_WORD.findall(path.name.lower())) if word in _SIDES), None)
