"""The contextual question: which image of a set does a text mean?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import origin_of
from ctxr.metrics.columns import RatioColumn
from ctxr.models.picture_vectors import PictureVectors, distances_of
from ctxr.models.tokens import load_tokenizer
from ctxr.models.training.recipe import WITH_HEAD
from ctxr.problems import Question, find_learner, notes
from ctxr.problems.contextual import figures as measuring
from ctxr.problems.contextual.examples import BenchmarkQuery, EvalSplit, match, questions_of
from ctxr.problems.contextual.files import files_for_others, query_results
from ctxr.problems.contextual.tables import tables_of
from ctxr.problems.evaluation import EvalRequest, Evaluation
from ctxr.problems.figures import Columns, Figure, Summariser
from ctxr.problems.results import QueryResult, refuse_same_files
from ctxr.problems.runs import REGIONS, Run, Scoring, find_runs
from ctxr.store.artifacts import Content, Parent
from ctxr.store.kinds import REGION_FEATURES, RUN, RUNS
from ctxr.store.regions import read_regions


class SetEvaluation(Evaluation):
    """Runs on sets of similar images."""

    TOGETHER: ClassVar[bool] = True
    EXACT: ClassVar[bool] = True

    runs: Sequence[Run]
    splits: Sequence[EvalSplit]

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request)
        options, dataset = self.options, request.dataset
        questions = questions_of(dataset, distances_of(dataset, self._vectors()))
        wanted = _wanted(questions, options.split)
        scoring = Scoring(dataset, lambda: wanted, options.workdir, options.device, self.progress, options.regions)
        self.dataset, self.runs = dataset.name, find_runs(options.runs, scoring)
        refuse_same_files(self.names)
        questions, self.tokenizer = _counted(questions, self.runs, options.tokenizer)
        self.splits, unmatched = match(dataset, questions, self.runs, options.split, options.partial)
        self.recalls, pointless = measuring.telling(self.splits, options.ks())
        self.parents = [origin_of(dataset), *(run.origin for run in self.runs)]
        if options.regions:
            features = read_regions(options.workdir / REGIONS / options.regions)
            self.parents.append(Parent(options.regions, REGION_FEATURES, features.sha256))
        self.findings.rows = {"correlations": [], "errors": [], "seeds": []}
        self.notes = [*unmatched, *pointless, *partial_notes(self.splits), *tagged_elsewhere(dataset)]

    def _vectors(self) -> PictureVectors | None:
        """Of the encoder that measures distances, where one is named."""
        if not self.options.encoder:
            return None
        opened: Any = find_learner(Contextual()).open_run(self.options.encoder, self.request.scoring, self.progress)
        vectors: PictureVectors | None = opened.vectors(self.request.dataset)
        return vectors

    def groups(self, split: EvalSplit) -> list[str]:
        """Sets, or whole videos and albums."""
        return measuring.groups_of(split, measuring.unit_of(split, self.options.cluster))

    def columns(self, split: EvalSplit, run: Run, summary: Summariser) -> Columns:
        """Accuracy and ranks."""
        return measuring.columns_of(split, run.name, self.recalls)

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
        dataset = self.request.dataset
        people = notes.people(dataset)
        if people is not None:
            self.findings.tables["people"] = people
        self.findings.notes += [
            *notes.first_notes(self),
            *self.notes,
            *notes.leakage_notes(dataset, self.splits, self.progress),
            *notes.contamination_notes(dataset, self.splits, self.runs),
        ]

    def rows(self) -> list[QueryResult]:
        """A row for each scorer and question."""
        return [row for split in self.splits for row in query_results(split)]

    def files(self) -> Mapping[str, str]:
        """For trec_eval and the leaderboard."""
        return files_for_others(self.splits)

    def write(self, out: Path) -> Content:
        """With the name of the tokenizer."""
        content = super().write(out)
        return Content(content.files, content.counts, {"tokenizer": {"name": self.tokenizer}})


def _wanted(questions: Mapping[str, BenchmarkQuery], split: str) -> list[str]:
    """Queries that a model is asked to score: those of the split, else of valid and test, else all."""
    splits = {split} if split else {"valid", "test"}
    return [name for name, one in questions.items() if one.side in splits] or list(questions)


def _counted(
    questions: Mapping[str, BenchmarkQuery], runs: Sequence[Run], tokenizer: str
) -> tuple[dict[str, BenchmarkQuery], str]:
    """The questions with the tokens of the texts that are evaluated, and what counted them."""
    counter = load_tokenizer(tokenizer)
    sides = {questions[name].side for run in runs for one in run.scorers for name in one.values if name in questions}
    texts = {name: one.text for name, one in questions.items() if one.side in sides and one.right}
    lengths = {name: len(one.tokens) for name, one in zip(texts, counter.parse(texts), strict=True)}
    return {name: replace(one, tokens=lengths.get(name, 0)) for name, one in questions.items()}, counter.name


def partial_notes(sides: Sequence[EvalSplit]) -> list[str]:
    """How many questions were left out, and how many have targets that are hidden."""
    notes = []
    for side in sides:
        if side.left_out:
            total = side.left_out + len(side.questions) + len(side.hidden)
            notes.append(
                f"{side.name}: {side.left_out} of {total} queries lack scores of some run and were left out of all (--partial)"
            )
        if side.hidden:
            notes.append(
                f"{side.name}: the targets of {len(side.hidden)} queries are hidden; leaderboard/ has the picks"
            )
    return notes


def tagged_elsewhere(dataset: Dataset) -> list[str]:
    """A sentence where descriptions with phenomena belong to no query."""
    asked = {(query.image_set, query.texts) for query in dataset.queries.values() if query.labels is None}
    lost = sum(
        query.labels is not None and (query.image_set, query.texts) not in asked for query in dataset.queries.values()
    )
    return [f"{lost} descriptions with labels are asked about nowhere here and count for no phenomenon"] if lost else []


class Contextual(Question):
    """Sets of similar images."""

    LEARNER: ClassVar[str] = "ctxr.problems.contextual.learner:ContextualLearner"
    KIND: ClassVar[str] = RUN
    FOLDER: ClassVar[str] = RUNS
    evaluation = SetEvaluation

    def explains(self, config: Mapping[str, Any]) -> bool:
        """Heads that look at the candidates of a query together."""
        return config.get("variant") in WITH_HEAD

    def takes(self, request: EvalRequest) -> bool:
        """Everything: files of scores, runs and encoders on queries for an image."""
        return True
