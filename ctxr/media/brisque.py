"""BRISQUE: how distorted a picture looks, without a reference (Mittal, Moorthy and Bovik 2012, section III).

Brightness, normalised by its neighbourhood, follows a generalised Gaussian in an undistorted photograph; blur, noise and
compression bend that curve. At two sizes the curve gives 2 numbers, and products of neighbours in 4 directions give 4 each.
Window, borders and grid of shapes are those of `piq.brisque`, so its support vectors fit.

Speed: the products p = a·b of neighbours are never formed. Σ|p| = |a|·|b|, Σp² = a²·b², Σp|p| = a|a|·b|b|, and the sums over
p < 0 and over p > 0 are half the difference and half the sum of the last two. Each is a dot product of two views of one array,
strip by strip in reused memory. Rows are summed in float32 and their sums in float64, for any number of threads.

Precision: a shape is the nearest of a grid, so a small error can move it by one step and a score by 0.03 of 100. Hence the local
mean and variance in float64. In a flat neighbourhood the coefficient is 0 in theory and ±1e-14 in practice; its sign decides
whether, and on which side of the fit, a pair counts, which moved a photo with 20 % saturated sky by 16 points. So there the
rounding error itself is computed, in the order in which piq's convolution adds; `luma` and `halve` also follow piq to the last bit.

ImageCoDe drops frames above 0.65, which is 65 on BRISQUE's usual scale of 0..100. A threshold belongs to an implementation and
its weights, which `Brisque.describe` names.
"""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.store.hashing import sha256_bytes, sha256_file

Plane = NDArray[Any]  # uint8 or float32, [H, W], 0..255
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Lanes = tuple[tuple[int, ...], ...]

CUBIC_SUPPORT = 4
BLOCK = 64  # rows at a time, so that they stay in the cache
NEARLY_TIE = 2e-4  # float32 errs by 3e-5; other values are at least 1e-3 from a tie
LANES = 64  # float32 columns that torch sums one by one with AVX-512; others in four lanes
SMALLEST_SIDE = 16  # at half the size one window of 7 still fits
STRIP_PIXELS = 1 << 17
MARGIN = 3
SIGMA = 7 / 6
SATURATION = 1.0  # C in equation 1, for brightness 0..255
NEARLY_ZERO = 1e-4  # float32 errs by 3e-5: below this, float64 decides
ZERO = 1e-11  # float64 errs by 1e-13; other values are above 1e-10
FLAT_SPREAD = SATURATION + 1e-3  # one grey level at a corner of the window makes a spread of 1.3e-2
MANY = 1 / 256  # share of pixels near zero from which on they are not picked out one by one
NO_SPREAD = 1e-16  # piq's limit: a variance that it calls zero
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))  # neighbours: right, below, below right, below left

_ONE = np.ones(1, np.float32)
_INNER = slice(MARGIN, -MARGIN)
_OFFSETS = np.arange(-MARGIN, MARGIN + 1, dtype=np.float64)
_BELL = np.exp(-(_OFFSETS**2) / (2 * SIGMA**2))
_BELL /= _BELL.sum()
_WINDOW = np.exp(-(_OFFSETS**2 + _OFFSETS[:, None] ** 2) / (2 * SIGMA**2)).ravel()
_WINDOW /= _WINDOW.sum()
# torch adds the 49 products in two lanes for a plane cut from an RGB tensor, and one after the other for the halved plane
_LANES_WHOLE = ((0, *range(1, 49, 2)), tuple(range(2, 49, 2)))
_LANES_HALF = (tuple(range(49)),)


def check_picture(rgb: NDArray[np.uint8]) -> None:
    """Raise DataError unless `rgb` is uint8 and [H, W, 3] or grey [H, W]."""
    if rgb.dtype != np.uint8:
        hint = "scale to 0..255 and round: (x * 255).round().astype('uint8')"
        raise DataError(f"pixels are {rgb.dtype}, not uint8", hint=hint)
    if rgb.ndim == 3 and rgb.shape[2] == 4:
        raise DataError(f"a picture of shape {rgb.shape} has an alpha channel", hint="drop it: image.convert('RGB')")
    if not (rgb.ndim == 2 or (rgb.ndim == 3 and rgb.shape[2] == 3)):
        raise DataError(f"a picture of shape {rgb.shape} is neither [H, W] nor [H, W, 3]", hint="image.convert('RGB')")


def luma(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Brightness of `rgb` [H, W, 3]: 0.299 R + 0.587 G + 0.114 B, half to even, uint8 [H, W].

    cv2's conversion of uint8 is off by one in one pixel of 200, which moves a score by 0.01 of 100.
    """
    brightness = np.empty(rgb.shape[:2], np.uint8)
    pixels = np.empty((min(BLOCK, len(rgb)), *rgb.shape[1:]), np.float32)
    exact, other = np.empty(pixels.shape[:2], np.float32), np.empty(pixels.shape[:2], np.uint8)
    for start in range(0, len(rgb), BLOCK):
        block, rounded = rgb[start : start + BLOCK], brightness[start : start + BLOCK]
        np.copyto(pixels[: len(block)], block)
        weighted = cv2.cvtColor(pixels[: len(block)], cv2.COLOR_RGB2GRAY, dst=exact[: len(block)])
        cv2.convertScaleAbs(weighted, dst=rounded, beta=-NEARLY_TIE)
        ties = np.flatnonzero(rounded != cv2.convertScaleAbs(weighted, dst=other[: len(block)], beta=NEARLY_TIE))
        if ties.size:
            red, green, blue = block.reshape(-1, 3)[ties].T.astype(np.float64)
            rounded.reshape(-1)[ties] = np.rint(0.299 * red + 0.587 * green + 0.114 * blue)
    return brightness


def halve(plane: Plane) -> NDArray[np.float32]:
    """`plane` at half the size (sides rounded down), float32: cubic, its kernel widened against aliasing, edges mirrored."""
    return np.asarray(cv2.transpose(_halve_rows(cv2.transpose(_halve_rows(plane)))))


def _halve_rows(plane: Plane) -> NDArray[np.float32]:
    """Every row of half the height; of an even height, all rows have the same weights."""
    size, width = plane.shape
    margin, taps, weights = _halving(size)
    if size % 2 == 0:
        anchor = (0, len(weights) // 2 - 1)
        kernel = np.ascontiguousarray(weights[:, 0])
        every = cv2.sepFilter2D(plane, cv2.CV_32F, _ONE, kernel, anchor=anchor, borderType=cv2.BORDER_REFLECT)
        return np.asarray(every[::2])
    padded = cv2.copyMakeBorder(plane.astype(np.float32), margin, margin, 0, 0, cv2.BORDER_REFLECT)
    total = np.zeros((weights.shape[1], width), np.float32)
    for start in range(0, len(total), BLOCK):
        block = total[start : start + BLOCK]
        for first, weight in zip(taps[:, start : start + BLOCK], weights[:, start : start + BLOCK], strict=True):
            block += padded[first] * weight[:, None]
    return total


@lru_cache(maxsize=64)
def _halving(size: int) -> tuple[int, NDArray[np.int64], NDArray[np.float32]]:
    """For a side of `size`: rows to mirror at each edge; for each tap and target row, its source row and its weight."""
    half = size // 2
    scale = half / size
    count = math.ceil(CUBIC_SUPPORT / scale) + 2
    centre = (np.arange(half, dtype=np.float32) + np.float32(0.5)) / np.float32(scale) - np.float32(0.5)
    first = np.floor(centre) - (count // 2) + 1
    at = np.abs((centre - first - np.arange(count, dtype=np.float32)[:, None]) * np.float32(scale))
    square = at * at
    cube = at * square
    near = np.float32(1.5) * cube - np.float32(2.5) * square + np.float32(1)
    far = np.float32(-0.5) * cube + np.float32(2.5) * square - np.float32(4) * at + np.float32(2)
    weights = np.where(at <= 1, near, np.where(at <= 2, far, np.float32(0)))
    # columns summed in torch's order, which decides the last bit, and with it the noise of flat areas in odd sizes
    sums = np.add.accumulate(weights)[-1]
    tail = weights[:, weights.shape[1] // LANES * LANES :]
    whole = len(weights) // 4 * 4
    lanes = [np.add.accumulate(tail[lane:whole:4])[-1] for lane in range(4)]
    lanes[0] = np.add.accumulate(np.vstack([lanes[0][None], tail[whole:]]))[-1]
    sums[weights.shape[1] // LANES * LANES :] = ((lanes[0] + lanes[1]) + lanes[2]) + lanes[3]
    weights /= np.asarray(sums)
    used = np.flatnonzero(weights.any(axis=1))
    taps = first.astype(np.int64) + count + used[:, None]
    return count, taps, np.ascontiguousarray(weights[used])


def features(rgb: NDArray[np.uint8]) -> Doubles | None:
    """The 36 statistics of a picture (uint8 [H, W, 3] or [H, W]) in the published order, [36].

    None where they are not defined: a side is under `SMALLEST_SIDE`, or the curve has no spread or only one side.
    """
    if min(rgb.shape[:2]) < SMALLEST_SIDE:
        return None
    plane = rgb if rgb.ndim == 2 else luma(rgb)
    whole = _statistics(plane)
    half = None if whole is None else _statistics(halve(plane))
    return None if whole is None or half is None else np.concatenate([whole, half])


def _statistics(plane: Plane) -> Doubles | None:
    height, width = plane.shape
    padded = cv2.copyMakeBorder(plane, MARGIN, MARGIN, MARGIN, MARGIN, cv2.BORDER_CONSTANT, value=0)
    rows = max(1, min(height, STRIP_PIXELS // width))
    coefficients, sums = _Coefficients(rows, padded.shape[1], plane.dtype), _Sums(rows, width)
    for top in range(0, height, rows):
        sums.add(coefficients(padded[top : min(top + rows, height) + 2 * MARGIN]))
    return sums.fit()


class _Coefficients:
    """Normalised brightness (equation 1) of the inner rows of a window, [h + 6, w + 6] -> [h, w + 6], in reused memory.

    The columns of the margin become zeros: without gaps between rows, it is faster.
    """

    def __init__(self, rows: int, pitch: int, dtype: np.dtype[Any]) -> None:
        whole = dtype == np.uint8
        self.lanes = _LANES_WHOLE if whole else _LANES_HALF
        # the remainder of windows of one brightness, by brightness
        self.flat_errors = _remainder(self.lanes, np.tile(np.arange(256.0), (len(_WINDOW), 1))).astype(np.float32)
        # of a type that holds a square without loss
        self.square = np.empty((rows + 2 * MARGIN, pitch), np.uint16 if whole else np.float64)
        self.mean, self.variance = np.empty((2, *self.square.shape))
        self.ratio, self.spread = np.empty((2, rows, pitch), np.float32)
        self.near = np.empty((rows, pitch), np.bool_)
        offsets = np.arange(-MARGIN, MARGIN + 1)
        self.steps = (offsets[:, None] * pitch + offsets).reshape(-1, 1)

    def __call__(self, window: Plane) -> Floats:
        rows, height = len(window), len(window) - 2 * MARGIN
        square = np.multiply(window, window, out=self.square[:rows], dtype=self.square.dtype)
        mean = cv2.sepFilter2D(window, cv2.CV_64F, _BELL, _BELL, dst=self.mean[:rows])
        # with a negative kernel, adding the squared mean in place leaves minus the variance
        variance = cv2.sepFilter2D(square, cv2.CV_64F, _BELL, -_BELL, dst=self.variance[:rows])
        centre, mean, variance = window[_INNER], mean[_INNER], cv2.accumulateSquare(mean, variance)[_INNER]
        ratio, spread, near = self.ratio[:height], self.spread[:height], self.near[:height]
        np.copyto(ratio, centre)
        np.copyto(spread, mean, casting="same_kind")
        ratio -= spread
        ratio[:, :MARGIN] = ratio[:, -MARGIN:] = np.inf
        np.less(np.abs(ratio, out=spread), NEARLY_ZERO, out=near)
        ratio[:, :MARGIN] = ratio[:, -MARGIN:] = 0
        np.copyto(spread, variance, casting="same_kind")
        cv2.sqrt(np.abs(spread, out=spread), dst=spread)
        spread += np.float32(SATURATION)
        ratio /= spread
        if np.count_nonzero(near) > near.size * MANY:
            # flat neighbourhoods, where the spread is 1, have known coefficients, and are then none of those near zero
            flat, level = (spread < FLAT_SPREAD) & near, centre
            if centre.dtype != np.uint8:
                level = centre.astype(np.uint8)
                flat &= level == centre
                flat &= np.abs(centre - mean) < ZERO
            cv2.copyTo(cv2.LUT(level, self.flat_errors), flat.view(np.uint8), dst=ratio)
            near ^= flat
        places = np.flatnonzero(near)
        remainder = centre.take(places) - mean.take(places)
        zero = np.flatnonzero(np.abs(remainder) < ZERO)
        if zero.size:
            values = window.take(places[zero] + MARGIN * window.shape[1] + self.steps).astype(np.float64)
            middle = values[len(values) // 2]
            flat = (spread.take(places[zero]) < FLAT_SPREAD) & (middle % 1 == 0)
            remainder[zero] = _remainder(self.lanes, np.where(flat, middle, values))
        ratio.put(places, remainder / spread.take(places))
        return ratio


def _remainder(lanes: Lanes, values: Doubles) -> Doubles:
    """Centre minus weighted mean of the windows `values`, [49, n] -> [n], added up as torch does in float64."""
    products = values * _WINDOW[:, None]
    mean = sum(np.add.accumulate(products[list(lane)])[-1] for lane in lanes)
    return np.asarray(values[len(values) // 2] - mean)


class _Sums:
    """Sums over coefficients a and over products p of neighbours, from the top in strips of at most `rows` rows.

    Neighbours wrap around at the edges, as in the released code. `fields` holds |a|, a² and a|a| of the row above and of the strip,
    each row between zeros: neighbours are then the same array at an offset.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.width, self.pixels, self.absolute, self.square = width, 0, 0.0, 0.0
        self.products = np.zeros((4, 5))  # Σ|p|, Σp², Σp|p|, p < 0, p > 0 by direction
        self.edges: list[Floats] = []
        self.top = self.bottom = np.empty(0, np.float32)
        padded = (rows + 2, width + 2 * MARGIN)
        self.fields = np.zeros((3, *padded), np.float32)
        self.signs = np.zeros((2, *padded), np.bool_)
        self.pairs = np.empty((2, *padded), np.bool_)

    def add(self, a: Floats) -> None:
        """Add the next strip, [h, width + 6]."""
        height = len(a)
        first = not self.pixels
        strip = self.fields[:, 1 : height + 1]
        np.abs(a, out=strip[0])
        np.multiply(a, a, out=strip[1])
        np.multiply(a, strip[0], out=strip[2])
        np.less(a, 0, out=self.signs[0, 1 : height + 1])
        np.not_equal(a, 0, out=self.signs[1, 1 : height + 1])
        a, strip = a[:, _INNER], strip[:, :, _INNER]
        self.pixels += a.size
        self.absolute += float(strip[0].sum(axis=1).sum(dtype=np.float64))
        self.square += float(strip[1].sum(axis=1).sum(dtype=np.float64))
        self._multiply(1 if first else 0, height + 1)
        if first:
            self.top = a[0].copy()
        self.edges.append(a[:, [0, -1]])
        self.bottom = a[-1].copy()
        self.fields[:, 0] = self.fields[:, height]
        self.signs[:, 0] = self.signs[:, height]

    def _multiply(self, top: int, bottom: int) -> None:
        """Add the products in the rows `top` to `bottom`; row 0 is the last of the strip before."""
        complete = bool(self.signs[1, top:bottom, _INNER].all())
        negative, present = self.signs.reshape(2, -1)
        pitch = self.signs.shape[2]
        first, last = MARGIN, MARGIN + self.width + 1
        for direction, (down, across) in enumerate(DIRECTIONS):
            start, stop = top if down else 1, bottom - down
            neighbours = self.fields[:, start + down : stop + down, first + across : last + across]
            sums = np.vecdot(self.fields[:, start:stop, first:last], neighbours)
            here = slice(start * pitch, stop * pitch)
            ahead = slice(here.start + down * pitch + across, here.stop + down * pitch + across)
            opposite, both = self.pairs[:, : stop - start]
            np.logical_xor(negative[here], negative[ahead], out=opposite.reshape(-1))
            if complete:
                pairs = len(opposite) * (self.width - abs(across))
                if across:  # pairs with the zeros beside a row
                    opposite[:, MARGIN - (across > 0) :: self.width] = False
            else:
                np.logical_and(present[here], present[ahead], out=both.reshape(-1))
                pairs = cv2.countNonZero(both.view(np.uint8))
                opposite &= both
            below = cv2.countNonZero(opposite.view(np.uint8))
            self.products[direction] += *sums.sum(axis=1, dtype=np.float64), below, pairs - below

    def fit(self) -> Doubles | None:
        """The 18 statistics (shape and variance; then shape, mean, left and right variance by direction), or None."""
        # products across the edges
        first, last = np.concatenate(self.edges).T
        top, bottom = self.top, self.bottom
        edges = (
            [(first, last)],
            [(top, bottom)],
            [(top, np.roll(bottom, 1)), (first[1:], last[:-1])],
            [(np.roll(top, 1), bottom), (first[:-1], last[1:])],
        )
        for direction, pairs in enumerate(edges):
            for here, neighbours in pairs:
                p = here.astype(np.float64) * neighbours
                sizes = np.abs(p)
                self.products[direction] += sizes.sum(), sizes @ sizes, sizes @ p, (p < 0).sum(), (p > 0).sum()
        mean, variance = self.absolute / self.pixels, self.square / self.pixels
        if variance <= NO_SPREAD or not self.products[:, 3:].all():
            return None
        shapes, ratios = _shapes()
        statistics = [shapes[np.abs(ratios - variance / mean**2).argmin()], variance]
        for size, square, signed, below, above in self.products:
            left, right = (square - signed) / 2 / below, (square + signed) / 2 / above
            if min(left, right) <= 0:
                return None
            skew = math.sqrt(left / right)
            ratio = (size**2 / square / self.pixels) * (skew**3 + 1) * (skew + 1) / (skew**2 + 1) ** 2
            shape = float(shapes[np.abs(1 / ratios - ratio).argmin()])
            scale = math.exp(math.lgamma(2 / shape) - (math.lgamma(1 / shape) + math.lgamma(3 / shape)) / 2)
            statistics += [shape, (math.sqrt(right) - math.sqrt(left)) * scale, left, right]
        return np.array(statistics)


@lru_cache(maxsize=1)
def _shapes() -> Doubles:
    """[2, 9801]: shapes, 0.2 .. 10 by 0.001, and for each Γ(1/s) Γ(3/s) / Γ(2/s)², the variance over the squared mean size."""
    shapes = 0.2 + np.arange(9801) * 0.001
    ratios = [math.exp(math.lgamma(1 / s) + math.lgamma(3 / s) - 2 * math.lgamma(2 / s)) for s in shapes.tolist()]
    return np.array([shapes, ratios])


VERSION = 1  # raised when the score of any picture changes
UNMEASURABLE = 1.0

_WEIGHTS = Path(__file__).parent / "weights"
_PIQ_FILE = "brisque_svm_weights.pt"
_PIQ_URL = f"https://github.com/photosynthesis-team/piq/releases/download/v0.4.0/{_PIQ_FILE}"
_PIQ_SHA256 = "7c87dbddec7ebe87193f0167cf5a89840f599398cf875716d3cb4edd7ed62a48"
"""Of coefficients and support vectors as 32-bit floats, rows sorted: of the values, whatever torch saved them."""


@dataclass(frozen=True)
class Regressor:
    """Support vector regression with a Gaussian kernel.

    Attributes:
        support, coefficients: support vectors [n, 36] and their weights [n]. sha256: of their file.
        low, high: the range of each feature that is mapped to -1..1, [36].
        gamma: width of the kernel. rho: offset that is subtracted.
    """

    support: Doubles
    coefficients: Doubles
    low: Doubles
    high: Doubles
    gamma: float
    rho: float
    sha256: str

    def __call__(self, statistics: Doubles) -> float:
        """Score of `statistics`, [36]: about 0 (undistorted) to 100 (heavily distorted)."""
        scaled = 2 * (statistics - self.low) / (self.high - self.low) - 1
        distance = np.square(self.support - scaled).sum(axis=1)
        return float(np.exp(-self.gamma * distance) @ self.coefficients - self.rho)


class Brisque:
    """BRISQUE with given weights.

    Args:
        weights: `live`, the support vectors of ctxr (trained on the LIVE database), or `piq`, those of `piq.brisque`, from torch's
            cache or else downloaded; scores then equal `piq.brisque` in float64.

    Raises UsageError for unknown weights, CtxrError where piq's weights cannot be downloaded, DataError where they are damaged.
    """

    def __init__(self, weights: str = "live") -> None:
        if weights not in ("live", "piq"):
            raise UsageError(f"unknown BRISQUE weights {weights!r}", hint="use live or piq")
        self.name = f"brisque-{weights}"
        self._regressor = _live() if weights == "live" else _piq()

    def score(self, rgb: NDArray[np.uint8]) -> float:
        """BRISQUE / 100 of a picture (uint8 [H, W, 3], or grey [H, W]): about 0 to 1 and not clipped, higher is worse; never NaN.

        It is `UNMEASURABLE`, the end of the published scale, where `features` are not defined. Raises DataError as `check_picture`.
        """
        check_picture(rgb)
        # most pictures differ at their last or middle pixel, which is faster to see
        few = (rgb[-1, -1], rgb[rgb.shape[0] // 2, rgb.shape[1] // 2], rgb) if rgb.size else ()
        if all(bool((part == rgb[0, 0]).all()) for part in few):
            return UNMEASURABLE
        statistics = features(np.ascontiguousarray(rgb))
        return UNMEASURABLE if statistics is None else self._regressor(statistics) / 100

    def describe(self) -> dict[str, object]:
        """Implementation and weights, for manifests."""
        return {
            "implementation": "ctxr-brisque",
            "version": VERSION,
            "weights": self.name,
            "weights_sha256": self._regressor.sha256,
        }


def _live() -> Regressor:
    from safetensors.numpy import load_file

    path = _WEIGHTS / "brisque-live" / "model.safetensors"
    tensors = load_file(path)
    support, coefficients, low, high = (tensors[name] for name in ("support_vectors", "coefficients", "low", "high"))
    gamma, rho = float(tensors["gamma"]), float(tensors["rho"])
    return Regressor(support, coefficients, low, high, gamma, rho, sha256_file(path))


def _piq() -> Regressor:
    import torch

    path = Path(torch.hub.get_dir()) / "checkpoints" / _PIQ_FILE
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(_PIQ_URL, str(path), progress=False)
        except OSError as error:
            message = f"piq's BRISQUE weights are not at {path} and cannot be fetched: {error}"
            raise CtxrError(message, hint="use --brisque-weights live, which needs no download") from error
    try:
        coefficients, support = torch.load(path, map_location="cpu", weights_only=True)
        support, coefficients = support.double().numpy(), coefficients.double().numpy().reshape(-1)
        rows = np.column_stack([coefficients, support]).astype("<f4")
    except Exception as error:  # whatever torch says about a damaged file
        raise DataError(f"{path} does not hold piq's BRISQUE weights: {error}", hint=f"delete {path}") from error
    if sha256_bytes(b"".join(sorted(row.tobytes() for row in rows))) != _PIQ_SHA256:
        hint = f"delete {path}, or use --brisque-weights live"
        raise DataError(f"{path} holds other values than piq's BRISQUE weights", hint=hint)
    ranges = json.loads((_WEIGHTS / "brisque-piq" / "ranges.json").read_text(encoding="utf-8"))
    low, high = np.array(ranges["low"]), np.array(ranges["high"])
    return Regressor(support, coefficients, low, high, ranges["gamma"], ranges["rho"], sha256_file(path))
