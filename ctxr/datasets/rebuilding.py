"""A recipe: a dataset without its pixels, and the hashes that verify them once they are rebuilt.

It is untrusted input: paths must stay inside its folder, hashes must be valid, and sets must name existing images.
`docs/format.md` is the specification.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import msgspec

from ctxr.datasets.splits import GROUPS
from ctxr.errors import DataError
from ctxr.store.records import PHOTO_SUFFIXES, ImageSet, Judgment, Query, Record, SharedFootage, Source, Split, Text
from ctxr.store.tables import read_payloads, read_table, read_value

R = TypeVar("R", bound=Record)

HEAD = "recipe.json"

FORMAT = 1
"""Version of the recipe format; a reader refuses a newer one."""

_HEX = re.compile(r"[0-9a-f]{64}")
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


class RecipeImage(Record, frozen=True):
    """How one picture is made, and what it must come out as; `stream`, `index`, `time` and `decoder` are None for photos.

    Attributes:
        path: where it goes, relative to the folder that is rebuilt. sha256: of that file.
        source: name of its video or album. source_sha256: of the file it is from: the video, or the photo itself.
        stream: number of the video stream in its container; None where the decoder did not tell.
        index: frame number in decoding order, from 0. time: exact seconds.
        pixels: sha256 of the upright RGB bytes, row by row: of the decoded frame, before it was saved as JPEG, or of the photo.
    """

    id: str
    path: str
    sha256: str
    group: str
    width: int
    height: int
    source: str
    source_sha256: str
    stream: int | None
    index: int | None
    time: Fraction | None
    decoder: str | None
    pixels: str

    def problem(self) -> str:
        """What is wrong with the row alone, in words; "" for nothing."""
        parts, frame = PurePosixPath(self.path).parts, (self.index, self.time, self.decoder)
        plain = len(parts) == 3 and parts[0] == "images" and all(_PLAIN.fullmatch(part) for part in parts[1:])
        photo = PurePosixPath(self.path).suffix.lower() in PHOTO_SUFFIXES
        if not (plain and photo and "/".join(parts) == self.path):
            return f"its path {self.path!r} is not of the form images/FOLDER/FILE.jpg"
        if not all(_HEX.fullmatch(digest) for digest in (self.sha256, self.source_sha256, self.pixels)):
            return "its sha256, source_sha256 or pixels is not 64 hex digits"
        if len({part is None for part in frame}) > 1:
            return "index, time and decoder must be there together, or none of them"
        if self.index is not None and self.index < 0:
            return f"its frame number {self.index} is below 0"
        if self.decoder not in (None, "pyav", "opencv"):
            return f"its decoder {self.decoder!r} is unknown"
        different = self.index is None and self.sha256 != self.source_sha256
        return "a photo's file and source must have one sha256" if different else ""


class ImageDifference(Record, frozen=True):
    """An image that did not come out as recorded.

    Attributes:
        what: `pixels` (the decoded frame is another), `saved_file` (same pixels or none to compare, other file), `missing`, `changed`
            (the saved picture is not there, or was changed).
        distance: largest difference of two pixel values, 0..255; None where there was nothing to compare with.
    """

    id: str
    what: Literal["pixels", "saved_file", "missing", "changed"]
    message: str
    distance: int | None = None


class Head(msgspec.Struct, frozen=True):
    """What `recipe.json` says.

    Attributes:
        software: versions of what decoded and saved. jpeg_quality: of saved frames. models: encoder and thresholds of the sets.
    """

    format: int
    name: str
    software: dict[str, str]
    jpeg_quality: int
    models: dict[str, Any]


@dataclass(frozen=True)
class RebuildRecipe:
    """A recipe that was read and checked; `images` by id."""

    path: Path
    head: Head
    images: dict[str, RecipeImage]
    sets: list[ImageSet]
    sources: dict[str, Source]
    splits: list[Split]
    texts: list[Text]
    queries: list[Query]
    judgments: list[Judgment]
    footage: list[SharedFootage]
    payloads: dict[str, tuple[Record, ...]]


def read_rebuild_recipe(path: Path) -> RebuildRecipe:
    """The recipe in a folder. Raises DataError naming file and row for anything invalid."""
    head = _read_head(path / HEAD)
    sources = {row.name: row for row in read_table(path / "sources.jsonl", Source)}
    images = read_table(path / "images.jsonl", RecipeImage)
    sets = read_table(path / "sets.jsonl", ImageSet)
    by_id = {image.id: image for image in images}
    paths: dict[str, str] = {}
    for image in images:
        first, source = paths.setdefault(image.path.lower(), image.id), sources.get(image.source)
        problem = image.problem()
        if source is None:
            problem = problem or f"its source {image.source!r} is not in sources.jsonl"
        elif source.kind != ("photos" if image.index is None else "video"):
            problem = problem or f"its source {image.source!r} is of another kind"
        elif first != image.id:
            problem = problem or f"its path {image.path!r} is that of {first} as well"
        if problem:
            raise _bad(path / "images.jsonl", image.id, problem)
    for image_set in sets:
        if not _PLAIN.fullmatch(image_set.id):
            raise _bad(path / "sets.jsonl", image_set.id, f"the set {image_set.id!r} cannot be the name of a folder")
        if missing := [name for name in image_set.images if name not in by_id]:
            raise _bad(path / "sets.jsonl", image_set.id, f"it names {missing[0]!r}, which images.jsonl does not have")

    files = {file.name for file in path.glob("*.jsonl")}

    def optional(name: str, record: type[R]) -> list[R]:
        return read_table(path / name, record) if name in files else []

    return RebuildRecipe(
        path,
        head,
        by_id,
        sets,
        sources,
        read_table(path / "splits.jsonl", Split),
        optional("texts.jsonl", Text),
        optional("queries.jsonl", Query),
        optional("judgments.jsonl", Judgment),
        optional(GROUPS, SharedFootage),
        read_payloads(path, files),
    )


def _read_head(file: Path) -> Head:
    hint = "name a folder made by ctxr export --to recipe, or get the recipe again from where it came from"
    head = read_value(file, Head, hint)
    if head.format > FORMAT:
        raise DataError(
            f"{file} has format {head.format}, newer than this ctxr understands ({FORMAT})",
            hint="install a newer ctxr",
        )
    return head


def _bad(table: Path, row: str, problem: str) -> DataError:
    return DataError(f"{table} ({row}): {problem}", hint="get the recipe again from where it came from")
