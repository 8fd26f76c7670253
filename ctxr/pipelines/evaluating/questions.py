"""What is asked: each query for an image with its candidates, its target, and everything by which accuracy is looked at."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ctxr.data.dataset import Dataset
from ctxr.data.readers.imagecode import UNKNOWN, collection_of
from ctxr.data.readers.phenomena import PHENOMENA
from ctxr.data.records import ImageSet, Query
from ctxr.data.splits import SPLITS
from ctxr.errors import DataError
from ctxr.metrics.phenomena import verdicts

NO_SPLIT = "none"
SIDES = (*SPLITS, NO_SPLIT)
"""Sides of a benchmark in the order of tables; the last is that of sets that nobody put on one."""

WRITERS = {"train_worker": "seen in train", "unseen_worker": "unseen"}
"""How the release and our certificate call the writers of validation descriptions, and how tables do."""


@dataclass(frozen=True)
class BenchmarkQuery:
    """A query for an image.

    Attributes:
        number: place in the dataset, from 0. side: of `SIDES`.
        right: positions of the targets among the candidates; empty where the target is hidden.
        source: corpus, video or album. writer: seen in train or not; "" where nobody said.
        looked: phenomena that somebody looked for in the text. found: those that were found.
        distance: mean pairwise distance of the set, None where it is not known. tokens: of the text.
    """

    query: str
    number: int
    image_set: ImageSet
    side: str
    right: tuple[int, ...]
    text: str
    source: str
    writer: str
    looked: frozenset[str]
    found: frozenset[str]
    distance: float | None = None
    tokens: int = 0

    @property
    def candidates(self) -> tuple[str, ...]:
        """Ids of the images among which the target is."""
        return self.image_set.images


def questions_of(dataset: Dataset, distances: Mapping[str, tuple[float, float]]) -> dict[str, BenchmarkQuery]:
    """Every query for an image, by id, in the order of the dataset; `distances` is (mean, closest) by set.

    Targets are the judgments of worker `gold`. Raises DataError for a damaged certificate.
    """
    sets = {one.id: one for one in dataset.sets}
    right: dict[str, set[int]] = {}
    for query, _, place in dataset.targets():
        right.setdefault(query.id, set()).add(place)
    tags = _tags(dataset)
    writers = _writers(dataset)
    questions: dict[str, BenchmarkQuery] = {}
    for query in dataset.queries.values():
        if query.labels is not None:
            continue
        one = sets[query.image_set]
        looked = tags.get((query.image_set, query.texts), {})
        questions[query.id] = BenchmarkQuery(
            query=query.id,
            number=len(questions),
            image_set=one,
            side=dataset.split_of(one) or NO_SPLIT,
            right=tuple(sorted(right.get(query.id, ()))),
            text=" ".join(dataset.texts[name].text for name in query.texts),
            source=collection_of(one),
            writer=writers.get(query.id, ""),
            looked=frozenset(looked),
            found=frozenset(name for name, said in looked.items() if said),
            distance=distances[one.id][0] if one.id in distances else None,
        )
    return questions


def _tags(dataset: Dataset) -> dict[tuple[str, tuple[str, ...]], dict[str, bool]]:
    """Phenomena looked for, and whether found, by set and texts: queries about labels name the texts they are about."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, bool]] = {}
    for (name, phenomenon), said in verdicts(PHENOMENA, dataset.queries.values(), dataset.judgments).items():
        query: Query = dataset.queries[name]
        found.setdefault((query.image_set, query.texts), {})[phenomenon] = said
    return found


def _writers(dataset: Dataset) -> dict[str, str]:
    """Whether the writer of a query was seen in train: from the release's file of writers, or from our certificate."""
    told: dict[str, str] = {}
    for query in dataset.queries.values():
        if query.texts:
            author = dataset.texts[query.texts[0]].author
            told[query.id] = WRITERS.get(author, "") if author != UNKNOWN else ""
    certificate = None if dataset.root is None else dataset.root / "certificate.json"
    if certificate is not None and certificate.is_file():
        try:
            rows = json.loads(certificate.read_text(encoding="utf-8")).get("queries", {})
            told |= {name: WRITERS.get(row.get("describer", ""), "") for name, row in rows.items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise DataError(f"{certificate} is damaged: {error}", hint="run ctxr aggregate again") from error
    return {name: writer for name, writer in told.items() if writer}
