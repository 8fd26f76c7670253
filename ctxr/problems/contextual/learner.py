"""How models are trained and opened that answer about sets of images."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError, UsageError
from ctxr.models.context import PLACES
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.loop import Objective, TrainingRun
from ctxr.problems.contextual.objective import ContextualObjective
from ctxr.problems.contextual.recipe import ContextualRecipe
from ctxr.problems.contextual.scoring import OpenSets
from ctxr.problems.queries import EvalQuery, by_split, check_positions, queries_of
from ctxr.problems.runs import SCORES, scorers_in
from ctxr.problems.scorer_training import ScorerJob, Source
from ctxr.problems.scoring import prepared
from ctxr.problems.weak_positives import with_weak_positives
from ctxr.store.records import Score
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_table


class ContextualJob(ScorerJob):
    """Seeds that find the target of each query among the images of its set."""

    NOTE: ClassVar[str] = "candidates that share the highest score share the hit"

    recipe: ContextualRecipe

    def read(self, dataset: Dataset, judgments: Path | None) -> list[tuple[str, tuple[str, ...]]]:
        """See `ScorerJob`; the queries of each split, those for training all with targets."""
        recipe = self.recipe
        self.asked = _splits(dataset, recipe)
        if recipe.weak != "off":
            train = with_weak_positives(self.asked["train"], dataset, recipe, judgments, self.progress)
            self.asked["train"] = train
        if recipe.variant == "temporal":
            everything = [query for queries in self.asked.values() for query in queries]
            check_positions(everything, PLACES, recipe.all_positions)
        self.queries = {split: len(queries) for split, queries in self.asked.items()}
        self.judged_on = _judged_on(recipe, self.asked)
        return [(query.query, query.weak) for query in self.asked.get("train", []) if query.weak]

    def examples(self, source: Source) -> tuple[ExampleTable, ExampleTable | None]:
        """For an encoder that learns, or of what a frozen one says."""
        frozen, precision = not self.recipe.tunes, self.recipe.precision
        prepare = prepared(source, self.pictures, frozen, self.device, precision, self.progress)
        judged = [query for query in self.asked.get(self.judged_on, []) if query.target is not None]
        if self.recipe.judged_on_test:
            self.progress.warn(
                "judged_on_test: test chooses the epoch, so its accuracy is no estimate of anything"
                if self.judged_on == "test"
                else "judged_on_test: no target of the test side is known, so valid chooses the epoch"
            )
        return prepare(self.asked["train"]), prepare(judged) if judged else None

    def objective(self, source: Source, train: Any, valid: Any) -> Callable[[TrainingRun], Objective]:
        """The target among the candidates of its query."""
        return partial(ContextualObjective, self.recipe, train, valid)

    def write_scores(self) -> list[str]:
        """A score for every candidate."""
        judged = [query for split in ("valid", "test") for query in self.asked.get(split, [])]
        opened = OpenSets(scorers_in(self.out), self.encoder, self.scoring, self.progress)
        write_scores(self.out / SCORES, opened.rows(judged, self.pictures))
        return [SCORES]

    def results(self) -> list[tuple[float | None, float | None]]:
        """Expected accuracies."""
        values: dict[str, dict[str, dict[str, float]]] = {}
        for row in read_table(self.out / SCORES, Score):
            values.setdefault(row.scorer, {}).setdefault(row.query, {})[row.candidate] = row.value
        valid, test = (self.asked.get(split, []) for split in ("valid", "test"))
        return [
            (_accuracy(values.get(name, {}), valid), _accuracy(values.get(name, {}), test)) for name in self.scorers
        ]


def _judged_on(recipe: ContextualRecipe, splits: Mapping[str, Sequence[EvalQuery]]) -> str:
    labelled = {split for split, queries in splits.items() if any(query.target is not None for query in queries)}
    if not recipe.learns:
        return ""
    if recipe.judged_on_test and "test" in labelled:
        return "test"
    return "valid" if "valid" in labelled else ""


def _splits(dataset: Dataset, recipe: ContextualRecipe) -> dict[str, list[EvalQuery]]:
    """The queries of each split that the recipe has to do with; those for training all have targets."""
    splits = by_split(queries_of(dataset))
    train = [query for query in splits.get("train", []) if query.target is not None]
    if recipe.learns and not train:
        raise DataError(
            f"{dataset.name} has no query with a known target on the train side, so there is nothing to learn from",
            hint="name another --dataset; the recipe clip-zero-shot needs no training",
        )
    if recipe.learns and recipe.leaked_gradients and len(train) < recipe.batch:
        raise UsageError(
            f"with leaked_gradients a step of fewer than batch = {recipe.batch} queries is never taken, and {dataset.name} "
            f"has {len(train)} to train on: nothing would be learned",
            hint=f"--set batch={len(train)}, or --set leaked_gradients=false",
        )
    judged = {split: splits[split] for split in ("valid", "test") if split in splits}
    if not judged and not recipe.learns:
        raise DataError(
            f"{dataset.name} has no query on the valid or test side to score", hint="name another --dataset"
        )
    return ({"train": train} if recipe.learns else {}) | judged


def _accuracy(scores: Mapping[str, Mapping[str, float]], queries: Sequence[EvalQuery]) -> float | None:
    """Share 0..1 of queries whose target scores highest; of n candidates that share the top each counts 1/n.

    None where no target is known.
    """
    hits = []
    for query in queries:
        if query.target is not None:
            # by position: a set may hold an image twice
            values = [scores[query.query][image] for image in query.images]
            hits.append((values[query.target] == max(values)) / values.count(max(values)))
    return mean(hits) if hits else None


class ContextualLearner:
    """See `Learner`."""

    Recipe: ClassVar[type[ContextualRecipe]] = ContextualRecipe
    job = ContextualJob
    open_run = OpenSets.open
