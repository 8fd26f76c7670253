"""Queries for images of a set: texts, candidate images in order, targets, and payloads."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError, plural
from ctxr.store.records import ImageSet, Query, Record, SplitName, Text
from ctxr.store.tables import PAYLOADS, grouped


@dataclass(frozen=True)
class EvalQuery:
    """One query for images of a set.

    Attributes:
        texts: in the order of the query. images: ids in the order of the set.
        targets: positions of the relevant ones in them, rising; none where they are not known.
        ordered: whether that order is one of time.
        weak: ids of further images for which the text was found to hold, where a recipe uses them.
        unsure: ids of those about which no judge is sure.
        payload: rows of the payload tables that belong to it, its texts, its images or its set, by table, in the order of their owners.
    """

    query: str
    image_set: str
    texts: tuple[Text, ...]
    images: tuple[str, ...]
    targets: tuple[int, ...]
    ordered: bool
    split: SplitName | None
    weak: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    payload: Mapping[str, Sequence[Record]] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """All texts, joined by blanks, for encoders that take one."""
        return " ".join(one.text for one in self.texts)

    @property
    def target(self) -> int | None:
        """The only target; None where none is known. Raises DataError where there are several."""
        if len(self.targets) > 1:
            raise DataError(
                f"the query {self.query!r} has {len(self.targets)} relevant images, and only one can be learned here",
                hint="use a recipe that learns from several, or leave the query out",
            )
        return self.targets[0] if self.targets else None


def queries_of(dataset: Dataset, queries: Collection[str] | None = None) -> list[EvalQuery]:
    """Every query of the dataset for images, or those of the given ids, by id. Queries with labels are left out.

    Raises DataError for a query that the dataset has not.
    """
    if lost := sorted(set(queries or ()) - dataset.queries.keys()):
        raise DataError(f"{dataset.name} has no query {lost[0]!r}", hint="name the dataset that the queries are from")
    by_id = {image_set.id: image_set for image_set in dataset.sets}
    targets = grouped((query.id, position) for query, _, position in dataset.targets())

    @cache  # all queries of a gallery share the rows of its images
    def rows_of(name: str, owners: tuple[str, ...]) -> list[Record]:
        return [row for owner in owners for row in dataset.payload(PAYLOADS[name].of, owner).get(name, ())]

    def payload(query: Query, image_set: ImageSet) -> dict[str, list[Record]]:
        owners = {"query": (query.id,), "text": query.texts, "image": image_set.images, "image_set": (image_set.id,)}
        return {name: own for name in dataset.payloads if (own := rows_of(name, owners[PAYLOADS[name].of]))}

    asked = [one for one in dataset.queries.values() if one.labels is None and (queries is None or one.id in queries)]
    return [
        EvalQuery(
            query=one.id,
            image_set=one.image_set,
            texts=tuple(dataset.texts[text] for text in one.texts),
            images=by_id[one.image_set].images,
            targets=tuple(sorted({*targets[one.id]})),
            ordered=by_id[one.image_set].ordered,
            split=dataset.split_of(by_id[one.image_set]),
            payload=payload(one, by_id[one.image_set]),
        )
        for one in sorted(asked, key=lambda one: one.id)
    ]


def pictures_of(dataset: Dataset, queries: Sequence[EvalQuery]) -> dict[str, Path]:
    """The file of every image of the queries, by id. Raises DataError when one does not exist."""
    wanted = sorted({image for query in queries for image in query.images})
    files = {image: dataset.picture(dataset.images[image]) for image in wanted}
    lost = {image for image, file in files.items() if file is None or not file.is_file()}
    if lost:
        sets = sorted({query.image_set for query in queries if lost & {*query.images}})
        why = next((note for note in dataset.notes if sets[0] in note), f"the first is {min(lost)}")
        count = plural(len(sets), "set")
        raise DataError(
            f"{len(lost)} of {len(wanted)} pictures that the queries of {dataset.name} need do not exist, in {count}: {why}",
            hint="put them beside the queries (of ImageCoDe as image-sets/SET/imgN.jpg), or evaluate a file of scores, which needs none",
        )
    return {image: file for image, file in files.items() if file is not None}


def check_positions(queries: Iterable[EvalQuery], most: int, every: bool) -> None:
    """Raises DataError for an ordered set, or with `every` any set, of more than `most` images."""
    for query in queries:
        if (query.ordered or every) and len(query.images) > most:
            raise DataError(
                f"{query.query} asks about {len(query.images)} images in order, and {most} positions are learned",
                hint="use a recipe without positions, such as clip-module",
            )


def by_split(queries: Iterable[EvalQuery]) -> dict[str, list[EvalQuery]]:
    """Queries by split, "" for none; each split is embedded by itself, and so only once."""
    return grouped((query.split or "", query) for query in queries)
