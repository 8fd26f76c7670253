"""Scores of a run or an encoder, as rows."""

from collections.abc import Collection
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Silent
from ctxr.problems.contextual.learner import OpenSets
from ctxr.problems.runs import ScoringOptions
from ctxr.store.records import Score


def scores_of(
    model: Path | str, dataset: Dataset, queries: Collection[str] | None = None, workdir: Path | None = None
) -> list[Score]:
    """By a run's folder, in the project that it lies in unless another is named, or by an encoder's name."""
    project = workdir or (model.parents[1] if isinstance(model, Path) else Path("work"))
    opened = OpenSets.open(model, ScoringOptions(project), Silent()).score((dataset, queries))
    return [
        Score(query, candidate, scorer, value)
        for scorer, by_query in opened.items()
        for query, row in by_query.items()
        for candidate, value in row.items()
    ]
