"""What the splits of a dataset share: sources, files, descriptions, and pictures that look or embed alike."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.media.images import look_print
from ctxr.metrics.leakage import Leak, alike, shared_things
from ctxr.models.picture_vectors import PictureVectors, open_pictures
from ctxr.store.records import ImageSet


@dataclass(frozen=True)
class Nearness:
    """What counts as a near-duplicate.

    Attributes:
        look: root mean square colour difference (0..1) at 16 x 16 pixels; None: pictures are not opened.
        embedding: share of the encoder's threshold.
    """

    look: float | None
    embedding: float


def leakage_table(near: Nearness, dataset: Dataset, vectors: PictureVectors | None, progress: Progress) -> Table | str:
    """Every comparison of two splits that the dataset allows, with numbers and examples."""
    sides: dict[str, str] = {image_set.id: dataset.split_of(image_set) or "" for image_set in dataset.sets}
    present: list[str] = [split for split in SPLITS if split in sides.values()]
    if len(present) < 2:
        return f"leakage needs two splits, and there is {present[0] if present else 'none'}"
    of_image: dict[str, list[tuple[str, str]]] = {}
    for image_set in dataset.sets:
        for name in image_set.images:
            of_image.setdefault(name, []).append((sides[image_set.id], image_set.id))
    leaks = shared_things(
        "source video or album", ((_source(one), sides[one.id], one.id) for one in dataset.sets), present
    )
    leaks += shared_things("same file (sha256)", _files(dataset, of_image), present)
    leaks += shared_things("same description", _texts(dataset, sides), present)
    notes = []
    if vectors is not None:
        limit = near.embedding * vectors.threshold
        leaks += _alike(f"embedding within {limit:.3g} ({vectors.encoder})", vectors, of_image, limit, present)
    else:
        notes.append("no embeddings to compare by")
    prints = None if near.look is None else _prints(dataset, of_image, progress)
    if near.look is not None and prints is not None:
        leaks += _alike(f"look within {near.look:g}", prints, of_image, near.look, present)
    else:
        notes.append("pictures were not opened" if near.look is None else "no pictures to compare by look")
    rows = tuple((leak.what, " – ".join(leak.splits), leak.shared, leak.of, leak.nearest) for leak in leaks)
    note = "of: different things of that sort in the second split" + "".join(f"; {note}" for note in notes)
    examples = tuple(f"{leak.what}: {example}" for leak in leaks for example in leak.examples)
    heads = ("what", "splits", "in both", "of", "nearest")
    return Table("Leakage between splits", heads, rows, note, examples, digits=4)


def _source(image_set: ImageSet) -> str:
    """The video or album of a set; "" where unknown: a reader then calls a photo set's source as the set itself."""
    return "" if image_set.kind == "photos" and image_set.source == image_set.id else image_set.source


def _files(dataset: Dataset, of_image: dict[str, list[tuple[str, str]]]) -> Iterator[tuple[str, str, str]]:
    for name, places in of_image.items():
        for split, image_set in places:
            yield dataset.images[name].sha256, split, f"{name} in {image_set}"


def _texts(dataset: Dataset, sides: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for query in dataset.queries.values():
        if query.labels is None:
            said = " ".join(" ".join(dataset.texts[name].text for name in query.texts).lower().split())
            yield said, sides[query.image_set], query.id


def _alike(
    what: str, vectors: PictureVectors, of_image: dict[str, list[tuple[str, str]]], limit: float, present: list[str]
) -> list[Leak]:
    # an image of two splits stands here once for each: it is its own near-duplicate
    entries = sorted(
        {(name, split) for name, places in of_image.items() if name in vectors.rows for split, _ in places}
    )
    matrix = vectors.matrix[[vectors.rows[name] for name, _ in entries]]
    return alike(what, matrix, [name for name, _ in entries], [split for _, split in entries], limit, present)


def _prints(dataset: Dataset, of_image: dict[str, list[tuple[str, str]]], progress: Progress) -> PictureVectors | None:
    files = {name: file for name in sorted(of_image) if (file := dataset.picture(dataset.images[name])) is not None}
    rows: dict[str, int] = {}
    prints = []
    with open_pictures(files, "looking at pictures", progress) as opened:
        for name, pixels in opened:
            rows[name] = len(rows)
            prints.append(look_print(pixels))
    return PictureVectors("look", 1.0, rows, np.stack(prints)) if prints else None
