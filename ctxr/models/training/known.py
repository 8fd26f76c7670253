"""Which texts hold for which pictures, as compressed rows."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Known:
    """For which pictures each caption holds, as compressed rows.

    Attributes:
        starts: int64 [C + 1] where each caption's pictures begin. images: int64, ascending in each caption.
    """

    starts: Tensor
    images: Tensor

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], captions: int) -> "Known":
        """From (caption, picture) pairs; a pair that stands twice counts once."""
        table = torch.tensor(sorted(set(pairs)), dtype=torch.int64).reshape(-1, 2)
        sizes = torch.bincount(table[:, 0], minlength=captions)
        return cls(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]), table[:, 1].contiguous())

    @classmethod
    def marked(cls, marks: Tensor, images: Tensor) -> "Known":
        """From the marked ones, bool [C, K], of `images` [C, K]; those that are marked in a row are all different."""
        last = torch.iinfo(torch.int64).max
        ascending = torch.where(marks, images, last).sort(1).values
        sizes = marks.sum(1)
        return cls(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]), ascending[ascending != last])

    def mask(self, captions: Tensor, images: Tensor) -> Tensor:
        """Which of these captions [b] hold for which of these pictures [n], ascending: bool [b, n]."""
        rows, held = self._pairs(captions)
        place = torch.searchsorted(images, held).clamp(max=len(images) - 1)
        there = images[place] == held
        marked = torch.zeros(len(captions), len(images), dtype=torch.bool)
        marked[rows[there], place[there]] = True
        return marked

    def among(self, captions: Tensor, images: Tensor) -> Tensor:
        """For which of its own pictures [b, K] each of these captions [b] holds: bool [b, K]."""
        rows, held = self._pairs(captions)
        which, place = (images[rows] == held[:, None]).nonzero(as_tuple=True)
        marked = torch.zeros_like(images, dtype=torch.bool)
        marked[rows[which], place] = True
        return marked

    def part(self, captions: Tensor) -> "Known":
        """For which pictures these captions [b] hold, the first of them as row 0."""
        sizes = self.starts.diff()[captions]
        return Known(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]), self._pairs(captions)[1])

    def turned(self, images: int) -> "Known":
        """For which captions each of `images` pictures holds."""
        captions = len(self.starts) - 1
        owner = torch.arange(captions).repeat_interleave(self.starts.diff())
        return Known.of(zip(self.images.tolist(), owner.tolist(), strict=True), images)

    def draw(self, rows: Tensor, chance: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """One partner for each of `rows` that has any: (those rows, their partners), by `chance` or torch's own generator."""
        starts, sizes = self.starts[rows], self.starts.diff()[rows]
        some = sizes > 0
        drawn = (torch.rand(int(some.sum()), generator=chance) * sizes[some]).long().clamp(max=sizes[some] - 1)
        return rows[some], self.images[starts[some] + drawn]

    def _pairs(self, captions: Tensor) -> tuple[Tensor, Tensor]:
        """(place in `captions`, picture) of every pair."""
        sizes = self.starts.diff()[captions]
        rows = torch.arange(len(captions)).repeat_interleave(sizes)
        within = torch.arange(len(rows)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        return rows, self.images[self.starts[captions].repeat_interleave(sizes) + within]
