"""Photos with captions: `metadata.jsonl` or `metadata.csv` with `file_name` and `text` as in Hugging Face's imagefolder, or `captions.txt`
with `image,caption` as in Flickr8k. A photo may have several rows."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.entailment import Reading, Rows
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import check_name, value_of
from ctxr.errors import DataError

TABLES = ("metadata.jsonl", "metadata.csv", "captions.txt")
"""Names of files with captions; the first one that exists is read."""


def read_photos(root: Path, files: list[Path], passed: Callable[[], None] | None = None) -> Dataset | None:
    """The gallery of a table among `files` in the folder `root`, without splits; None without a table.

    Photos are searched in `root` and its direct subfolders; `passed` is called after each row. Raises DataError naming file:line for
    a row without a photo or text, and for a path that leads out of the folder.
    """
    table = next((file for name in TABLES for file in files if file.name == name), None)
    if table is None:
        return None
    galleries, captions, missing, rows = Galleries(root), Counter[str](), list[str](), Rows(table)
    photo = "image" if "image" in rows.columns else "file_name"
    caption = "caption" if "caption" in rows.columns else "text"
    tops = [root, *sorted(folder for folder in root.iterdir() if folder.is_dir())]
    for row in rows:
        at = f"{table}:{row.line}"
        name, text = value_of(at, row.cells, photo, str), value_of(at, row.cells, caption, str)
        for part in PurePosixPath(name).parts or ("",):
            check_name(partial(str, at), part)
        image = f"photos/{name}"
        if image not in captions:
            file = next((top / name for top in tops if galleries.holds(top / name)), None)
            missing += [] if galleries.add_photo("photos", image, file) else [name]
        captions[image] += 1
        if not galleries.add_caption(f"{image}#{captions[image]}", text, image, captions[image]):
            rows.note(row.line, "empty_text", "the caption is blank")
        if passed is not None:
            passed()
    if not galleries.texts:
        raise DataError(f"{table} has no caption", hint="give each photo a row with its text")
    notes = Reading((), tuple(rows.oddities), rows.read, "").tally()
    notes += [f"{len(missing)} of {len(captions)} photos cannot be read, the first is {missing[0]}"] if missing else []
    return galleries.dataset(root.resolve().name, {}, notes)
