"""Scores of runs matched with the queries of a dataset: which splits are evaluated, and which queries lack scores."""

from collections.abc import Mapping, Sequence

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.problems.evaluation import SIDES
from ctxr.problems.runs import ModelScores, Run
from ctxr.store.records import ImageSet

Places = Mapping[str, tuple[str, ImageSet]]
"""Split, of `SIDES`, and set of each query by id, in the order of the dataset."""


def queries_to_score(queries: Places, split: str) -> list[str]:
    """Queries that a model is asked to score: those of the split, else of valid and test, else all."""
    splits = {split} if split else {"valid", "test"}
    return [name for name, (side, _) in queries.items() if side in splits] or list(queries)


def match_scores(
    dataset: Dataset, queries: Places, runs: Sequence[Run], only: str, partial: bool
) -> tuple[dict[str, tuple[list[str], frozenset[str]]], list[str]]:
    """The splits that any run scored, or `only` one of them, each with all of its queries and those among them that some scorer
    lacks or scored in part; and notes on the omitted splits.

    A split without scores of some run is left out with a note, if any other remains.

    Raises DataError naming file:line for scores of what is not asked, and, unless `partial`, for what is missing.
    """
    scorers = [scorer for run in runs for scorer in run.scorers]
    for scorer in scorers:
        _check_queries(dataset, queries, scorer)
    scored = {queries[name][0] for scorer in scorers for name in scorer.values}
    chosen = [split for split in SIDES if split in scored and only in ("", split)]
    if not chosen:
        what = f"of {only}" if only else "that is asked"
        raise DataError(f"{runs[0].name!r} scores no query {what}", hint="name another --split, or leave it out")
    strangers = {
        split: [one.name for one in scorers if not any(queries[name][0] == split for name in one.values)]
        for split in chosen
    }
    shared = [split for split in chosen if not strangers[split]]
    notes = [
        f"{split} is left out, as {', '.join(strangers[split])} scored nothing of it: name the others, with --split {split}"
        for split in chosen
        if shared and strangers[split]
    ]
    return {split: _split_of(split, queries, scorers, partial) for split in shared or chosen}, notes


def _check_queries(dataset: Dataset, queries: Places, scorer: ModelScores) -> None:
    candidates: dict[str, frozenset[str]] = {}
    for name, values in scorer.values.items():
        if name not in queries:
            query = dataset.queries.get(name)
            what = "is not asked" if query is None else "asks for a label, not for an image"
            raise DataError(
                f"{scorer.place(name, None)}: query {name!r} {what} in {dataset.name}",
                hint="evaluate on the dataset that was scored: --dataset PATH",
            )
        image_set = queries[name][1]
        if image_set.id not in candidates:
            candidates[image_set.id] = frozenset(image_set.images)
        strange = values.keys() - candidates[image_set.id]
        if strange:
            first = min(strange)
            raise DataError(
                f"{scorer.place(name, first)}: {first!r} is not a candidate of query {name!r} "
                f"(set {image_set.id!r} has {image_set.images[0]!r} and {len(image_set.images) - 1} more)",
                hint="candidates are the image ids of the query's set",
            )


def _split_of(
    split: str, queries: Places, scorers: Sequence[ModelScores], partial: bool
) -> tuple[list[str], frozenset[str]]:
    own = {name: image_set.images for name, (side, image_set) in queries.items() if side == split}
    lacking: set[str] = set()
    for scorer in scorers:
        unscored = [name for name, images in own.items() if len(scorer.values.get(name, ())) < len(images)]
        if unscored and not partial:
            first, values = unscored[0], scorer.values.get(unscored[0], {})
            lost = next(candidate for candidate in own[first] if candidate not in values)
            what = f"has no score for its candidate {lost!r}" if values else f"of {split} has no score"
            more = f", and {len(unscored) - 1} more are incomplete" if len(unscored) > 1 else ""
            raise DataError(
                f"{scorer.place(first, None)}: query {first!r} {what}{more}",
                hint="score the rest, evaluate one side with --split, or leave them out of all runs with --partial",
            )
        lacking |= {*unscored}
    return list(own), frozenset(lacking)
