"""Galleries as models see them: pictures that are searched together, their captions, and which belong together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.truth import Pair
from ctxr.errors import DataError
from ctxr.problems.gallery.recipe import GalleryRecipe
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

    @cached_property
    def image_index(self) -> dict[str, int]:
        """Places of pictures by id."""
        return {image: index for index, image in enumerate(self.images)}

    @cached_property
    def caption_index(self) -> dict[str, int]:
        """Places of captions by id."""
        return {caption: index for index, caption in enumerate(self.captions)}

    def as_query(self) -> EvalQuery:
        """All of its pictures as one query, for functions that collect the pictures of queries."""
        split: SplitName | None = self.side or None  # type: ignore[assignment]
        return EvalQuery(f"{self.side} galleries", "", "", self.images, None, False, split)

    @property
    def sha256(self) -> str:
        """Over captions and what they were written for."""
        return sha256_of([self.galleries, self.images, self.captions, self.texts, self.written])


@dataclass
class _Builder:
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
    for query, one, position in dataset.targets():
        targets.setdefault(query.id, []).append(one.images[position])
    by_id = {image_set.id: image_set for image_set in dataset.sets}
    builders: dict[str, _Builder] = {}
    for name, query in sorted(dataset.queries.items(), key=lambda item: (item[1].image_set, item[0])):
        if query.labels is not None or name not in targets:
            continue
        gallery = by_id[query.image_set]
        builder = builders.setdefault(dataset.split_of(gallery) or "", _Builder())
        if not builder.galleries or builder.galleries[-1] != gallery.id:
            builder.galleries.append(gallery.id)
            for image in gallery.images:
                if image in builder.images:
                    raise DataError(
                        f"the picture {image} stands in the gallery {gallery.id!r} and in another one, or twice",
                        hint="give it one place",
                    )
                builder.images[image] = len(builder.images)
                builder.image_galleries.append(len(builder.galleries) - 1)
        caption = builder.captions[name] = len(builder.captions)
        builder.texts.append(" ".join(dataset.texts[text].text for text in query.texts))
        builder.caption_galleries.append(len(builder.galleries) - 1)
        builder.written |= {(caption, builder.images[image]) for image in targets[name]}
    return {split: _built(split, builder, entailed or {}) for split, builder in builders.items()}


def splits_for(dataset: Dataset, recipe: GalleryRecipe, judgments: Path | None) -> dict[str, GallerySplit]:
    """The sides that a recipe has to do with; weak positives are those of the dataset's judgments and of `judgments`.

    Raises DataError where there is nothing to train on, or no weak positive for a recipe that wants some.
    """
    splits = gallery_splits(dataset, entailed_in(dataset, judgments) if recipe.weak != "off" else {})
    if "train" not in splits:
        raise DataError(
            f"{dataset.name} has no gallery with captions on the train side, so there is nothing to learn from",
            hint="name another --dataset",
        )
    if recipe.weak != "off" and not splits["train"].weak:
        raise none_entailed(dataset)
    return {split: splits[split] for split in ("train", "valid", "test") if split in splits}


def _built(split: str, builder: _Builder, entailed: Mapping[Pair, bool]) -> GallerySplit:
    weak = {
        (builder.captions[caption], builder.images[image])
        for (caption, image), entails in entailed.items()
        if entails and caption in builder.captions and image in builder.images
    }
    inside = {pair for pair in weak if builder.caption_galleries[pair[0]] == builder.image_galleries[pair[1]]}
    return GallerySplit(
        split,
        tuple(builder.galleries),
        tuple(builder.images),
        tuple(builder.image_galleries),
        tuple(builder.captions),
        tuple(builder.texts),
        tuple(builder.caption_galleries),
        tuple(sorted(builder.written)),
        tuple(sorted(inside - builder.written)),
    )


def first_owners(split: GallerySplit) -> np.ndarray:
    """The picture that each caption was written for, [C]; the first where it was written for several."""
    captions, images = (np.array(column, np.int64) for column in zip(*split.written, strict=True))
    return images[np.unique(captions, return_index=True)[1]]
