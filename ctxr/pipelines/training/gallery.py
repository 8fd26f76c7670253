"""Galleries as arrays: pairs that a scorer learns from, and what it says of every picture with every caption."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxr.metrics.retrieval import Matrix, Vectors
from ctxr.pipelines.scoring import Device, source_of
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.encoded import PictureFiles, embedded, pixels_of
from ctxr.pipelines.training.gallery_sides import GallerySplit
from ctxr.pipelines.training.pair_looks import Rerank, pair_looks, shortlist_of
from ctxr.pipelines.training.paired import looked_at

if TYPE_CHECKING:
    from ctxr.models.cross.sources import CrossSource
    from ctxr.models.encode import Encoder
    from ctxr.models.loading import EncoderSource
    from ctxr.models.training.galleries import GalleryPairs
    from ctxr.models.training.matching import Shortlist


def as_pairs(
    side: GallerySplit, pictures: PictureFiles, source: "EncoderSource | CrossSource", device: str, talk: Talk
) -> "GalleryPairs":
    """What a scorer learns from, or is validated on: tokens, and pictures that were decoded, resized and cut once, or regions."""
    from ctxr.models.cross.sources import CrossSource
    from ctxr.models.preprocess import Preprocess
    from ctxr.models.training.galleries import make_pairs

    own, row = _rows(side, pictures)
    if isinstance(source, CrossSource):
        images = looked_at(own, source, device, talk)
    else:
        images = pixels_of(own, Preprocess.from_config(source.build().visual.preprocess_cfg), device, talk)
    written, weak = ([(caption, int(row[image])) for caption, image in pairs] for pairs in (side.written, side.weak))
    return make_pairs(images, source.tokenize(list(side.texts)).numpy(), _galleries(side, row), written, weak)


def shortlist_for(side: GallerySplit, pictures: PictureFiles, rerank: Rerank, device: str, talk: Talk) -> "Shortlist":
    """What an encoder of pairs looks at of a side, its pictures as `as_pairs` has them. Raises what `load_encoder` raises."""
    return shortlist_of(_rows(side, pictures)[0], side.texts, rerank, device, talk)


def found_by(
    checkpoint: Path | None,
    encoder: str,
    side: GallerySplit,
    pictures: PictureFiles,
    machine: Device,
    rerank: Rerank,
    talk: Talk,
) -> Vectors | Matrix:
    """What a checkpoint, or the published `encoder` where there is none, says of every picture, as a query, with every caption.

    Vectors by a bi-encoder; by an encoder of pairs a table of what it looked at, with the rest below. Each is computed once for the
    same weights and precision. Raises what `source_of` raises.
    """
    from ctxr.models.cross.sources import CrossSource
    from ctxr.models.encode import Encoder
    from ctxr.models.precision import choose_device

    device = choose_device(machine.device)
    source = source_of(checkpoint, encoder, talk)
    if isinstance(source, CrossSource):
        return _matched(checkpoint, source, side, pictures, Device(device, machine.precision), rerank, talk)
    return _vectors(side, pictures, Encoder(source, device, machine.precision, talk.warn), talk)


def first_owners(side: GallerySplit) -> np.ndarray:
    """The picture that each caption was written for, [C]; the first where it was written for several."""
    captions, images = (np.array(column, np.int64) for column in zip(*side.written, strict=True))
    owners: np.ndarray = images[np.unique(captions, return_index=True)[1]]
    return owners


def _vectors(side: GallerySplit, pictures: PictureFiles, encoder: "Encoder", talk: Talk) -> Vectors:
    """Unit vectors of every picture, as queries, and of every caption, as candidates; each is computed once."""
    own, row = _rows(side, pictures)
    images, captions = embedded(own, list(side.texts), encoder, talk)
    return Vectors(images[row], captions)


def _matched(
    checkpoint: Path | None, source: "CrossSource", side: GallerySplit, pictures: PictureFiles, machine: Device,
    rerank: Rerank, talk: Talk,
) -> Matrix:  # fmt: skip
    """Scores of pictures with captions, pair by pair, in the order of the side."""
    from ctxr.models.training.matching import gallery_scores

    own, row = _rows(side, pictures)
    looks = pair_looks(checkpoint, source, own, side.texts, machine, talk)
    shortlist = shortlist_of(own, side.texts, rerank, machine.device, talk)
    with talk.progress(f"looking at pairs of {side.name}", len(row)) as task:
        look = partial(looks.look, advance=task.advance)
        found = gallery_scores(_galleries(side, row), np.array(side.caption_galleries), shortlist, look)
    return Matrix(found.values[row])


def _rows(side: GallerySplit, pictures: PictureFiles) -> tuple[PictureFiles, np.ndarray]:
    """The pictures of a side, and the row in them of each of its images."""
    own = pictures.of([side.asked()])
    place = {image: row for row, image in enumerate(own.files)}
    return own, np.array([place[image] for image in side.images], np.int64)


def _galleries(side: GallerySplit, row: np.ndarray) -> np.ndarray:
    """The gallery of each picture, in the order of `_rows`."""
    found = np.empty(len(side.images), np.int64)
    found[row] = side.image_galleries
    return found
