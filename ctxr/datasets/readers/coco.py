"""COCO captions: each JSON is a gallery of photos, each caption a query against it; the licence of every photo is kept."""

import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.frames import describe_picture
from ctxr.datasets.readers.text_files import JsonFile, check_name, is_text, kind_of, read_json
from ctxr.errors import DataError
from ctxr.store.records import Image, ImageSet, Judgment, Query, SplitName, Text

_UNSAID = "no licence named"


def is_captions(file: JsonFile) -> bool:
    """Whether a parsed JSON has the parts of COCO captions."""
    return isinstance(file.value, dict) and {"images", "annotations"} <= file.value.keys()


def lacks_captions(file: JsonFile) -> bool:
    """Whether a parsed JSON lists photos as COCO does and has no captions; texts alone would be a set called images."""
    images = file.value.get("images") if isinstance(file.value, dict) else None
    return isinstance(images, list) and not is_captions(file) and not any(isinstance(row, str) for row in images)


def read_captions(root: Path, paths: list[Path], passed: Callable[[], None] | None = None) -> Dataset:
    """Galleries from the JSON files `paths` in the folder `root`; `passed` is called after each photo.

    Photos are searched in `root` and its direct subfolders. Raises DataError naming the id for what does not fit.
    """
    sets: list[ImageSet] = []
    images: dict[str, Image] = {}
    texts: dict[str, Text] = {}
    queries: dict[str, Query] = {}
    judgments: list[Judgment] = []
    splits: dict[str, SplitName] = {}
    licences: dict[str, str] = {}
    notes: list[str] = []
    for path in paths:
        file = read_json(path)
        if not is_captions(file):
            raise DataError(f"{path}: expected COCO captions with `images` and `annotations`", hint="restore the file")
        gallery = path.stem.removeprefix("captions_")
        by_id: dict[int, str] = {}
        for number, image, licence in _photos(root, file, gallery):
            if number in by_id or image.id in images:
                name = image.id.removeprefix(f"{gallery}/")
                raise DataError(f"{path}: the image {number} ({name}) stands twice", hint="delete one of them")
            by_id[number] = image.id
            images[image.id] = image
            licences[image.id] = licence
            if passed is not None:
                passed()
        sets.append(
            ImageSet(gallery, "photos", tuple(sorted(by_id.values())), gallery, gallery, None, math.nan, math.nan)
        )
        if "train" in gallery or "val" in gallery:
            splits[gallery] = "train" if "train" in gallery else "valid"
        before, blank = len(texts), list[str]()
        for text, image_id in _captions(file, gallery, texts, by_id, blank):
            texts[text.id] = text
            queries[text.id] = Query(text.id, gallery, (text.id,))
            judgments.append(Judgment(text.id, image_id, "gold", 1.0))
        if len(texts) == before:
            raise DataError(f"{path}: there is no caption that says anything in it", hint="restore the file")
        if blank:
            notes.append(f"{len(blank)} captions of {gallery} are blank and were left out: the first is {blank[0]}")
        notes += _missing(root, gallery, [images[one] for one in by_id.values()])
    counted = Counter(licences.values()).most_common()
    notes.append("licences: " + ", ".join(f"{name} {count}" for name, count in counted))
    return Dataset(
        name=root.name or "captions",
        root=root if any(image.path for image in images.values()) else None,
        sets=tuple(sorted(sets, key=lambda one: one.id)),
        images=images,
        texts=texts,
        queries=queries,
        judgments=tuple(sorted(judgments, key=lambda row: row.key())),
        splits=splits,
        licences=licences,
        notes=tuple(notes),
    )


def _missing(root: Path, gallery: str, photos: list[Image]) -> list[str]:
    missing = sum(not photo.path for photo in photos)
    here = f"{root.name}/" if root.name else "the current folder"
    note = f"{missing} of {len(photos)} photos of {gallery} are missing from {here} and its direct subfolders"
    return [note] if missing else []


def _photos(root: Path, file: JsonFile, gallery: str) -> Iterator[tuple[int, Image, str]]:
    """Id in the file, picture and licence of each photo; an unavailable one has no path."""
    tops = [root, *sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())]
    named = _licences(file)
    rows = _rows(file, "images", {"id": int, "file_name": str})
    if not rows:
        raise DataError(f"{file.path}: there is no image in it", hint="restore the file")
    for row in rows:
        name, licence = row["file_name"], row.get("license")
        _check_path(f"{file.path}: image {row['id']}", name)
        place = next((top / name for top in tops if _is_inside(root, top / name)), None)
        image = None if place is None else describe_picture(root, place, f"{gallery}/{name}", gallery, None)
        image = image or Image(f"{gallery}/{name}", "", "", gallery, 0, 0)
        yield row["id"], image, named.get(licence, _UNSAID) if isinstance(licence, int) else _UNSAID


def _captions(
    file: JsonFile, gallery: str, before: Container[str], by_id: Mapping[int, str], blank: list[str]
) -> Iterator[tuple[Text, str]]:
    """Each caption with the id of its photo; the numbers of blank ones are added to `blank`."""
    for place, row in enumerate(_rows(file, "annotations", {"id": int, "image_id": int, "caption": str})):
        key = f"{gallery}/{row['id']}"
        where = f"{file.path}: caption {row['id']}"
        if key in before:
            raise DataError(f"{where} stands twice", hint="delete one of them")
        if row["image_id"] not in by_id:
            raise DataError(f"{where} is of image {row['image_id']}, which the file does not name", hint="delete it")
        if row["caption"].strip():
            yield Text(key, row["caption"], "unknown", place), by_id[row["image_id"]]
        else:
            blank.append(str(row["id"]))


def licences_of_files(path: Path) -> dict[str, tuple[str, str, str]]:
    """Of each photo that the COCO JSON `path` names, by its file's name: name of the licence, "", and the licence's address.

    A photo without a known licence is left out, and so is an address that is none. Raises DataError naming file and row.
    """
    file = read_json(path)
    if not is_captions(file) and not (isinstance(file.value, dict) and "images" in file.value):
        raise DataError(f"{path}: expected COCO captions with `images` and `licenses`", hint="restore the file")
    names = _licences(file)
    rows = _rows(file, "licenses", {"id": int, "name": str}) if names else []
    urls = {row["id"]: row["url"] for row in rows if is_text(row.get("url"))}
    found = {}
    for row in _rows(file, "images", {"id": int, "file_name": str}):
        number = row.get("license")
        if isinstance(number, int) and number in names:
            url = urls.get(number, "")
            shown = url if url.startswith(("https://", "http://")) else ""
            found[PurePosixPath(row["file_name"]).name] = (names[number], "", shown)
    return found


def _rows(file: JsonFile, table: str, fields: Mapping[str, type]) -> list[dict[str, Any]]:
    rows = file.value[table]
    if not isinstance(rows, list):
        raise DataError(f"{file.path}: `{table}` is {kind_of(rows)}, not a list", hint="restore the file")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"{file.path}: {table}[{number}] is {kind_of(row)}, not an object", hint="restore the row")
        for name, kind in fields.items():
            value = row.get(name)
            if not (is_text(value) if kind is str else isinstance(value, int) and not isinstance(value, bool)):
                wanted = "a whole number" if kind is int else "text"
                is_now = "missing" if name not in row else kind_of(value)
                at = f"{file.path}: {table}[{number}] (id {row.get('id')!r})"
                raise DataError(f"{at}: `{name}` must be {wanted} and is {is_now}", hint="restore the row")
    return rows


def _licences(file: JsonFile) -> dict[int, str]:
    if "licenses" not in file.value:
        return {}
    return {row["id"]: f"{row['name']}" for row in _rows(file, "licenses", {"id": int, "name": str})}


def _check_path(where: str, name: str) -> None:
    for part in PurePosixPath(name).parts or ("",):
        check_name(lambda: where, part)


def _is_inside(root: Path, file: Path) -> bool:
    return file.is_file() and file.resolve().is_relative_to(root.resolve())
