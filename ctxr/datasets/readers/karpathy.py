"""Karpathy's splits of COCO, Flickr30K and Flickr8K (`dataset_coco.json`, …): galleries train, valid and test in the file's order.

The published figures of COCO 1K are means over five parts of the test pictures in this order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.pairs import coco_image, published_names
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import as_record, read_json, refuse_unsafe_path, value_starts
from ctxr.errors import DataError, UsageError
from ctxr.store.records import SPLIT_WORDS, SplitName

SPLITS: dict[str, SplitName] = {"train": "train", "restval": "train", "val": "valid", "test": "test"}
"""What a picture's `split` makes of it: `restval`, COCO's validation pictures that are not evaluated on, is trained on."""


class SplitSentence(msgspec.Struct):
    """A caption of the picture `imgid`."""

    sentid: int
    raw: str
    imgid: int | None = None


class SplitPicture(msgspec.Struct):
    """A picture of a split with its captions."""

    filename: str
    split: Literal["train", "restval", "val", "test"]
    sentences: list[SplitSentence]
    filepath: str = ""
    imgid: int | None = None
    cocoid: int | None = None


class SplitFile(msgspec.Struct):
    """What a file of a split holds."""

    images: list[SplitPicture]
    dataset: str = ""


def split_files(path: Path) -> list[Path]:
    """The JSON at a path, or each dataset_*.json in it, that lists pictures with their sentences and is not a captions file of COCO."""
    splits = []
    for file in sorted(path.glob("dataset_*.json")) if path.is_dir() else [path]:
        starts = value_starts(file) if file.suffix == ".json" and file.is_file() else {}
        rows = b"" if "annotations" in starts else starts.get("images", b"")
        if rows.startswith(b"[") and (b'"sentences"' in rows or b'"split"' in rows):
            splits.append(file)
    return splits


def read_split(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """The galleries of a split, with every sentence of each picture.

    Images are searched beside the file by folder and name (`filepath`, `filename`), else by name in any folder below.
    Raises UsageError for several files, DataError naming row and id for what does not fit, and for a duplicate image or sentence.
    """
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise UsageError(f"{path} holds several splits, {names}", hint=f"name one: {files[0]}")
    file = read_json(files[0])
    split: SplitFile = as_record(file.value, SplitFile, file.path)
    reading = _Reading(Galleries(file.path.parent, passed))
    for reading.row, row in enumerate(split.images):
        reading.take(f"{file.path}: images[{reading.row}] ({row.filename})", row)
    if not reading.galleries.texts:
        raise DataError(f"{file.path}: there is no sentence in it", hint="restore the file, or fetch it again")
    name = split.dataset or file.path.stem.removeprefix("dataset_")
    where = f"of {len(split.images)} images are missing from {reading.galleries.searched}"
    lost = ((reading.missing, where), (reading.blank, "sentences are blank and were left out"))
    notes = [f"{len(which)} {what}: the first is {which[0]}" for which, what in lost if which]
    if captions := ", ".join(sorted(other.name for other in path.glob("captions_*.json"))):
        notes.append(f"{file.path.name} says what is in each gallery; {captions} beside it was not read")
    splits = {split: SPLIT_WORDS[split] for split in reading.galleries.members}
    return reading.galleries.dataset(name, splits, notes)


@dataclass
class _Reading:
    galleries: Galleries
    row: int = -1
    seen: dict[tuple[str, object], int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)

    def take(self, at: str, row: SplitPicture) -> None:
        name, split = row.filename, SPLITS[row.split]
        for unsafe in (row.filepath, name) if row.filepath else (name,):
            refuse_unsafe_path(at, unsafe)
        self._once(at, "picture", name)
        for key in ("imgid", "cocoid"):
            if (number := getattr(row, key)) is not None:
                self._once(at, key, number)
        if not self.galleries.add_photo(split, f"{split}/{name}", self._find(row.filepath, name)):
            self.missing.append(name)
        for position, sentence in enumerate(row.sentences):
            where = f"{at}, sentences[{position}]"
            if None not in (sentence.imgid, row.imgid) and sentence.imgid != row.imgid:
                raise DataError(f"{where} is of the picture {sentence.imgid}", hint="put it under its own picture")
            self._once(where, "sentence", sentence.sentid)
            key, order = f"{split}/{sentence.sentid}", len(self.galleries.texts)
            if not self.galleries.add_caption(key, sentence.raw, f"{split}/{name}", order):
                self.blank.append(str(sentence.sentid))

    def _once(self, at: str, what: str, key: object) -> None:
        if (first := self.seen.get((what, key))) is not None:
            raise DataError(f"{at}: the {what} {key} is already in images[{first}]", hint="delete one of the two")
        self.seen[what, key] = self.row

    def _find(self, folder: str, name: str) -> Path | None:
        """The file of a picture: where the row says, else of that name, or of another that COCO gave it, anywhere below."""
        if self.galleries.holds(here := self.galleries.root / folder / name):
            return here
        base_name = PurePosixPath(name).name
        others = published_names(coco_image(base_name) or "") if base_name.startswith("COCO_") else ()
        found = (file for one in dict.fromkeys((base_name, *others)) for file in self.galleries.below(one))
        return next(found, None)
