"""Who may do what with the sources: only what the user names in a file, a CSV or COCO captions; nothing is guessed."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ctxr.data.dataset import Dataset
from ctxr.data.readers.coco import licences_of_files
from ctxr.data.records import Image
from ctxr.errors import DataError, UsageError, some

COLUMNS = ["source", "licence", "attribution", "url"]

UNKNOWN = "licence unknown"

_HINT = f"--licences names a CSV file, {','.join(COLUMNS)}, or COCO captions (.json)"


@dataclass(frozen=True)
class Licence:
    """What is known of a source, or of one image; empty text where nothing was said.

    Attributes:
        licence: its name as the user wrote it. attribution: whom to name. url: where the original or the licence stands.
    """

    licence: str = ""
    attribution: str = ""
    url: str = ""


@dataclass(frozen=True)
class Licences:
    """Licences by the name of a source, or by the id of an image, which then holds for that image alone."""

    known: dict[str, Licence] = field(default_factory=dict)

    def of(self, image: Image) -> Licence:
        """What holds for an image: its own row, or that of its source."""
        source = image.id.rpartition("/")[0] or image.group
        return self.known.get(image.id) or self.known.get(source) or self.known.get(image.group) or Licence()

    def name_of(self, image: Image) -> str:
        """The licence of an image in words."""
        return self.of(image).licence or UNKNOWN

    def shared(self, images: Iterable[Image]) -> str | None:
        """The one licence that all images have; None if they differ or one is unknown."""
        names = {self.of(image).licence for image in images}
        return names.pop() or None if len(names) == 1 else None


def source_names(dataset: Dataset) -> list[str]:
    """Names of what the images come from: the sources that have images in a set, or, where sources are not known, the groups."""
    return sorted({image.id.rpartition("/")[0] or image.group for image in dataset.images.values()})


def read_licences(path: Path | None, dataset: Dataset) -> Licences:
    """Licences from a CSV file `source,licence,attribution,url`; a source is named by its name, its file, or as an image id.

    A `.json` file is read as COCO captions: the licence of each image, which is known by its file name. Raises UsageError for a
    missing file, DataError naming the line, or the row, for anything else.
    """
    if path is None:
        return Licences()
    if path.suffix.lower() == ".json":
        return _of_captions(path, dataset)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    names = {name: name for name in source_names(dataset)}
    names |= {name: name for name in dataset.images}
    every = set(names) | {source.name for source in dataset.sources}
    names |= {source.file: source.name for source in dataset.sources} | {name: name for name in every}
    found: dict[str, Licence] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            where = f"{path}:{reader.line_num}"
            values = [value.strip() for value in row]
            if not any(values) or (reader.line_num == 1 and values == COLUMNS):
                continue
            _add(found, where, values, names)
    except csv.Error as error:
        raise DataError(
            f"{path}:{reader.line_num}: {error}", hint="quote values that hold a comma or a quote"
        ) from error
    if not found:
        raise DataError(f"{path} names no source", hint=f"a line for each source: {','.join(COLUMNS)}")
    return Licences(found)


def _of_captions(path: Path, dataset: Dataset) -> Licences:
    """Licences of the images whose files a COCO JSON names."""
    if not path.is_file():
        raise UsageError(f"{path} cannot be read: there is no such file", hint=_HINT)
    by_file = licences_of_files(path)
    found = {}
    for image in dataset.images.values():
        licence = by_file.get(image.id.rpartition("/")[2]) if image.index is None else None
        if licence is not None:
            found[image.id] = Licence(*licence)
    if not found:
        raise DataError(f"{path} names the licence of no image here", hint="it names them by the files of the photos")
    return Licences(found)


def _add(found: dict[str, Licence], where: str, values: list[str], names: dict[str, str]) -> None:
    if len(values) == 1 and values[0].count(";") >= len(COLUMNS) - 1:
        raise DataError(
            f"{where}: the values are parted by semicolons", hint=f"commas, not semicolons: {','.join(COLUMNS)}"
        )
    if len(values) != len(COLUMNS):
        raise DataError(
            f"{where}: {len(values)} values, not the four of {','.join(COLUMNS)}", hint="quote values that hold a comma"
        )
    name, licence, attribution, url = values
    if name not in names:
        raise DataError(f"{where}: there is no source or image {name!r}", hint=f"sources are {_sources(names)}")
    if url and not url.startswith(("https://", "http://")):
        raise DataError(f"{where}: {url!r} is no web address", hint="begin it with https://, or leave it empty")
    if names[name] in found:
        raise DataError(f"{where}: {name!r} was named before", hint="delete one of the two lines")
    found[names[name]] = Licence(licence, attribution, url)


def _sources(names: dict[str, str]) -> str:
    return some(sorted({name for name in names.values() if "/" not in name}), 5)
