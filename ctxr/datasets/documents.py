"""Documents with several sentences and images: image sets of kind `document`, whose sentences are queries for its images.

A link is a judgment of worker `gold`: 1 linked, 0 not linked, no row not judged. Training never reads one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.store.kinds import SET_KINDS
from ctxr.store.records import Image, ImageSet, Judgment, Query, SplitName, Text
from ctxr.store.tables import grouped

Links = npt.NDArray[np.float64]
"""[n, m] of n sentences and m images: 1 linked, 0 not linked, NaN not judged."""

GOLD = "gold"

MOST_SENTENCES, MOST_IMAGES = 2_000, 500
"""Of one document; the optimal assignment of larger ones would take minutes."""


@dataclass(frozen=True, eq=False)
class Document:
    """Sentences, by the ids of their queries, and images that occur together, both in reading order; `links` says which."""

    id: str
    split: SplitName | None
    sentences: tuple[str, ...]
    texts: tuple[str, ...]
    images: tuple[str, ...]
    links: Links


def validate_size(name: str, sentences: int, images: int) -> None:
    """Raises DataError for a document without sentences or images, or with too many."""
    for count, most, what in ((sentences, MOST_SENTENCES, "sentences"), (images, MOST_IMAGES, "images")):
        if not 0 < count <= most:
            sentence = f"document {name!r} has {count:,} {what}; 1 to {most:,} are supported"
            raise DataError(sentence, hint="split it into sections, one document each" if count else "remove it")


@dataclass
class DocumentTables:
    """The rows of documents as they are read or made; `worker` is who said what is linked. Distances of images are 0."""

    worker: str = GOLD
    sets: dict[str, ImageSet] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    judgments: list[Judgment] = field(default_factory=list)
    splits: dict[str, SplitName] = field(default_factory=dict)

    def add(
        self, name: str, split: SplitName | None, texts: list[str], images: list[Image], links: Links | None = None
    ) -> None:
        """Add a document; `links` is None where none was judged. Raises DataError for one that cannot be told apart or used."""
        if name in self.sets:
            raise DataError(f"document {name!r} appears twice", hint="rename one of the two")
        validate_size(name, len(texts), len(images))
        ids = tuple(image.id for image in images)
        if len(set(ids)) < len(ids):
            raise DataError(f"document {name!r} names an image twice", hint="name each of its images once")
        if unprintable := [one for one in (name, *ids) if not one.isprintable()]:
            raise DataError(f"the name {unprintable[0]!r} cannot be printed", hint="rename the file")
        self.images.update((image.id, image) for image in images)
        self.sets[name] = ImageSet(name, "document", ids, name, name, None, 0.0, 0.0)
        if split:
            self.splits[name] = split
        for number, text in enumerate(texts):
            key = f"{name}/s{number}"
            self.texts[key], self.queries[key] = Text(key, text, "unknown", number), Query(key, name, (key,))
            row = () if links is None else zip(ids, links[number].tolist(), strict=True)
            self.judgments.extend(Judgment(key, image, self.worker, value) for image, value in row if value == value)

    def dataset(self, name: str, root: Path | None, notes: Iterable[str] = ()) -> Dataset:
        """Everything that was added; `root` is the folder that paths of images are relative to."""
        root = root if any(image.path for image in self.images.values()) else None
        sets = tuple(sorted(self.sets.values(), key=lambda one: one.id))
        judgments = tuple(sorted(self.judgments, key=lambda row: row.key()))
        rows = self.images, self.texts, self.queries, judgments, self.splits
        return Dataset(name, root, sets, *rows, notes=tuple(notes))


def is_documents(dataset: Dataset) -> bool:
    """Whether a dataset holds documents."""
    return bool(dataset.sets) and all(SET_KINDS[one.kind].links for one in dataset.sets)


def documents_of(dataset: Dataset, worker: str = GOLD) -> list[Document]:
    """The documents of a dataset in the order of their ids, with the links that a worker named."""
    sentences = grouped((one.image_set, one) for one in dataset.queries.values() if one.labels is None)
    judged = {(row.query, row.candidate): row.value for row in dataset.judgments if row.worker == worker}
    documents = []
    for one in dataset.sets:
        own = sorted(sentences[one.id], key=lambda query: dataset.texts[query.texts[0]].order)
        names = tuple(query.id for query in own)
        texts = tuple(dataset.text_of(query) for query in own)
        links = np.array([judged.get((name, image), np.nan) for name in names for image in one.images], np.float64)
        links = links.reshape(len(names), len(one.images))
        documents.append(Document(one.id, dataset.split_of(one), names, texts, one.images, links))
    return documents
