"""Photos with captions, each a query against its gallery: COCO's JSON, with the licence of every photo, and tables of captions."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.entailment import CocoCaption, Rows, tally
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import as_record, read_json, refuse_unsafe_path, value_starts
from ctxr.errors import DataError
from ctxr.store.records import SPLIT_WORDS, SplitName


class CocoLicence(msgspec.Struct):
    """A licence that photos name."""

    id: int
    name: str
    url: str = ""


class CocoPhoto(msgspec.Struct):
    """A photo, with the id of its licence."""

    id: int
    file_name: str
    license: int | None = None


class PhotosFile(msgspec.Struct):
    """COCO's JSON, so far as it is about photos."""

    images: list[CocoPhoto]
    licenses: list[CocoLicence] = []


class CaptionsFile(PhotosFile, kw_only=True):
    """COCO's JSON with captions."""

    annotations: list[CocoCaption]


def caption_files(path: Path) -> list[Path]:
    """The JSON at a path if it lists photos as COCO does, or each captions_*.json in it."""
    if path.is_dir():
        return sorted(file for file in path.glob("captions_*.json") if file.is_file())
    starts = value_starts(path) if path.suffix == ".json" and path.is_file() else {}
    rows = starts.get("images", b"")
    # a list of texts is a set of the release that is called images
    photos = rows.startswith(b"[") and not rows[1:].lstrip().startswith(b'"')
    return [path] if photos or (rows and "annotations" in starts) else []


def read_coco(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """Galleries from JSON files, photos from their folder and its direct subfolders. Raises DataError naming the id."""
    root = path if path.is_dir() else path.parent
    galleries = Galleries(root, passed)
    splits: dict[str, SplitName] = {}
    licences: dict[str, str] = {}
    notes: list[str] = []
    for source in files:
        file: CaptionsFile = as_record(read_json(source).value, CaptionsFile, source)
        gallery = source.stem.removeprefix("captions_")
        if "train" in gallery or "val" in gallery:
            splits[gallery] = "train" if "train" in gallery else "valid"
        by_id = _add_photos(galleries, source, file, licences)
        missing = sum(not galleries.images[image].path for image in by_id.values())
        galleries.members[gallery] = sorted(by_id.values())
        blank: list[str] = []
        for position, row in enumerate(file.annotations):
            key, where = f"{gallery}/{row.id}", f"{source}: caption {row.id}"
            if key in galleries.texts:
                raise DataError(f"{where} appears twice", hint="delete one of them")
            if row.image_id not in by_id:
                raise DataError(f"{where} is of image {row.image_id}, which the file does not name", hint="delete it")
            if not galleries.add_caption(key, row.caption, by_id[row.image_id], position):
                blank.append(str(row.id))
        if len(blank) == len(file.annotations):
            raise DataError(f"{source}: there is no caption that says anything in it", hint="restore the file")
        if blank:
            notes.append(f"{len(blank)} captions of {gallery} are blank and were left out: the first is {blank[0]}")
        if missing:
            where = f"{galleries.searched} and its direct subfolders"
            notes.append(f"{missing} of {len(by_id)} photos of {gallery} are missing from {where}")
    counted = Counter(licences.values()).most_common()
    notes.append("licences: " + ", ".join(f"{name} {count}" for name, count in counted))
    return galleries.dataset(root.name or "captions", splits, notes, licences)


def _add_photos(galleries: Galleries, source: Path, file: PhotosFile, licences: dict[str, str]) -> dict[int, str]:
    """Add each photo and its licence to the gallery of a file: image ids by the id in the file."""
    gallery = source.stem.removeprefix("captions_")
    named, by_id = {licence.id: licence.name for licence in file.licenses}, dict[int, str]()
    if not file.images:
        raise DataError(f"{source}: there is no image in it", hint="restore the file")
    for photo in file.images:
        image = f"{gallery}/{photo.file_name}"
        refuse_unsafe_path(f"{source}: image {photo.id}", photo.file_name)
        if photo.id in by_id or image in galleries.images:
            what = f"the image {photo.id} ({photo.file_name}) appears twice"
            raise DataError(f"{source}: {what}", hint="delete one of them")
        galleries.add_photo(gallery, image, galleries.find(photo.file_name))
        by_id[photo.id] = image
        licences[image] = named.get(photo.license or 0, "no licence named")
    return by_id


def licences_of_files(path: Path, missing: str) -> dict[str, CocoLicence]:
    """The licence of each photo that the COCO JSON `path` names, by its file's name.

    A photo without a known licence is left out. Raises DataError naming what does not fit, and UsageError with the hint `missing`.
    """
    file: PhotosFile = as_record(read_json(path, missing).value, PhotosFile, path)
    named = {licence.id: licence for licence in file.licenses}
    photos = [photo for photo in file.images if photo.license in named]
    return {PurePosixPath(photo.file_name).name: named[photo.license or 0] for photo in photos}


TABLES = ("metadata.jsonl", "metadata.csv", "captions.txt")
"""Files of photos with captions; the first one that exists is read. `metadata.*` have the columns `file_name` and `text`, and maybe `split`
(Hugging Face's imagefolder), `captions.txt` has `image,caption` (Flickr8k) or no header (Flickr30k). A photo may have several rows."""


def caption_tables(path: Path) -> list[Path]:
    """The table of captions at a path, or the first in it."""
    files = [path / name for name in TABLES] if path.is_dir() else [path] * (path.name in TABLES)
    return [file for file in files if file.is_file()][:1]


def read_photos(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """The gallery of a table of captions, one for each split, with photos from its folder and the direct subfolders.

    Raises DataError naming file:line for a row without a photo or text, a photo in two splits, and for a path that leads out of the
    folder.
    """
    (table,), root = files, path if path.is_dir() else path.parent
    galleries, captions, missing, rows = Galleries(root, passed), Counter[str](), list[str](), Rows(table)
    # Flickr30k numbers the captions of a photo: `1000.jpg#0`, a tab, the caption
    if numbered := re.search(r"#\d+$", "".join(rows.columns[:1])):
        rows = Rows(table, ("image", "caption"))
    photo = "image" if "image" in rows.columns else "file_name"
    caption = "caption" if "caption" in rows.columns else "text"
    if rows.columns and not {photo, caption} <= {*rows.columns}:
        raise DataError(
            f"{table} has the columns {', '.join(rows.columns)[:200]!r}, and `{photo}` and `{caption}` are needed",
            hint="name them file_name and text, or image and caption, separated by commas or tabs",
        )
    galleries_of: dict[str, str] = {}
    for row in rows:
        at = f"{table}:{row.line}"
        name, text = row.cells.get(photo, ""), row.cells.get(caption, "")
        name = name.rpartition("#")[0] if numbered else name
        refuse_unsafe_path(at, name)
        split = row.cells.get("split", "").strip()
        if split and split.lower() not in SPLIT_WORDS:
            wanted = f"leave it empty, or write one of {', '.join(SPLIT_WORDS)}"
            raise DataError(f"{at}: `split` is {split[:50]!r}", hint=wanted)
        image, gallery = f"photos/{name}", SPLIT_WORDS.get(split.lower(), "photos")
        if galleries_of.setdefault(image, gallery) != gallery:
            raise DataError(f"{at}: {name} has another `split` above", hint="give all rows of a photo the same split")
        if image not in captions:
            missing += [] if galleries.add_photo(gallery, image, galleries.find(name)) else [name]
        captions[image] += 1
        if not galleries.add_caption(f"{image}#{captions[image]}", text, image, captions[image]):
            rows.note(row.line, "empty_text", "the caption is blank")
    if not galleries.texts:
        raise DataError(f"{table} has no caption", hint="give each photo a row with its text")
    notes = tally(rows.issues)
    notes += [f"{len(missing)} of {len(captions)} photos cannot be read, the first is {missing[0]}"] if missing else []
    splits = {gallery: SPLIT_WORDS[gallery] for gallery in galleries.members if gallery in SPLIT_WORDS}
    return galleries.dataset(root.resolve().name, splits, notes)
