"""What every format is given, what it gives back, and the rows that several of them write."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ctxr.data.dataset import Dataset
from ctxr.data.records import Image, ImageSet, Judgment, Query
from ctxr.data.splits import SPLITS
from ctxr.data.tables import encode_other
from ctxr.errors import DataError
from ctxr.pipelines.exporting.licences import Licences
from ctxr.pipelines.exporting.origin import plain_name
from ctxr.pipelines.exporting.pictures import ExportPictures
from ctxr.pipelines.talk import Talk

GOLD = "gold"
"""The worker whose judgments are the published targets."""

UNSPLIT = "unsplit"
"""Where sets go that nobody put on a side."""


@dataclass(frozen=True)
class ExportJob:
    """One export: `dataset` into the empty folder `out`.

    Attributes:
        origin: the artifact's folder, beside which the places of sources are remembered.
        shard_bytes: most bytes of pictures in one shard. videos: folder of the sources, where they have moved.
        workers: sources worked on at the same time; 0 = half the cores.
    """

    dataset: Dataset
    origin: Path
    out: Path
    licences: Licences
    shard_bytes: int
    talk: Talk
    videos: Path | None = None
    workers: int = 0

    @cached_property
    def pictures(self) -> ExportPictures:
        """The dataset's pictures."""
        return ExportPictures(self.dataset)

    @cached_property
    def queries(self) -> dict[str, list[Query]]:
        """Queries by set, sorted by id. Raises DataError for one that asks about a set which is not there."""
        known = {image_set.id for image_set in self.dataset.sets}
        found: dict[str, list[Query]] = defaultdict(list)
        for query in sorted(self.dataset.queries.values(), key=lambda query: query.id):
            if query.image_set not in known:
                raise DataError(f"the query {query.id} asks about {query.image_set!r}, which is no set of the dataset")
            found[query.image_set].append(query)
        return found

    @cached_property
    def judgments(self) -> dict[str, list[Judgment]]:
        """Judgments by query, sorted by key. Raises DataError for one about a query or a candidate that is not there."""
        found: dict[str, list[Judgment]] = defaultdict(list)
        for judgment in sorted(self.dataset.judgments, key=lambda judgment: judgment.key()):
            if judgment.candidate not in self._candidates.get(judgment.query, ()):
                raise DataError(
                    f"a judgment by {judgment.worker} is about {judgment.candidate!r} of the query {judgment.query!r}, "
                    "which is not there",
                    hint="restore the tables that the dataset was read from",
                )
            found[judgment.query].append(judgment)
        return found

    @cached_property
    def targets(self) -> dict[str, list[int]]:
        """Positions, 0-based, that worker `gold` named in its last word on a candidate, by query: in the set, or in the query's labels."""
        last: dict[tuple[str, str], float] = {}
        for rows in self.judgments.values():
            for row in sorted(rows, key=lambda row: row.round):
                if row.worker == GOLD:
                    last[row.query, row.candidate] = row.value
        found: dict[str, list[int]] = defaultdict(list)
        for (name, candidate), value in last.items():
            if value > 0:
                found[name].append(self._candidates[name].index(candidate))
        return {name: sorted(positions) for name, positions in found.items()}

    @cached_property
    def _candidates(self) -> dict[str, tuple[str, ...]]:
        """What can be chosen, by query."""
        images = {image_set.id: image_set.images for image_set in self.dataset.sets}
        return {query.id: query.labels or images[query.image_set] for rows in self.queries.values() for query in rows}

    def split(self, image_set: ImageSet) -> str:
        """The side of a set, `unsplit` where nobody said."""
        return self.dataset.split_of(image_set) or UNSPLIT

    def by_split(self) -> dict[str, list[ImageSet]]:
        """Sets of each side that has any, in the order train, valid, test, unsplit."""
        found: dict[str, list[ImageSet]] = {name: [] for name in (*SPLITS, UNSPLIT)}
        for image_set in self.dataset.sets:
            found[self.split(image_set)].append(image_set)
        return {name: sets for name, sets in found.items() if sets}

    def members(self, image_set: ImageSet) -> list[Image]:
        """The images of a set in their order."""
        return [self.dataset.images[name] for name in image_set.images]

    def words(self, query: Query) -> list[str]:
        """The texts of a query in order. Raises DataError for a text that is not there."""
        missing = [name for name in query.texts if name not in self.dataset.texts]
        if missing:
            raise DataError(f"the query {query.id} names the text {missing[0]!r}, which the dataset does not have")
        return [self.dataset.texts[name].text for name in query.texts]

    def image_row(self, image: Image) -> dict[str, Any]:
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

    def set_row(self, image_set: ImageSet) -> dict[str, Any]:
        """A set as JSON types, without its images."""
        return {
            "id": image_set.id,
            "kind": image_set.kind,
            "source": image_set.source,
            "group": image_set.group,
            "shot": image_set.shot,
            "closest": image_set.closest,
            "mean_distance": image_set.mean_distance,
        }

    def query_rows(self, image_set: ImageSet) -> list[dict[str, Any]]:
        """The queries of a set as JSON types, with targets and judgments."""
        return [
            {
                "id": query.id,
                "image_set": query.image_set,
                "texts": self.words(query),
                "labels": list(query.labels or ()),
                "targets": self.targets.get(query.id, []),
                "judgments": [
                    {
                        "candidate": judgment.candidate,
                        "worker": judgment.worker,
                        "value": judgment.value,
                        "at": judgment.at,
                        "seconds": judgment.seconds,
                        "round": judgment.round,
                    }
                    for judgment in self.judgments.get(query.id, [])
                ],
            }
            for query in self.queries.get(image_set.id, [])
        ]

    def counts(self) -> dict[str, Any]:
        """Sets, images and queries, in all and by side."""
        sides = Counter(self.split(image_set) for image_set in self.dataset.sets)
        return {
            "sets": len(self.dataset.sets),
            "images": len(self.dataset.images),
            "queries": sum(len(queries) for queries in self.queries.values()),
            "splits": {name: sides[name] for name in (*SPLITS, UNSPLIT) if sides[name]},
        }


@dataclass
class ExportResult:
    """What a format did: what it left out and what it changed, one sentence each, how to load it (Markdown), and versions that
    decide its bytes.
    """

    load: str
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    front_matter: str = ""
    software: dict[str, str] = field(default_factory=dict)


def without_test_answers(dataset: Dataset) -> Dataset:
    """The dataset without what anybody answered about sets of the test side."""
    side = {image_set.id: dataset.split_of(image_set) for image_set in dataset.sets}
    kept = [row for row in dataset.judgments if side.get(_set_of(dataset, row)) != "test"]
    return replace(dataset, judgments=tuple(kept))


def _set_of(dataset: Dataset, judgment: Judgment) -> str:
    query = dataset.queries.get(judgment.query)
    if query is None:
        raise DataError(f"a judgment by {judgment.worker} is about {judgment.query!r}, which is no query")
    return query.image_set


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
