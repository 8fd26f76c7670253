"""Documents as others keep them: the JSON of Hessel et al. (EMNLP 2019) and the JSONL of MMC4 (Zhu et al., 2023)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import GOLD, DocumentTables, Links, validate_size
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import read_json, value_starts
from ctxr.errors import DataError, plural
from ctxr.store.paths import stays_inside
from ctxr.store.records import PHOTO_SUFFIXES, Image, SplitName
from ctxr.store.tables import UNREADABLE, numbered_lines

SPLIT_NAMES: dict[str, SplitName] = {"train": "train", "val": "valid", "valid": "valid", "test": "test"}
"""What splits are called in documents, and what that is here."""

WORKER = "mmc4"  # who linked the documents of MMC4: an assignment over similarities of CLIP, which is no truth

_SUFFIXES = ("", *sorted(PHOTO_SUFFIXES), *sorted(map(str.upper, PHOTO_SUFFIXES)))

Item = tuple[str, Annotated[int, msgspec.Meta(ge=-1, lt=1 << 53)] | None]
"""A sentence or the name of an image, and the index that it is linked to: -1 for nothing, None not judged."""


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    images: list[Item]
    sentences: list[Item]
    meta: object = None


class _Splits(msgspec.Struct, forbid_unknown_fields=True):
    """By the names in `SPLIT_NAMES`."""

    train: list[_Row] = []
    val: list[_Row] = []
    valid: list[_Row] = []
    test: list[_Row] = []


class _Info(msgspec.Struct):
    image_name: str
    matched_text_index: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _Line(msgspec.Struct):
    text_list: list[str]
    image_info: list[_Info]


@dataclass
class DocumentFiles:
    """Documents with pictures of the folder of `photos`; `left` names what cannot be used, by reason."""

    photos: Galleries
    passed: Callable[[], None] | None = None
    tables: DocumentTables = field(default_factory=DocumentTables)
    left: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def picture(self, name: str, file: Path | None, document: str) -> Image:
        """The image of a name, with its picture if the file is one."""
        if name not in self.photos.images:
            self.photos.add_photo(document, name, file)
            if self.passed is not None:
                self.passed()
        return self.photos.images[name]

    def add(self, name: str, split: SplitName | None, sentences: Sequence[Item], images: Sequence[Item]) -> None:
        """Add a document. A picture lies in the folder or its `images/`, and may have a suffix that its name lacks."""
        validate_size(name, len(sentences), len(images))
        links, pictures = _links([end for _, end in sentences], [end for _, end in images]), []
        for image, _ in images:
            if not stays_inside(image):
                raise DataError(f"the image {image!r} is no name inside the folder", hint="rename it")
            files = (self.photos.root / folder / f"{image}{end}" for folder in ("", "images") for end in _SUFFIXES)
            pictures.append(self.picture(image, next(filter(self.photos.holds, files), None), name))
            if not pictures[-1].path:
                self.left[f"images that are missing from {self.photos.searched} and its images/"].append(image)
        self.tables.add(name, split, [text for text, _ in sentences], pictures, links)

    def dataset(self, name: str) -> Dataset:
        """All documents, with a note for each reason in `left`."""
        notes = (f"{what}: {len(names)}, the first is {names[0][:200]!r}" for what, names in self.left.items())
        return self.tables.dataset(name, self.photos.root, notes)


_EXPECTED = "a document is [[[image, index], …], [[sentence, index], …], meta] below train, val or test; an index may be -1 or null"


@contextmanager
def _located(at: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(f"{at}: {error.message}", hint=error.hint) from error
    except UNREADABLE as error:
        raise DataError(f"{at}: {error}", hint=_EXPECTED) from error


def link_files(path: Path) -> list[Path]:
    """The JSON at a path, or `documents.json` in it, if it lists documents by split."""
    file = path / "documents.json" if path.is_dir() else path
    starts = value_starts(file) if file.suffix == ".json" and file.is_file() else {}
    return [file] if any(starts.get(split, b"").startswith(b"[") for split in SPLIT_NAMES) else []


def read_links(_path: Path, files: Sequence[Path], passed: Callable[[], None] | None = None) -> Dataset:
    """Documents of {train, val, test: [[images, sentences, meta]]} with lists of `Item`. Raises DataError naming document and item."""
    (file,) = files
    reading = DocumentFiles(Galleries(file.parent), passed)
    with _located(str(file)):
        splits = msgspec.json.decode(read_json(file).text, type=_Splits)
    for key, split in SPLIT_NAMES.items():
        for number, row in enumerate(getattr(splits, key)):
            with _located(f"{file}: {key}[{number}]"):
                # an export of predicted links names who predicted them
                worker = row.meta.get("worker") if isinstance(row.meta, dict) else None
                reading.tables.worker = worker if isinstance(worker, str) and worker else GOLD
                reading.add(f"{split}/{number:05}", split, row.sentences, row.images)
    if not reading.tables.sets:
        raise DataError(f"{file}: there is no document in it", hint="restore the file")
    return reading.dataset(file.stem)


def _links(sentences: Sequence[int | None], images: Sequence[int | None]) -> Links:
    """Links that either side names."""
    return np.fmax(_side("sentence", sentences, len(images)), _side("image", images, len(sentences)).T)


def _side(what: str, ends: Sequence[int | None], others: int) -> Links:
    named = np.array(ends, np.float64)[:, None]
    for index in np.flatnonzero(named >= others).tolist():
        other = plural(others, "image" if what == "sentence" else "sentence")
        message = f"{what} {index} is linked to {ends[index]}, and the document has {other}"
        raise DataError(message, hint=f"indices are 0 to {others - 1}, -1 for nothing, null for unknown")
    return np.where(np.isnan(named), np.nan, named == np.arange(others))


def mmc4_files(path: Path) -> list[Path]:
    """The JSONL at a path, or all in it, if the first line of one is a document of MMC4."""
    lines = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    # an export has judgments beside the documents
    lines = [file for file in lines if file.suffix == ".jsonl" and file.name != "judgments.jsonl" and file.is_file()]
    return lines if any(map(_is_mmc4, lines)) else []


def _is_mmc4(path: Path) -> bool:
    with path.open("rb") as file:
        line = file.readline(1 << 24)
    return b'"text_list"' in line and b'"image_info"' in line


def read_mmc4(path: Path, files: Sequence[Path], passed: Callable[[], None] | None = None) -> Dataset:
    """Documents of MMC4, one a line, in files that may be named like splits. Raises DataError naming file:line."""
    root = path if path.is_dir() else path.parent
    reading = DocumentFiles(Galleries(root), passed, DocumentTables(WORKER))
    for file in files:
        for number, line in numbered_lines(file):
            with _located(f"{file}:{number}"):
                row = msgspec.json.decode(line, type=_Line)
                images = [(info.image_name, info.matched_text_index) for info in row.image_info]
                sentences = [(text, None) for text in row.text_list]
                reading.add(f"{file.stem}/{number:05}", SPLIT_NAMES.get(file.stem), sentences, images)
    return reading.dataset(root.resolve().name if len(files) > 1 else files[0].stem)
