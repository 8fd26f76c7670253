"""What every scorer of candidates takes and gives. Tensor letters: B queries, K candidates, N images, T tokens, D width."""

from dataclasses import dataclass, fields
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Queries with their candidates. An image stands in it once, however many queries ask about it.

    Attributes:
        images: [N, 3, H, W] float pixels as the encoder wants them, or [N, D] unit vectors of them.
        texts: [B, T] int64 token ids, or [B, D] unit vectors.
        candidates: [B, K] int64 rows of `images`, in the order of the set; any row where there is none.
        mask: [B, K] bool, True where there is a candidate; each query has at least one.
        ordered: [B] bool, whether the order of the candidates is that of time.
        target: [B] int64 position of the right candidate; -1 where it is not known.
    """

    images: Tensor
    texts: Tensor
    candidates: Tensor
    mask: Tensor
    ordered: Tensor
    target: Tensor

    def to(self, device: str) -> "Batch":
        """The same on another device."""
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


class CandidateScorer(Protocol):
    """Says how well each candidate fits its query."""

    def __call__(self, batch: Batch) -> Tensor:
        """float32 [B, K], higher is better, -inf where there is no candidate."""
