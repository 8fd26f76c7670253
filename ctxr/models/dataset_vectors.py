"""Embeddings of a dataset's pictures: of its artifact, or made with a named encoder."""

from contextlib import closing
from itertools import islice

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.models.encoders import load_encoder
from ctxr.models.picture_vectors import PictureVectors, open_pictures
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.paths import rooted
from ctxr.store.units import SOURCES, read_unit

BATCH = 64


def picture_vectors_of(dataset: Dataset, encoder: str | None, device: str, progress: Progress) -> PictureVectors | None:
    """Embeddings by `encoder` if one is named, else those that the artifact holds; None where there are neither."""
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    if encoder is not None:
        files = {name: file for name, image in dataset.images.items() if (file := dataset.picture(image))}
        if not files:
            progress.warn("no picture is available: --encoder has nothing to embed")
            return None
        model = load_encoder(encoder, device, warn=progress.warn)
        with closing(open_pictures(files, "embedding", progress)) as opened:
            while part := list(islice(opened, BATCH)):
                encoded = model.encode_images([pixels for _, pixels in part])
                vectors |= {image: vector for (image, _), vector in zip(part, encoded, strict=True)}
        return PictureVectors(model.name, model.threshold, vectors) if vectors else None
    if dataset.root is None or not (dataset.root / MANIFEST).is_file():
        return None
    folders = sorted(entry.name for entry in (dataset.root / SOURCES).glob("*") if (entry / "source.json").is_file())
    for name in folders:
        unit = read_unit(dataset.root, name)
        for row in unit.ledger:
            image = f"{row.source}/{row.name}" if row.name is not None else f"{row.source}/img{row.index}"
            if row.row is not None and image in dataset.images and image not in vectors:
                if not 0 <= row.row < len(unit.vectors):
                    raise DataError(f"{unit.folder}: the ledger names row {row.row}, which embeddings.npy has not")
                vectors[image] = np.array(unit.vectors[row.row], np.float32)
    if len({*map(len, vectors.values())}) != 1:
        return None
    models = open_artifact(dataset.root).manifest.models
    try:
        name, threshold = rooted(str(models["encoder"]["name"]), dataset.root), float(models["selection"]["threshold"])
    except (KeyError, TypeError, ValueError):
        return None
    return PictureVectors(name, threshold, vectors)
