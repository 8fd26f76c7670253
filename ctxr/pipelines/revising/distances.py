"""Distances between the pictures of a set, where a published release does not tell them: a table of ours must."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ctxr.data.dataset import Dataset
from ctxr.data.records import ImageSet
from ctxr.errors import DataError
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.asked import contents_of
from ctxr.pipelines.training.encoded import PictureFiles, embedded

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder

BLOCK = 512
"""Rows of distances that are held at a time."""


@dataclass(frozen=True)
class Spread:
    """Smallest and mean pairwise distance of unit vectors, 0..2; zeros for a single one."""

    closest: float
    mean: float


def with_distances(dataset: Dataset, encoder: "Encoder", workdir: Path, talk: Talk) -> tuple[ImageSet, ...]:
    """The sets of a dataset, those without distances with those between the encoder's vectors.

    Raises DataError where a picture of such a set is not at hand.
    """
    unknown = [one for one in dataset.sets if math.isnan(one.closest) or math.isnan(one.mean_distance)]
    images = sorted({image for one in unknown for image in one.images})
    if not images:
        return dataset.sets
    files = {image: dataset.picture(dataset.images[image]) for image in images}
    found = {image: file for image, file in files.items() if file is not None and file.is_file()}
    if len(found) < len(files):
        lost = next(image for image in images if image not in found)
        raise DataError(
            f"{len(files) - len(found)} of {len(files)} pictures of {dataset.name} are not there, the first is {lost}",
            hint="put the pictures where the dataset names them",
        )
    vectors = embedded(PictureFiles(found, contents_of(dataset, found), workdir), [], encoder, talk)[0]
    row = {image: place for place, image in enumerate(found)}
    told = {one.id: spread(vectors[[row[image] for image in one.images]]) for one in unknown}
    return tuple(
        replace(one, closest=told[one.id].closest, mean_distance=told[one.id].mean) if one.id in told else one
        for one in dataset.sets
    )


def spread(vectors: npt.NDArray[np.float32]) -> Spread:
    """Of unit vectors [n, D], block by block."""
    count = len(vectors)
    if count < 2:
        return Spread(0.0, 0.0)
    closest, total = np.inf, 0.0
    for start in range(0, count, BLOCK):
        rows = vectors[start : start + BLOCK].astype(np.float64)
        distances = np.sqrt(np.maximum(0.0, 2 - 2 * (rows @ vectors.T.astype(np.float64))))
        distances[np.arange(len(rows)), start + np.arange(len(rows))] = np.inf
        closest = min(closest, float(distances.min()))
        total += float(distances[np.isfinite(distances)].sum())
    return Spread(round(closest, 6), round(total / (count * (count - 1)), 6))
