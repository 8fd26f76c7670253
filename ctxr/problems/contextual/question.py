"""The contextual question: which image of a set does a text mean?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.errors import plural
from ctxr.metrics.columns import RatioColumn
from ctxr.metrics.ranking import accuracy, reciprocal_rank
from ctxr.models.picture_vectors import PictureVectors, distances_of
from ctxr.models.tokens import load_tokenizer
from ctxr.models.training.recipe import HEADS
from ctxr.problems import notes
from ctxr.problems.contextual import figures as measuring
from ctxr.problems.contextual.examples import BenchmarkQuery, EvalSplit, questions_of, split_of
from ctxr.problems.contextual.recipe import VARIANTS, ContextualRecipe
from ctxr.problems.contextual.tables import tables_of
from ctxr.problems.evaluation import EvalRequest
from ctxr.problems.figures import Columns, Figure, Summariser
from ctxr.problems.matching import ScoredEvaluation
from ctxr.problems.question import Question, find_learner
from ctxr.problems.results import MOST_SCORES, QueryResult, plain_name, qrel, refuse_same_files, trec_ranking
from ctxr.problems.runs import Run
from ctxr.problems.weak_positives import by_query, verdicts_in
from ctxr.store.artifacts import Content
from ctxr.store.kinds import RUN

LEADERBOARD_SIDE = "test"


def leaderboard(run: str, splits: Sequence[EvalSplit]) -> str | None:
    """The picks on test as ImageCoDe's leaderboard takes them, {set: [index, …]}, sets and descriptions in the order of the
    dataset; None where test was not scored as a whole.

    In a tie the first image is picked: the leaderboard knows no shares.
    """
    split = next((one for one in splits if one.name == LEADERBOARD_SIDE and not one.left_out), None)
    if split is None:
        return None
    picks: dict[str, list[int]] = {}
    for one, scores in sorted(_scored(run, split), key=lambda pair: pair[0].number):
        picks.setdefault(one.image_set.id, []).append(int(np.argmax(scores)))
    return json.dumps(picks, ensure_ascii=False, indent=1) + "\n"


def _scored(run: str, split: EvalSplit) -> Iterator[tuple[BenchmarkQuery, list[float]]]:
    """Every question of a side, its target known or hidden, with a run's scores."""
    for row, one in enumerate(split.questions):
        yield one, split.scores[run][row, : len(one.candidates)].tolist()
    for question in split.hidden:
        yield question, split.hidden_scores[run][question.query]


def query_results(split: EvalSplit) -> Iterator[QueryResult]:
    """A row for each scorer and question of a side."""
    for run in split.scorers:
        counts, scores, ranked = split.rank_counts(run), split.scores[run], split.ranked(run)
        credit, ranks = accuracy(counts), reciprocal_rank(counts)
        best = ranked == ranked.max(axis=1, initial=float("-inf"), keepdims=True)
        for row, one in enumerate(split.questions):
            values = scores[row, : len(one.candidates)].tolist()
            few = len(values) <= MOST_SCORES
            yield QueryResult(
                run=run,
                query=one.query,
                side=split.name,
                image_set=one.image_set.id,
                kind=one.image_set.kind,
                text=one.text,
                targets=tuple(one.candidates[index] for index in one.right),
                picks=tuple(name for place, name in enumerate(one.candidates) if best[row, place]),
                accuracy=float(credit[row]),
                reciprocal_rank=float(ranks[row]),
                above=int(counts.above[row]),
                level=int(counts.level[row]),
                tokens=one.tokens,
                candidates=one.candidates if few else (),
                scores=tuple(values) if few else (),
                tags=tuple(sorted(one.found)),
                distance=one.distance,
            )


def files_for_others(splits: Sequence[EvalSplit]) -> dict[str, str]:
    """Targets and rankings for trec_eval, and picks for the leaderboard, by name."""
    files = {}
    if labelled := [question for split in splits for question in split.questions]:
        files["trec/qrels.txt"] = "".join(
            qrel(one.query, one.candidates[index]) for one in labelled for index in one.right
        )
    for run in splits[0].scorers:
        scored = [pair for split in splits for pair in _scored(run, split)]
        ranked = [
            (one, [-np.inf if place in one.unsure else score for place, score in enumerate(scores)])
            for one, scores in scored
        ]
        rankings = [trec_ranking(run, one.query, one.candidates, scores) for one, scores in ranked]
        files[f"trec/{plain_name(run)}.txt"] = "".join(chain.from_iterable(rankings))
        picked = leaderboard(run, splits)
        if picked is not None:
            files[f"leaderboard/{plain_name(run)}.json"] = picked
    return files


class SetEvaluation(ScoredEvaluation[EvalSplit]):
    """Runs on sets of similar images."""

    PROBLEM: ClassVar[str] = "contextual"

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request, Contextual())
        options, dataset = self.options, request.dataset
        _, unsure = verdicts_in(dataset, None, options.workdir)
        questions = questions_of(dataset, self.places, distances_of(dataset, self._vectors()), by_query(unsure))
        refuse_same_files(self.names)
        questions, self.tokenizer = _counted(questions, self.runs, options.tokenizer)
        self.splits = [
            split_of(split, [questions[name] for name in queries], self.runs, lacking)
            for split, (queries, lacking) in self.match().items()
        ]
        counts = [(split.name, sum(len(one.unsure) for one in split.questions)) for split in self.splits]
        self.unsure = [(split, count) for split, count in counts if count]
        self.recalls, pointless = measuring.telling(self.splits, options.ks())
        self.findings.rows = {"correlations": [], "errors": [], "seeds": []}
        more = [*pointless, *partial_notes(self.splits), *tagged_elsewhere(dataset)]
        self.notes = [*notes.first_notes(self), *self.notes, *more]

    def _vectors(self) -> PictureVectors | None:
        """Of the encoder that measures distances, where one is named."""
        if not self.options.encoder:
            return None
        opened: Any = find_learner(Contextual()).open_run(self.options.encoder, self.request.scoring, self.progress)
        vectors: PictureVectors | None = opened.vectors(self.request.dataset)
        return vectors

    def groups(self, split: EvalSplit) -> list[str]:
        """Sets, or whole videos and albums."""
        return measuring.groups_of(split, measuring.resampling_unit(split, self.options.cluster))

    def columns(self, split: EvalSplit, run: Run, summary: Summariser) -> Columns:
        """Accuracy and ranks."""
        return measuring.columns_of(split, run.name, self.recalls, self.options.trec)

    def compared(self, split: EvalSplit, columns: Mapping[str, Columns]) -> Mapping[str, Mapping[str, RatioColumn]]:
        """Accuracy by kind of set and phenomenon."""
        return measuring.compared(split)

    def single(self) -> list[str]:
        """Runs of one scorer."""
        return [run.name for run in self.runs if len(run.scorers) == 1]

    def complete(self, split: EvalSplit, figures: list[Figure], summary: Summariser) -> None:
        """Correlations, errors, seeds."""
        rows = self.findings.rows
        rows["correlations"] += measuring.correlations(split, summary.clusters)
        rows["errors"] += measuring.errors(split)
        rows["seeds"] += measuring.seeds(split)
        self.findings.tables |= tables_of(split, self.findings, self.options.cluster)

    def finish(self) -> None:
        """The accuracy of people, and what keeps figures from being taken at their word."""
        super().finish()
        people = notes.crowd_table(self.request.dataset)
        if people is not None:
            self.findings.tables["people"] = people

    def rows(self) -> list[QueryResult]:
        """A row for each scorer and question."""
        return [row for split in self.splits for row in query_results(split)]

    def files(self) -> Mapping[str, str]:
        """For trec_eval and the leaderboard."""
        return files_for_others(self.splits)

    def write(self, out: Path) -> Content:
        """With the name of the tokenizer."""
        content = super().write(out)
        return content._replace(models={"tokenizer": {"name": self.tokenizer}})


def _counted(
    questions: Mapping[str, BenchmarkQuery], runs: Sequence[Run], tokenizer: str
) -> tuple[dict[str, BenchmarkQuery], str]:
    """The questions with the tokens of the texts that are evaluated, and what counted them."""
    counter = load_tokenizer(tokenizer)
    splits = {
        questions[name].side for run in runs for scorer in run.scorers for name in scorer.values if name in questions
    }
    texts = {name: one.text for name, one in questions.items() if one.side in splits and one.right}
    lengths = {name: len(one.tokens) for name, one in zip(texts, counter.parse(texts), strict=True)}
    return {name: replace(one, tokens=lengths.get(name, 0)) for name, one in questions.items()}, counter.name


def partial_notes(splits: Sequence[EvalSplit]) -> list[str]:
    """How many questions were left out, and how many have targets that are hidden."""
    notes = []
    for split in splits:
        if split.left_out:
            total = split.left_out + len(split.questions) + len(split.hidden)
            notes.append(
                f"{split.name}: {split.left_out} of {total} queries lack scores of some run and were left out of all (--partial)"
            )
        if split.hidden:
            notes.append(
                f"{split.name}: the targets of {len(split.hidden)} queries are hidden; leaderboard/ has the picks"
            )
    return notes


def tagged_elsewhere(dataset: Dataset) -> list[str]:
    """A sentence where descriptions with phenomena belong to no query."""
    queried = {(query.image_set, query.texts) for query in dataset.queries.values() if query.labels is None}
    lost = sum(
        query.labels is not None and (query.image_set, query.texts) not in queried for query in dataset.queries.values()
    )
    return [f"{plural(lost, 'description')} with labels in no query here: counted for no phenomenon"] if lost else []


class Contextual(Question):
    """Sets of similar images."""

    LEARNER: ClassVar[str] = "ctxr.problems.contextual.learner:ContextualLearner"
    Recipe: ClassVar[type[ContextualRecipe]] = ContextualRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = SetEvaluation

    def explains(self, config: Mapping[str, object]) -> bool:
        """Heads that look at the candidates of a query together."""
        return config.get("variant") in HEADS

    def asks(self, dataset: Dataset) -> bool:
        """Everything: files of scores, runs and encoders on queries for an image."""
        return True
