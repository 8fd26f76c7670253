"""Documents with known links, made of the captions that a dataset has: the constructions of Hessel et al. (2019).

Sentences and images of a document are shuffled, so positions say nothing, and every pair is judged. A split has images of its own.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import DocumentTables, Links, is_documents
from ctxr.datasets.splits import SPLITS, connected
from ctxr.errors import DataError, plural
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Image, ImageSet, SplitName

SIZE, FOREIGN, STEPS = 5, 45, 6
"""Linked pairs of a document, captions of other albums in DII-Stress, and most steps of a recipe."""

_DRAWS, _MOST_OF_A_GROUP = 20, 40
"""Attempts to draw another document from a group of images, and documents of one group, if there are several groups."""

Item = tuple[Image, tuple[str, ...]]
"""An image and what was written about it, if anything."""


@dataclass
class _Drawing:
    """A document before it is shuffled: (text, place of its image or None), and the images, each with the place of its text."""

    texts: list[str] = field(default_factory=list)
    images: list[tuple[Image, int | None]] = field(default_factory=list)

    def add(self, rng: np.random.Generator, item: Item, text: bool = True, image: bool = True) -> None:
        """Add a caption of an item, its image, or both, which are then linked."""
        if image:
            self.images.append((item[0], len(self.texts) if text else None))
        if text:
            self.texts.append(item[1][int(rng.integers(len(item[1])))])

    def shuffled(self, rng: np.random.Generator) -> tuple[list[str], list[Image], Links]:
        """Sentences, images and links in an order that says nothing."""
        rows, columns = rng.permutation(len(self.texts)), rng.permutation(len(self.images))
        links = np.array([[place == row for _, place in self.images] for row in range(len(self.texts))], np.float64)
        images = [self.images[column][0] for column in columns]
        return [self.texts[row] for row in rows], images, links[rows][:, columns]


def _coco(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> _Drawing:
    """Five pairs, five images without their caption and five captions without their image."""
    drawing = _Drawing()
    for number, place in enumerate(rng.choice(len(group), 3 * SIZE, replace=False).tolist()):
        drawing.add(rng, group[place], text=number // SIZE != 1, image=number // SIZE != 2)
    return drawing


def _story(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> _Drawing:
    """Five images with a caption each."""
    drawing, described = _Drawing(), [item for item in group if item[1]]
    for place in rng.choice(len(described), SIZE, replace=False).tolist():
        drawing.add(rng, described[place])
    return drawing


def _stress(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> _Drawing:
    """A story with captions of other albums; the first draws are those of the story alone."""
    drawing, own = _story(rng, group, others), {image.id for image, _ in group}
    known = set(drawing.texts)
    for place in rng.permutation(len(others)).tolist():
        texts = [text for text in others[place][1] if text not in known]
        if len(drawing.texts) < SIZE + FOREIGN and texts and others[place][0].id not in own:
            drawing.texts.append(texts[int(rng.integers(len(texts)))])
            known.add(drawing.texts[-1])
    return drawing if len(drawing.texts) == SIZE + FOREIGN else _Drawing()


def _recipe(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> _Drawing:
    """Up to six described images as steps, each with the images that follow it until the next step."""
    described = [place for place, item in enumerate(group) if item[1]]
    steps = sorted(rng.choice(described, min(STEPS, len(described)), replace=False).tolist())
    drawing = _Drawing()
    for step, after in itertools.pairwise([*steps, len(group)]):
        drawing.add(rng, group[step])
        drawing.images += [(image, len(drawing.texts) - 1) for image, _ in group[step + 1 : after]]
    return drawing


@dataclass(frozen=True)
class _Construction:
    """How documents of a kind are drawn from a group of items, what the groups are, and what the least is that one needs."""

    draw: Callable[[np.random.Generator, Sequence[Item], Sequence[Item]], _Drawing]
    groups: Literal["split", "album", "story"]
    least: int
    needs: str


CONSTRUCTIONS = {
    "coco": _Construction(_coco, "split", 3 * SIZE, f"{3 * SIZE} captioned images"),
    "story-dii": _Construction(_story, "album", SIZE, f"an album of {SIZE} captioned photos"),
    "story-sis": _Construction(_story, "story", SIZE, f"a video set with {SIZE} described images"),
    "dii-stress": _Construction(_stress, "album", SIZE, f"an album of {SIZE} captioned photos beside {FOREIGN} others"),
    "recipe": _Construction(_recipe, "story", 2, "a video set with 2 described images"),
}
"""Documents by the names of the paper's datasets."""

_HINTS = {
    "split": "take a dataset with more captions, or ask for documents of fewer splits",
    "album": "photos in folders, or static sets of ImageCoDe, are albums; build coco documents of single photos",
    "story": "build story-dii or coco documents of photos; video sets with descriptions, as in ImageCoDe, are stories",
}

Groups = dict[str, list[Item]]
"""Items by the name of their group."""


def construct(dataset: Dataset, kind: str, wanted: Mapping[SplitName, int], seed: int) -> Dataset:
    """Documents of a `kind` of CONSTRUCTIONS, up to as many as are wanted of each split; notes name each split that gives fewer.

    Where fewer than two splits have captions, images are dealt by hash, in the proportion of what is wanted. Raises DataError for
    a dataset of documents, and where there is not a single document.
    """
    if is_documents(dataset):
        raise DataError(f"{dataset.name} holds documents", hint="name the dataset whose captions they are made of")
    wanted = {split: wanted[split] for split in SPLITS if wanted.get(split)}
    construction, tables = CONSTRUCTIONS[kind], DocumentTables()
    by_split, notes = _groups_by_split(dataset, construction, wanted, seed)
    for split, groups in by_split.items():
        made = 0
        for drawing in itertools.islice(_drawings(construction, groups, (seed, SPLITS.index(split))), wanted[split]):
            tables.add(f"{split}-{made:05d}", split, *drawing)
            made += 1
        if made < wanted[split]:
            why = "no more can be drawn" if made else f"it lacks {construction.needs}"
            notes.append(f"{split} gives {made} of {plural(wanted[split], 'document')}: {why}")
    if not tables.sets:
        sentence = f"{dataset.name} gives no {kind} document: it lacks {construction.needs}"
        raise DataError(sentence, hint=_HINTS[construction.groups])
    return tables.dataset(dataset.name, dataset.root, notes)


def _drawings(
    construction: _Construction, groups: Groups, seed: tuple[int, int]
) -> Iterator[tuple[list[str], list[Image], Links]]:
    """Different documents of a split, shuffled, from one group after the other; each is drawn by its own number."""
    items = [group for _, group in sorted(groups.items())]
    others = [item for group in items for item in group if item[1]]
    ready = [group for group in items if sum(bool(texts) for _, texts in group) >= construction.least]
    order, known = np.random.default_rng(seed).permutation(len(ready)).tolist(), set()
    for number in itertools.count() if construction.groups == "split" else range(_MOST_OF_A_GROUP * len(ready)):
        for attempt in range(_DRAWS if ready else 0):
            rng = np.random.default_rng((*seed, number, attempt))
            drawing = construction.draw(rng, ready[order[number % len(ready)]], others)
            content = frozenset(drawing.texts), frozenset(image.id for image, _ in drawing.images)
            if drawing.texts and len(content[0]) == len(drawing.texts) and content not in known:
                known.add(content)
                yield drawing.shuffled(rng)
                break
        else:
            if construction.groups == "split":
                return


def _groups_by_split(
    dataset: Dataset, construction: _Construction, wanted: Mapping[SplitName, int], seed: int
) -> tuple[dict[SplitName, Groups], list[str]]:
    """What documents are drawn from, and a note where the splits are not those of the dataset."""
    captions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for query, image_set, position in dataset.targets():
        text = " ".join(dataset.texts[name].text for name in query.texts)
        captions[image_set.id, image_set.images[position]].append(text)
    rows = list(_rows(dataset, construction.groups, captions))
    splits: dict[str, SplitName | None] = {_album(one, image): dataset.split_of(one) for one, image in rows}
    notes = []
    if len({*splits.values()} - {None}) < 2:
        splits = _dealt(splits, dataset, wanted, seed)
        notes = ["the captions are not in several splits, so their images are dealt to train, valid and test by hash"]
    groups: dict[SplitName, dict[str, dict[str, Item]]] = {split: defaultdict(dict) for split in wanted}
    for image_set, image in rows:
        album = _album(image_set, image)
        split = splits[album]
        if split in groups:
            group = groups[split][{"split": "", "album": album, "story": image_set.id}[construction.groups]]
            texts = (*group.get(image.id, (image, ()))[1], *captions.get((image_set.id, image.id), ()))
            group[image.id] = msgspec.structs.replace(image, group=album), texts
    return {split: {name: [*group.values()] for name, group in named.items()} for split, named in groups.items()}, notes


def _rows(
    dataset: Dataset, groups: str, captions: Mapping[tuple[str, str], list[str]]
) -> Iterator[tuple[ImageSet, Image]]:
    """Each image that may be in a document, with its set: captioned ones, and of a story all; photos alone, or sets in order alone."""
    described = {image_set for image_set, _ in captions}
    kind = {"album": "photos", "story": "video"}.get(groups)
    for image_set in dataset.sets:
        if image_set.id in described and kind in (None, image_set.kind):
            for name in image_set.images:
                available = dataset.images[name].path or dataset.root is None
                if available and (groups == "story" or (image_set.id, name) in captions):
                    yield image_set, dataset.images[name]


def _album(image_set: ImageSet, image: Image) -> str:
    """What an image must not be parted from: its group, or itself alone where the group is no more than a gallery of single photos."""
    gallery = len(image_set.images) > MOST_POSITIONS and image.group == image_set.group
    return image.id if gallery and image_set.kind == "photos" else image.group


def _dealt(
    albums: Iterable[str], dataset: Dataset, wanted: Mapping[SplitName, int], seed: int
) -> dict[str, SplitName | None]:
    """Albums with their splits; those that share footage stay together."""
    parts = sorted(connected(albums, dataset.footage), key=lambda part: sha256_bytes(f"{seed}\0{part[0]}".encode()))
    ends = np.cumsum([*wanted.values()]) / max(1, sum(wanted.values()))
    names = [[*wanted][int(np.searchsorted(ends, (place + 0.5) / len(parts)))] for place in range(len(parts))]
    return {album: split for split, part in zip(names, parts, strict=True) for album in part}
