"""Documents with several sentences and images: image sets of kind `document`, whose sentences are queries for its images.

A link is a judgment of worker `gold`: 1 linked, 0 not linked, no row not judged. Training never reads one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.store.records import Image, ImageSet, Judgment, Query, SplitName, Text

Links = npt.NDArray[np.float64]
"""[n, m] of n sentences and m images: 1 linked, 0 not linked, NaN not judged."""

GOLD = "gold"

MOST_SENTENCES, MOST_IMAGES = 2_000, 500
"""Of one document; the optimal assignment of larger ones would take minutes."""


@dataclass(frozen=True, eq=False)
class Document:
    """Sentences and images that occur together.

    Attributes:
        split: None for none. sentences: query ids, in reading order. texts: theirs. images: ids, in reading order.
        links: see `Links`.
    """

    id: str
    split: SplitName | None
    sentences: tuple[str, ...]
    texts: tuple[str, ...]
    images: tuple[str, ...]
    links: Links


def validate_size(name: str, sentences: int, images: int) -> None:
    """Raises DataError for a document without sentences or images, or with too many."""
    for count, most, what in ((sentences, MOST_SENTENCES, "sentence"), (images, MOST_IMAGES, "image")):
        if not count:
            raise DataError(f"document {name!r} has no {what}", hint="remove it")
        if count > most:
            raise DataError(
                f"document {name!r} has {count:,} {what}s; at most {most:,} are supported",
                hint="split it into sections, one document each",
            )


@dataclass
class DocumentTables:
    """The rows of documents as they are read or made; `worker` is who said what is linked."""

    worker: str = GOLD
    sets: dict[str, ImageSet] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    judgments: list[Judgment] = field(default_factory=list)
    splits: dict[str, SplitName] = field(default_factory=dict)

    def add(
        self,
        name: str,
        split: SplitName | None,
        texts: Sequence[str],
        images: Sequence[Image],
        links: Links | None = None,
    ) -> None:
        """Add a document; an image may be in several, under one id. `links` is None where none was judged.

        Raises DataError for a document that exists, without sentences or images, or with too many.
        """
        if name in self.sets:
            raise DataError(f"document {name!r} appears twice", hint="rename one of the two")
        validate_size(name, len(texts), len(images))
        ids = tuple(image.id for image in images)
        if len(set(ids)) < len(ids):
            raise DataError(f"document {name!r} names an image twice", hint="name each of its images once")
        self.images |= {image.id: image for image in images}
        self.sets[name] = ImageSet(name, "document", ids, name, name, None, math.nan, math.nan)
        if split is not None:
            self.splits[name] = split
        for number, text in enumerate(texts):
            key = f"{name}/s{number}"
            self.texts[key] = Text(key, text, "unknown", number)
            self.queries[key] = Query(key, name, (key,))
            if links is not None:
                row = zip(ids, links[number].tolist(), strict=True)
                self.judgments += [
                    Judgment(key, one, self.worker, value) for one, value in row if not math.isnan(value)
                ]

    def dataset(self, name: str, root: Path | None, notes: Iterable[str] = ()) -> Dataset:
        """Everything that was added; `root` is the folder that paths of images are relative to."""
        return Dataset(
            name=name,
            root=root if any(image.path for image in self.images.values()) else None,
            sets=tuple(sorted(self.sets.values(), key=lambda one: one.id)),
            images=self.images,
            texts=self.texts,
            queries=self.queries,
            judgments=tuple(sorted(self.judgments, key=lambda row: row.key())),
            splits=self.splits,
            notes=tuple(notes),
        )


def is_documents(dataset: Dataset) -> bool:
    """Whether a dataset holds documents."""
    return bool(dataset.sets) and all(one.kind == "document" for one in dataset.sets)


def documents_of(dataset: Dataset, worker: str = GOLD) -> list[Document]:
    """The documents of a dataset in the order of their ids, with the links that a worker named."""
    sentences: dict[str, list[Query]] = {}
    for query in dataset.queries.values():
        if query.labels is None:
            sentences.setdefault(query.image_set, []).append(query)
    said: dict[str, dict[str, float]] = {}
    for row in dataset.judgments:
        if row.worker == worker:
            said.setdefault(row.query, {})[row.candidate] = row.value
    documents = []
    for image_set in dataset.sets:
        own = sorted(sentences.get(image_set.id, ()), key=lambda query: dataset.texts[query.texts[0]].order)
        links = [[said.get(query.id, {}).get(image, math.nan) for image in image_set.images] for query in own]
        documents.append(
            Document(
                image_set.id,
                dataset.split_of(image_set),
                tuple(query.id for query in own),
                tuple(" ".join(dataset.texts[name].text for name in query.texts) for query in own),
                image_set.images,
                np.array(links, np.float64).reshape(len(own), len(image_set.images)),
            )
        )
    return documents
