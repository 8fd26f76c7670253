"""What every format of an export is given and returns: dataset, verified pictures, licences, shared rows."""

import csv
import io
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Generic, TypeVar

from PIL import Image as Pillow

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.captions import licences_of_files
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError, some
from ctxr.media.images import encode_jpeg, read_image
from ctxr.store.atomic import disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.paths import plain_name, stays_inside
from ctxr.store.records import Image, ImageSet, Judgment, Query
from ctxr.store.tables import PAYLOADS, encode_other, payload_rows

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
        by_file = licences_of_files(path, _HINT)
        photos = [image.id for image in dataset.images.values() if image.index is None]
        known = {photo: Licence(*by_file[name]) for photo in photos if (name := photo.rpartition("/")[2]) in by_file}
        if not known:
            raise DataError(
                f"{path} names the licence of no image here", hint="it names them by the files of the photos"
            )
        return Licences(known)
    text = read_utf8(path, _HINT)
    every = [*source_names(dataset), *dataset.images, *(source.name for source in dataset.sources)]
    names = {source.file: source.name for source in dataset.sources} | {name: name for name in every}
    licences: dict[str, Licence] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            where = f"{path}:{reader.line_num}"
            values = [value.strip() for value in row]
            if not any(values) or (reader.line_num == 1 and values == COLUMNS):
                continue
            _add(licences, where, values, names)
    except csv.Error as error:
        raise DataError(
            f"{path}:{reader.line_num}: {error}", hint="quote values that hold a comma or a quote"
        ) from error
    if not licences:
        raise DataError(f"{path} names no source", hint=f"a line for each source: {','.join(COLUMNS)}")
    return Licences(licences)


def _add(licences: dict[str, Licence], where: str, values: list[str], names: dict[str, str]) -> None:
    if len(values) == 1 and values[0].count(";") >= len(COLUMNS) - 1:
        raise DataError(
            f"{where}: the values are separated by semicolons", hint=f"commas, not semicolons: {','.join(COLUMNS)}"
        )
    if len(values) != len(COLUMNS):
        raise DataError(
            f"{where}: {len(values)} values, not the four of {','.join(COLUMNS)}", hint="quote values that hold a comma"
        )
    name, licence, attribution, url = values
    if name not in names:
        sources = sorted({known for known in names.values() if "/" not in known})
        raise DataError(f"{where}: there is no source or image {name!r}", hint=f"sources are {some(sources, 5)}")
    if url and not url.startswith(("https://", "http://")):
        raise DataError(f"{where}: {url!r} is not a web address", hint="begin it with https://, or leave it empty")
    if names[name] in licences:
        raise DataError(f"{where}: {name!r} was named before", hint="delete one of the two lines")
    licences[names[name]] = Licence(licence, attribution, url)


_ORIENTATION = 0x0112


@dataclass(frozen=True)
class ExportPictures:
    """Gives the pictures of `dataset` as files or bytes.

    Every method raises DataError, naming the image, for a picture that is missing, was changed, or lies outside the dataset, and
    UsageError where the dataset came without pictures.
    """

    dataset: Dataset
    _compared: set[str] = field(default_factory=set, repr=False, compare=False)

    def file(self, image: Image) -> Path:
        """The file of an image; its content is not checked."""
        file = self.dataset.picture(image)
        root = self.dataset.root
        if file is None or root is None:
            raise UsageError(
                f"the picture of {image.id} is unavailable: {self.dataset.name} holds texts only",
                hint="open the dataset from the folder that holds the images",
            )
        if not stays_inside(image.path) or not file.resolve().is_relative_to(root.resolve()):
            raise DataError(f"{image.id}: the path {image.path!r} does not stay inside {root}", hint=_cure(root))
        return file

    def content(self, image: Image) -> bytes:
        """The file's bytes."""
        file = self.file(image)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise _unreadable(image, file, error) from error
        _compare(image, file, sha256_bytes(content))
        return content

    def link(self, image: Image, copy: Path) -> None:
        """Make `copy` the same file: a hard link where the file system can."""
        link_or_copy(self.checked(image), copy)

    def checked(self, image: Image) -> Path:
        """The picture's file, which holds what was recorded."""
        file = self.file(image)
        if image.id in self._compared:
            return file
        try:
            _compare(image, file, sha256_file(file))
        except OSError as error:
            raise _unreadable(image, file, error) from error
        self._compared.add(image.id)
        return file

    def save_jpeg(self, image: Image, copy: Path) -> bool:
        """Make `copy` an upright JPEG of the image; returns whether it had to be re-encoded."""
        file = self.checked(image)
        try:
            with Pillow.open(file) as opened:
                is_upright = opened.format == "JPEG" and opened.getexif().get(_ORIENTATION, 1) == 1
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


def _compare(image: Image, file: Path, digest: str) -> None:
    if digest != image.sha256:
        raise DataError(
            f"{image.id}: {file} was changed since it was written (sha256 {digest[:12]}…, not {image.sha256[:12]}…)",
            hint=_cure(file.parent),
        )


def _unreadable(image: Image, file: Path, error: OSError) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{image.id}: the picture {file} is missing", hint=_cure(file.parent))
    return DataError(f"{image.id}: {file} cannot be read: {error.strerror}", hint=f"chmod +r {file}")


def _cure(folder: Path) -> str:
    return f"ctxr doctor lists all problems of the artifact around {folder}, and how to rebuild it"


UNSPLIT = "unsplit"
"""The split of sets without one."""


@dataclass(frozen=True)
class ExportCounts:
    """Sets, images and queries of an export, and its sets by side."""

    sets: int
    images: int
    queries: int
    splits: dict[str, int]


@dataclass(frozen=True)
class ExportJob:
    """One export: `dataset` into the empty folder `out`.

    Attributes:
        origin: the artifact's folder, beside which the places of sources are remembered.
        shard_bytes: most bytes of pictures in one shard. videos: folder of the sources, where they have moved.
        workers: sources worked on at the same time; 0 = half the cores.
        scorer, scores: whose links of documents are written, by query and candidate, if not the known ones.
    """

    dataset: Dataset
    origin: Path
    out: Path
    licences: Licences
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
        """Queries by set, sorted by id. Raises DataError for one that asks about a set which is not there."""
        set_ids = {image_set.id for image_set in self.dataset.sets}
        queries: dict[str, list[Query]] = defaultdict(list)
        for query in sorted(self.dataset.queries.values(), key=lambda query: query.id):
            if query.image_set not in set_ids:
                raise DataError(
                    f"the query {query.id} asks about {query.image_set!r}, which is not a set of the dataset"
                )
            queries[query.image_set].append(query)
        return queries

    @cached_property
    def judgments(self) -> dict[str, list[Judgment]]:
        """Judgments by query, sorted by key. Raises DataError for one about a query or a candidate that is not there."""
        judgments: dict[str, list[Judgment]] = defaultdict(list)
        for judgment in sorted(self.dataset.judgments, key=lambda judgment: judgment.key()):
            if judgment.candidate not in self._candidates.get(judgment.query, ()):
                raise DataError(
                    f"a judgment by {judgment.worker} is about {judgment.candidate!r} of the query {judgment.query!r}, "
                    "which does not exist",
                    hint="restore the tables that the dataset was read from",
                )
            judgments[judgment.query].append(judgment)
        return judgments

    @cached_property
    def targets(self) -> dict[str, list[int]]:
        """Positions, 0-based, that worker `gold` named in its last word on a candidate, by query: in the set, or in the query's labels."""
        last: dict[tuple[str, str], float] = {}
        for rows in self.judgments.values():
            for row in sorted(rows, key=lambda row: row.round):
                if row.worker == "gold":
                    last[row.query, row.candidate] = row.value
        targets: dict[str, list[int]] = defaultdict(list)
        for (name, candidate), value in last.items():
            if value > 0:
                targets[name].append(self._candidates[name].index(candidate))
        return {name: sorted(positions) for name, positions in targets.items()}

    @cached_property
    def _candidates(self) -> dict[str, tuple[str, ...]]:
        """What can be chosen, by query."""
        images = {image_set.id: image_set.images for image_set in self.dataset.sets}
        return {query.id: query.labels or images[query.image_set] for rows in self.queries.values() for query in rows}

    def split(self, image_set: ImageSet) -> str:
        """The split of a set; `unsplit` if unknown."""
        return self.dataset.split_of(image_set) or UNSPLIT

    def by_split(self) -> dict[str, list[ImageSet]]:
        """Sets of each side that has any, in the order train, valid, test, unsplit."""
        splits: dict[str, list[ImageSet]] = {name: [] for name in (*SPLITS, UNSPLIT)}
        for image_set in self.dataset.sets:
            splits[self.split(image_set)].append(image_set)
        return {name: sets for name, sets in splits.items() if sets}

    def members(self, image_set: ImageSet) -> list[Image]:
        """The images of a set in their order."""
        return [self.dataset.images[name] for name in image_set.images]

    def words(self, query: Query) -> list[str]:
        """The texts of a query in order. Raises DataError for a text that is not there."""
        missing = [name for name in query.texts if name not in self.dataset.texts]
        if missing:
            raise DataError(f"the query {query.id} names the text {missing[0]!r}, which the dataset does not have")
        return [self.dataset.texts[name].text for name in query.texts]

    def image_row(self, image: Image) -> dict[str, object]:
        """An image as JSON types; its time is exact, "numerator/denominator" seconds."""
        return {
            "id": image.id,
            "sha256": image.sha256,
            "source": image.id.rpartition("/")[0] or image.group,
            "width": image.width,
            "height": image.height,
            "index": image.index,
            "time": None if image.time is None else encode_other(image.time),
            "licence": self.licences.name_of(image),
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
                "texts": self.words(query),
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
    """What a format did: what it left out and what it changed, one sentence each, how to load it (Markdown), and versions that
    decide its bytes.
    """

    load: str
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int | dict[str, int]] = field(default_factory=dict)
    front_matter: str = ""
    software: dict[str, str] = field(default_factory=dict)


def without_test_answers(dataset: Dataset) -> Dataset:
    """The dataset without what anybody answered about sets of the test side, and rows of payload tables that tell an answer."""
    splits = {image_set.id: dataset.split_of(image_set) for image_set in dataset.sets}
    for row in dataset.judgments:
        if row.query not in dataset.queries:
            raise DataError(f"a judgment by {row.worker} is about {row.query!r}, which is not a query")
    kept = [row for row in dataset.judgments if splits.get(dataset.queries[row.query].image_set) != "test"]
    shown = [image_set for image_set in dataset.sets if splits[image_set.id] != "test"]
    payloads = dict(dataset.payloads)
    answers = {name: payloads.pop(name) for name in dataset.payloads if PAYLOADS[name].answers}
    owners = {
        "query": {query.id for query in dataset.queries.values() if splits.get(query.image_set) != "test"},
        "image": {image for image_set in shown for image in image_set.images},
        "image_set": {image_set.id for image_set in shown},
    }
    return replace(dataset, judgments=tuple(kept), payloads=payloads | payload_rows(answers, owners))


def check_names(dataset: Dataset) -> None:
    """Raises DataError for a set that cannot be a folder, or that differs from another in case only, and for one named twice."""
    seen: dict[str, str] = {}
    for image_set in dataset.sets:
        name = plain_name(image_set.id, "the set")
        first = seen.setdefault(name.lower(), name)
        if first is name:
            continue
        how = "occurs twice" if first == name else f"differs from {first!r} in case only"
        raise DataError(f"the set {name!r} {how}", hint="some file systems would put both into one folder")


def numbered(members: list[Image]) -> Iterator[tuple[int, Image]]:
    """Images with the number that says their place in order: frame numbers where they are known and rise, else positions."""
    indices = [image.index for image in members if image.index is not None]
    rising = len(indices) == len(members) and all(before < after for before, after in pairwise(indices))
    for position, image in enumerate(members):
        yield (image.index if rising and image.index is not None else position), image


Row = TypeVar("Row")
Add = Callable[[Row, int], None]
"""Writes one sample of about so many bytes, now or with those after it."""


class Shards(Generic[Row]):
    """Writes samples to files of bounded size, each whole on the medium before the next is begun. A context manager.

    Args:
        pattern: name of a file, with the field `number`, from 0.
        most: bytes of samples in one file, unless a single sample has more.
        begin: a file of the format on a stream that is not its own to close: what adds a sample, until the block ends.

    Attributes:
        count: files begun so far.
    """

    def __init__(
        self, folder: Path, pattern: str, most: int, begin: Callable[[IO[bytes]], AbstractContextManager[Add[Row]]]
    ) -> None:
        self._folder, self._pattern, self._most, self._begin = folder, pattern, most, begin
        self._opened = ExitStack()
        self._add: Add[Row] | None = None
        self._bytes = 0
        self.count = 0

    def add(self, row: Row, size: int) -> None:
        """Write a sample of about `size` bytes; a new file is begun where it would not fit."""
        with disk_errors(self._folder):
            if self._add is None or self._bytes + size > self._most:
                self._opened.close()
                self._add = self._opened.enter_context(self._file())
                self._bytes, self.count = 0, self.count + 1
            self._add(row, size)
        self._bytes += size

    @contextmanager
    def _file(self) -> Iterator[Add[Row]]:
        self._folder.mkdir(parents=True, exist_ok=True)
        stream = (self._folder / self._pattern.format(number=self.count)).open("xb")
        try:
            with self._begin(stream) as add:
                yield add
            stream.flush()
            os.fsync(stream.fileno())
        finally:
            with suppress(OSError):  # what went wrong before is what matters
                stream.close()

    def __enter__(self) -> "Shards[Row]":
        return self

    def __exit__(self, *error: object) -> None:
        with disk_errors(self._folder):
            self._opened.__exit__(*error)  # type: ignore[arg-type]
