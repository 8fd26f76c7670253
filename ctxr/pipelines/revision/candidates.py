"""Candidates: for each picture the captions that a retriever ranks highest, without known pairs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import UsageError, did_you_mean
from ctxr.metrics.votes import Codes
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.neighbours import NO_MATCH, best_matches
from ctxr.models.precision import choose_device
from ctxr.models.training.checkpoint import read_checkpoint
from ctxr.models.training.recipe import HEADS
from ctxr.problems.embeddings import PictureFiles, embedded
from ctxr.problems.runs import PLAIN_ENCODERS, checkpoints, finished_runs, run_folder
from ctxr.problems.scoring import source_of
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import RUN


def check_by(by: str, workdir: Path) -> None:
    """Raises UsageError for a name that is neither a run of the project nor an encoder of vectors."""
    if run_folder(by, workdir) is None and makes_pairs(by):
        raise _scores_pairs(by)
    if run_folder(by, workdir) is not None or ":" in by or by in PLAIN_ENCODERS:
        return
    names = finished_runs(workdir)
    runs = f"the runs are {', '.join(names)}" if names else "no run is finished yet"
    encoders = f"encoders are {', '.join(PLAIN_ENCODERS)}, or named as in ViT-B-32:openai"
    raise UsageError(
        f"--by {by}: there is neither a run nor an encoder of that name",
        hint=f"{did_you_mean(by, [*names, *PLAIN_ENCODERS])} {runs}; {encoders}".strip(),
    )


Matrix = npt.NDArray[np.float32]


PAIRS = 4096
"""Pairs whose vectors are in memory at a time."""


@dataclass(frozen=True)
class MinedGallery:
    """Pictures that are searched together, and their captions.

    Attributes:
        images: ids. captions: ids of queries. side: of the benchmark, "" for none.
        given: positive pairs (index of the image, index of the caption). earlier: those of them that an earlier round added.
            rejected: pairs that an earlier round rejected under the same judge. unsure: pairs that it left unsure.
    """

    id: str
    side: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    given: tuple[tuple[int, int], ...]
    earlier: frozenset[tuple[int, int]] = frozenset()
    rejected: tuple[tuple[int, int], ...] = ()
    unsure: tuple[tuple[int, int], ...] = ()

    @property
    def excluded(self) -> Codes:
        """Pairs [N, 2] that are excluded from the candidates: the given ones, then the rejected ones, then the unsure ones."""
        return np.array([*self.given, *self.rejected, *self.unsure], np.int64).reshape(-1, 2)


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

    def __len__(self) -> int:
        return len(self.images)


def galleries_of(
    dataset: Dataset, positives: Mapping[str, Collection[str]], split: str, limit: int
) -> list[MinedGallery]:
    """The sets of the dataset with captions that are not blank, of one split or of `all`; limited to the first `limit` images unless
    that is 0. `positives` are the images of each caption, by query.
    """
    written = {(row.query, row.candidate) for row in dataset.judgments if row.worker == "gold" and row.value > 0}
    captions: dict[str, list[str]] = {}
    for query in dataset.queries.values():
        if query.labels is None and any(dataset.texts[name].text.strip() for name in query.texts):
            captions.setdefault(query.image_set, []).append(query.id)
    galleries, left = [], limit
    for image_set in dataset.sets:
        own_split = dataset.split_of(image_set) or ""
        if image_set.id not in captions or split not in ("all", own_split) or (limit and not left):
            continue
        images = image_set.images[:left] if limit else image_set.images
        left -= len(images) if limit else 0
        names = tuple(sorted(captions[image_set.id]))
        pairs = pairs_in(images, names, positives)
        earlier = frozenset(
            (image, caption) for image, caption in pairs if (names[caption], images[image]) not in written
        )
        galleries.append(MinedGallery(image_set.id, own_split, images, names, pairs, earlier))
    return galleries


def pairs_in(
    images: Sequence[str], captions: Sequence[str], images_of: Mapping[str, Collection[str]]
) -> tuple[tuple[int, int], ...]:
    """The pairs (index of the image, index of the caption) of a gallery, by the images of each caption."""
    index = {image: number for number, image in enumerate(images)}
    return tuple(
        (index[image], number)
        for number, caption in enumerate(captions)
        for image in sorted(images_of.get(caption, ()))
        if image in index
    )


def open_encoder(by: str, workdir: Path, device: str, progress: Progress) -> Encoder:
    """The retrieval model: an encoder by name, or the one that a run of the project has trained.

    Raises UsageError for one that scores pairs or whole sets, and what `find_encoder` raises.
    """
    check_by(by, workdir)
    folder = run_folder(by, workdir)
    if folder is None:
        return load_encoder(by, device, warn=progress.warn)
    config = open_artifact(folder, RUN, "ctxr train").manifest.config
    seeds = checkpoints(folder)
    if not seeds:
        raise UsageError(f"{folder} holds no trained encoder", hint="--by ENCODER, or a run of ctxr train")
    if read_checkpoint(seeds[0]).variant in HEADS:
        raise UsageError(
            f"--by {by} scores a picture in the context of its set, so it cannot score every picture with every caption",
            hint="--by ENCODER, or a run without a head, such as of clip-batch",
        )
    source = source_of(seeds[0], str(config["encoder"]), progress)
    if isinstance(source, CrossSource):
        raise _scores_pairs(by)
    if len(seeds) > 1:
        progress.note(f"{folder.name} has {len(seeds)} seeds: the candidates are those of {seeds[0].name}")
    return Encoder(source, choose_device(device), "auto", progress.warn)


def _scores_pairs(by: str) -> UsageError:
    return UsageError(
        f"--by {by} scores one pair at a time, so it cannot search all pairs for candidates",
        hint="--by an encoder of vectors, such as ViT-B-32:openai; ctxr eval RUN --rerank-by uses encoders of pairs",
    )


def pools_of(
    galleries: Sequence[MinedGallery], encoder: Encoder, pictures: PictureFiles, texts: Mapping[str, str], k: int,
    *, both: bool, progress: Progress,
) -> list[Candidates]:  # fmt: skip
    """The candidates of each gallery; `texts` of all captions by id."""
    image_row = {name: row for row, name in enumerate(pictures.files)}
    caption_row = {name: row for row, name in enumerate(texts)}
    rows = [
        (
            gallery,
            np.array([image_row[name] for name in gallery.images]),
            np.array([caption_row[name] for name in gallery.captions]),
        )
        for gallery in galleries
    ]
    seen, vectors = embedded(pictures, list(texts.values()), encoder, progress)
    pools = []
    with progress.task("mining", len(rows)) as task:
        for one, images, captions in rows:
            pools.append(mine(one, seen[images], vectors[captions], k, both))
            task.advance()
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
    known_scores = _products(images, captions, excluded)
    return Candidates(
        gallery, pairs[0, order], pairs[1, order], ranks[order], scores[order], directions[order], known_scores
    )


def _products(images: Matrix, captions: Matrix, pairs: Codes) -> Matrix:
    """Dot products [N] of pairs [N, 2], in blocks: all vectors at once would take gigabytes for COCO."""
    products = np.empty(len(pairs), np.float32)
    for start in range(0, len(pairs), PAIRS):
        part = slice(start, start + PAIRS)
        products[part] = np.einsum("nd,nd->n", images[pairs[part, 0]], captions[pairs[part, 1]])
    return products
