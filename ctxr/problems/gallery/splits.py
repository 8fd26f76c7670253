"""Galleries as models see them: pictures that are searched together, their captions, and which belong together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.truth import Pair
from ctxr.errors import DataError
from ctxr.models.training.recipe import Recipe
from ctxr.problems.queries import EvalQuery
from ctxr.problems.weak_positives import entailed_in, none_entailed
from ctxr.store.hashing import sha256_of
from ctxr.store.records import SplitName

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class GallerySplit:
    """The galleries of one split of the benchmark.

    Attributes:
        side: the split, "" for none. galleries: ids of the image sets.
        images: ids, gallery after gallery. image_galleries: number of the gallery of each.
        captions: ids of the queries. texts: theirs. caption_galleries: number of the gallery of each.
        written: (caption, picture) by index, of pictures that a caption was written for; every caption has one.
        weak: the same of other pictures for which a classifier found that it holds.
    """

    side: str
    galleries: tuple[str, ...]
    images: tuple[str, ...]
    image_galleries: tuple[int, ...]
    captions: tuple[str, ...]
    texts: tuple[str, ...]
    caption_galleries: tuple[int, ...]
    written: Pairs
    weak: Pairs = ()

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def name(self) -> str:
        """The split, `none` for galleries without one."""
        return self.side or "none"

    def asked(self) -> EvalQuery:
        """All of its pictures as one query, for functions that collect the pictures of queries."""
        split: SplitName | None = self.side or None  # type: ignore[assignment]
        return EvalQuery(f"{self.side} galleries", "", "", self.images, None, False, split)

    @property
    def sha256(self) -> str:
        """Over captions and what they were written for."""
        return sha256_of([self.galleries, self.images, self.captions, self.texts, self.written])


@dataclass
class _Making:
    galleries: list[str] = field(default_factory=list)
    images: dict[str, int] = field(default_factory=dict)
    image_galleries: list[int] = field(default_factory=list)
    captions: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    caption_galleries: list[int] = field(default_factory=list)
    written: set[tuple[int, int]] = field(default_factory=set)


def gallery_splits(dataset: Dataset, entailed: Mapping[Pair, bool] | None = None) -> dict[str, GallerySplit]:
    """The galleries of each side in which captions ask for pictures, with all of their pictures.

    Captions that were written for no known picture are left out. Raises DataError for a picture in two galleries of a side.
    """
    targets: dict[str, list[str]] = {}
    for query, one, place in dataset.targets():
        targets.setdefault(query.id, []).append(one.images[place])
    by_id = {one.id: one for one in dataset.sets}
    sides: dict[str, _Making] = {}
    for name, query in sorted(dataset.queries.items(), key=lambda item: (item[1].image_set, item[0])):
        if query.labels is not None or name not in targets:
            continue
        gallery = by_id[query.image_set]
        making = sides.setdefault(dataset.split_of(gallery) or "", _Making())
        if not making.galleries or making.galleries[-1] != gallery.id:
            making.galleries.append(gallery.id)
            for image in gallery.images:
                if image in making.images:
                    raise DataError(
                        f"the picture {image} stands in the gallery {gallery.id!r} and in another one, or twice",
                        hint="give it one place",
                    )
                making.images[image] = len(making.images)
                making.image_galleries.append(len(making.galleries) - 1)
        caption = making.captions[name] = len(making.captions)
        making.texts.append(" ".join(dataset.texts[one].text for one in query.texts))
        making.caption_galleries.append(len(making.galleries) - 1)
        making.written |= {(caption, making.images[image]) for image in targets[name]}
    return {side: _made(side, making, entailed or {}) for side, making in sides.items()}


def splits_for(dataset: Dataset, recipe: Recipe, judgments: Path | None) -> dict[str, GallerySplit]:
    """The sides that a recipe has to do with; weak positives are those of the dataset's judgments and of `judgments`.

    Raises DataError where there is nothing to train on, or no weak positive for a recipe that wants some.
    """
    sides = gallery_splits(dataset, entailed_in(dataset, judgments) if recipe.weak != "off" else {})
    if "train" not in sides:
        raise DataError(
            f"{dataset.name} has no gallery with captions on the train side, so there is nothing to learn from",
            hint="name another --dataset",
        )
    if recipe.weak != "off" and not sides["train"].weak:
        raise none_entailed(dataset)
    return {side: sides[side] for side in ("train", "valid", "test") if side in sides}


def _made(side: str, making: _Making, entailed: Mapping[Pair, bool]) -> GallerySplit:
    weak = {
        (making.captions[caption], making.images[image])
        for (caption, image), said in entailed.items()
        if said and caption in making.captions and image in making.images
    }
    inside = {pair for pair in weak if making.caption_galleries[pair[0]] == making.image_galleries[pair[1]]}
    return GallerySplit(
        side,
        tuple(making.galleries),
        tuple(making.images),
        tuple(making.image_galleries),
        tuple(making.captions),
        tuple(making.texts),
        tuple(making.caption_galleries),
        tuple(sorted(making.written)),
        tuple(sorted(inside - making.written)),
    )


def first_owners(side: GallerySplit) -> np.ndarray:
    """The picture that each caption was written for, [C]; the first where it was written for several."""
    captions, images = (np.array(column, np.int64) for column in zip(*side.written, strict=True))
    owners: np.ndarray = images[np.unique(captions, return_index=True)[1]]
    return owners
