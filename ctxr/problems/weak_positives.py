"""Weak positives of image sets, further images for which a description was found to hold, and images about which no judge is sure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.truth import Pair, read_verdicts, unsure_pairs
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.problems.human_labels import HumanLabels, Verdicts, people_of, verdicts_of
from ctxr.problems.queries import EvalQuery


def verdicts_in(dataset: Dataset, judgments: Path | None, workdir: Path) -> Verdicts:
    """What judges say in the dataset's judgments and in `judgments`, and people of unsure pairs. Raises DataError where that table does
    not exist, and for damaged ones."""
    rows = [*dataset.judgments, *(read_verdicts(judgments) if judgments else ())]
    folders = [one for one in (judgments, dataset.root) if one is not None]
    return verdicts_of(rows, people_of(folders, workdir) if unsure_pairs(rows) else HumanLabels())


def none_entailed(dataset: Dataset) -> DataError:
    """What a recipe that wants weak positives says where there are none to learn from."""
    return DataError(
        f"the recipe wants weak positives, and nothing was found to be entailed on the train side of {dataset.name}",
        hint="--judgments TABLE of a later round, or --set weak=off",
    )


def with_weak_positives(
    queries: Sequence[EvalQuery], dataset: Dataset, anywhere: bool, verdicts: Verdicts, progress: Progress
) -> list[EvalQuery]:
    """Queries to learn from, with the images beside the target for which each was found to hold, and the unsure ones.

    They are those of its own set; `anywhere`, for training that draws from all sets, those of any set that is asked about.
    Raises DataError where no query has either.
    """
    positives = by_query(pair for pair, entails in verdicts[0].items() if entails)
    pool = {image for one in queries for image in one.images} if anywhere else None
    marked = [replace(one, weak=_beside(one, positives, pool)) for one in with_unsure(queries, verdicts, pool)]
    some = [len(one.weak) for one in marked if one.weak]
    if not some and not any(one.unsure for one in marked):
        raise none_entailed(dataset)
    progress.note(f"{sum(some)} weak positives of {len(some)} of {len(queries)} queries to train on")
    return marked


def with_unsure(queries: Sequence[EvalQuery], verdicts: Verdicts, pool: set[str] | None = None) -> list[EvalQuery]:
    """Queries with the images, of their own sets or of `pool`, about which no judge is sure."""
    unsure = by_query(verdicts[1])
    return [replace(one, unsure=_beside(one, unsure, pool)) for one in queries]


def by_query(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """The images of pairs of a query and an image, by query."""
    images: dict[str, list[str]] = {}
    for query, image in sorted(pairs):
        images.setdefault(query, []).append(image)
    return images


def _beside(one: EvalQuery, found: Mapping[str, Sequence[str]], pool: set[str] | None) -> tuple[str, ...]:
    targets = {one.images[position] for position in one.targets}
    near = {*one.images} if pool is None else pool
    return tuple(image for image in found.get(one.query, ()) if image in near and image not in targets)
