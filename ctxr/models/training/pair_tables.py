"""What encoders of pairs learn from: regions of pictures, and pair features that were computed once.

Letters: Q queries, K candidates, R regions, F features of a region, D width of a pair.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ctxr.data.regions import RegionFeatures
from ctxr.models.training.known import Known
from ctxr.models.training.passes import in_passes
from ctxr.models.training.questions import Questions
from ctxr.models.training.tables import Vectors


class RegionTable:
    """Regions of pictures, read when they are asked for: those of a whole benchmark do not fit into memory.

    Args:
        regions: where they lie. contents: SHA-256 of the picture of each row.
    """

    def __init__(self, regions: RegionFeatures, contents: Sequence[str]) -> None:
        self._regions, self._contents = regions, list(contents)

    def __call__(self, rows: Tensor) -> Tensor:
        """float32 [n, R, F + BOX]."""
        return torch.from_numpy(self._regions.of([self._contents[row] for row in rows.tolist()]))


@torch.no_grad()
def features_of(
    encoder: Any, questions: Questions, rows: Sequence[int], at_once: int, device: str, bf16: bool
) -> npt.NDArray[np.float32]:
    """Pair features [n, K, D] of some queries by an encoder as it is, 0 where there is no candidate."""
    found: list[Tensor] = []

    def look(part: Tensor) -> None:
        batch = questions.batch(part).to(device)
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            pairs = encoder.pairs(batch.images, batch.texts, batch.candidates, batch.mask)
        found.append((pairs.float() * batch.mask[..., None]).cpu())

    in_passes(torch.tensor(rows, dtype=torch.int64), at_once, device, look)
    return np.asarray(torch.cat(found).numpy())


def with_features(questions: Questions, rows: npt.NDArray[np.int64], features: npt.NDArray[np.float32]) -> Questions:
    """Queries by row, with their pair features [Q, K, D] as images: each candidate of a query is one of its own."""
    questions, features = questions.part(torch.from_numpy(rows)), features[rows]
    count, most, width = features.shape
    own = torch.arange(count * most).view(count, most)
    weak = questions.weak_marks(torch.arange(count))
    return replace(
        questions,
        images=Vectors(features.reshape(count * most, width)),
        texts=torch.zeros((count, 1), dtype=torch.int64),
        candidates=torch.where(questions.mask, own, own[:, :1]),
        entailed=None if weak is None else Known.marked(weak, own),
    )
