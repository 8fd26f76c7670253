"""Queries as arrays, the pictures they ask about, and the batches made of them.

Letters: Q queries, K candidates, N images, R regions, F features of a region, D width, T tokens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ctxr.models.preprocess import Preprocess
from ctxr.models.scorers import Batch, marks_at


class Positives(NamedTuple):
    """Pairs as parallel columns: int64 [n] rows of captions and rows of images."""

    captions: Tensor
    images: Tensor


@dataclass(frozen=True)
class PositivePairs:
    """Pictures for which captions hold: how many, int64 [C], and which, ascending in each."""

    sizes: Tensor
    images: Tensor

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], captions: int) -> "PositivePairs":
        """From (caption, picture) pairs; a repeated pair counts once."""
        table = torch.tensor(sorted(set(pairs)), dtype=torch.int64).reshape(-1, 2)
        return cls(torch.bincount(table[:, 0], minlength=captions), table[:, 1].contiguous())

    @classmethod
    def marked(cls, marks: Tensor, images: Tensor) -> "PositivePairs":
        """From marks, bool [C, K], on `images` [C, K], which must be different in a row."""
        last = torch.iinfo(torch.int64).max
        ascending = torch.where(marks, images, last).sort(1).values
        return cls(marks.sum(1), ascending[ascending != last])

    def among(self, captions: Tensor, images: Tensor) -> Tensor:
        """bool [b, K]: whether captions [b] hold for pictures [b, K] of their own."""
        rows, pictures = self._pairs(captions)
        which, columns = (images[rows] == pictures[:, None]).nonzero(as_tuple=True)
        marked = torch.zeros_like(images, dtype=torch.bool)
        marked[rows[which], columns] = True
        return marked

    def part(self, captions: Tensor) -> "PositivePairs":
        """The rows of these captions [b]."""
        return PositivePairs(self.sizes[captions], self._pairs(captions).images)

    def turned(self, images: int) -> "PositivePairs":
        """The captions of each of `images` pictures."""
        owner = torch.arange(len(self.sizes)).repeat_interleave(self.sizes)
        return PositivePairs.of(zip(self.images.tolist(), owner.tolist(), strict=True), images)

    def draw(self, rows: Tensor, chance: torch.Generator | None = None) -> Positives:
        """A random picture for each of `rows` that has any, by `chance` or torch's own generator."""
        starts, sizes = (self.sizes.cumsum(0) - self.sizes)[rows], self.sizes[rows]
        some = sizes > 0
        offsets = (torch.rand(int(some.sum()), generator=chance) * sizes[some]).long().clamp(max=sizes[some] - 1)
        return Positives(rows[some], self.images[starts[some] + offsets])

    def _pairs(self, captions: Tensor) -> Positives:
        starts, sizes = (self.sizes.cumsum(0) - self.sizes)[captions], self.sizes[captions]
        rows = torch.arange(len(captions)).repeat_interleave(sizes)
        offsets = (starts - (sizes.cumsum(0) - sizes)).repeat_interleave(sizes)
        return Positives(rows, self.images[offsets + torch.arange(len(rows))])


Images = Callable[[Tensor], Tensor]
"""Gives pictures of rows int64 [n], in their order: float pixels [n, 3, H, W], or unit vectors [n, D]."""


@dataclass(frozen=True)
class ExampleTable:
    """Queries with the rows of their candidates; columns as in a `Batch`.

    Attributes:
        images: pictures by row.
        candidates: [Q, K] rows of images, in the order of each set; where there is none, the first of the same set again.
        sets: [Q] number of the image set.
        payload: numbers of each query beside texts and images, [Q, ...] by name.
        entailed: further rows of images for which each query was found to hold; None where none was. unsure: for which it may hold.
    """

    images: Images
    texts: Tensor
    candidates: Tensor
    mask: Tensor
    ordered: Tensor
    targets: Tensor
    sets: Tensor
    payload: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)
    entailed: PositivePairs | None = field(default=None, kw_only=True)
    unsure: PositivePairs | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def target(self) -> Tensor:
        """[Q] int64 position of the only right candidate, -1 if unknown. Raises ValueError for several."""
        counts = self.targets.sum(1)
        if bool((counts > 1).any()):
            raise ValueError("a query has several right candidates, and only one can be taken here")
        return torch.where(counts == 1, self.targets.int().argmax(1), -1)

    def batch(self, rows: Tensor) -> Batch:
        """Some of the queries; an image of several queries is in the batch once."""
        unique, positions = torch.unique(self.candidates[rows], return_inverse=True)
        names = ("texts", "mask", "ordered", "targets")
        columns = {name: getattr(self, name)[rows] for name in names}
        payload = {name: tensor[rows] for name, tensor in self.payload.items()}
        return Batch(self.images(unique), candidates=positions, payload=payload, **columns)

    def marks(self, pairs: PositivePairs | None, rows: Tensor) -> Tensor | None:
        """bool [B, K], candidates other than targets that are among `pairs`; None without any."""
        if pairs is None:
            return None
        return pairs.among(rows, self.candidates[rows]) & self.mask[rows] & ~self.targets[rows]

    def part(self, rows: Tensor) -> "ExampleTable":
        """Some of the queries."""
        names = ("texts", "candidates", "mask", "ordered", "targets", "sets")
        columns = {name: getattr(self, name)[rows] for name in names}
        payload = {name: tensor[rows] for name, tensor in self.payload.items()}
        entailed, unsure = (None if one is None else one.part(rows) for one in (self.entailed, self.unsure))
        return replace(self, **columns, payload=payload, entailed=entailed, unsure=unsure)


def by_sets(sets: Tensor, chance: torch.Generator) -> Tensor:
    """Every query once [Q], sets in random order, the queries of a set together (set-major)."""
    numbers, owner = torch.unique(sets, return_inverse=True)
    return torch.randperm(len(numbers), generator=chance)[owner].sort(stable=True).indices


def with_distractors(questions: ExampleTable, count: int, chance: torch.Generator) -> ExampleTable:
    """The queries with other candidates: the target, first, and up to `count` random ones of all queries."""
    pool = torch.unique(questions.candidates[questions.mask])
    own = questions.candidates.gather(1, questions.target[:, None])
    count = min(count, len(pool) - 1)
    # a place among the others: those behind the target's own place move up by one
    position = torch.searchsorted(pool, own)
    choices = len(pool) - 1
    if 4 * count >= choices:
        draws = torch.rand(len(own), choices, generator=chance).argsort(1)[:, :count]
    else:
        draws = torch.randint(choices, (len(own), count), generator=chance)
        while len(repeated := (draws.sort(1).values.diff(dim=1) == 0).any(1).nonzero().flatten()):
            draws[repeated] = torch.randint(choices, (len(repeated), count), generator=chance)
    candidates = torch.cat([own, pool[draws + (draws >= position).long()]], dim=1)
    return replace(
        questions,
        candidates=candidates,
        mask=torch.ones_like(candidates, dtype=torch.bool),
        ordered=torch.zeros_like(questions.ordered),
        targets=marks_at(torch.zeros_like(questions.sets), candidates.shape[1]),
    )


def with_shared_distractors(
    questions: ExampleTable, steps: Sequence[Tensor], count: int, chance: torch.Generator
) -> ExampleTable:
    """As `with_distractors`, from the targets of the same step, whose images are encoded once for all.

    `steps`: the rows of each step, int64; every row is in one.
    """
    own = questions.candidates.gather(1, questions.target[:, None])
    candidates, mask = own.repeat(1, count + 1), torch.zeros(len(own), count + 1, dtype=torch.bool)
    present = torch.ones_like(own, dtype=torch.bool)
    targets_only = replace(questions, candidates=own, mask=present, targets=present)
    for rows in steps:
        draws = with_distractors(targets_only.part(rows), count, chance).candidates
        candidates[rows, : draws.shape[1]], mask[rows, : draws.shape[1]] = draws, True
    ordered, targets = torch.zeros_like(questions.ordered), marks_at(torch.zeros_like(questions.sets), count + 1)
    return replace(targets_only, candidates=candidates, mask=mask, ordered=ordered, targets=targets)


def with_weak_targets(
    questions: ExampleTable, chance: torch.Generator, anywhere: bool = False
) -> tuple[ExampleTable, Tensor]:
    """The queries, followed by copies of those with weak positives, whose target is a random one of these; and the row [Q] of the copy of
    each query, -1 where it has none.

    In a copy the written target counts as a weak positive. With `anywhere`, any image for which a query holds can be drawn, and replaces
    the target where it is not a candidate; else the weak ones among the candidates alone.
    """
    every = torch.arange(len(questions))
    second, weak = torch.full_like(every, -1), questions.marks(questions.entailed, every)
    if questions.entailed is None or weak is None:
        return questions, second
    positives = questions.entailed if anywhere else PositivePairs.marked(weak, questions.candidates)
    rows, images = positives.draw(every, chance)
    second[rows] = len(every) + torch.arange(len(rows))
    candidates, written = questions.candidates[rows], questions.target[rows, None]
    weak = torch.cat([weak, weak[rows].scatter(1, written, True)])
    matches = (candidates == images[:, None]) & questions.mask[rows]
    target = torch.where(matches.any(1, keepdim=True), matches.int().argmax(1, keepdim=True), written)
    candidates = torch.cat([questions.candidates, candidates.scatter(1, target, images[:, None])])
    both = replace(
        questions.part(torch.cat([every, rows])),
        candidates=candidates,
        targets=torch.cat([questions.targets, marks_at(target[:, 0], candidates.shape[1])]),
        entailed=PositivePairs.marked(weak, candidates),
    )
    return both, second


def vector_table(vectors: npt.NDArray[np.float32]) -> Images:
    """Vectors [N, D] in memory, by row."""
    return torch.from_numpy(np.ascontiguousarray(vectors)).__getitem__


class PixelTable:
    """Pictures uint8 [n, 3, H, W] in arrays of equal length except the last; normalised on the device."""

    def __init__(self, arrays: Sequence[npt.NDArray[np.uint8]], preprocess: Preprocess, device: str) -> None:
        self._arrays, self._preprocess, self._device = arrays, preprocess, device
        self._length = len(arrays[0]) if arrays else 1

    def __call__(self, rows: Tensor) -> Tensor:
        """float32 [n, 3, H, W] on the device."""
        pixels = np.stack([self._arrays[row // self._length][row % self._length] for row in rows.tolist()])
        return self._preprocess.normalised(torch.from_numpy(pixels).to(self._device))


def with_features(
    questions: ExampleTable, rows: npt.NDArray[np.int64], features: npt.NDArray[np.float32]
) -> ExampleTable:
    """Queries by row, with their pair features [Q, K, D] as images."""
    questions, features = questions.part(torch.from_numpy(rows)), features[rows]
    count, most, width = features.shape
    own = torch.arange(count * most).view(count, most)
    marks = (questions.marks(pairs, torch.arange(count)) for pairs in (questions.entailed, questions.unsure))
    entailed, unsure = (None if one is None else PositivePairs.marked(one, own) for one in marks)
    return replace(
        questions,
        images=vector_table(features.reshape(count * most, width)),
        texts=torch.zeros((count, 1), dtype=torch.int64),
        candidates=torch.where(questions.mask, own, own[:, :1]),
        entailed=entailed,
        unsure=unsure,
    )
