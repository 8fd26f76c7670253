"""Photos with captions: `metadata.jsonl` or `metadata.csv` with `file_name` and `text` as in Hugging Face's imagefolder, or `captions.txt`
with `image,caption` as in Flickr8k, or without a header as in Flickr30k. A photo may have several rows; a column `split` is optional."""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.documents import SPLIT_NAMES
from ctxr.datasets.readers.entailment import Reading, Rows
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import check_name, value_of
from ctxr.errors import DataError
from ctxr.store.records import SplitName

TABLES = ("metadata.jsonl", "metadata.csv", "captions.txt")
"""Names of files with captions; the first one that exists is read."""

SPLITS: dict[str, SplitName] = {**SPLIT_NAMES, "validation": "valid", "dev": "valid"}
"""What a photo's `split` may be."""


def read_photos(root: Path, files: list[Path], passed: Callable[[], None] | None = None) -> Dataset | None:
    """The gallery of a table among `files` in the folder `root`, one for each split; None without a table.

    Photos are searched in `root` and its direct subfolders; `passed` is called after each row. Raises DataError naming file:line for
    a row without a photo or text, a photo in two splits, and for a path that leads out of the folder.
    """
    table = next((file for name in TABLES for file in files if file.name == name), None)
    if table is None:
        return None
    galleries, captions, missing, rows = Galleries(root), Counter[str](), list[str](), Rows(table)
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
    tops = [root, *sorted(folder for folder in root.iterdir() if folder.is_dir())]
    for row in rows:
        at = f"{table}:{row.line}"
        name, text = value_of(at, row.cells, photo, str), value_of(at, row.cells, caption, str)
        name = name.rpartition("#")[0] if numbered else name
        for part in PurePosixPath(name).parts or ("",):
            check_name(partial(str, at), part)
        image, gallery = f"photos/{name}", _gallery_of(at, row.cells.get("split", ""))
        if galleries_of.setdefault(image, gallery) != gallery:
            raise DataError(f"{at}: {name} has another `split` above", hint="give all rows of a photo the same split")
        if image not in captions:
            file = next((top / name for top in tops if galleries.holds(top / name)), None)
            missing += [] if galleries.add_photo(gallery, image, file) else [name]
        captions[image] += 1
        if not galleries.add_caption(f"{image}#{captions[image]}", text, image, captions[image]):
            rows.note(row.line, "empty_text", "the caption is blank")
        if passed is not None:
            passed()
    if not galleries.texts:
        raise DataError(f"{table} has no caption", hint="give each photo a row with its text")
    notes = Reading((), tuple(rows.oddities), rows.read, "").tally()
    notes += [f"{len(missing)} of {len(captions)} photos cannot be read, the first is {missing[0]}"] if missing else []
    splits = {gallery: SPLITS[gallery] for gallery in galleries.members if gallery in SPLITS}
    return galleries.dataset(root.resolve().name, splits, notes)


def _gallery_of(at: str, split: str) -> str:
    name = split.strip().lower()
    if name and name not in SPLITS:
        raise DataError(f"{at}: `split` is {split[:50]!r}", hint=f"leave it empty, or write one of {', '.join(SPLITS)}")
    return SPLITS.get(name, "photos")
