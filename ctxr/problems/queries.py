"""Queries for an image of a set, as models see them: text, candidate images in order, target."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxr.datasets.changes import refuse_other
from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.store.artifacts import MANIFEST
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.records import SplitName


@dataclass(frozen=True)
class EvalQuery:
    """One query for an image of a set.

    Attributes:
        text: all texts of the query, joined by blanks.
        images: ids in the order of the set. target: position in them; None where it is not known.
        ordered: whether that order is one of time.
        weak: ids of further images for which the text was found to hold, where a recipe uses them.
        unsure: ids of those about which no judge is sure.
    """

    query: str
    image_set: str
    text: str
    images: tuple[str, ...]
    target: int | None
    ordered: bool
    split: SplitName | None
    weak: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()


def queries_of(dataset: Dataset, queries: Collection[str] | None = None) -> list[EvalQuery]:
    """Every query of the dataset for an image, or those of the given ids, by id. Queries with labels are left out.

    Raises DataError for a query that the dataset has not.
    """
    if lost := sorted(set(queries or ()) - dataset.queries.keys()):
        raise DataError(f"{dataset.name} has no query {lost[0]!r}", hint="name the dataset that the queries are from")
    by_id = {image_set.id: image_set for image_set in dataset.sets}
    targets = {query.id: position for query, _, position in dataset.targets()}
    rows = []
    for name, query in sorted(dataset.queries.items()):
        if query.labels is None and (queries is None or name in queries):
            image_set = by_id[query.image_set]
            text = " ".join(dataset.texts[one].text for one in query.texts)
            split = dataset.split_of(image_set)
            ordered = image_set.kind == "video"
            rows.append(EvalQuery(name, image_set.id, text, image_set.images, targets.get(name), ordered, split))
    return rows


def pictures_of(dataset: Dataset, queries: Sequence[EvalQuery]) -> dict[str, Path]:
    """The file of every image of the queries, by id. Raises DataError when one does not exist."""
    wanted = sorted({image for query in queries for image in query.images})
    files = {image: dataset.picture(dataset.images[image]) for image in wanted}
    lost = {image for image, file in files.items() if file is None or not file.is_file()}
    if lost:
        sets = sorted({query.image_set for query in queries if lost & {*query.images}})
        why = next((note for note in dataset.notes if sets[0] in note), f"the first is {min(lost)}")
        count = f"{len(sets)} set" if len(sets) == 1 else f"{len(sets)} sets"
        raise DataError(
            f"{len(lost)} of {len(wanted)} pictures that {dataset.name} asks about do not exist, in {count}: {why}",
            hint="put the pictures where the dataset names them, or name an artifact that holds its own",
        )
    return {image: file for image, file in files.items() if file is not None}


def contents_of(
    dataset: Dataset, files: Mapping[str, Path], passed: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """SHA-256 of each picture by image id; `passed` is called after each.

    A recorded hash is verified where the file is newer than the manifest. Raises DataError for a changed picture.
    """
    manifest = None if dataset.root is None else dataset.root / MANIFEST
    written = manifest.stat().st_mtime_ns if manifest is not None and manifest.is_file() else None
    contents = {}
    for image, file in files.items():
        digest = dataset.images[image].sha256
        if digest and written is not None and file.stat().st_mtime_ns > written:
            refuse_other(file, digest)
        contents[image] = digest or sha256_file(file)
        passed()
    return contents


def sha256_of_queries(queries: Sequence[EvalQuery], contents: Mapping[str, str]) -> str:
    """One hash over all texts and pictures that a model receives."""
    rows = [
        (query.query, query.image_set, query.text, query.images, query.target, query.ordered, query.split)
        for query in queries
    ]
    unsure = [(query.query, query.unsure) for query in queries if query.unsure]
    return sha256_of([rows, sorted(contents.items()), *([unsure] if unsure else [])])


def check_positions(queries: Iterable[EvalQuery], most: int, every: bool) -> None:
    """Raises DataError for an ordered set of more images than positions are learned; with `every`, for any such set."""
    for query in queries:
        if (query.ordered or every) and len(query.images) > most:
            raise DataError(
                f"{query.query} asks about {len(query.images)} images in order, and {most} positions are learned",
                hint="use a recipe without positions, such as clip-module",
            )


def by_split(queries: Iterable[EvalQuery]) -> dict[str, list[EvalQuery]]:
    """Queries of each side of the benchmark that has any, "" for none: each is embedded by itself, and so only once."""
    splits: dict[str, list[EvalQuery]] = {}
    for query in queries:
        splits.setdefault(query.split or "", []).append(query)
    return splits
