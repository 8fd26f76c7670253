"""An encoder of a few averaged colours, which costs next to nothing, in the place of ctxr-tiny."""

from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ctxr.models.encoders import Encoder, load_encoder

LOADER = "ctxr.pipelines.curation.videos.load_encoder"
"""What builds and filters load their encoder with."""

GREY = 3.0
"""A constant part of every vector; the larger, the nearer all pictures are to one another."""


class DrawnEncoder(Encoder):
    """Says what ctxr-tiny says of itself, and takes a picture of 12 by 8 pixels for its vector."""

    def encode_images(self, images: Sequence[npt.NDArray[Any]], exact: bool = False) -> npt.NDArray[np.float32]:
        """Float32 [N, 289], L2-normalised."""
        small = [cv2.resize(image, (12, 8), interpolation=cv2.INTER_AREA).ravel() / 255.0 for image in images]
        vectors = np.array([[*row, GREY] for row in small]).reshape(len(images), -1)
        units: npt.NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        return units


@cache
def _tiny(device: str, precision: str) -> Encoder:
    return load_encoder("ctxr-tiny", device, precision)


def load_drawn(name: str = "auto", device: str = "auto", precision: str = "auto", **more: Any) -> Encoder:
    """As `load_encoder`; what would be ctxr-tiny is drawn, and loaded once."""
    encoder = copy(_tiny(device, precision)) if name == "ctxr-tiny" else load_encoder(name, device, precision, **more)
    if encoder.name == "ctxr-tiny":
        encoder.__class__ = DrawnEncoder
    return encoder
