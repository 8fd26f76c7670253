"""Cheap looks at a picture: how sharp it is, and a small print by which near-duplicates are found."""

import cv2
import numpy as np
import numpy.typing as npt

from ctxr.data.images import Pixels

SIDE = 16
"""Pixels of a print's side: fine enough to tell frames of a shot apart, coarse enough to forgive compression and scaling."""


def sharpness(rgb: Pixels) -> float:
    """Variance of the Laplacian of luma, 0 for a flat picture; higher is sharper."""
    luma = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    return float(cv2.Laplacian(luma, cv2.CV_64F).var())


def look_print(rgb: Pixels) -> npt.NDArray[np.float32]:
    """A picture of 16 by 16 pixels as a vector [768]: the distance of two is the root mean square difference of their colour
    values, 0 (equal) to 1 (black against white)."""
    small = cv2.resize(rgb, (SIDE, SIDE), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return np.asarray(small.ravel() / np.sqrt(small.size), np.float32)
