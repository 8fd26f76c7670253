"""COCO captions: each JSON is a gallery of photos, each caption a query against it; the licence of every photo is kept."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import JsonFile, check_name, is_text, kind_of, read_json, value_of
from ctxr.errors import DataError
from ctxr.store.records import SplitName

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
    galleries = Galleries(root)
    splits: dict[str, SplitName] = {}
    licences: dict[str, str] = {}
    notes: list[str] = []
    for path in paths:
        file = read_json(path)
        if not is_captions(file):
            raise DataError(f"{path}: expected COCO captions with `images` and `annotations`", hint="restore the file")
        gallery = path.stem.removeprefix("captions_")
        if "train" in gallery or "val" in gallery:
            splits[gallery] = "train" if "train" in gallery else "valid"
        by_id, missing = _add_photos(galleries, file, gallery, licences, passed)
        galleries.members[gallery] = sorted(by_id.values())
        blank = _add_captions(galleries, file, gallery, by_id)
        if blank:
            notes.append(f"{len(blank)} captions of {gallery} are blank and were left out: the first is {blank[0]}")
        if missing:
            where = f"{galleries.searched} and its direct subfolders"
            notes.append(f"{missing} of {len(by_id)} photos of {gallery} are missing from {where}")
    counted = Counter(licences.values()).most_common()
    notes.append("licences: " + ", ".join(f"{name} {count}" for name, count in counted))
    return galleries.dataset(root.name or "captions", splits, notes, licences)


def _add_photos(
    galleries: Galleries, file: JsonFile, gallery: str, licences: dict[str, str], passed: Callable[[], None] | None
) -> tuple[dict[int, str], int]:
    """Add each photo and its licence: image ids by the id in the file, and how many pictures are unavailable."""
    root = galleries.root
    tops = [root, *sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())]
    named, by_id, missing = _licences(file), dict[int, str](), 0
    rows = _rows(file, "images", {"id": int, "file_name": str})
    if not rows:
        raise DataError(f"{file.path}: there is no image in it", hint="restore the file")
    for row in rows:
        number, name, licence = row["id"], row["file_name"], row.get("license")
        image = f"{gallery}/{name}"
        for part in PurePosixPath(name).parts or ("",):
            check_name(partial(str, f"{file.path}: image {number}"), part)
        if number in by_id or image in galleries.images:
            raise DataError(f"{file.path}: the image {number} ({name}) appears twice", hint="delete one of them")
        picture = next((top / name for top in tops if galleries.holds(top / name)), None)
        missing += not galleries.add_photo(gallery, image, picture)
        by_id[number] = image
        licences[image] = named.get(licence, _UNSAID) if isinstance(licence, int) else _UNSAID
        if passed is not None:
            passed()
    return by_id, missing


def _add_captions(galleries: Galleries, file: JsonFile, gallery: str, by_id: Mapping[int, str]) -> list[str]:
    """Add each caption; the ids of blank ones. Raises DataError where all are."""
    rows = _rows(file, "annotations", {"id": int, "image_id": int, "caption": str})
    blank: list[str] = []
    for position, row in enumerate(rows):
        key = f"{gallery}/{row['id']}"
        where = f"{file.path}: caption {row['id']}"
        if key in galleries.texts:
            raise DataError(f"{where} appears twice", hint="delete one of them")
        if row["image_id"] not in by_id:
            raise DataError(f"{where} is of image {row['image_id']}, which the file does not name", hint="delete it")
        if not galleries.add_caption(key, row["caption"], by_id[row["image_id"]], position):
            blank.append(str(row["id"]))
    if len(blank) == len(rows):
        raise DataError(f"{file.path}: there is no caption that says anything in it", hint="restore the file")
    return blank


def licences_of_files(path: Path, missing: str) -> dict[str, tuple[str, str, str]]:
    """Of each photo that the COCO JSON `path` names, by its file's name: name of the licence, "", and the licence's address.

    A photo without a known licence is left out, and so is an address that is none. Raises DataError naming file and row, and
    UsageError with the hint `missing`.
    """
    file = read_json(path, missing)
    if not isinstance(file.value, dict) or "images" not in file.value:
        raise DataError(f"{path}: expected COCO captions with `images` and `licenses`", hint="restore the file")
    names = _licences(file)
    rows = _rows(file, "licenses", {"id": int, "name": str}) if names else []
    urls = {row["id"]: row["url"] for row in rows if is_text(row.get("url"))}
    licences = {}
    for row in _rows(file, "images", {"id": int, "file_name": str}):
        number = row.get("license")
        if isinstance(number, int) and number in names:
            url = urls.get(number, "")
            shown = url if url.startswith(("https://", "http://")) else ""
            licences[PurePosixPath(row["file_name"]).name] = (names[number], "", shown)
    return licences


def _rows(file: JsonFile, table: str, fields: Mapping[str, type]) -> list[dict[str, Any]]:
    rows = file.value[table]
    if not isinstance(rows, list):
        raise DataError(f"{file.path}: `{table}` is {kind_of(rows)}, not a list", hint="restore the file")
    for number, row in enumerate(rows):
        at = f"{file.path}: {table}[{number}]" + (f" (id {row.get('id')!r})" if isinstance(row, dict) else "")
        for name, kind in fields.items():
            value_of(at, row, name, kind)
    return rows


def _licences(file: JsonFile) -> dict[int, str]:
    if "licenses" not in file.value:
        return {}
    return {row["id"]: f"{row['name']}" for row in _rows(file, "licenses", {"id": int, "name": str})}
