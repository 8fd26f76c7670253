"""Documents with known links, made of the captions that a dataset has: the constructions of Hessel et al. (2019).

Sentences and images of a document are shuffled, so positions say nothing, and every pair is judged. A split has images of its own.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import DocumentTables, is_documents
from ctxr.datasets.splits import SPLITS, connected
from ctxr.errors import DataError, plural
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Image, ImageSet, SplitName

SIZE, FOREIGN, STEPS = 5, 45, 6
"""Pairs of a story, captions of other albums in DII-Stress, and most steps of a recipe."""

_ATTEMPTS, _MOST_OF_A_GROUP = 20, 40
"""At another document of one group of images, and documents of an album or story."""

Item = tuple[Image, tuple[str, ...]]
"""An image and what was written about it, if anything."""

Part = tuple[str | None, list[Image]]
"""A sentence, or None, and the images that are linked to it, if any."""


def _pairs(rng: np.random.Generator, group: Sequence[Item], count: int = SIZE) -> list[Part]:
    """Described images, each with one of its captions."""
    described = [item for item in group if item[1]]
    chosen = [described[place] for place in rng.choice(len(described), count, replace=False)]
    return [(texts[rng.integers(len(texts))], [image]) for image, texts in chosen]


def _coco(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> list[Part]:
    """Five pairs, five images without their caption and five captions without their image."""
    parts = _pairs(rng, group, 3 * SIZE)
    alone: list[Part] = [(None, images) for _, images in parts[SIZE : 2 * SIZE]]
    return [*parts[:SIZE], *alone, *((text, []) for text, _ in parts[2 * SIZE :])]


def _story(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> list[Part]:
    """Five pairs."""
    return _pairs(rng, group)


def _stress(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> list[Part]:
    """The story that is drawn first by the same generator, and captions of other albums."""
    story, own = _pairs(rng, group), {image.id for image, _ in group}
    foreign = [item for item in others if item[0].id not in own]
    captions = dict.fromkeys(text for text, _ in _pairs(rng, foreign, min(3 * FOREIGN, len(foreign))))
    new: list[Part] = [(text, []) for text in captions if text not in dict(story)]
    return [*story, *new[:FOREIGN]] if len(new) >= FOREIGN else []


def _recipe(rng: np.random.Generator, group: Sequence[Item], others: Sequence[Item]) -> list[Part]:
    """Up to six described images as steps, each with the images that follow it until the next step."""
    described = [place for place, item in enumerate(group) if item[1]]
    steps = sorted(rng.choice(described, min(STEPS, len(described)), replace=False).tolist())
    spans = [group[step:after] for step, after in itertools.pairwise([*steps, len(group)])]
    return [(span[0][1][rng.integers(len(span[0][1]))], [image for image, _ in span]) for span in spans]


class Construction(NamedTuple):
    """How a document is drawn from a group of items, what the groups are, and how many described images one needs."""

    draw: Callable[[np.random.Generator, Sequence[Item], Sequence[Item]], list[Part]]
    groups: Literal["split", "album", "story"]
    least: int
    needs: str


CONSTRUCTIONS = {
    "coco": Construction(_coco, "split", 3 * SIZE, f"{3 * SIZE} captioned images"),
    "story-dii": Construction(_story, "album", SIZE, f"an album of {SIZE} captioned photos"),
    "story-sis": Construction(_story, "story", SIZE, f"a video set with {SIZE} described images"),
    "dii-stress": Construction(_stress, "album", SIZE, f"an album of {SIZE} captioned photos beside {FOREIGN} others"),
    "recipe": Construction(_recipe, "story", 2, "a video set with 2 described images"),
}
"""Documents by the names of the paper's datasets."""

_HINTS = {
    "split": "take a dataset with more captions, or ask for documents of fewer splits",
    "album": "photos in folders, or static sets of ImageCoDe, are albums; build coco documents of single photos",
    "story": "video sets with descriptions, as in ImageCoDe, are stories; build coco or story-dii documents of photos",
}


def construct(dataset: Dataset, kind: str, wanted: Mapping[SplitName, int], seed: int) -> Dataset:
    """Documents of a `kind` of CONSTRUCTIONS, up to as many as are wanted of each split; notes name each split that gives fewer.

    Where fewer than two splits have captions, images are dealt by hash, in the proportion of what is wanted. Raises DataError for
    a dataset of documents, and where there is not a single document.
    """
    if is_documents(dataset):
        raise DataError(f"{dataset.name} holds documents", hint="name the dataset whose captions they are made of")
    wanted = {split: wanted[split] for split in SPLITS if wanted.get(split)}
    construction, tables = CONSTRUCTIONS[kind], DocumentTables()
    by_split, notes = _groups(dataset, construction.groups, wanted, seed)
    for split, most in wanted.items():
        made, drawings = 0, _drawings(construction, by_split[split], most, (seed, SPLITS.index(split)))
        for made, (parts, rng) in enumerate(itertools.islice(drawings, most), 1):
            sentences = [(text, linked) for text, linked in parts if text is not None]
            sentences = [sentences[place] for place in rng.permutation(len(sentences))]
            images = [image for _, linked in parts for image in linked]
            images = [images[place] for place in rng.permutation(len(images))]
            links = np.array([[image in linked for image in images] for _, linked in sentences], np.float64)
            tables.add(f"{split}-{made - 1:05d}", split, [text for text, _ in sentences], images, links)
        if made < most:
            why = "no more can be drawn" if made else f"it lacks {construction.needs}"
            notes.append(f"{split} gives {made} of {plural(most, 'document')}: {why}")
    if not tables.sets:
        sentence = f"{dataset.name} gives no {kind} document: it lacks {construction.needs}"
        raise DataError(sentence, hint=_HINTS[construction.groups])
    return tables.dataset(dataset.name, dataset.root, notes)


def _drawings(
    construction: Construction, groups: Mapping[str, list[Item]], wanted: int, seed: tuple[int, int]
) -> Iterator[tuple[list[Part], np.random.Generator]]:
    """Different documents of a split, from one group after the other, with the generator of each."""
    others = [item for _, group in sorted(groups.items()) for item in group if item[1]]
    ready = [group for _, group in sorted(groups.items()) if sum(bool(item[1]) for item in group) >= construction.least]
    order, known = np.random.default_rng(seed).permutation(len(ready)), set()
    rounds = wanted if construction.groups == "split" else _MOST_OF_A_GROUP
    for number in range(rounds * len(ready)):
        for attempt in range(_ATTEMPTS):
            rng = np.random.default_rng((*seed, number, attempt))
            parts = construction.draw(rng, ready[order[number % len(ready)]], others)
            texts = [text for text, _ in parts if text is not None]
            content = frozenset(texts), frozenset(image.id for _, linked in parts for image in linked)
            if texts and len(content[0]) == len(texts) and content not in known:
                known.add(content)
                yield parts, rng
                break


def _groups(
    dataset: Dataset, groups: str, wanted: Mapping[SplitName, int], seed: int
) -> tuple[dict[SplitName, dict[str, list[Item]]], list[str]]:
    """What documents are drawn from, by split and group, and a note where the splits are not those of the dataset."""
    captions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for query, image_set, position in dataset.targets():
        text = " ".join(dataset.texts[name].text for name in query.texts)
        captions[image_set.id, image_set.images[position]].append(text)
    described = {image_set for image_set, _ in captions}
    kind = {"album": "photos", "story": "video"}.get(groups)
    rows = [
        (one, image, _album(one, image), captions.get((one.id, name), []))
        for one in dataset.sets
        if one.id in described and kind in (None, one.kind)
        for name in one.images
        if ((image := dataset.images[name]).path or dataset.root is None)
        and (groups == "story" or (one.id, name) in captions)
    ]
    splits: dict[str, SplitName | None] = {album: dataset.split_of(one) for one, _, album, _ in rows}
    notes = []
    if len({*splits.values()} - {None}) < 2:
        splits = _dealt(splits, dataset, wanted, seed)
        notes = ["the captions are not in several splits, so their images are dealt to train, valid and test by hash"]
    items: dict[SplitName, dict[str, dict[str, Item]]] = {split: defaultdict(dict) for split in wanted}
    for one, image, album, texts in rows:
        if (split := splits[album]) in items:
            group = items[split][{"split": "", "album": album, "story": one.id}[groups]]
            before = group[image.id][1] if image.id in group else ()
            group[image.id] = msgspec.structs.replace(image, group=album), (*before, *texts)
    return {split: {name: [*own.values()] for name, own in named.items()} for split, named in items.items()}, notes


def _album(image_set: ImageSet, image: Image) -> str:
    """What an image must not be parted from: its group, or itself alone where the group is a gallery of single photos."""
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
