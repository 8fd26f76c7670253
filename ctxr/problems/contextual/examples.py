"""Queries with their candidates, targets and facets, matched with the scores of every run."""

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.imagecode import collection_of
from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.errors import DataError
from ctxr.metrics.language import verdicts
from ctxr.metrics.ranking import RankCounts, count_ranks, untied
from ctxr.metrics.votes import Doubles, Flags
from ctxr.models.tokens import Tokenizer
from ctxr.problems.runs import ModelScores
from ctxr.store.records import ImageSet, Query
from ctxr.store.tables import grouped

WRITERS = {"train_worker": "seen in train", "unseen_worker": "unseen"}
"""The writers of validation descriptions, in the words of our certificate and of tables."""


@dataclass(frozen=True)
class BenchmarkQuery:
    """A query for an image.

    Attributes:
        number: index in the dataset, from 0. split: one of `SPLITS`.
        right: positions of the targets among the candidates; empty where the target is hidden.
        tokens: of the text, 0 where they are not counted. source: corpus, video or album.
        writer: seen in train or not; "" where unknown.
        looked: phenomena that were annotated. found: those of them in the text.
        distance: mean pairwise distance of the set, None where it is not known.
        unsure: positions of candidates that are neither right nor wrong, and leave the ranking.
    """

    query: str
    number: int
    image_set: ImageSet
    split: str
    right: tuple[int, ...]
    text: str
    tokens: int
    source: str
    writer: str
    looked: frozenset[str]
    found: frozenset[str]
    distance: float | None
    unsure: frozenset[int]

    @property
    def candidates(self) -> tuple[str, ...]:
        """Ids of the images among which the target is."""
        return self.image_set.images


def questions_of(
    dataset: Dataset,
    places: Mapping[str, tuple[str, ImageSet]],
    distances: Mapping[str, tuple[float, float]],
    unsure: Mapping[str, Sequence[str]],
    tokenizer: Tokenizer,
    *,
    counted: Set[str],
) -> dict[str, BenchmarkQuery]:
    """Every query that has a split and a set (`places`), by id; targets are the judgments of worker `gold`.

    Args:
        distances: (mean, closest) by set. unsure: images by query.
        counted: splits whose texts the tokenizer measures.

    Raises DataError for a damaged certificate.
    """
    targets = grouped((query.id, position) for query, _, position in dataset.targets())
    # phenomena belong to the texts that they were found in: queries about labels name these
    tags: dict[tuple[str, tuple[str, ...]], dict[str, bool]] = {}
    for (name, phenomenon), present in verdicts(PHENOMENA, dataset.queries.values(), dataset.judgments).items():
        about: Query = dataset.queries[name]
        tags.setdefault((about.image_set, about.texts), {})[phenomenon] = present
    writers = _writers(dataset)
    texts = {name: dataset.text_of(dataset.queries[name]) for name in places}
    measured = {name: texts[name] for name, (split, _) in places.items() if split in counted and name in targets}
    lengths = {name: len(one.tokens) for name, one in zip(measured, tokenizer.parse(measured), strict=True)}
    questions: dict[str, BenchmarkQuery] = {}
    for name, (split, image_set) in places.items():
        query, right, doubts = dataset.queries[name], set(targets[name]), unsure.get(name, ())
        examined = tags.get((query.image_set, query.texts), {})
        questions[name] = BenchmarkQuery(
            query=name,
            number=len(questions),
            image_set=image_set,
            split=split,
            right=tuple(sorted(right)),
            text=texts[name],
            tokens=lengths.get(name, 0),
            source=collection_of(image_set),
            writer=writers.get(name, ""),
            looked=frozenset(examined),
            found=frozenset(phenomenon for phenomenon, present in examined.items() if present),
            distance=distances[image_set.id][0] if image_set.id in distances else None,
            unsure=frozenset(place for place, image in enumerate(image_set.images) if image in doubts) - right,
        )
    return questions


def _writers(dataset: Dataset) -> dict[str, str]:
    """Whether the writer of a query was seen in train: from the release, or our certificate."""
    authors = {one.id: dataset.texts[one.texts[0]].author for one in dataset.queries.values() if one.texts}
    writers = {name: WRITERS.get(author, "") for name, author in authors.items()}
    certificate = None if dataset.root is None else dataset.root / "certificate.json"
    if certificate is not None and certificate.is_file():
        try:
            rows = json.loads(certificate.read_text(encoding="utf-8")).get("queries", {})
            writers |= {name: WRITERS.get(row.get("describer", ""), "") for name, row in rows.items()}
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise DataError(f"{certificate} is damaged: {error}", hint="run ctxr aggregate again") from error
    return writers


@dataclass(frozen=True, eq=False)
class EvalSplit:
    """Questions of one split of the benchmark, scored by all runs.

    Attributes:
        questions: B with a known target. hidden: those without.
        scorers: of each run, by its name: one, or one for each seed.
        left_out: questions that some scorer did not score, with `--partial`. ties: how they are broken, as in `untied`.
    """

    name: str
    questions: Sequence[BenchmarkQuery]
    hidden: Sequence[BenchmarkQuery]
    scorers: Mapping[str, Sequence[ModelScores]]
    left_out: int
    ties: str = "expected"

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def targets(self) -> Flags:
        """Which candidates are targets, [B, K]."""
        targets = np.zeros((len(self), max((len(one.candidates) for one in self.questions), default=1)), bool)
        for row, one in enumerate(self.questions):
            targets[row, list(one.right)] = True
        return targets

    @cached_property
    def ranked(self) -> dict[str, Doubles]:
        """Scores [B, K] by scorer, -inf where there is no candidate and at unsure ones."""
        tables: dict[str, Doubles] = {}
        for scorer in (scorer for scorers in self.scorers.values() for scorer in scorers):
            table = np.full(self.targets.shape, -np.inf)
            for row, one in enumerate(self.questions):
                table[row, : len(one.candidates)] = values_of(scorer, one)
                table[row, list(one.unsure)] = -np.inf
            tables[scorer.name] = np.asarray(untied(table, self.targets, self.ties), np.float64)
        return tables

    def rank_counts(self, scorer: str) -> RankCounts:
        """Where the targets stand for a scorer."""
        return count_ranks(self.ranked[scorer], self.targets)

    def mean(self, run: str, figure: Callable[[RankCounts], Doubles]) -> Doubles:
        """A figure of each question [B], as the mean over the seeds of a run."""
        return np.asarray(np.mean([figure(self.rank_counts(one.name)) for one in self.scorers[run]], axis=0))


def values_of(scorer: ModelScores, one: BenchmarkQuery) -> list[float]:
    """Scores of the candidates of a question, in their order."""
    return [scorer.values[one.query][name] for name in one.candidates]
