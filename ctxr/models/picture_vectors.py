"""Embeddings of a dataset's pictures, distances within its sets, and the pictures themselves one after the other."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, and_more
from ctxr.media.images import Pixels, read_image
from ctxr.models.encoders import load_encoder
from ctxr.store.arrays import pairwise_distances
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.paths import rooted
from ctxr.store.units import SOURCES, read_unit

BATCH = 64


@dataclass(frozen=True)
class PictureVectors:
    """Unit vectors of pictures: float32 [N, D], by `rows` of image ids, with the name of their encoder and its threshold."""

    encoder: str
    threshold: float
    rows: dict[str, int]
    matrix: npt.NDArray[np.float32]


def distances_of(dataset: Dataset, vectors: PictureVectors | None) -> dict[str, tuple[float, float]]:
    """(mean, closest) pairwise distance of each set: from `vectors` where given, else as the sets say; by set id."""
    if vectors is None:
        measured = [image_set for image_set in dataset.sets if not math.isnan(image_set.mean_distance)]
        return {image_set.id: (image_set.mean_distance, image_set.closest) for image_set in measured}
    distances: dict[str, tuple[float, float]] = {}
    for image_set in dataset.sets:
        if len(image_set.images) > 1 and all(name in vectors.rows for name in image_set.images):
            chosen = vectors.matrix[[vectors.rows[name] for name in image_set.images]]
            upper = pairwise_distances(chosen)[np.triu_indices(len(chosen), 1)]
            distances[image_set.id] = (float(upper.mean()), float(upper.min()))
    return distances


@contextmanager
def open_pictures(files: Mapping[str, Path], label: str, progress: Progress) -> Iterator[Iterator[tuple[str, Pixels]]]:
    """Pictures one after the other, by image id in order, with progress; those that cannot be read are left out and said."""
    broken: list[str] = []

    def walk(advance: Callable[[], None]) -> Iterator[tuple[str, Pixels]]:
        for name in sorted(files):
            try:
                pixels = read_image(files[name])
            except DataError as error:
                broken.append(error.message)
            else:
                yield name, pixels
            advance()

    with progress.task(label, len(files)) as task:
        yield walk(task.advance)
    if broken:
        progress.warn(f"{broken[0]}{and_more(len(broken))}: left out")


def picture_vectors_of(dataset: Dataset, encoder: str | None, device: str, progress: Progress) -> PictureVectors | None:
    """Embeddings by `encoder` if one is named, else those that the artifact holds; None where there are neither."""
    if encoder is not None:
        return _embed(dataset, encoder, device, progress)
    if dataset.root is None or not (dataset.root / MANIFEST).is_file():
        return None
    folders = sorted(entry.name for entry in (dataset.root / SOURCES).glob("*") if (entry / "source.json").is_file())
    rows: dict[str, int] = {}
    blocks: list[npt.NDArray[np.float32]] = []
    for name in folders:
        unit = read_unit(dataset.root, name)
        numbers: list[int] = []
        for row in unit.ledger:
            image = f"{row.source}/{row.name}" if row.name is not None else f"{row.source}/img{row.index}"
            if row.row is not None and image in dataset.images and image not in rows:
                if not 0 <= row.row < len(unit.vectors):
                    raise DataError(f"{unit.folder}: the ledger names row {row.row}, which embeddings.npy has not")
                rows[image] = len(rows)
                numbers.append(row.row)
        if numbers:
            blocks.append(np.asarray(unit.vectors[numbers], np.float32))
    if not blocks or len({block.shape[1] for block in blocks}) > 1:
        return None
    models = open_artifact(dataset.root).manifest.models
    try:
        name, threshold = rooted(str(models["encoder"]["name"]), dataset.root), float(models["selection"]["threshold"])
    except (KeyError, TypeError, ValueError):
        return None
    return PictureVectors(name, threshold, rows, np.concatenate(blocks))


def _embed(dataset: Dataset, name: str, device: str, progress: Progress) -> PictureVectors | None:
    files = {image.id: file for image in dataset.images.values() if (file := dataset.picture(image)) is not None}
    if not files:
        progress.warn("no picture is available: --encoder has nothing to embed")
        return None
    model = load_encoder(name, device, warn=progress.warn)
    rows: dict[str, int] = {}
    blocks: list[npt.NDArray[np.float32]] = []
    with open_pictures(files, "embedding", progress) as opened:
        while part := list(islice(opened, BATCH)):
            rows |= {image: len(rows) + position for position, (image, _) in enumerate(part)}
            blocks.append(np.asarray(model.encode_images([pixels for _, pixels in part]), np.float32))
    return PictureVectors(model.name, model.threshold, rows, np.concatenate(blocks)) if blocks else None
