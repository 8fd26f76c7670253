"""Embeddings of a dataset's pictures, distances within its sets, and the pictures in order."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, and_more
from ctxr.media.images import Pixels, read_image
from ctxr.store.arrays import pairwise_distances


@dataclass(frozen=True)
class PictureVectors:
    """Unit vectors of pictures, float32 [D] by image id, with their encoder and its threshold."""

    encoder: str
    threshold: float
    by_image: Mapping[str, npt.NDArray[np.float32]]


def distances_of(dataset: Dataset, vectors: PictureVectors | None) -> dict[str, tuple[float, float]]:
    """(mean, closest) pairwise distance by set id: of `vectors` where given, else as sets say."""
    if vectors is None:
        rows = ((row.id, row.mean_distance, row.closest) for row in dataset.sets)
        return {name: (mean, closest) for name, mean, closest in rows if mean is not None and closest is not None}
    distances: dict[str, tuple[float, float]] = {}
    for image_set in dataset.sets:
        if len(image_set.images) > 1 and vectors.by_image.keys() >= {*image_set.images}:
            chosen = np.stack([vectors.by_image[name] for name in image_set.images])
            upper = pairwise_distances(chosen)[np.triu_indices(len(chosen), 1)]
            distances[image_set.id] = (float(upper.mean()), float(upper.min()))
    return distances


def open_pictures(files: Mapping[str, Path], label: str, progress: Progress) -> Generator[tuple[str, Pixels]]:
    """Pictures by image id, in order, with progress; at the end a warning of unreadable ones."""
    broken: list[str] = []
    for name in progress.each(label, sorted(files)):
        try:
            pixels = read_image(files[name])
        except DataError as error:
            broken.append(error.message)
        else:
            yield name, pixels
    if broken:
        progress.warn(f"{broken[0]}{and_more(len(broken))}: left out")
