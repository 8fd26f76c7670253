"""Documents as others keep them: the JSON of Hessel et al. (EMNLP 2019) and the JSONL of MMC4 (Zhu et al., 2023)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import DocumentTables, Links, validate_size
from ctxr.datasets.readers.frames import describe_picture
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import JsonFile, is_text, json_object, kind_of, read_utf8, value_of
from ctxr.errors import DataError
from ctxr.store.paths import stays_inside
from ctxr.store.records import PHOTO_SUFFIXES, Image, SplitName

SPLIT_NAMES: dict[str, SplitName] = {"train": "train", "val": "valid", "valid": "valid", "test": "test"}
"""What splits are called in documents, and what that is here."""

WORKER = "mmc4"
"""Who linked the documents of MMC4: an assignment over similarities of CLIP, which is no truth."""

NOTHING = -1

Ends = list[int | None]
"""The index that each item of a side is linked to; -1 for nothing, None where nobody said."""


@dataclass
class Pictures:
    """Images of documents by name, with their files in the folder `root`; `left` is names by what is wrong with them."""

    root: Path
    passed: Callable[[], None] | None = None
    images: dict[str, Image] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    _files: dict[Path, dict[str, Path]] = field(default_factory=dict)

    def image(self, name: str, document: str) -> Image:
        """The image of a name: with the file of that name in the folder or its `images/`, with or without suffix, if there is one."""
        if name not in self.images:
            if not stays_inside(name) or not name.isprintable():
                raise DataError(f"the image {name!r} is no name inside the folder", hint="rename it")
            files = [self._file_at(folder / name) for folder in (self.root, self.root / "images")]
            if not self.add(name, next(filter(None, files), None), document).path:
                self.left.setdefault(f"missing from {self.root.name or '.'}/ and its images/", []).append(name)
        return self.images[name]

    def add(self, name: str, file: Path | None, document: str) -> Image:
        """Add an image, with its picture if the file is one."""
        described = None if file is None else describe_picture(self.root, file, name, document, None)
        self.images[name] = described or Image(name, "", "", document, 0, 0)
        if self.passed is not None:
            self.passed()
        return self.images[name]

    def notes(self) -> list[str]:
        """A sentence for each reason."""
        return [
            f"{len(names)} images are {reason}: the first is {names[0][:200]!r}" for reason, names in self.left.items()
        ]

    def _file_at(self, path: Path) -> Path | None:
        """The file at a path, or the picture with that path and a suffix."""
        if path.parent not in self._files:
            files = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
            stems = {file.stem: file for file in reversed(files) if file.suffix.lower() in PHOTO_SUFFIXES}
            self._files[path.parent] = stems | {file.name: file for file in files}
        file = self._files[path.parent].get(path.name)
        return file if file is not None and Galleries(self.root).holds(file) else None


@contextmanager
def located(at: str) -> Iterator[None]:
    """Put where it happened before the message of a DataError."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{at}: {error.message}", hint=error.hint) from error


def is_links(file: JsonFile) -> bool:
    """Whether a parsed JSON has lists of documents by split."""
    splits = file.value if isinstance(file.value, dict) else {}
    lists = [rows for name, rows in splits.items() if name in SPLIT_NAMES and isinstance(rows, list)]
    return any(rows and isinstance(rows[0], list) for rows in lists) or 0 < len(lists) == len(splits)


def read_links(file: JsonFile, passed: Callable[[], None] | None = None) -> Dataset:
    """Documents of {train, val, test: [[images, sentences, meta]]}, with links as judgments of worker `gold`.

    An image is [name, index of its sentence], a sentence [text, index of its image]: -1 for linked to nothing, null where nobody
    said. Raises DataError naming document and item for what does not fit.
    """
    tables, pictures = DocumentTables(), Pictures(file.path.parent, passed)
    for key, rows in file.value.items():
        if key not in SPLIT_NAMES or not isinstance(rows, list):
            hint = "the keys are train, val and test, with a list each"
            raise DataError(f"{file.path}: {key!r} is no split, or {kind_of(rows)}", hint=hint)
        for number, row in enumerate(rows):
            name = f"{SPLIT_NAMES[key]}/{number:05}"
            with located(f"{file.path}: {key}[{number}]"):
                if (
                    not isinstance(row, list)
                    or not 2 <= len(row) <= 3
                    or not all(isinstance(side, list) for side in row[:2])
                ):
                    raise DataError("a document is [images, sentences, meta]", hint="restore the row")
                validate_size(name, len(row[1]), len(row[0]))
                links = _links(_ends("sentence", row[1], len(row[0])), _ends("image", row[0], len(row[1])))
                images = [pictures.image(image[0], name) for image in row[0]]
                tables.add(name, SPLIT_NAMES[key], [sentence[0] for sentence in row[1]], images, links)
    if not tables.sets:
        raise DataError(f"{file.path}: there is no document in it", hint="restore the file")
    return tables.dataset(file.path.stem, file.path.parent, pictures.notes())


def _ends(what: str, rows: list[Any], others: int) -> Ends:
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 2 or not is_text(row[0]) or type(row[1]) not in (int, type(None)):
            raise DataError(f"{what} {number} is not [text, index or -1 or null]", hint="restore the row")
        if row[1] is not None and not NOTHING <= row[1] < others:
            last = f"the other side ends with {others - 1}"
            raise DataError(f"{what} {number} is linked to {row[1]}, and {last}", hint="restore the index")
    return [row[1] for row in rows]


def _links(sentences: Ends, images: Ends) -> Links:
    """Links that either side names. Raises DataError where the other end says otherwise.

    The authors keep links on one side and write -1 throughout the other: there it says nothing against the links.
    """
    links = np.full((len(sentences), len(images)), np.nan)
    links[[end is not None for end in sentences]] = 0
    links[:, [end is not None for end in images]] = 0
    sides = (("sentence", sentences, "image", images, links), ("image", images, "sentence", sentences, links.T))
    for what, ends, other, backs, values in sides:
        carries = any(back not in (None, NOTHING) for back in backs)
        for index, end in enumerate(ends):
            if end is None or end == NOTHING:
                continue
            back = backs[end]
            if carries if back == NOTHING else back not in (None, index) and ends[back] != end:
                linked = "nothing" if back == NOTHING else f"{what} {back}"
                raise DataError(
                    f"{what} {index} is linked to {other} {end}, and {other} {end} to {linked}",
                    hint="let one name the other, or write null for the one that is unknown",
                )
            values[index, end] = 1
    return links


def is_mmc4(path: Path) -> bool:
    """Whether the first line of a JSONL file is a document of MMC4."""
    with path.open("rb") as file:
        row = json_object(file.readline(1 << 24).decode("utf-8-sig", "replace"))
    return row is not None and {"text_list", "image_info"} <= row.keys()


def read_mmc4(root: Path, paths: list[Path], passed: Callable[[], None] | None = None) -> Dataset:
    """Documents of MMC4, one a line; which sentence an image was matched with is a judgment of worker `mmc4`.

    A file named like a split is that split. Raises DataError naming file:line for what does not fit.
    """
    tables, pictures = DocumentTables(WORKER), Pictures(root, passed)
    for path in paths:
        for number, line in enumerate(read_utf8(path).split("\n"), 1):
            if line.strip():
                with located(f"{path}:{number}"):
                    name = f"{path.stem}/{number:05}"
                    tables.add(name, SPLIT_NAMES.get(path.stem), *_mmc4_document(name, line, pictures))
    return tables.dataset(root.resolve().name if len(paths) > 1 else paths[0].stem, root, pictures.notes())


def _mmc4_document(name: str, line: str, pictures: Pictures) -> tuple[list[str], list[Image], Links]:
    row = json_object(line)
    texts, infos = value_of("the line", row, "text_list", list), value_of("the line", row, "image_info", list)
    validate_size(name, len(texts), len(infos))
    if not all(map(is_text, texts)):
        raise DataError("`text_list` holds something that is no text", hint="restore the line")
    # an integer may be too large for a double
    largest = np.finfo(np.float64).max
    matrix = value_of("the line", row, "similarity_matrix", list)
    if len(matrix) != len(infos) or any(
        not isinstance(values, list)
        or len(values) != len(texts)
        or any(type(value) not in (int, float) or not abs(value) <= largest for value in values)
        for values in matrix
    ):
        shape = f"{len(infos)} x {len(texts)} finite numbers"
        raise DataError(f"`similarity_matrix` must be {shape}, images by sentences", hint="restore the line")
    links, images = np.zeros((len(texts), len(infos))), []
    for number, info in enumerate(infos):
        at = f"image_info[{number}]"
        images.append(pictures.image(value_of(at, info, "image_name", str), name))
        matched = value_of(at, info, "matched_text_index", int)
        if not 0 <= matched < len(texts):
            last = f"`text_list` ends with {len(texts) - 1}"
            raise DataError(f"{at}: `matched_text_index` is {matched}, and {last}", hint="restore the index")
        links[matched, number] = 1
    return texts, images, links
