"""Pictures by row, and questions made of NumPy arrays."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ctxr.models.preprocess import Preprocess
from ctxr.models.training.known import Known
from ctxr.models.training.questions import Images, Questions


class Vectors:
    """Unit vectors [N, D] in memory."""

    def __init__(self, vectors: npt.NDArray[np.float32]) -> None:
        self._vectors = torch.from_numpy(np.ascontiguousarray(vectors))

    def __call__(self, rows: Tensor) -> Tensor:
        """float32 [n, D]."""
        return self._vectors[rows]


class PixelTable:
    """Pictures uint8 [n, 3, H, W] in arrays of equal length but for the last; normalised on the device when asked for."""

    def __init__(self, arrays: Sequence[npt.NDArray[np.uint8]], preprocess: Preprocess, device: str) -> None:
        self._arrays, self._preprocess, self._device = arrays, preprocess, device
        self._length = len(arrays[0]) if arrays else 1

    def __call__(self, rows: Tensor) -> Tensor:
        """float32 [n, 3, H, W] on the device."""
        pixels = np.stack([self._arrays[row // self._length][row % self._length] for row in rows.tolist()])
        return self._preprocess.normalised(torch.from_numpy(pixels).to(self._device))


def make_questions(
    images: Images,
    texts: npt.NDArray[np.float32] | npt.NDArray[np.int64],
    *,
    candidates: npt.NDArray[np.int64],
    mask: npt.NDArray[np.bool_],
    ordered: npt.NDArray[np.bool_],
    target: npt.NDArray[np.int64],
    sets: npt.NDArray[np.int64],
    weak: Sequence[tuple[int, int]] = (),
) -> Questions:
    """Questions with the shapes that `Questions` names; `weak` are pairs of a query and a further picture that it holds for."""
    columns = (texts, candidates, mask, ordered, target, sets)
    entailed = Known.of(weak, len(target)) if weak else None
    return Questions(images, *(torch.from_numpy(np.ascontiguousarray(column)) for column in columns), entailed=entailed)
