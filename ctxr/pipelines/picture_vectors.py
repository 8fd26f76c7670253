"""Embeddings of a dataset's pictures: those of its artifact, or made on demand with a named encoder."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ctxr.data.artifacts import MANIFEST, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.embeddings import pairwise_distances
from ctxr.data.images import read_image
from ctxr.data.units import SOURCES, read_unit
from ctxr.errors import DataError
from ctxr.pipelines.talk import Talk

BATCH = 64


@dataclass(frozen=True)
class PictureVectors:
    """Unit vectors of pictures.

    Attributes:
        encoder: what made them. threshold: its distance from which two images count as different.
        rows: row of each image id. matrix: float32 [N, D].
    """

    encoder: str
    threshold: float
    rows: dict[str, int]
    matrix: npt.NDArray[np.float32]


def vectors_of(dataset: Dataset, encoder: str | None, device: str, talk: Talk) -> PictureVectors | None:
    """Embeddings by `encoder` if one is named, else those that the artifact holds; None where there are neither."""
    if encoder is not None:
        return _embed(dataset, encoder, device, talk)
    if dataset.root is None or not (dataset.root / MANIFEST).is_file():
        return None
    models = open_artifact(dataset.root).manifest.models
    folders = sorted(entry.name for entry in (dataset.root / SOURCES).glob("*") if (entry / "source.json").is_file())
    rows: dict[str, int] = {}
    blocks: list[npt.NDArray[np.float32]] = []
    for name in folders:
        unit = read_unit(dataset.root, name)
        known: list[int] = []
        for row in unit.ledger:
            image = f"{row.source}/{row.name}" if row.name is not None else f"{row.source}/img{row.index}"
            if row.row is not None and image in dataset.images and image not in rows:
                if not 0 <= row.row < len(unit.vectors):
                    raise DataError(f"{unit.folder}: the ledger names row {row.row}, which embeddings.npy has not")
                rows[image] = len(rows)
                known.append(row.row)
        if known:
            blocks.append(np.asarray(unit.vectors[known], np.float32))
    if not blocks or len({block.shape[1] for block in blocks}) > 1:
        return None
    try:
        name, threshold = str(models["encoder"]["name"]), float(models["selection"]["threshold"])
    except (KeyError, TypeError, ValueError):
        return None
    return PictureVectors(name, threshold, rows, np.concatenate(blocks))


def distances_of(dataset: Dataset, vectors: PictureVectors | None) -> dict[str, tuple[float, float]]:
    """(mean, closest) pairwise distance of each set: from `vectors` where given, else as the sets say; by set id."""
    if vectors is None:
        known = [one for one in dataset.sets if not math.isnan(one.mean_distance)]
        return {one.id: (one.mean_distance, one.closest) for one in known}
    found: dict[str, tuple[float, float]] = {}
    for image_set in dataset.sets:
        if len(image_set.images) > 1 and all(name in vectors.rows for name in image_set.images):
            chosen = vectors.matrix[[vectors.rows[name] for name in image_set.images]]
            upper = pairwise_distances(chosen)[np.triu_indices(len(chosen), 1)]
            found[image_set.id] = (float(upper.mean()), float(upper.min()))
    return found


def _embed(dataset: Dataset, name: str, device: str, talk: Talk) -> PictureVectors | None:
    from ctxr.models.encode import load_encoder

    files = {image.id: file for image in dataset.images.values() if (file := dataset.picture(image)) is not None}
    if not files:
        talk.warn("no picture is at hand: --encoder has nothing to embed")
        return None
    model = load_encoder(name, device, warn=talk.warn)
    ids = sorted(files)
    blocks: list[npt.NDArray[np.float32]] = []
    with talk.progress("embedding", len(ids)) as task:
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            blocks.append(np.asarray(model.encode_images([read_image(files[one]) for one in part]), np.float32))
            task.advance(len(part))
    return PictureVectors(
        model.name, model.threshold, {one: row for row, one in enumerate(ids)}, np.concatenate(blocks)
    )
