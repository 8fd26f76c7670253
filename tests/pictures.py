"""Pictures saved again: scaled, compressed, cropped, grey."""

from io import BytesIO

import cv2
import numpy as np
from PIL import Image

from ctxr.media.images import Pixels


def scaled(rgb: Pixels, share: float) -> Pixels:
    size = round(rgb.shape[1] * share), round(rgb.shape[0] * share)
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def saved(rgb: Pixels, quality: int = 40) -> Pixels:
    content = BytesIO()
    Image.fromarray(rgb).save(content, "JPEG", quality=quality)
    return np.asarray(Image.open(content))


def cropped(rgb: Pixels, share: float) -> Pixels:
    """Without `share` of the height and width at every side."""
    down, right = round(rgb.shape[0] * share), round(rgb.shape[1] * share)
    return np.ascontiguousarray(rgb[down : rgb.shape[0] - down, right : rgb.shape[1] - right])


def greyed(rgb: Pixels) -> Pixels:
    return np.repeat(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[:, :, None], 3, axis=2)
