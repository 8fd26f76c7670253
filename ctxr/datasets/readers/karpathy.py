"""Karpathy's splits of COCO, Flickr30K and Flickr8K (`dataset_coco.json`, …): galleries train, valid and test in the file's order.

The published figures of COCO 1K are means over five parts of the test pictures in this order.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.pairs import coco_image, file_names
from ctxr.datasets.readers.frames import describe_picture
from ctxr.datasets.readers.text_files import JsonFile, Repeated, check_name, is_text, kind_of
from ctxr.errors import DataError
from ctxr.store.records import Image, ImageSet, Judgment, Query, SplitName, Text

SIDES: dict[str, SplitName] = {"train": "train", "restval": "train", "val": "valid", "test": "test"}
"""What a picture's `split` makes of it: `restval`, COCO's validation pictures that are not evaluated on, is trained on."""


def is_split(file: JsonFile) -> bool:
    """Whether a parsed JSON lists pictures with their sentences, as Karpathy's splits do, and is no COCO captions."""
    rows = file.value.get("images") if isinstance(file.value, dict) and "annotations" not in file.value else None
    return isinstance(rows, list) and any(isinstance(row, dict) and row.keys() & {"sentences", "split"} for row in rows)


def read_split(file: JsonFile, passed: Callable[[], None] | None = None) -> Dataset:
    """The galleries of a split, with every sentence of each picture; `passed` is called after each image.

    Images are searched beside the file by folder and name (`filepath`, `filename`), else by name in any folder below.
    Raises DataError naming row and id for what does not fit, and for a duplicate image or sentence.
    """
    reading = _Reading(file.path.parent)
    for reading.row, row in enumerate(file.value["images"]):
        reading.take(f"{file.path}: images[{reading.row}]", row)
        if passed is not None:
            passed()
    if not reading.queries:
        raise DataError(f"{file.path}: there is no sentence in it", hint="restore the file, or fetch it again")
    there = any(image.path for image in reading.images.values())
    named = file.value.get("dataset")
    return Dataset(
        name=named if is_text(named) and named else file.path.stem.removeprefix("dataset_"),
        root=reading.root if there else None,
        sets=tuple(
            ImageSet(side, "photos", tuple(listed), side, side, None, math.nan, math.nan)
            for side, listed in sorted(reading.galleries.items())
        ),
        images=reading.images,
        texts=reading.texts,
        queries=reading.queries,
        judgments=tuple(sorted(reading.judgments, key=lambda row: row.key())),
        splits={side: side for side in reading.galleries},
        notes=reading.notes(),
    )


@dataclass
class _Reading:
    root: Path
    galleries: dict[SplitName, list[str]] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    judgments: list[Judgment] = field(default_factory=list)
    row: int = -1
    seen: dict[tuple[str, object], int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    lying: dict[str, list[Path]] | None = None

    def take(self, at: str, row: object) -> None:
        name = _get(at, row, "filename", str)
        at = f"{at} ({name})"
        side = SIDES.get(_get(at, row, "split", str))
        if side is None:
            raise DataError(f"{at}: `split` is none of {', '.join(SIDES)}", hint="restore the row")
        folder = _get(at, row, "filepath", str, "")
        for part in (*PurePosixPath(folder).parts, *(PurePosixPath(name).parts or ("",))):
            check_name(lambda: at, part)
        self._once(at, "picture", name)
        for key in ("imgid", "cocoid"):
            if isinstance(row, dict) and key in row:
                self._once(at, key, _get(at, row, key, int))
        image = f"{side}/{name}"
        file = self._find(folder, name)
        found = None if file is None else describe_picture(self.root, file, image, side, None)
        if found is None:
            self.missing.append(name)
        self.images[image] = found or Image(image, "", "", side, 0, 0)
        self.galleries.setdefault(side, []).append(image)
        sentences = _get(at, row, "sentences", list)
        told = []
        for place, one in enumerate(sentences):
            where = f"{at}, sentences[{place}]"
            if isinstance(one, dict) and "imgid" in one and one["imgid"] != row.get("imgid", one["imgid"]):  # type: ignore[attr-defined]
                raise DataError(f"{where} is of the picture {one['imgid']!r}", hint="put it under its own picture")
            told.append(self._sentence(where, one, image, side))
        if not any(told):
            self.silent.append(name)

    def _sentence(self, at: str, row: object, image: str, side: SplitName) -> bool:
        """Whether it says something."""
        number, text = _get(at, row, "sentid", int), _get(at, row, "raw", str)
        self._once(at, "sentence", number)
        if not text.strip():
            self.blank.append(str(number))
            return False
        key = f"{side}/{number}"
        self.texts[key] = Text(key, text, "unknown", len(self.texts))
        self.queries[key] = Query(key, side, (key,))
        self.judgments.append(Judgment(key, image, "gold", 1.0))
        return True

    def _once(self, at: str, what: str, key: object) -> None:
        if (first := self.seen.get((what, key))) is not None:
            raise DataError(f"{at}: the {what} {key} stands already in images[{first}]", hint="delete one of the two")
        self.seen[what, key] = self.row

    def _find(self, folder: str, name: str) -> Path | None:
        """The file of a picture: where the row says, else of that name, or of another that COCO gave it, anywhere below."""
        said = self.root / folder / name
        if self._is_inside(said):
            return said
        if self.lying is None:
            self.lying = _files_below(self.root)
        bare = PurePosixPath(name).name
        others = file_names(coco_image(bare) or "") if bare.startswith("COCO_") else ()
        for one in dict.fromkeys((bare, *others)):
            files = [file for file in self.lying.get(one, ()) if self._is_inside(file)]
            if files:
                if len(files) > 1:
                    self.ambiguous.append(files[0].relative_to(self.root).as_posix())
                return files[0]
        return None

    def _is_inside(self, file: Path) -> bool:
        return file.is_file() and file.resolve().is_relative_to(self.root.resolve())

    def notes(self) -> tuple[str, ...]:
        here = f"{self.root.name}/" if self.root.name else "the current folder"
        told = (
            (self.missing, f"of {len(self.images)} images are missing from {here}"),
            (self.ambiguous, "images exist in several folders; the first was used"),
            (self.silent, "images have no sentence: they are only distractors"),
            (self.blank, "sentences are blank and were left out"),
        )
        return tuple(f"{len(which)} {what}: the first is {which[0]}" for which, what in told if which)


def _files_below(root: Path) -> dict[str, list[Path]]:
    """All files below a folder by their names, those nearest to it first; hidden folders and links are not followed."""
    found: dict[str, list[Path]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in files:
            found.setdefault(name, []).append(Path(folder, name))
    for paths in found.values():
        paths.sort(key=lambda path: (len(path.parts), path))
    return found


def _get(at: str, row: object, name: str, kind: type, default: object = None) -> Any:
    if not isinstance(row, dict):
        raise DataError(f"{at} is {kind_of(row)}, not an object", hint="restore the row")
    if isinstance(row, Repeated):
        raise DataError(f"{at}: the key {row.key!r} stands twice", hint="delete one of the two")
    value = row.get(name, default)
    fits = is_text(value) if kind is str else isinstance(value, kind) and not isinstance(value, bool)
    if not fits:
        is_now = kind_of(value) if name in row else "missing"
        raise DataError(f"{at}: `{name}` must be {_WORDS[kind]} and is {is_now}", hint="restore the row")
    return value


_WORDS: dict[type, str] = {str: "text", int: "a whole number", list: "a list"}
