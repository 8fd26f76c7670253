"""What a round covers: galleries or image sets, and the pairs about which something is known already."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.rounds import JUDGMENTS, Base, Round, folder_of
from ctxr.datasets.truth import UNSURE
from ctxr.engine.progress import Progress
from ctxr.engine.project import command_in
from ctxr.errors import DataError
from ctxr.models.encoders import Encoder
from ctxr.models.judges.cascade import Limits
from ctxr.pipelines.revision.candidates import MinedGallery, galleries_of, pairs_in
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.problems.embeddings import PictureFiles, embedded
from ctxr.problems.queries import contents_of
from ctxr.store.records import ImageSet, Judgment
from ctxr.store.tables import read_table


@dataclass(frozen=True)
class RevisionInput:
    """The dataset and pairs of a round.

    Attributes:
        base: the dataset. before: active rounds. positives: images of each caption, given or added before.
        galleries: to search.
    """

    base: Base
    before: tuple[Round, ...]
    positives: Mapping[str, frozenset[str]]
    galleries: tuple[MinedGallery, ...]

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Every picture, once."""
        return tuple(sorted({image for gallery in self.galleries for image in gallery.images}))

    @cached_property
    def captions(self) -> tuple[str, ...]:
        """Every caption, once."""
        return tuple(sorted({caption for gallery in self.galleries for caption in gallery.captions}))

    @property
    def rejected(self) -> int:
        """Pairs that earlier rounds rejected or left unsure."""
        return sum(len(gallery.rejected) + len(gallery.unsure) for gallery in self.galleries)


def revision_input(config: ReviseLabels, base: Base, before: Sequence[Round]) -> RevisionInput:
    """The input of the next round. Raises DataError for a dataset without captions."""
    rows = [row for row in base.dataset.judgments if row.worker == "gold" and row.value > 0]
    rows += [row for one in before for row in _judgments(config.folder(), one) if row.value > 0]
    positives = _images_of(rows)
    galleries = galleries_of(base.dataset, positives, config.split, config.limit)
    if not galleries:
        where = "" if config.split == "all" else f" on {config.split}"
        describe = command_in(config.workdir, "export-tasks", "describe", "--input", str(base.path))
        hint = "name a dataset with texts and queries" if base.dataset.queries else f"{describe} collects captions"
        raise DataError(f"{base.dataset.name} has no caption{where}", hint=hint)
    return RevisionInput(base, tuple(before), positives, tuple(galleries))


def without_rejected(inputs: RevisionInput, out: Path, fingerprint: str, limits: Limits) -> RevisionInput:
    """The same without pairs on which the judge with this fingerprint would decide as in an active round: those that it rejected
    below the same or a lower limit, and those that it left unsure between the same limits. Pairs that a cap left out have no
    judgment and are evaluated again."""
    rejected, unsure = [], []
    for one in inputs.before:
        low = one.threshold if one.unsure_below is None else one.unsure_below
        if one.classifier_fingerprint == fingerprint and low <= limits[0]:
            rows = _judgments(out, one)
            rejected += [row for row in rows if row.value == 0]
            unsure += [row for row in rows if row.value == UNSURE and (low, one.threshold) == limits]
    excluded = _images_of(rejected), _images_of(unsure)
    galleries = []
    for gallery in inputs.galleries:
        known = set(gallery.given)
        pairs = [tuple(p for p in pairs_in(gallery.images, gallery.captions, e) if p not in known) for e in excluded]
        galleries.append(replace(gallery, rejected=pairs[0], unsure=tuple(p for p in pairs[1] if p not in pairs[0])))
    return replace(inputs, galleries=tuple(galleries))


def _judgments(out: Path, earlier: Round) -> list[Judgment]:
    return read_table(out / folder_of(earlier.number) / JUDGMENTS, Judgment)


def _images_of(rows: Sequence[Judgment]) -> dict[str, frozenset[str]]:
    """Images of each caption."""
    images_of: dict[str, set[str]] = {}
    for row in rows:
        images_of.setdefault(row.query, set()).add(row.candidate)
    return {caption: frozenset(images) for caption, images in images_of.items()}


BLOCK = 512
"""Rows of distances that are held at a time."""


def missing_pictures(dataset: Dataset, images: Sequence[str]) -> str:
    """How many of these pictures are not where they should lie, and the first of them, by its file where it has one; "" for none."""
    files = {image: dataset.picture(dataset.images[image]) for image in images}
    missing = [str(file or image) for image, file in files.items() if file is None or not file.is_file()]
    if not missing:
        return ""
    are = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {len(files)} pictures of {dataset.name} {are} missing, the first is {missing[0]}"


def picture_files(dataset: Dataset, images: Sequence[str], workdir: Path) -> PictureFiles:
    """The file and the content of each picture. Raises DataError where one is missing."""
    if missing := missing_pictures(dataset, images):
        raise DataError(missing, hint="restore it, or name a dataset that holds its pictures")
    files = {image: file for image in images if (file := dataset.picture(dataset.images[image])) is not None}
    return PictureFiles(files, contents_of(dataset, files), workdir)


def with_distances(dataset: Dataset, encoder: "Encoder", workdir: Path, progress: Progress) -> tuple[ImageSet, ...]:
    """The sets of a dataset; missing distances are measured between the encoder's vectors.

    Raises DataError where a picture of such a set is missing.
    """
    unknown = [
        image_set for image_set in dataset.sets if math.isnan(image_set.closest) or math.isnan(image_set.mean_distance)
    ]
    images = sorted({image for one in unknown for image in one.images})
    if not images:
        return dataset.sets
    pictures = picture_files(dataset, images, workdir)
    vectors = embedded(pictures, [], encoder, progress)[0]
    row = {image: number for number, image in enumerate(pictures.files)}
    measured = {one.id: spread(vectors[[row[image] for image in one.images]]) for one in unknown}
    return tuple(
        structs.replace(image_set, closest=measured[image_set.id][0], mean_distance=measured[image_set.id][1])
        if image_set.id in measured
        else image_set
        for image_set in dataset.sets
    )


def spread(vectors: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Smallest and mean pairwise distance of unit vectors [n, D], 0..2, block by block; zeros for a single one."""
    count = len(vectors)
    if count < 2:
        return 0.0, 0.0
    closest, total = np.inf, 0.0
    for start in range(0, count, BLOCK):
        rows = vectors[start : start + BLOCK].astype(np.float64)
        distances = np.sqrt(np.maximum(0.0, 2 - 2 * (rows @ vectors.T.astype(np.float64))))
        distances[np.arange(len(rows)), start + np.arange(len(rows))] = np.inf
        closest = min(closest, float(distances.min()))
        total += float(distances[np.isfinite(distances)].sum())
    return round(closest, 6), round(total / (count * (count - 1)), 6)
