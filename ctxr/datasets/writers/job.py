"""Input and result of every export: dataset, verified pictures, licences, shared rows."""

import csv
import io
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TypeVar

from PIL import Image as Pillow

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.captions import licences_of_files
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError, some
from ctxr.media.images import ORIENTATION, encode_jpeg, read_image
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import PLAIN_NAME
from ctxr.store.records import Image, ImageSet, Judgment, Query
from ctxr.store.tables import PAYLOADS, encode_other, grouped, payload_rows

COLUMNS = ["source", "licence", "attribution", "url"]

UNKNOWN = "licence unknown"

_HINT = f"--licences names a CSV file, {','.join(COLUMNS)}, or COCO captions (.json)"


@dataclass(frozen=True)
class Licence:
    """What is said of a source or an image: a licence, whom to name, and where the original or the licence stands; or empty text."""

    licence: str = ""
    attribution: str = ""
    url: str = ""


def read_licences(path: Path | None, dataset: Dataset) -> dict[str, Licence]:
    """Licences by the name of a source or the id of an image, from a CSV file `source,licence,attribution,url`; a source is named by its
    name, its file, or as an image id.

    A `.json` file is read as COCO captions: the licence of each image, which is known by its file name. Raises UsageError for a
    missing file, DataError naming the line, or the row, for anything else.
    """
    if path is None:
        return {}
    if path.suffix.lower() == ".json":
        by_file = licences_of_files(path, _HINT)
        known = {
            image.id: Licence(found.name, url=found.url if found.url.startswith(("https://", "http://")) else "")
            for image in dataset.images.values()
            if image.index is None and (found := by_file.get(image.id.rpartition("/")[2]))
        }
        if not known:
            raise DataError(
                f"{path} names the licence of no image here", hint="it names them by the files of the photos"
            )
        return known
    every = [*(image.source for image in dataset.images.values()), *dataset.images]
    names = {source.file: source.name for source in dataset.sources}
    names |= {name: name for name in (*every, *(source.name for source in dataset.sources))}
    licences: dict[str, Licence] = {}
    reader = csv.reader(io.StringIO(read_utf8(path, _HINT), newline=""), strict=True)
    try:
        for row in reader:
            where, values = f"{path}:{reader.line_num}", [value.strip() for value in row]
            if not any(values) or (reader.line_num == 1 and values == COLUMNS):
                continue
            if len(values) != len(COLUMNS):
                what = f"{where}: {len(values)} values, not the four of {','.join(COLUMNS)}"
                raise DataError(what, hint="separate values by commas, and quote those that hold a comma")
            name, licence, attribution, url = values
            if name not in names:
                sources = sorted({known for known in names.values() if "/" not in known})
                raise DataError(
                    f"{where}: there is no source or image {name!r}", hint=f"sources are {some(sources, 5)}"
                )
            if url and not url.startswith(("https://", "http://")):
                raise DataError(
                    f"{where}: {url!r} is not a web address", hint="begin it with https://, or leave it empty"
                )
            if names[name] in licences:
                raise DataError(f"{where}: {name!r} was named before", hint="delete one of the two lines")
            licences[names[name]] = Licence(licence, attribution, url)
    except csv.Error as error:
        hint = "quote values that hold a comma or a quote"
        raise DataError(f"{path}:{reader.line_num}: {error}", hint=hint) from error
    if not licences:
        raise DataError(f"{path} names no source", hint=f"a line for each source: {','.join(COLUMNS)}")
    return licences


@dataclass(frozen=True)
class ExportPictures:
    """Gives the pictures of `dataset` as files or bytes.

    Every method raises DataError, naming the image, for a picture that is missing or was changed, and UsageError where the dataset
    came without pictures.
    """

    dataset: Dataset
    _compared: set[str] = field(default_factory=set, repr=False, compare=False)

    def checked(self, image: Image) -> Path:
        """The picture's file, which holds what was recorded."""
        file = self.dataset.picture(image)
        if file is None:
            raise UsageError(
                f"the picture of {image.id} is unavailable: {self.dataset.name} holds texts only",
                hint="open the dataset from the folder that holds the images",
            )
        if image.id not in self._compared:
            cure = f"ctxr doctor lists all problems of the artifact around {file.parent}, and how to rebuild it"
            try:
                digest = sha256_file(file)
            except OSError as error:
                raise DataError(f"{image.id}: {file} cannot be read: {error.strerror}", hint=cure) from error
            if digest != image.sha256:
                raise DataError(f"{image.id}: {file} was changed since it was written", hint=cure)
            self._compared.add(image.id)
        return file

    def save_jpeg(self, image: Image, copy: Path) -> bool:
        """Make `copy` an upright JPEG of the image; returns whether it had to be re-encoded."""
        file = self.checked(image)
        try:
            with Pillow.open(file) as opened:
                is_upright = opened.format == "JPEG" and opened.getexif().get(ORIENTATION, 1) == 1
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(f"{file} is not a readable picture ({error})") from error
        if is_upright:
            link_or_copy(file, copy)
            return False
        write_bytes(copy, encode_jpeg(read_image(file)), durable=False)
        return True


def suffix_of(image: Image) -> str:
    """The picture's file type in lower case, with its dot."""
    return Path(image.path).suffix.lower() or ".jpg"


UNSPLIT = "unsplit"


@dataclass(frozen=True)
class ExportCounts:
    """Sets, images and queries of an export, and its sets by split."""

    sets: int
    images: int
    queries: int
    splits: dict[str, int]


@dataclass(frozen=True)
class ExportJob:
    """One export: `dataset` into the empty folder `out`.

    Attributes:
        origin: the artifact's folder, beside which the places of sources are remembered.
        licences: by the name of a source, or by the id of an image, which then holds for that image alone.
        shard_bytes: most bytes of pictures in one shard. videos: folder of the sources, where they have moved.
        workers: sources worked on at the same time; 0 = half the cores.
        scorer, scores: whose links of documents are written, by query and candidate, if not the known ones.
    """

    dataset: Dataset
    origin: Path
    out: Path
    licences: Mapping[str, Licence]
    shard_bytes: int
    progress: Progress
    videos: Path | None = None
    workers: int = 0
    scorer: str = ""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def pictures(self) -> ExportPictures:
        """The dataset's pictures."""
        return ExportPictures(self.dataset)

    @cached_property
    def queries(self) -> dict[str, list[Query]]:
        """Queries by set, sorted by id."""
        ordered = sorted(self.dataset.queries.values(), key=lambda query: query.id)
        return grouped((query.image_set, query) for query in ordered)

    @cached_property
    def judgments(self) -> dict[str, list[Judgment]]:
        """Judgments by query, sorted by key."""
        ordered = sorted(self.dataset.judgments, key=lambda judgment: judgment.key())
        return grouped((judgment.query, judgment) for judgment in ordered)

    @cached_property
    def targets(self) -> dict[str, list[int]]:
        """Positions, 0-based, that worker `gold` named in its last word on a candidate, by query: in the set, or in the query's labels."""
        images = {image_set.id: image_set.images for image_set in self.dataset.sets}
        targets: dict[str, list[int]] = defaultdict(list)
        for name, rows in self.judgments.items():
            query = self.dataset.queries[name]
            candidates = query.labels or images[query.image_set]
            last = {row.candidate: row.value for row in rows if row.worker == "gold"}  # rounds rise within a candidate
            targets[name] = sorted(candidates.index(candidate) for candidate, value in last.items() if value > 0)
        return targets

    def split(self, image_set: ImageSet) -> str:
        """The split of a set; `unsplit` if unknown."""
        return self.dataset.split_of(image_set) or UNSPLIT

    def by_split(self) -> dict[str, list[ImageSet]]:
        """Sets of each split that has any, in the order train, valid, test, unsplit."""
        splits = grouped((self.split(image_set), image_set) for image_set in self.dataset.sets)
        return {name: splits[name] for name in (*SPLITS, UNSPLIT) if name in splits}

    def members(self, image_set: ImageSet) -> list[Image]:
        """The images of a set in their order."""
        return [self.dataset.images[name] for name in image_set.images]

    def licence_of(self, image: Image) -> Licence:
        """What holds for an image: its own row, or that of its source."""
        names = image.id, image.source, image.group
        return next((self.licences[name] for name in names if name in self.licences), Licence())

    @cached_property
    def shared_licence(self) -> str | None:
        """The one licence that all images have; None if they differ or one is unknown."""
        names = {self.licence_of(image).licence for image in self.dataset.images.values()}
        return names.pop() or None if len(names) == 1 else None

    def image_row(self, image: Image) -> dict[str, object]:
        """An image as JSON types; its time is exact, "numerator/denominator" seconds."""
        names = ("id", "sha256", "source", "width", "height", "index")
        return {name: getattr(image, name) for name in names} | {
            "time": None if image.time is None else encode_other(image.time),
            "licence": self.licence_of(image).licence or UNKNOWN,
        }

    def set_row(self, image_set: ImageSet) -> dict[str, object]:
        """A set as JSON types, without its images."""
        names = ("id", "kind", "source", "group", "shot", "closest", "mean_distance")
        return {name: getattr(image_set, name) for name in names}

    def query_rows(self, image_set: ImageSet) -> list[dict[str, object]]:
        """The queries of a set as JSON types, with targets and judgments."""
        columns = ("candidate", "worker", "value", "at", "seconds", "round")
        return [
            {
                "id": query.id,
                "image_set": query.image_set,
                "texts": [self.dataset.texts[name].text for name in query.texts],
                "labels": list(query.labels or ()),
                "targets": self.targets.get(query.id, []),
                "judgments": [
                    {name: getattr(judgment, name) for name in columns} for judgment in self.judgments.get(query.id, [])
                ],
            }
            for query in self.queries.get(image_set.id, [])
        ]

    @cached_property
    def counts(self) -> ExportCounts:
        """How much is exported."""
        queries = sum(len(queries) for queries in self.queries.values())
        splits = {name: len(sets) for name, sets in self.by_split().items()}
        return ExportCounts(len(self.dataset.sets), len(self.dataset.images), queries, splits)


@dataclass
class ExportResult:
    """What a format did: what it left out and what it changed, one sentence each, how to load it (Markdown), versions that
    decide its bytes, and the payload tables that it keeps.
    """

    load: str
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int | dict[str, int]] = field(default_factory=dict)
    front_matter: str = ""
    software: dict[str, str] = field(default_factory=dict)
    kept: Collection[str] = ()


def without_test_answers(dataset: Dataset) -> Dataset:
    """The dataset without what anybody answered about sets of the test split, and rows of payload tables that tell an answer."""
    splits = {image_set.id: dataset.split_of(image_set) for image_set in dataset.sets}
    kept = [row for row in dataset.judgments if splits.get(dataset.queries[row.query].image_set) != "test"]
    shown = [image_set for image_set in dataset.sets if splits[image_set.id] != "test"]
    payloads = dict(dataset.payloads)
    answers = {name: payloads.pop(name) for name in dataset.payloads if PAYLOADS[name].answers}
    queries = [query for query in dataset.queries.values() if splits.get(query.image_set) != "test"]
    owners = {
        "query": {query.id for query in queries},
        "text": {text for query in queries for text in query.texts},
        "image": {image for image_set in shown for image in image_set.images},
        "image_set": {image_set.id for image_set in shown},
    }
    return replace(dataset, judgments=tuple(kept), payloads=payloads | payload_rows(answers, owners))


def check_names(dataset: Dataset) -> None:
    """Raises DataError for a set that cannot be a folder, or differs from another in case only."""
    seen: dict[str, str] = {}
    for image_set in dataset.sets:
        name = image_set.id
        if not PLAIN_NAME.fullmatch(name) or len(name) > 200:
            hint = "names hold letters, digits, . _ - and do not begin with a dot"
            raise DataError(f"the set {name!r} cannot be the name of a folder", hint=hint)
        if (first := seen.setdefault(name.lower(), name)) != name:
            hint = "some file systems would put both into one folder"
            raise DataError(f"the set {name!r} differs from {first!r} in case only", hint=hint)


Row = TypeVar("Row")
Add = Callable[[Row, int], None]
"""Writes one sample of about so many bytes, now or with those after it."""


def write_shards(
    pattern: Path,
    most: int,
    begin: Callable[[IO[bytes]], AbstractContextManager[Add[Row]]],
    samples: Iterable[tuple[Row, int]],
) -> int:
    """Write samples, each with its bytes, to files of bounded size, each whole on the medium before the next; how many files.

    Args:
        pattern: a file, with the field `number`, from 0, in its name.
        most: bytes of samples in one file, unless a single sample has more.
        begin: a file of the format on a stream that is not its own to close: what adds a sample, until the block ends.
    """
    count, full = 0, most + 1
    with disk_errors(pattern.parent), ExitStack() as file:
        pattern.parent.mkdir(parents=True, exist_ok=True)
        for row, size in samples:
            if full + size > most:
                file.close()
                stream = file.enter_context(pattern.with_name(pattern.name.format(number=count)).open("xb"))
                file.callback(os.fsync, stream.fileno())
                file.callback(stream.flush)
                add = file.enter_context(begin(stream))
                count, full = count + 1, 0
            add(row, size)
            full += size
    return count
