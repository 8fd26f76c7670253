"""Whether two pictures are one: saved again, scaled, grey, cropped, framed, with a caption, mirrored or turned; by their pixels."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from ctxr.media.images import Pixels, within_border

Floats = npt.NDArray[np.floating]

SIDE = 256  # pixels of the longer side at which pictures are compared

_FEATURES = 200
_MATCHES = 8  # features that lie alike: hardly any two different pictures have more
_RATIO = 0.8  # of the distance of the best and the second best match, below which a match counts (Lowe 2004)
_WHOLE, _PART = 0.97, 0.5  # one picture lies in the other but for a line of pixels, and fills half
_CHROMA = 2.5  # JPEG keeps chroma that much worse than luma
_GREY, _COLOURED = 6, 0.005  # chroma of grey pictures, and the share above it in a coloured one


@dataclass(frozen=True)
class Features:
    """ORB's features of a picture (Rublee et al. 2011): `points` [K, 2], x and y; binary `words` [K, 32]."""

    points: npt.NDArray[np.float32]
    words: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, rgb: Pixels) -> "Features":
        """The features of a small picture."""
        orb = cv2.ORB.create(_FEATURES, nlevels=4, edgeThreshold=15, patchSize=21, fastThreshold=10)
        points, words = orb.detectAndCompute(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), None)
        places = np.array([point.pt for point in points], np.float32).reshape(-1, 2)
        return cls(places, np.zeros((0, 32), np.uint8) if words is None else words)

    def place(self, other: "Features") -> Floats | None:
        """The map [2, 3] from the other picture's pixels to this one's, by turn, scale and shift; None where too few features agree."""
        if min(len(self.words), len(other.words)) < _MATCHES:
            return None
        gaps, best = cv2.batchDistance(other.words, self.words, cv2.CV_32S, normType=cv2.NORM_HAMMING, K=2)
        clear = gaps[:, 0] < _RATIO * gaps[:, 1]
        if clear.sum() < _MATCHES:
            return None
        mine, theirs = self.points[best[clear, 0]], other.points[clear]
        place, agree = cv2.estimateAffinePartial2D(theirs, mine, ransacReprojThreshold=2.0)
        return None if place is None or agree.sum() < _MATCHES else np.asarray(place)


@dataclass(frozen=True)
class Sketch:
    """A picture of at most `SIDE` pixels on its longer side, and its features."""

    picture: Pixels
    features: Features

    @classmethod
    def of(cls, rgb: Pixels) -> "Sketch":
        """The sketch of a picture of any size."""
        picture = _shrunk(rgb, min(1.0, SIDE / max(rgb.shape)))
        return cls(picture, Features.of(picture))


def same_picture(one: Sketch, other: Sketch, limit: float) -> bool:
    """Whether two pictures show the same, whole or one of them in the other.

    They are laid on one another, whole on whole, what a uniform border leaves of each, and by their features. A difference at a pixel
    is what no shift by a pixel in either picture explains, of luma and, unless one is grey, of chroma; means of 3 x 3 of them stay
    below `limit`, of 255, at `SIDE` pixels, and less in proportion at fewer, where small things weigh less.
    """
    whole = one.picture, other.picture
    first, second = (within_border(picture, cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)) for picture in whole)
    framed = (first.shape, second.shape) != (whole[0].shape, whole[1].shape)
    if any(pixel_difference(*pair, limit=limit) < limit for pair in ([whole, (first, second)] if framed else [whole])):
        return True
    for left, right in ((one, other), (other, one)):
        place = left.features.place(right.features)
        if place is not None and pixel_difference(left.picture, right.picture, place, limit) < limit:
            return True
    return False


def pixel_difference(one: Pixels, other: Pixels, place: Floats | None = None, limit: float = np.inf) -> float:
    """The largest difference of pixels, scaled as in `same_picture`, where `place` [2, 3] lays the other picture on this one; None lays
    whole on whole. Infinite where neither lies in the other. Where luma alone reaches `limit`, chroma is not looked at."""
    place = _scaling(other, one)[:2] if place is None else place
    zoom = np.sqrt(abs(np.linalg.det(place[:, :2])))
    if not 1 / 8 < zoom < 8:
        return np.inf
    # both at the scale of the coarser one
    left, right = _shrunk(one, min(1, 1 / zoom)), _shrunk(other, min(1, zoom))
    place = (_scaling(one, left) @ np.vstack([place, [0, 0, 1]]) @ np.linalg.inv(_scaling(other, right)))[:2]
    size = left.shape[1], left.shape[0]
    covered = cv2.warpAffine(np.ones(right.shape[:2], np.uint8), place, size, flags=cv2.INTER_NEAREST)
    area = covered.sum()
    shares = sorted([area / covered.size, area / (right.shape[0] * right.shape[1] * abs(np.linalg.det(place[:, :2])))])
    inner = cv2.erode(covered, np.ones((5, 5), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0)
    if shares[0] < _PART or shares[1] < _WHOLE or not inner.any():
        return np.inf
    laid = cv2.warpAffine(right, place, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    (luma, *chroma), others = (cv2.split(cv2.cvtColor(picture, cv2.COLOR_RGB2YCrCb)) for picture in (left, laid))
    gaps = _apart(luma, others[0])
    largest = _largest(gaps, inner)
    if largest < limit and _coloured(chroma) and _coloured(others[1:]):
        worst = cv2.max(*map(_apart, chroma, others[1:]))
        largest = _largest(cv2.max(gaps, np.uint8(worst / _CHROMA)), inner)
    return largest


def _shrunk(rgb: Pixels, share: float) -> Pixels:
    size = max(1, round(rgb.shape[1] * share)), max(1, round(rgb.shape[0] * share))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def _scaling(whole: Pixels, shrunk: Pixels) -> Floats:
    """The map [3, 3] from the pixels of a picture to those of one of another size."""
    x, y = (few / many for few, many in zip(shrunk.shape[1::-1], whole.shape[1::-1], strict=True))
    return np.array([[x, 0, (x - 1) / 2], [0, y, (y - 1) / 2], [0, 0, 1]])


def _largest(gaps: Pixels, inner: Pixels) -> float:
    """The largest mean of 3 x 3 differences [H, W] in `inner`, in proportion to `SIDE` pixels."""
    return float(cv2.blur(np.float32(gaps * inner), (3, 3)).max()) * SIDE / int(max(inner.shape))


def _coloured(chroma: Sequence[Pixels]) -> bool:
    return bool(np.mean([cv2.absdiff(plane, 128) > _GREY for plane in chroma]) > _COLOURED)


def _apart(one: Pixels, other: Pixels) -> Pixels:
    """What no shift by a pixel in either plane [H, W] explains."""
    return np.asarray(cv2.min(_beyond(one, other), _beyond(other, one)), np.uint8)


def _beyond(values: Pixels, other: Pixels) -> Pixels:
    """How far each value lies outside those that the other picture has within a pixel."""
    around = np.ones((3, 3), np.uint8)
    low, high = cv2.erode(other, around), cv2.dilate(other, around)
    return np.asarray(cv2.max(cv2.subtract(values, high), cv2.subtract(low, values)), np.uint8)
