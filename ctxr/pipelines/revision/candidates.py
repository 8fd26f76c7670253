"""Candidates: for each picture the captions that a retriever ranks highest, without known pairs; judged, and decided up to the caps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from ctxr.datasets.changes import contents_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.rounds import Reason
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.metrics.ranking import row_blocks
from ctxr.metrics.votes import Codes
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.entailment.base import Claim
from ctxr.models.judges.cascade import Cascade, Limits, Verdicts
from ctxr.models.judges.endpoint import EndpointJudge
from ctxr.models.judges.file import FileJudge
from ctxr.models.neighbours import NO_MATCH, best_matches
from ctxr.models.precision import choose_device
from ctxr.models.training.checkpoint import read_checkpoint
from ctxr.pipelines.revision.decisions import judged
from ctxr.pipelines.revision.inputs import MinedGallery, missing_pictures, scores_pairs
from ctxr.problems.embeddings import PictureFiles, embedded_images, embedded_texts
from ctxr.problems.runs import checkpoints, run_folder
from ctxr.problems.scorers import source_of
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import RUN
from ctxr.store.records import ImageSet

Matrix = npt.NDArray[np.float32]


PAIRS = 4096
"""Pairs whose vectors are in memory at a time."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates of one gallery as parallel columns [N], by image and then by rank.

    Attributes:
        images, captions: indices in the gallery. ranks: from 1, among the candidates. scores: of the retriever. directions: [N]
            1 found for the image, 2 for the caption, 3 for both.
        known_scores: of the known pairs, in their order.
    """

    gallery: MinedGallery
    images: Codes
    captions: Codes
    ranks: Codes
    scores: Matrix
    directions: Codes
    known_scores: Matrix


def open_encoder(by: str, workdir: Path, device: str, progress: Progress) -> Encoder:
    """The retrieval model: an encoder, or a run of the project. Raises UsageError for one that scores pairs or sets."""
    folder = run_folder(by, workdir)
    if folder is None:
        return load_encoder(by, device, warn=progress.warn)
    open_artifact(folder, RUN, "ctxr train")
    seeds = checkpoints(folder)
    if not seeds:
        raise UsageError(f"{folder} holds no trained encoder", hint="--retriever ENCODER, or a run of ctxr train")
    if (shape := read_checkpoint(seeds[0]).shape).head is not None:
        raise UsageError(
            f"--retriever {by} scores a picture in the context of its set, so it cannot score every picture with every caption",
            hint="--retriever ENCODER, or a run without a head, such as of clip-batch",
        )
    source = source_of(seeds[0], shape.encoder, progress)
    if isinstance(source, CrossSource):
        raise scores_pairs(by)
    if len(seeds) > 1:
        progress.note(f"{folder.name} has {len(seeds)} seeds: the candidates are those of {seeds[0].name}")
    return Encoder(source, choose_device(device), "auto", progress.warn)


def pools_of(
    galleries: Sequence[MinedGallery], encoder: Encoder, pictures: PictureFiles, texts: Mapping[str, str], k: int,
    *, both: bool, progress: Progress,
) -> list[Candidates]:  # fmt: skip
    """The candidates of each gallery; `texts` of all captions by id."""
    image_row = {name: row for row, name in enumerate(pictures.files)}
    caption_row = {name: row for row, name in enumerate(texts)}
    image_vectors = embedded_images(pictures, encoder, progress)
    text_vectors = embedded_texts(list(texts.values()), pictures.workdir, encoder, progress)
    pools = []
    for gallery in progress.each("searching for candidates", galleries):
        images = image_vectors[[image_row[name] for name in gallery.images]]
        captions = text_vectors[[caption_row[name] for name in gallery.captions]]
        pools.append(mine(gallery, images, captions, k, both))
    return pools


def mine(gallery: MinedGallery, images: Matrix, captions: Matrix, k: int, both: bool) -> Candidates:
    """The best `k` captions of every picture without known pairs, and with `both` the best `k` pictures of every caption too, each pair
    once: one of both has the rank of the image's candidates, and direction 3. Ties are ordered by id.

    `images` and `captions` are vectors [n, D] and [m, D] of the gallery's, in its order.
    """
    excluded = gallery.excluded
    columns = []
    for direction, step in ((1, 1), (2, -1)) if both else ((1, 1),):
        queries, pool = (images, captions)[::step]
        left_out = excluded[:, ::step]
        matches = best_matches(queries, pool, k, (left_out[:, 0], left_out[:, 1]))
        row, rank = np.nonzero(matches.indices != NO_MATCH)
        pairs = np.stack([row, matches.indices[row, rank]])[::step]
        columns.append((pairs, rank + 1, matches.scores[row, rank], np.full(len(row), direction)))
    pairs, ranks, scores, directions = (np.concatenate(parts, axis=-1) for parts in zip(*columns, strict=True))
    order = np.lexsort((directions, pairs[1], pairs[0]))
    pairs, ranks, scores, directions = pairs[:, order], ranks[order], scores[order], directions[order]
    first = np.ones(len(order), bool)
    first[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
    twice = np.append(~first[1:], False)[first]
    pairs, ranks, scores = pairs[:, first], ranks[first], scores[first]
    directions = np.where(twice, 3, directions[first])
    order = np.lexsort((pairs[1], ranks, pairs[0]))
    # in blocks: all vectors at once would take gigabytes for COCO
    known = np.empty(len(excluded), np.float32)
    for rows in row_blocks(len(excluded), 1, PAIRS):
        known[rows] = np.einsum("nd,nd->n", images[excluded[rows, 0]], captions[excluded[rows, 1]])
    row, column = pairs[:, order]
    return Candidates(gallery, row, column, ranks[order], scores[order], directions[order], known)


class Premise(NamedTuple):
    """A picture as SHA-256 and file, and the captions written for it, joined by blanks; "" and None for a text alone."""

    content: str
    text: str
    file: Path | None


def judge_pools(
    cascade: Cascade,
    limits: Limits,
    pools: Sequence[Candidates],
    premises: Mapping[str, Premise],
    hypotheses: Mapping[str, str],
    *,
    workdir: Path,
    progress: Progress,
) -> list[Verdicts]:
    """The verdicts on the candidates of each pool, with `limits` of the last judge. Results of the same judge are read from the cache.
    Raises DataError for a file that names none of the candidates, and where no candidate gets an answer."""
    claims = []
    for pool in pools:
        for row, column in zip(pool.images.tolist(), pool.captions.tolist(), strict=True):
            image, caption = pool.gallery.images[row], pool.gallery.captions[column]
            content, text, file = premises[image]
            claims.append((content, Claim(text, file, hypotheses[caption], (image, caption))))
    pairs = [claim.pair for _, claim in claims if claim.pair]
    for gaps in filter(None, [judge.gaps(pairs) for judge in cascade.judges if isinstance(judge, FileJudge)]):
        progress.warn(gaps)
    verdicts = judged(cascade, limits, claims, workdir, "judging candidates", progress=progress)
    if claims and np.isnan(verdicts.probabilities).all():
        last = cascade.judges[-1]
        reply = f": {last.unanswered()}" if isinstance(last, EndpointJudge) else ""
        raise DataError(
            f"{last.name} answers for none of the {len(claims):,} candidates{reply}", hint="another --judge"
        )
    ends = np.cumsum([0, *(len(pool.images) for pool in pools)]).tolist()
    return [verdicts.part(slice(*both)) for both in pairwise(ends)]


def decide(pool: Candidates, verdicts: Verdicts, per_image: int, per_caption: int) -> list[Reason | None]:
    """Why each candidate is not added, [N], None where it is: entailed ones are added by descending probability until a picture or a
    caption reaches its cap (0: no cap). Ties are ordered by score, then by position."""
    probability = verdicts.probabilities
    reasons: list[Reason | None] = [
        "below_threshold" if value == 0 else "no_answer" if unknown else "between_thresholds"
        for value, unknown in zip(verdicts.values.tolist(), np.isnan(probability).tolist(), strict=True)
    ]
    images = np.zeros(len(pool.gallery.images), np.int64)
    captions = np.zeros(len(pool.gallery.captions), np.int64)
    entailed = np.flatnonzero(verdicts.values == 1)
    order = entailed[np.lexsort((entailed, -pool.scores[entailed], -probability[entailed]))]
    for row in order.tolist():
        image, caption = int(pool.images[row]), int(pool.captions[row])
        if per_image and images[image] >= per_image:
            reasons[row] = "cap_image"
        elif per_caption and captions[caption] >= per_caption:
            reasons[row] = "cap_caption"
        else:
            reasons[row] = None
            images[image] += 1
            captions[caption] += 1
    return reasons


BLOCK = 512
"""Rows of distances that are held at a time."""


def picture_files(dataset: Dataset, images: Sequence[str], workdir: Path) -> PictureFiles:
    """The file and the content of each picture. Raises DataError where one is missing."""
    if missing := missing_pictures(dataset, images):
        raise DataError(missing, hint="restore it, or name a dataset that holds its pictures")
    files = {image: file for image in images if (file := dataset.picture(dataset.images[image])) is not None}
    return PictureFiles(files, contents_of(dataset, files), workdir)


def with_distances(dataset: Dataset, encoder: Encoder, workdir: Path, progress: Progress) -> tuple[ImageSet, ...]:
    """The sets of a dataset; missing distances are measured between the encoder's vectors.

    Raises DataError where a picture of such a set is missing.
    """
    unknown = [row for row in dataset.sets if row.closest is None or row.mean_distance is None]
    images = sorted({image for row in unknown for image in row.images})
    if not images:
        return dataset.sets
    pictures = picture_files(dataset, images, workdir)
    vectors = embedded_images(pictures, encoder, progress)
    row_of = {image: number for number, image in enumerate(pictures.files)}
    measured = {row.id: with_spread(row, vectors[[row_of[image] for image in row.images]]) for row in unknown}
    return tuple(measured.get(row.id, row) for row in dataset.sets)


def with_spread(image_set: ImageSet, vectors: Matrix) -> ImageSet:
    """The set with the smallest and the mean pairwise distance of its unit vectors [n, D], 0..2, block by block; zeros for one image."""
    count, closest, total = len(vectors), np.inf, 0.0
    if count < 2:
        return structs.replace(image_set, closest=0.0, mean_distance=0.0)
    for block in row_blocks(count, 1, BLOCK):
        rows = vectors[block].astype(np.float64)
        distances = np.sqrt(np.maximum(0.0, 2 - 2 * (rows @ vectors.T.astype(np.float64))))
        distances[np.arange(len(rows)), np.arange(block.start, block.stop)] = np.inf
        closest = min(closest, float(distances.min()))
        total += float(distances[np.isfinite(distances)].sum())
    return structs.replace(image_set, closest=round(closest, 6), mean_distance=round(total / (count * (count - 1)), 6))
