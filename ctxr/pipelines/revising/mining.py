"""Candidates: for each picture the captions that a retrieval model likes best and that nobody has linked to it yet."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ctxr.data.artifacts import open_artifact
from ctxr.data.dataset import Dataset
from ctxr.errors import UsageError
from ctxr.metrics.votes import Codes
from ctxr.models.training.recipe import WITH_HEAD
from ctxr.pipelines.scoring import RUN, checkpoints, source_of
from ctxr.pipelines.talk import Talk

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder

Matrix = npt.NDArray[np.float32]

PAIRS = 4096
"""Pairs whose vectors are held at a time."""


@dataclass(frozen=True)
class Gallery:
    """Pictures that are searched together, and what is said of them.

    Attributes:
        images: ids. captions: ids of queries. side: of the benchmark, "" for none.
        given: pairs (place of the image, place of the caption) that hold already. earlier: those of them that nobody wrote down and
            a round before this one added.
    """

    id: str
    side: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    given: tuple[tuple[int, int], ...]
    earlier: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates of one gallery as parallel columns [N], by image and then by rank.

    Attributes:
        images, captions: places in the gallery. ranks: from 1. scores: of retrieval. directions: [N] 1 found for the image, 2
            for the caption, 3 for both.
        given_scores: of the pairs that hold already, in their order.
    """

    gallery: Gallery
    images: Codes
    captions: Codes
    ranks: Codes
    scores: Matrix
    directions: Codes
    given_scores: Matrix

    def __len__(self) -> int:
        return len(self.images)


def galleries_of(dataset: Dataset, positives: Mapping[str, Collection[str]], split: str, limit: int) -> list[Gallery]:
    """The sets of the dataset that have captions, of one side or of `all`; of the first `limit` images alone where that is
    above 0.

    Args:
        positives: images that each caption holds for already, by query.
    """
    written = {(row.query, row.candidate) for row in dataset.judgments if row.worker == "gold" and row.value > 0}
    captions: dict[str, list[str]] = {}
    for query in dataset.queries.values():
        if query.labels is None:
            captions.setdefault(query.image_set, []).append(query.id)
    found, left = [], limit
    for one in dataset.sets:
        side = dataset.split_of(one) or ""
        if one.id not in captions or split not in ("all", side) or (limit and not left):
            continue
        images = one.images[:left] if limit else one.images
        left -= len(images) if limit else 0
        place = {image: at for at, image in enumerate(images)}
        asked = tuple(sorted(captions[one.id]))
        given = tuple(
            (place[image], row)
            for row, name in enumerate(asked)
            for image in sorted(positives.get(name, ()))
            if image in place
        )
        earlier = frozenset(pair for pair in given if (asked[pair[1]], images[pair[0]]) not in written)
        found.append(Gallery(one.id, side, images, asked, given, earlier))
    return found


def open_encoder(by: str, workdir: Path, device: str, talk: Talk) -> "Encoder":
    """The retrieval model: an encoder by name, or the one that a run of the project has trained.

    Raises UsageError for a run whose scores are not those of vectors, and what `load_encoder` raises.
    """
    from ctxr.models.cross.sources import CrossSource
    from ctxr.models.encode import Encoder, load_encoder
    from ctxr.models.families import makes_pairs
    from ctxr.models.precision import choose_device
    from ctxr.models.training.checkpoint import read_checkpoint

    folder = next((one for one in (workdir / "runs" / by, Path(by)) if one.is_dir()), None)
    if folder is None:
        if makes_pairs(by):
            raise _looks_at_pairs(by)
        return load_encoder(by, device, warn=talk.warn)
    artifact = open_artifact(folder, RUN, "ctxr train")
    seeds = checkpoints(folder)
    if not seeds:
        raise UsageError(f"{folder} holds no trained encoder", hint="--by ENCODER, or a run of ctxr train")
    if len(seeds) > 1:
        talk.note(f"{folder.name} has {len(seeds)} seeds: {seeds[0].name} proposes")
    if read_checkpoint(seeds[0]).variant in WITH_HEAD:
        raise _looks_at_pairs(by)
    source = source_of(seeds[0], str(artifact.manifest.config["encoder"]), talk)
    if isinstance(source, CrossSource):
        raise _looks_at_pairs(by)
    return Encoder(source, choose_device(device), "auto", talk.warn)


def _looks_at_pairs(by: str) -> UsageError:
    return UsageError(
        f"--by {by} scores pairs one by one, and every picture would have to meet every caption",
        hint="--by ENCODER, or a run without a head, such as of clip-batch",
    )


def mine(gallery: Gallery, images: Matrix, captions: Matrix, k: int, both: bool) -> Pool:
    """The best `k` captions of every picture that do not hold for it already, and with `both` the best `k` pictures of every
    caption too. Equal ones stand by id.

    Args:
        images, captions: vectors [n, D] and [m, D] of the gallery's, in its order.
    """
    from ctxr.models.matches import NOBODY, best_matches

    given = np.array(gallery.given, np.int64).reshape(-1, 2)
    pairs, ranks, scores, directions = [], [], [], []
    for direction in (1, 2) if both else (1,):
        asked, pool = (images, captions) if direction == 1 else (captions, images)
        turn = slice(None, None, 1 if direction == 1 else -1)
        found = best_matches(asked, pool, k, (given[:, turn][:, 0], given[:, turn][:, 1]))
        row, place = np.nonzero(found.indices != NOBODY)
        pairs.append(np.stack([row, found.indices[row, place]])[turn])
        ranks.append(place + 1)
        scores.append(found.scores[row, place])
        directions.append(np.full(len(row), direction))
    held = _products(images, captions, given)
    columns = np.concatenate(pairs, axis=1), np.concatenate(ranks), np.concatenate(scores), np.concatenate(directions)
    return _merged(gallery, *columns, held)


def _products(images: Matrix, captions: Matrix, pairs: Codes) -> Matrix:
    """Of pairs [N, 2] of a picture and a caption, [N], some at a time: both vectors of all of them are gigabytes for COCO."""
    found = np.empty(len(pairs), np.float32)
    for start in range(0, len(pairs), PAIRS):
        part = slice(start, start + PAIRS)
        found[part] = np.einsum("nd,nd->n", images[pairs[part, 0]], captions[pairs[part, 1]])
    return found


def _merged(gallery: Gallery, pairs: Codes, ranks: Codes, scores: Matrix, directions: Codes, held: Matrix) -> Pool:
    """Each pair once; one that was found from both sides has the rank of the image's side, and direction 3."""
    order = np.lexsort((directions, pairs[1], pairs[0]))
    pairs, ranks, scores, directions = pairs[:, order], ranks[order], scores[order], directions[order]
    first = np.ones(len(order), bool)
    first[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
    twice = np.append(~first[1:], False)[first]
    pairs, ranks, scores = pairs[:, first], ranks[first], scores[first]
    directions = np.where(twice, 3, directions[first])
    order = np.lexsort((pairs[1], ranks, pairs[0]))
    return Pool(gallery, pairs[0, order], pairs[1, order], ranks[order], scores[order], directions[order], held)
