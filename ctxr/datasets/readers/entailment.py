"""Published entailment datasets as pairs: SNLI-VE, e-SNLI-VE, XNLI, MNLI, MRPC, RTE, STS-B, QQP and CxC; also as exported by Hugging
Face, with integers for labels.

Tables are read line by line: a quote that is never closed costs its own row alone.
"""

import csv
import json
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import structs

from ctxr.datasets.pairs import EntailmentPair, Label, coco_caption, coco_image, flickr_image
from ctxr.datasets.readers.karpathy import SPLITS, SplitFile
from ctxr.datasets.readers.text_files import as_record, class_names, json_object, parquet_rows, read_json
from ctxr.errors import DataError, UsageError, plural
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import SPLIT_WORDS, SplitName
from ctxr.store.tables import grouped

Code = Literal[
    "byte_order_mark", "encoding", "quotes", "columns", "not_json", "label", "no_consensus", "score", "empty_text",
    "language", "repeated", "same_id", "other_label", "image",
]  # fmt: skip


@dataclass(frozen=True)
class RowIssue:
    """One thing that is not as it should be, at `file:line`; `kept`: whether the row is among the pairs all the same."""

    where: str
    code: Code
    what: str
    kept: bool


@dataclass(frozen=True)
class PairFile:
    """What came out of a file.

    Attributes:
        pairs: in the order of the file, ids unique.
        issues: likewise. A row may have several; one that is left out has one that is not kept.
        rows: records after the header: pairs and rows left out. source: the format that it has.
    """

    pairs: tuple[EntailmentPair, ...]
    issues: tuple[RowIssue, ...]
    rows: int
    source: str

    @property
    def left_out(self) -> tuple[RowIssue, ...]:
        """One entry for each row that is not among the pairs."""
        return tuple(issue for issue in self.issues if not issue.kept)


def tally(issues: Iterable[RowIssue]) -> list[str]:
    """A sentence for each sort of issue with its first place, commonest first.

    >>> tally([RowIssue("a.tsv:3", "columns", "2 columns where 4 are named", False)])
    ['1 row left out, columns: 2 columns where 4 are named (first a.tsv:3)']
    """
    sorts = grouped(((issue.kept, issue.code), issue) for issue in issues)
    return [
        f"{plural(len(rows), 'row')} {'kept' if kept else 'left out'}, {code}: {rows[0].what} (first {rows[0].where})"
        for (kept, code), rows in sorted(sorts.items(), key=lambda item: -len(item[1]))
    ]


THRESHOLD = 3.0
"""Similarity of 0..5 from which a pair counts as entailed (entailment paper, section 6; CxC extends its positives likewise)."""


class RowClass(NamedTuple):
    """What a row says: the relation in the source's word, whether that is entailment, and the score it follows from."""

    relation: str
    label: Label
    score: float | None = None


_NLI = {
    "entailment": RowClass("entailment", 1),
    "neutral": RowClass("neutral", 0),
    "contradiction": RowClass("contradiction", 0),
    "contradictory": RowClass("contradiction", 0),
    "not_entailment": RowClass("not_entailment", 0),
}
_NUMBERED = re.compile(r"(?<![a-z0-9])(?:(rte)|(e?snli(?:ve)?|[mx]nli|multi[-_]?nli)|[a-z]*nli|mrpc)(?![a-z])")
"""Names of datasets, by group: RTE (two labels), three labels, and others; WNLI and MRPC have RTE's columns but reversed labels."""


@dataclass(frozen=True)
class PairFormat:
    """The columns in which the parts of a pair stand; of several the first one that the file has.

    Attributes:
        label: column of the label, or of the score where `labels` is empty: at least `THRESHOLD` is entailed.
        labels: what each label means. beside: further columns by which the format is known.
        headless: columns of a file without a header.
    """

    source: str
    label: tuple[str, ...]
    premise: tuple[str, ...] = ()
    hypothesis: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    caption: tuple[str, ...] = ()
    second_caption: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    labels: Mapping[str, RowClass] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()

    def fits(self, columns: Collection[str]) -> bool:
        """Whether a file with these columns has all that the format needs."""
        needed = (self.label, self.premise, self.hypothesis, self.image, self.caption, self.second_caption)
        return {*self.beside} <= {*columns} and all(not names or {*names} & {*columns} for names in needed)


_FIRST, _SECOND = ("sentence1",), ("sentence2",)
_FLICKR = ("Flickr30K_ID", "Flickr30kID", "Flikr30kID")

FORMATS = (
    PairFormat("cxc", label=("agg_score",), image=("image",), caption=("caption",)),
    PairFormat("cxc-sts", label=("agg_score",), caption=("caption1",), second_caption=("caption2",)),
    PairFormat(
        "snli-ve", label=("gold_label",), premise=_FIRST, hypothesis=_SECOND, image=_FLICKR, id=("pairID",), labels=_NLI,
    ),
    PairFormat("e-snli-ve", label=("gold_label",), hypothesis=("hypothesis",), image=_FLICKR, id=("pairID",), labels=_NLI),
    PairFormat(
        "mrpc", label=("Quality",), premise=("#1 String",), hypothesis=("#2 String",),
        labels={"1": RowClass("paraphrase", 1), "0": RowClass("no_paraphrase", 0)},
    ),
    PairFormat(
        "qqp", label=("is_duplicate",), premise=("question1",), hypothesis=("question2",), id=("id",),
        labels={"1": RowClass("duplicate", 1), "0": RowClass("no_duplicate", 0)},
    ),
    PairFormat(
        "sts-b", label=("score",), premise=_FIRST, hypothesis=_SECOND, id=("index",),
        headless=("genre", "filename", "year", "place", "score", "sentence1", "sentence2"),
    ),
    PairFormat(
        "xnli", label=("gold_label",), premise=_FIRST, hypothesis=_SECOND, id=("pairID",), language=("language",), labels=_NLI,
        beside=("language",),
    ),
    PairFormat("snli-ve", label=("label",), premise=("premise",), hypothesis=("hypothesis",), image=("filename",), labels=_NLI),
    PairFormat("xnli", label=("label",), premise=("premise",), hypothesis=("hypo", "hypothesis"), labels=_NLI),
    PairFormat("mnli", label=("gold_label",), premise=_FIRST, hypothesis=_SECOND, id=("pairID",), labels=_NLI, beside=("promptID",)),
    PairFormat("rte", label=("label",), premise=_FIRST, hypothesis=_SECOND, id=("index", "idx"), labels=_NLI),
)  # fmt: skip
"""Every format, the more particular ones first."""


MOST_LINES = 40
"""Lines that one quoted record may span before its quote counts as never closed."""


_MARKS = ("\ufeff", "\u00ef\u00bb\u00bf")
"""The byte order mark, and what it becomes in a file saved twice, as the published MRPC was."""


class Row(NamedTuple):
    """A record: its line, from 1, and its cells by column."""

    line: int
    cells: dict[str, str]

    def first(self, columns: tuple[str, ...]) -> str:
        """The cell of the first of these columns that the row has; empty where it has none."""
        return next((self.cells[name] for name in columns if name in self.cells), "")


class TextLine(NamedTuple):
    """A line of a file, without its end, and its number, from 1."""

    number: int
    text: str


class RowError(Exception):
    """A row is not a pair, for a reason of the sort `code`."""

    def __init__(self, code: Code, what: str) -> None:
        super().__init__(what)
        self.code = code


class Rows:
    """The records of a file; iterate once.

    Attributes:
        columns: the names in the header; of JSON Lines, those of the first record.
        read: records so far; `issues` grows with them.
        classes: by column, the names of its integers, as `datasets` stores them.
    """

    def __init__(self, path: Path, headless: tuple[str, ...] = ()) -> None:
        """Open a file and read its header; `headless` names the columns where the first line is a record already. Raises UsageError
        where it cannot be opened, DataError for UTF-16 and for an empty file."""
        self.path = path
        self.issues: list[RowIssue] = []
        self.read = 0
        info = path.with_name("dataset_info.json")
        self.classes = class_names(info.read_text("utf-8", "replace") if info.is_file() else "{}")
        self._lines: Iterator[TextLine] = _decoded_lines(path, self.issues)
        if path.suffix == ".parquet":
            self._lines = map(TextLine, count(1), parquet_rows(path, self.classes))
        self._ahead: deque[TextLine] = deque()
        first = self._next()
        if first is None:
            raise DataError(f"{path} is empty", hint="fetch it again")
        header = first.text
        if mark := next((mark for mark in _MARKS if header.startswith(mark)), ""):
            self.note(1, "byte_order_mark", "the header begins with a byte order mark", kept=True)
            header = header.removeprefix(mark)
        self._json = header.lstrip().startswith("{")
        self._delimiter = "\t" if "\t" in header else ","
        if self._json:
            self.columns = tuple(json_object(header) or ())
        else:
            try:  # a return within the line would end the header
                names = next(csv.reader([header.replace("\r", " ")], delimiter=self._delimiter))
            except csv.Error as error:
                raise DataError(f"{path}:1: no header can be read: {error}", hint="fetch it again") from error
            self.columns = tuple(name.strip() for name in names)
        wide = len(header.split("\t")) >= len(headless)
        self._headless = not self._json and bool(headless) and wide and not {*headless} & {*self.columns}
        if self._headless:
            self.columns = headless
        if self._json or self._headless:
            self._ahead.append(TextLine(first.number, header))
        # Quora's questions are quoted where they hold tabs or line ends; in the other tab-separated files a quote is a letter
        self._quoted = self._delimiter == "," or "question1" in self.columns

    def __iter__(self) -> Iterator[Row]:
        while (line := self._next()) is not None:
            if line.text.strip():
                self.read += 1
                try:
                    yield Row(line.number, self._cells(line))
                except RowError as error:
                    self.note(line.number, error.code, str(error))

    def note(self, line: int, code: Code, what: str, kept: bool = False) -> None:
        """Remember an issue of a line."""
        self.issues.append(RowIssue(f"{self.path}:{line}", code, what, kept))

    def _next(self) -> TextLine | None:
        return self._ahead.popleft() if self._ahead else next(self._lines, None)

    def _cells(self, line: TextLine) -> dict[str, str]:
        if self._json:
            if (row := json_object(line.text)) is None:
                raise RowError("not_json", "the line is not a JSON object")
            named = {name: "" if cell is None else cell for name, cell in row.items()}
            return {name: cell if isinstance(cell, str) else json.dumps(cell) for name, cell in named.items()}
        literal = line.text.split(self._delimiter)
        quoted = self._quoted and '"' in line.text
        cells = self._fitting(self._quoted_cells(line, literal) if quoted else literal)
        if cells is None:
            raise RowError("columns", f"{len(literal)} columns where the header names {len(self.columns)}")
        return dict(zip(self.columns, cells, strict=True))

    def _quoted_cells(self, line: TextLine, literal: list[str]) -> list[str]:
        """Cells of a record that may span several lines; its first line alone, taken literally, if its quotes are astray."""
        lines, cells = [line], list[str]()
        while not cells:
            try:
                parts = [f"{part.text}\n" for part in lines]
                cells = next(csv.reader(parts, delimiter=self._delimiter, strict=True))
            except csv.Error as error:
                # a tab-separated line that is whole as it stands needs no other to close its quote
                astray = "end of data" not in str(error) or (
                    self._delimiter == "\t" and self._fitting(literal) is not None
                )
                more = None if astray or len(lines) >= MOST_LINES else self._next()
                if more is None:
                    break
                lines.append(more)
        if self._fitting(cells) is not None:
            cells[-1] = cells[-1].removesuffix("\n")
            return cells
        self._ahead.extendleft(reversed(lines[1:]))
        if self._fitting(literal) is not None:
            self.note(line.number, "quotes", "a quote is not closed, and is taken as a letter", kept=True)
        return literal

    def _fitting(self, cells: list[str]) -> list[str] | None:
        """The cells if there is one for each column; empty ones too many do not count."""
        width = len(self.columns)
        if len(cells) < width:
            return None
        return cells[:width] if self._headless or not any(cells[width:]) else None


def _decoded_lines(path: Path, issues: list[RowIssue]) -> Iterator[TextLine]:
    """Lines with their numbers; one that is not UTF-8 is taken as Windows-1252, and noted."""
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise DataError(f"{path}:1 is not UTF-8 text but UTF-16", hint=f"save {path.name} as UTF-8")
                line = raw.rstrip(b"\r\n")
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    odd = f"byte 0x{line[error.start]:02x} is not UTF-8, and the line is taken as Windows-1252"
                    issues.append(RowIssue(f"{path}:{number}", "encoding", odd, kept=True))
                    text = line.decode("latin-1")
                    with suppress(UnicodeDecodeError):
                        text = line.decode("cp1252")
                yield TextLine(number, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="name an existing file") from error


@dataclass
class Captions:
    """Texts by the id of the caption (`coco/ID`, `flickr30k/ID`), captions of each picture in the order of the file, and its split."""

    texts: dict[str, str] = field(default_factory=dict)
    of_image: dict[str, list[str]] = field(default_factory=dict)
    splits: dict[str, SplitName] = field(default_factory=dict)

    def premise(self, image: str, without: str | None = None) -> str | None:
        """All captions of a picture as one string, but for the hypothesis itself; None where there is none.

        >>> Captions({"a": "A dog.", "b": "Grass."}, {"coco/1": ["a", "b"]}).premise("coco/1", without="b")
        'A dog.'
        """
        return " ".join(self.texts[key] for key in self.of_image.get(image, ()) if key != without) or None

    def add(self, at: str, key: str, image: str, text: str) -> None:
        """Add a caption that stands `at` a place. Raises DataError for one that appeared with another text."""
        if self.texts.setdefault(key, text) != text:
            raise DataError(f"{at}: caption {key} already has a different text", hint="delete one of the two")
        listed = self.of_image.setdefault(image, [])
        if key not in listed:
            listed.append(key)


class CocoCaption(msgspec.Struct):
    """What COCO's JSON says of a photo."""

    id: int
    image_id: int
    caption: str


class _CocoCaptions(msgspec.Struct):
    annotations: list[CocoCaption]


def read_captions(paths: Iterable[Path]) -> Captions:
    """The captions in COCO's `captions_*.json`, and in Karpathy's splits, which also say which split a picture is in.

    Raises DataError naming file and row for another layout, a row that lacks something, and a caption with two texts.
    """
    captions = Captions()
    for path in paths:
        value = read_json(path).value
        if isinstance(value, dict) and "annotations" in value:
            coco: _CocoCaptions = as_record(value, _CocoCaptions, path)
            for row in coco.annotations:
                captions.add(f"{path}: caption {row.id}", f"coco/{row.id}", f"coco/{row.image_id}", row.caption)
            continue
        split: SplitFile = as_record(value, SplitFile, path)
        for picture in split.images:
            name = picture.filename
            image = flickr_image(name) if split.dataset == "flickr30k" else coco_image(picture.cocoid or name)
            if image is None:
                raise DataError(f"{path}: {name!r} is not a picture of COCO or Flickr30K", hint="restore the row")
            captions.splits[image] = SPLITS[picture.split]
            for sentence in picture.sentences:
                key = f"{image.partition('/')[0]}/{sentence.sentid}"
                captions.add(f"{path}: sentence {sentence.sentid}", key, image, sentence.raw)
    return captions


PICTURES, CAPTIONS = "pictures", "captions"
"""Folders beside published files: pictures under published names, and files of captions."""

TABLES = (".csv", ".tsv", ".txt", ".jsonl", ".parquet")
"""What names of published files end with."""


def pair_files(path: Path) -> list[Path]:
    """The files that published pairs at a path may be read from; none without a table."""
    folder = path if path.is_dir() else path.parent
    tables = [file for file in folder.glob("*") if file.suffix in (*TABLES, ".json")] if path.is_dir() else [path]
    around = [folder / "dataset_info.json", *(folder / CAPTIONS).glob("*.json"), *(folder / PICTURES).glob("*.jpg")]
    return sorted({file for file in (*tables, *around) if file.is_file()}) if tables else []


def read_pairs(path: Path, captions: Captions | None = None) -> PairFile:
    """The pairs of a published file, with everything that is odd in it. Which dataset it is follows from its columns, its split from
    its name; `captions` give pictures their premise, and captions their text.

    Left out are rows without a label or text, that are not English, or that say again what was said. Raises UsageError for a file
    that cannot be opened, DataError for columns that fit no dataset.
    """
    rows = Rows(path, next(known.headless for known in FORMATS if known.headless))
    pair_format = next((known for known in FORMATS if known.fits(rows.columns)), None)
    if pair_format is None:
        if {"image1", "image2"} <= {*rows.columns}:
            raise DataError(f"{path}:1: pairs of pictures have no hypothesis", hint="name CxC's SITS or STS file")
        named = ", ".join(repr(name[:30]) for name in rows.columns[:7] if name) or "nothing"
        sources = ", ".join(dict.fromkeys(known.source for known in FORMATS))
        raise DataError(
            f"{path}:1: the header names {named}, which is not a dataset of entailment",
            hint=f"of {sources}; test files without labels cannot be used",
        )
    words = reversed(re.findall("[a-z]+", path.name.lower()))
    split = next((SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS), None)
    reader = _Reader(rows, pair_format, split, captions or Captions())
    for row in rows:
        try:
            reader.take(row)
        except RowError as error:
            rows.note(row.line, error.code, str(error))
    return PairFile(tuple(reader.pairs.values()), tuple(rows.issues), rows.read, pair_format.source)


class _Reader:
    def __init__(self, rows: Rows, pair_format: PairFormat, split: SplitName | None, captions: Captions) -> None:
        self.rows, self.format, self.split, self.captions = rows, pair_format, split, captions
        self.pairs: dict[str, EntailmentPair] = {}
        self.said: dict[tuple[str | None, ...], tuple[int, EntailmentPair]] = {}
        two, three = [("", ""), *_NUMBERED.findall("/".join(rows.path.absolute().parts[-3:]).lower())][-1]
        usual = ["entailment", "not_entailment"] if two else ["entailment", "neutral", "contradiction"] if three else []
        names = next((rows.classes[name] for name in pair_format.label if name in rows.classes), usual)
        self.classes = {str(number): name for number, name in enumerate(names)}

    def take(self, row: Row) -> None:
        """Make a pair of a row. Raises RowError for a row that is not a pair."""
        pair = self._pair(row)
        content = (pair.premise, pair.hypothesis, pair.image, pair.caption, pair.group)
        line, before = self.said.setdefault(content, (row.line, pair))
        earlier = self.pairs.get(pair.id) if self.format.id else before
        if earlier is not None and earlier is not pair and structs.replace(earlier, id=pair.id) == pair:
            raise RowError("repeated", f"the row says what line {line} says")
        if before.label != pair.label:
            differ = f"line {line} labels the same pair {before.label}, not {pair.label}"
            self.rows.note(row.line, "other_label", differ, kept=True)
        if pair.id in self.pairs:
            note = f"id {pair.id!r} is already used by another row; its line number is appended"
            self.rows.note(row.line, "same_id", note, kept=True)
            pair = structs.replace(pair, id=f"{pair.id}:{row.line}")
        self.pairs[pair.id] = pair

    def _pair(self, row: Row) -> EntailmentPair:
        form, captions = self.format, self.captions
        if (language := row.first(form.language)) not in ("", "en"):
            raise RowError("language", f"the row is in {language!r}, not 'en'")
        relation, label, score = self._class(row)
        image = caption = None
        if form.image:
            name = row.first(form.image).strip()
            image = coco_image(name) if form.source == "cxc" else flickr_image(name)
            if image is None:
                raise RowError("image", f"{name!r} names no picture")
        premise: str | None
        hypothesis: str | None
        if form.caption:
            names = [row.first(columns) for columns in (form.caption, form.second_caption) if columns]
            ids = [coco_caption(name) for name in names]
            if None in ids:
                raise RowError("image", f"{names[ids.index(None)]!r} names no caption")
            about, caption = ids[0] or "", ids[-1] or ""
            premise = captions.premise(image, caption) if image else captions.texts.get(about)
            hypothesis = captions.texts.get(caption)
        else:
            premise = row.first(form.premise) if form.premise else captions.premise(image or "")
            about, hypothesis = premise or "", row.first(form.hypothesis)
        if any(text is not None and not text.strip() for text in (premise, hypothesis)):
            raise RowError("empty_text", "the premise or the hypothesis is empty")
        split = self.split or (captions.splits.get(image) if image else None)
        key = "/".join(filter(None, (form.source, split, row.first(form.id) or f"row{self.rows.read}")))
        group = image or f"{form.source}/{sha256_bytes(about.encode())[:16]}"
        return EntailmentPair(
            key, premise, hypothesis, image, label, relation, form.source, split, group, caption, score
        )

    def _class(self, row: Row) -> RowClass:
        value, labels = row.first(self.format.label).strip(), self.format.labels
        if not labels:
            score = similarity(value)
            if score is None:
                raise RowError("score", f"{value!r} is not a score of 0 to 5")
            return RowClass("similar", 1, score) if score >= THRESHOLD else RowClass("dissimilar", 0, score)
        if value in ("-", "-1"):
            raise RowError("no_consensus", "the row has no gold label")
        if value.isdecimal() and not self.classes and value not in labels:
            raise DataError(
                f"{self.rows.path}:{row.line}: nothing says what label {value} means",
                hint="put dataset_info.json beside the file, or name the file after its dataset: rte, mnli, snli-ve",
            )
        value = self.classes.get(value, value)
        if value not in labels:
            raise RowError("label", f"{value!r} is not a label of {self.format.source}")
        return labels[value]


def similarity(text: str) -> float | None:
    """The similarity of 0..5 that a cell holds; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 5 else None
