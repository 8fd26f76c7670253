"""Galleries as arrays: pairs that a bi-encoder learns from, and the vectors that it gives."""

from typing import TYPE_CHECKING

import numpy as np

from ctxr.metrics.retrieval import Vectors
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.encoded import Pictures, embedded, pixels_of
from ctxr.pipelines.training.gallery_sides import GallerySide

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder
    from ctxr.models.loading import Source
    from ctxr.models.training.contrastive import Pairs


def as_pairs(side: GallerySide, pictures: Pictures, source: "Source", device: str, talk: Talk) -> "Pairs":
    """What a bi-encoder learns from, or is validated on: tokens, and pictures that were decoded, resized and cut once."""
    from ctxr.models.preprocess import Preprocess
    from ctxr.models.training.contrastive import make_pairs

    pictures, row = _rows(side, pictures)
    pixels = pixels_of(pictures, Preprocess.from_config(source.build().visual.preprocess_cfg), device, talk)
    galleries = np.empty(len(side.images), np.int64)
    galleries[row] = side.image_galleries
    written, weak = ([(caption, int(row[image])) for caption, image in pairs] for pairs in (side.written, side.weak))
    return make_pairs(pixels, source.tokenize(list(side.texts)).numpy(), galleries, written, weak)


def gallery_vectors(side: GallerySide, pictures: Pictures, encoder: "Encoder", talk: Talk) -> Vectors:
    """Unit vectors of every picture, as queries, and of every caption, as candidates; each is computed once."""
    pictures, row = _rows(side, pictures)
    images, captions = embedded(pictures, list(side.texts), encoder, talk)
    return Vectors(images[row], captions)


def first_owners(side: GallerySide) -> np.ndarray:
    """The picture that each caption was written for, [C]; the first where it was written for several."""
    captions, images = (np.array(column, np.int64) for column in zip(*side.written, strict=True))
    owners: np.ndarray = images[np.unique(captions, return_index=True)[1]]
    return owners


def _rows(side: GallerySide, pictures: Pictures) -> tuple[Pictures, np.ndarray]:
    """The pictures of a side, and the row in them of each of its images."""
    own = pictures.of([side.asked()])
    place = {image: row for row, image in enumerate(own.files)}
    return own, np.array([place[image] for image in side.images], np.int64)
