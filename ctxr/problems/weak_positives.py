"""Weak positives of image sets: further images for which the description of another one was found to hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.truth import Pair, read_judgments, verdicts
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.models.training.recipe import Recipe
from ctxr.problems.queries import EvalQuery


def entailed_in(dataset: Dataset, judgments: Path | None) -> dict[Pair, bool]:
    """What classifiers said in the dataset's judgments and in `judgments`. Raises DataError where that does not exist."""
    return verdicts([*dataset.judgments, *(read_judgments(judgments) if judgments else ())])


def none_entailed(dataset: Dataset) -> DataError:
    """What a recipe that wants weak positives says where there are none to learn from."""
    return DataError(
        f"the recipe wants weak positives, and nothing was found to be entailed on the train side of {dataset.name}",
        hint="--judgments TABLE of a later round, or --set weak=off",
    )


def with_weak_positives(
    queries: Sequence[EvalQuery], dataset: Dataset, recipe: Recipe, judgments: Path | None, progress: Progress
) -> list[EvalQuery]:
    """Queries that a recipe learns from, with the images beside the target for which each was found to hold.

    They are those of its own set; where a variant has no context and draws from all sets, those of any set that is asked about.
    Raises DataError where no query has one.
    """
    positives: dict[str, list[str]] = {}
    for (query, image), entails in sorted(entailed_in(dataset, judgments).items()):
        if entails:
            positives.setdefault(query, []).append(image)
    pool = {image for one in queries for image in one.images} if recipe.variant == "none" else None
    marked = [replace(one, weak=_weak(one, positives, pool)) for one in queries]
    some = [len(one.weak) for one in marked if one.weak]
    if not some:
        raise none_entailed(dataset)
    progress.note(f"{sum(some)} weak positives of {len(some)} of {len(queries)} queries to train on")
    return marked


def _weak(one: EvalQuery, positives: Mapping[str, Sequence[str]], pool: set[str] | None) -> tuple[str, ...]:
    target = None if one.target is None else one.images[one.target]
    near = {*one.images} if pool is None else pool
    return tuple(image for image in positives.get(one.query, ()) if image in near and image != target)
