"""Queries with their candidates, targets and facets, matched with the scores of every run."""

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.imagecode import UNKNOWN, collection_of
from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.errors import DataError
from ctxr.metrics.language import verdicts
from ctxr.metrics.ranking import RankCounts, count_ranks
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems.runs import ModelScores, Run
from ctxr.store.records import ImageSet, Query

WRITERS = {"train_worker": "seen in train", "unseen_worker": "unseen"}
"""How the release and our certificate call the writers of validation descriptions, and how tables do."""


@dataclass(frozen=True)
class BenchmarkQuery:
    """A query for an image.

    Attributes:
        number: index in the dataset, from 0. side: the split, of `SIDES`.
        right: positions of the targets among the candidates; empty where the target is hidden.
        source: corpus, video or album. writer: seen in train or not; "" where unknown.
        looked: phenomena that were annotated. found: those of them in the text.
        distance: mean pairwise distance of the set, None where it is not known. tokens: of the text.
        unsure: positions of candidates that are neither right nor wrong, and leave the ranking.
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
    unsure: frozenset[int] = frozenset()

    @property
    def candidates(self) -> tuple[str, ...]:
        """Ids of the images among which the target is."""
        return self.image_set.images


def questions_of(
    dataset: Dataset,
    places: Mapping[str, tuple[str, ImageSet]],
    distances: Mapping[str, tuple[float, float]],
    unsure: Mapping[str, Sequence[str]],
) -> dict[str, BenchmarkQuery]:
    """Every query that has a place, a split and a set, by id; `distances` is (mean, closest) by set; `unsure`
    are images by query.

    Targets are the judgments of worker `gold`. Raises DataError for a damaged certificate.
    """
    targets: dict[str, set[int]] = {}
    for query, _, position in dataset.targets():
        targets.setdefault(query.id, set()).add(position)
    tags = _tags(dataset)
    writers = _writers(dataset)
    questions: dict[str, BenchmarkQuery] = {}
    for name, (side, image_set) in places.items():
        query = dataset.queries[name]
        doubts = unsure.get(query.id, ())
        examined = tags.get((query.image_set, query.texts), {})
        questions[query.id] = BenchmarkQuery(
            query=query.id,
            number=len(questions),
            image_set=image_set,
            side=side,
            right=tuple(sorted(targets.get(query.id, ()))),
            text=" ".join(dataset.texts[name].text for name in query.texts),
            source=collection_of(image_set),
            writer=writers.get(query.id, ""),
            looked=frozenset(examined),
            found=frozenset(name for name, present in examined.items() if present),
            distance=distances[image_set.id][0] if image_set.id in distances else None,
            unsure=frozenset(place for place, image in enumerate(image_set.images) if image in doubts)
            - targets.get(query.id, set()),
        )
    return questions


def _tags(dataset: Dataset) -> dict[tuple[str, tuple[str, ...]], dict[str, bool]]:
    """Phenomena looked for, and whether found, by set and texts: queries about labels name the texts they are about."""
    tags: dict[tuple[str, tuple[str, ...]], dict[str, bool]] = {}
    for (name, phenomenon), present in verdicts(PHENOMENA, dataset.queries.values(), dataset.judgments).items():
        query: Query = dataset.queries[name]
        tags.setdefault((query.image_set, query.texts), {})[phenomenon] = present
    return tags


def _writers(dataset: Dataset) -> dict[str, str]:
    """Whether the writer of a query was seen in train: from the release's file of writers, or from our certificate."""
    writers: dict[str, str] = {}
    for query in dataset.queries.values():
        if query.texts:
            author = dataset.texts[query.texts[0]].author
            writers[query.id] = WRITERS.get(author, "") if author != UNKNOWN else ""
    certificate = None if dataset.root is None else dataset.root / "certificate.json"
    if certificate is not None and certificate.is_file():
        try:
            rows = json.loads(certificate.read_text(encoding="utf-8")).get("queries", {})
            writers |= {name: WRITERS.get(row.get("describer", ""), "") for name, row in rows.items()}
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise DataError(f"{certificate} is damaged: {error}", hint="run ctxr aggregate again") from error
    return {name: writer for name, writer in writers.items() if writer}


@dataclass(frozen=True, eq=False)
class EvalSplit:
    """Questions of one side of the benchmark, scored by all runs.

    Attributes:
        questions: B with a known target. runs: rows of a table. seeds: the scorers of each run, one or several.
        scores: [B, K] of each scorer, -inf where there is no candidate.
        right: [B, K] which candidates are targets. hidden: questions without a known target.
        hidden_scores: theirs, by scorer and query. left_out: questions that some scorer did not score, with `--partial`.
    """

    name: str
    questions: tuple[BenchmarkQuery, ...]
    runs: tuple[str, ...]
    seeds: dict[str, tuple[str, ...]]
    scores: dict[str, Doubles]
    right: Flags
    hidden: tuple[BenchmarkQuery, ...]
    hidden_scores: dict[str, dict[str, list[float]]]
    left_out: int

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def scorers(self) -> tuple[str, ...]:
        """Every scorer of every run."""
        return tuple(name for run in self.runs for name in self.seeds[run])

    def ranked(self, scorer: str) -> Doubles:
        """The scores [B, K] of a scorer, -inf at unsure candidates too."""
        scores = self.scores[scorer].copy()
        for row, one in enumerate(self.questions):
            scores[row, list(one.unsure)] = -np.inf
        return scores

    def rank_counts(self, scorer: str) -> RankCounts:
        """Where the targets stand for a scorer."""
        return count_ranks(self.ranked(scorer), self.right)

    def mean(self, run: str, figure: Callable[[RankCounts], Doubles]) -> Doubles:
        """A figure of each question [B], as the mean over the seeds of a run."""
        means: Doubles = np.mean([figure(self.rank_counts(name)) for name in self.seeds[run]], axis=0)
        return means


def split_of(name: str, questions: Sequence[BenchmarkQuery], runs: Sequence[Run], lacking: Set[str]) -> EvalSplit:
    """A side with its questions but those that are `lacking` scores."""
    scorers = [scorer for run in runs for scorer in run.scorers]
    whole = [question for question in questions if question.query not in lacking]
    labelled = tuple(one for one in whole if one.right)
    hidden = tuple(one for one in whole if not one.right)
    width = max((len(one.candidates) for one in labelled), default=1)
    targets = np.zeros((len(labelled), width), bool)
    for row, one in enumerate(labelled):
        targets[row, list(one.right)] = True
    return EvalSplit(
        name=name,
        questions=labelled,
        runs=tuple(run.name for run in runs),
        seeds={run.name: tuple(scorer.name for scorer in run.scorers) for run in runs},
        scores={scorer.name: _table(scorer, labelled, width) for scorer in scorers},
        right=targets,
        hidden=hidden,
        hidden_scores={scorer.name: {one.query: _values(scorer, one) for one in hidden} for scorer in scorers},
        left_out=len(lacking),
    )


def _table(scorer: ModelScores, questions: Sequence[BenchmarkQuery], width: int) -> Doubles:
    table = np.full((len(questions), width), -np.inf)
    for row, one in enumerate(questions):
        table[row, : len(one.candidates)] = _values(scorer, one)
    return table


def _values(scorer: ModelScores, one: BenchmarkQuery) -> list[float]:
    values = scorer.values[one.query]
    return [values[candidate] for candidate in one.candidates]
