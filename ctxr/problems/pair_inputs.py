"""Queries as arrays for encoders that learn, and for encoders of pairs, cached by content."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import EncoderSource
from ctxr.models.preprocess import Preprocess
from ctxr.models.training.examples import ExampleTable, Images, with_features
from ctxr.models.training.scoring import features_of, in_bf16
from ctxr.problems.embeddings import PictureFiles, cached, pixels_of, questions_with
from ctxr.problems.queries import EvalQuery
from ctxr.problems.runs import REGIONS
from ctxr.store.artifacts import MANIFEST
from ctxr.store.hashing import sha256_of
from ctxr.store.regions import RegionFeatures, read_regions

Source = EncoderSource | CrossSource

_CHUNK = 64
"""Queries in a file of pair features: some minutes of a large encoder on a CPU."""


def regions_for(source: CrossSource, name: str, workdir: Path) -> RegionFeatures | None:
    """The region features called `name` in the project, if `source` needs any.

    Raises UsageError where no name is given, UnfinishedError where they are not finished, DataError where they are of another
    width than the encoder was made for.
    """
    if source.looks_at == "pixels":
        return None
    if not name:
        raise UsageError(
            f"{source.name} needs region features, and none are named",
            hint="ctxr regions   makes them; then --set regions=NAME to train, --regions NAME to evaluate",
        )
    folder = workdir / REGIONS / name
    if not folder.exists():
        existing = sorted(one.parent.name for one in (workdir / REGIONS).glob(f"*/{MANIFEST}"))
        raise UnfinishedError(
            f"the recipe needs the region features {name!r}, and {folder} does not exist",
            hint=f"--set regions={existing[0]}"
            if existing
            else f"ctxr regions --by {name}, or ctxr regions; then --set regions=grid",
        )
    regions = read_regions(folder)
    if regions.features != source.features:
        raise DataError(
            f"{regions.folder} holds {regions.features} features for each region, and {source.name} needs {source.features}",
            hint="name the regions that the encoder was made for",
        )
    return regions


def at_once(device: str) -> int:
    """Queries in one pass of an encoder of pairs that does not learn."""
    return 4 if device == "cpu" else 16


def as_inputs(
    queries: Sequence[EvalQuery], pictures: PictureFiles, source: Source, device: str, progress: Progress
) -> ExampleTable:
    """Queries with tokens, and with the pixels or regions of their images."""
    pictures = pictures.of(queries)
    tokens = source.tokenize([query.text for query in queries]).numpy()
    return questions_with(queries, pictures, image_inputs(pictures, source, device, progress), tokens)


def image_inputs(pictures: PictureFiles, source: Source, device: str, progress: Progress) -> Images:
    """The inputs of an encoder for all pictures, by index: pixels, decoded and cropped once, or regions, which do not fit into memory."""
    if isinstance(source, EncoderSource):
        return pixels_of(pictures, Preprocess.from_config(source.build().visual.preprocess_cfg), device, progress)
    if source.preprocess is not None:
        return pixels_of(pictures, source.preprocess, device, progress)
    contents, regions = list(pictures.contents.values()), pictures.regions
    if regions is None:
        raise ValueError("the encoder needs regions")
    regions.check(contents)  # a picture without regions is named before hours are spent
    return lambda rows: torch.from_numpy(regions.of([contents[row] for row in rows.tolist()]))


def as_features(
    queries: Sequence[EvalQuery],
    pictures: PictureFiles,
    source: CrossSource,
    device: str,
    precision: str,
    *,
    progress: Progress,
) -> ExampleTable:
    """Queries with the features of each of their pairs by the encoder as it is.

    They are computed once for the same pictures, text, weights, preprocessing and precision.
    """
    order = sorted(range(len(queries)), key=lambda index: (queries[index].image_set, index))
    asked_by_set = [queries[index] for index in order]
    questions = as_inputs(asked_by_set, pictures, source, device, progress)
    bf16, most = in_bf16(precision, device), questions.candidates.shape[1]
    regions = None if pictures.regions is None else pictures.regions.sha256
    origin = {"what": "pairs", "weights": source.fingerprint, "bf16": bf16, "most": most, "regions": regions}
    encoder = source.build().to(device)
    with progress.task("encoding pairs", len(queries)) as task:
        arrays = cached(
            pictures.workdir,
            origin,
            [sha256_of([one.text, [pictures.contents[image] for image in one.images]]) for one in asked_by_set],
            lambda part: features_of(
                encoder, questions, range(part.start, part.stop), at_once(device), device, bf16=bf16
            ),
            task.advance,
            chunk=_CHUNK,
        )
    whole = np.concatenate(arrays) if arrays else np.zeros((0, most, source.width), np.float32)
    back = np.argsort(np.array(order, np.int64))
    return with_features(questions, back, whole)
