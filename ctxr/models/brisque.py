"""BRISQUE: how distorted a picture looks, without a reference to compare with (Mittal, Moorthy and Bovik 2012).

ImageCoDe drops frames above 0.65 on a scale of 0..1, which is 65 on BRISQUE's usual 0..100. A threshold belongs to an
implementation and its weights: `Brisque.describe` names both.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ctxr.data.hashing import sha256_file
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.brightness import check_picture
from ctxr.models.scene_statistics import features
from ctxr.models.scratch import Scratch

Doubles = NDArray[np.float64]

IMPLEMENTATION = "ctxr-brisque"
VERSION = 1  # raised when the score of any picture changes
UNMEASURABLE = 1.0
FEATURES = 36

_WEIGHTS = Path(__file__).parent / "weights"
_PIQ_FILE = "brisque_svm_weights.pt"
_PIQ_URL = f"https://github.com/photosynthesis-team/piq/releases/download/v0.4.0/{_PIQ_FILE}"


@dataclass(frozen=True)
class Regressor:
    """Support vector regression with a Gaussian kernel.

    Attributes:
        support: support vectors, [n, 36]. coefficients: their weights, [n].
        low, high: the range of each feature that is mapped to -1..1, [36].
        gamma: width of the kernel. rho: what is subtracted from the sum.
        sha256: of the file with the support vectors.
    """

    support: Doubles
    coefficients: Doubles
    low: Doubles
    high: Doubles
    gamma: float
    rho: float
    sha256: str

    def __call__(self, found: Doubles) -> float:
        """Score of `found`, [36]: about 0 (undistorted) to 100 (heavily distorted)."""
        scaled = 2 * (found - self.low) / (self.high - self.low) - 1
        distance = np.square(self.support - scaled).sum(axis=1)
        return float(np.exp(-self.gamma * distance) @ self.coefficients - self.rho)


class Brisque:
    """BRISQUE with given weights. One object per thread: it keeps its working memory.

    Args:
        weights: `live`, the support vectors shipped with ctxr (trained on the LIVE database), or `piq`, those of `piq.brisque`,
            from torch's cache or else downloaded; scores then equal `piq.brisque` in float64.

    Raises:
        UsageError: unknown weights. CtxrError: piq's weights are neither cached nor to be had.
        DataError: a file of weights has an unexpected content.
    """

    def __init__(self, weights: str = "live") -> None:
        if weights not in ("live", "piq"):
            raise UsageError(f"unknown BRISQUE weights {weights!r}", hint="use live or piq")
        self.name = f"brisque-{weights}"
        self._regressor = _live() if weights == "live" else _piq()
        self.weights_sha256 = self._regressor.sha256
        self._scratch = Scratch()

    def score(self, rgb: NDArray[np.uint8]) -> float:
        """BRISQUE / 100 of a picture: about 0 to 1 and not clipped, higher is worse; never NaN.

        Args:
            rgb: uint8, [H, W, 3], or grey [H, W].

        A picture without anything to measure (a side under 16 pixels, one flat colour, or no spread left at half the size) gets
        `UNMEASURABLE` = 1.0, the end of the published scale: it cannot be described either, so that the published threshold
        drops it. A picture of nearly one colour is measured like any other.

        Raises:
            DataError: not uint8, or neither grey nor RGB.
        """
        check_picture(rgb)
        if not rgb.size or _is_flat(rgb):
            return UNMEASURABLE
        found = features(np.ascontiguousarray(rgb), self._scratch)
        return UNMEASURABLE if found is None else self._regressor(found) / 100

    def describe(self) -> dict[str, object]:
        """What made the scores, for manifests: implementation with version, and weights with their hash."""
        return {
            "implementation": IMPLEMENTATION,
            "version": VERSION,
            "weights": self.name,
            "weights_sha256": self.weights_sha256,
        }


def _is_flat(rgb: NDArray[np.uint8]) -> bool:
    if (rgb[0, 0] != rgb[-1, -1]).any() or (rgb[0, 0] != rgb[rgb.shape[0] // 2, rgb.shape[1] // 2]).any():
        return False
    return bool((rgb == rgb[0, 0]).all())


def _live() -> Regressor:
    from safetensors.numpy import load_file

    path = _WEIGHTS / "brisque-live" / "model.safetensors"
    tensors = load_file(path)
    return Regressor(
        support=tensors["support_vectors"],
        coefficients=tensors["coefficients"],
        low=tensors["low"],
        high=tensors["high"],
        gamma=float(tensors["gamma"]),
        rho=float(tensors["rho"]),
        sha256=sha256_file(path),
    )


def _piq() -> Regressor:
    import torch

    path = Path(torch.hub.get_dir()) / "checkpoints" / _PIQ_FILE
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(_PIQ_URL, str(path), progress=False)
        except OSError as error:
            raise CtxrError(
                f"piq's BRISQUE weights are not at {path} and cannot be fetched: {error}",
                hint="use --brisque-weights live, which needs no download",
            ) from error
    try:
        coefficients, support = torch.load(path, map_location="cpu", weights_only=True)
        support, coefficients = support.double().numpy(), coefficients.double().numpy().reshape(-1)
    except Exception as error:  # whatever torch says about a damaged file
        raise DataError(f"{path} does not hold piq's BRISQUE weights: {error}", hint=f"delete {path}") from error
    if support.shape != (len(coefficients), FEATURES):
        raise DataError(f"{path} holds support vectors of shape {support.shape}", hint=f"delete {path}")
    ranges = json.loads((_WEIGHTS / "brisque-piq" / "ranges.json").read_text(encoding="utf-8"))
    return Regressor(
        support=support,
        coefficients=coefficients,
        low=np.array(ranges["low"]),
        high=np.array(ranges["high"]),
        gamma=ranges["gamma"],
        rho=ranges["rho"],
        sha256=sha256_file(path),
    )
