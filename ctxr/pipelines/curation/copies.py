"""Which pictures are copies, by content and pixels, and which sources share footage."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from ctxr.media.images import Pixels, decoded
from ctxr.media.likeness import Sketch, same_picture
from ctxr.media.video import TURNS, turned
from ctxr.store.arrays import Vectors
from ctxr.store.records import SharedFootage
from ctxr.store.units import SourceUnit

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

DISTANCE_BLOCK = 256  # exact distances taken at a time beyond the neighbours of a photo

_HASHES, _WORDS, _WAVES = 4, 4, 16  # hashes of a picture, words of one; cosine waves of a hash, down and across
Comparison = tuple[int, int, int]  # which hash of one picture with which of the other after which turn
_BLOCK = 64, 2048  # rows and columns of Hamming distances at a time: they stay in the cache
_PAIRS = 4096  # pairs whose distance is taken at a time
_STEP = 8  # places
_VERDICTS = 64  # pairs whose pixels are compared at a time
_KEPT = 1024  # pictures kept in memory for later pairs, 200 kB each

_ANY_CUTS = [(mine, theirs, 0) for mine in range(_HASHES) for theirs in range(_HASHES)]
_PHOTO_HASHES = _ANY_CUTS + [(0, 0, turn) for turn in range(1, TURNS)]
# of footage, equal cuts say nothing new
_FOOTAGE_HASHES = [one for one in _ANY_CUTS if one[0] != one[1] or not one[0]]
FOOTAGE_BITS = 30  # two samplings of one shot miss one another by a part of a step
FOOTAGE_DISTANCE = 1.2
_STILL_BITS = 10  # between frames of one still picture


@dataclass(frozen=True)
class CopyRule:
    """Two photos are copies if their contents are equal, or they are candidates and their pixels differ by less than `difference`
    (`same_picture`). Candidates are the `neighbours` nearest to each by vector, and those whose hashes differ in fewer than `_STEP` of
    256 places, mirrored and turned too; where all of these are copies, as many neighbours more, and hashes up to `bits`.

    Measured with `python -m bench copies` (docs/experiments.md).
    """

    neighbours: int = 16
    bits: int = 24
    difference: float = 10.0


class PhotoRanking:
    """The photos of a pool by distance from one of them, as far as somebody asks.

    Products in float32 give the order up to `slack`, a bound on what they can be wrong by; exact distances (float64, from the
    differences) are taken of a block of photos at a time, and a photo is given out once no later one can be nearer.
    """

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self._squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
        self.slack = vectors.shape[1] * 2.0**-22 * float(self._squares.max(initial=0.0)) + 1e-9

    def around(self, anchor: int) -> Iterator[int]:
        """All photos by distance from `anchor`, itself included; equal distances by position."""
        products = self.vectors @ self.vectors[anchor]
        rough = np.asarray(self._squares + self._squares[anchor] - 2 * products, np.float64)
        order = np.argsort(rough)
        waiting: list[tuple[float, int]] = []
        for stop in range(DISTANCE_BLOCK, len(order) + DISTANCE_BLOCK, DISTANCE_BLOCK):
            block = order[stop - DISTANCE_BLOCK : stop]
            squares = _squares(self.vectors[block], self.vectors[anchor])
            for pair in zip(squares.tolist(), block.tolist(), strict=True):
                heappush(waiting, pair)
            sure = float(rough[order[stop]]) - self.slack if stop < len(order) else np.inf
            while waiting and waiting[0][0] < sure:
                yield heappop(waiting)[1]


def find_copies(
    contents: Sequence[str],
    around: Positions,
    read: Callable[[int], Pixels],
    rule: CopyRule,
    *,
    hashes: Sequence[str],
) -> Positions:
    """For each photo [N] the group of its copies, numbered by one of them.

    A group holds whatever copies connect. So groups grow along chains: where A is a copy of B and B of C, all three are one group,
    even if A and C are not.

    Args:
        contents: sha256 of each photo. around: [N, K] nearest photos, nearest first.
        read: the pixels of a photo, with at least `SIDE` on the longer side if it has so many; raises DataError.
        hashes: hashes of each photo, as in `LedgerRow.phash`.
    """
    first = dict[str, int]()
    firsts = np.array([first.setdefault(content, at) for at, content in enumerate(contents)], np.int64)
    different, leader = np.unique(firsts), firsts.tolist()
    sketch = lru_cache(_KEPT)(lambda at: Sketch.of(read(at)))
    features = list(decoded(lambda at: sketch(at).features, leader))

    def shows_same(candidate: Sequence[int]) -> bool:
        one, other, turn, by_hash = candidate
        # hardly any two different pictures have features that lie alike; flat ones have none
        if not (by_hash or not (hashes[one] or hashes[other]) or features[one].place(features[other]) is not None):
            return False
        theirs = sketch(other)
        theirs = Sketch.of(turned(theirs.picture, turn)) if turn else theirs
        return same_picture(sketch(one), theirs, rule.difference)

    def root(at: int) -> int:
        while leader[at] != at:
            leader[at] = at = leader[leader[at]]
        return at

    near = firsts[around[different]]
    ranks = np.broadcast_to(np.arange(near.shape[1]), near.shape)
    pairs = np.stack([ranks // rule.neighbours, np.broadcast_to(different[:, None], near.shape), near], axis=-1)
    pairs = pairs[pairs[:, :, 1] != near]
    pairs[:, 1:].sort(axis=1)
    alike = _alike([hashes[at] for at in different], np.arange(1, len(different) + 1), rule.bits, _PHOTO_HASHES)
    by_hash = [alike[:, 3] // _STEP, different[alike[:, :2]], alike[:, 2], np.ones(len(alike), np.int64)]
    # the nearest first, and of these together those of one photo
    rows = np.unique(np.concatenate([np.pad(pairs, ((0, 0), (0, 2))), np.column_stack(by_hash)]), axis=0)
    copies = np.ones((2, len(firsts)), bool)
    for start in range(0, len(rows), _VERDICTS):
        batch = [
            row
            for farther, *row in rows[start : start + _VERDICTS].tolist()
            if root(row[0]) != root(row[1]) and (not farther or copies[row[3], row[:2]].any())
        ]
        for row, same in zip(batch, decoded(shows_same, batch), strict=True):
            if same:
                leader[root(row[0])] = root(row[1])
            copies[row[3], row[:2]] &= same
    return np.array([root(at) for at in range(len(leader))], np.int64)


def deduplicate(groups: Positions, ranks: Positions) -> Positions:
    """For each photo [N] the one that stands for its group: that of the lowest rank."""
    order = np.argsort(ranks, kind="stable")
    _, best, group = np.unique(groups[order], return_index=True, return_inverse=True)
    best_of = np.empty(len(groups), np.int64)
    best_of[order] = order[best[group]]
    return best_of


@dataclass(frozen=True)
class SourceHashes:
    """What was embedded of one source: image ids [N], hashes [N] as in `LedgerRow.phash`, vectors [N, D]."""

    name: str
    kind: str
    ids: Sequence[str]
    hashes: Sequence[str]
    vectors: Vectors

    @classmethod
    def of(cls, unit: SourceUnit) -> "SourceHashes":
        """The hashes of a video."""
        source = unit.source
        kept = [(row, row.row) for row in unit.ledger if row.row is not None and row.phash is not None]
        ids = [f"{source.name}/img{row.index}" for row, _ in kept]
        hashes, rows = [row.phash or "" for row, _ in kept], [at for _, at in kept]
        return cls(source.name, source.kind, ids, hashes, unit.vectors[rows])


def shared_footage(sources: Iterable[SourceHashes]) -> list[SharedFootage]:
    """Pairs of sources that share pictures, by name: pictures nearer than `FOOTAGE_DISTANCE` whose hashes differ in at most
    `FOOTAGE_BITS`. Flat pictures are ignored.

    Two videos share footage only if they share different pictures: one still picture is a title or a logo.
    """
    parts = sorted((part for part in sources if len(part.ids)), key=lambda part: part.name)
    if len(parts) < 2:
        return []
    ids, hashes = ([one for part in parts for one in getattr(part, name)] for name in ("ids", "hashes"))
    vectors = np.concatenate([part.vectors for part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.ids) for part in parts])
    alike = _alike(hashes, np.searchsorted(owner, owner, side="right"), FOOTAGE_BITS, _FOOTAGE_HASHES)
    pairs = np.unique(alike[:, :2], axis=0)
    pairs = pairs[exact_distances(vectors, pairs) < FOOTAGE_DISTANCE]
    distances, between, shared = exact_distances(vectors, pairs), owner[pairs], []
    which, group, counts = np.unique(between, axis=0, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(counts)[:-1])
    for (one, other), own in zip(which.tolist(), members, strict=False):
        copies = np.unique(pairs[own, 1]).tolist()
        words = _words([hashes[at] for at in copies])[:, 0]
        still = bool((np.bitwise_count(words ^ words[:1]).sum(axis=-1) <= _STILL_BITS).all())
        if still and parts[one].kind == parts[other].kind == "video":
            continue
        closest = own[distances[own].argmin()]
        example = ids[pairs[closest, 0]], ids[pairs[closest, 1]]
        of = sum(phash != "" for phash in parts[other].hashes)
        distance = round(float(distances[closest]), 6)
        shared.append(SharedFootage(parts[one].name, parts[other].name, len(copies), of, example, distance))
    return shared


def _words(hashes: Sequence[str]) -> Words:
    """The hashes [M, 4, 4] of those that have any."""
    digits = bytes.fromhex("".join(phash for phash in hashes if phash))
    return np.frombuffer(digits, np.uint64).reshape(-1, _HASHES, _WORDS)


def _alike(hashes: Sequence[str], ends: Positions, bits: int, compared: Sequence[Comparison]) -> Positions:
    """Rows [P, 4]: two positions, the second from `ends[first]` on, a turn of the second, and in how many places, at most `bits`,
    hashes differ then. `ends` [N] does not fall."""
    rows, words = np.array([at for at, phash in enumerate(hashes) if phash], np.int64), _words(hashes)
    odd, blocks = (np.arange(_WAVES) & 1).astype(np.uint8), [np.zeros((0, 4), np.int64)]
    for mine, theirs, turn in compared:
        # the second after the turn (`likeness.turned`): waves change places, and odd ones their signs
        waves = np.unpackbits(np.ascontiguousarray(words[:, theirs]).view(np.uint8)).reshape(-1, _WAVES, _WAVES)
        waves = waves.transpose(0, 2, 1) if turn & 4 else waves
        waves = waves ^ (odd[:, None] * (turn >> 1 & 1)) ^ (odd * (turn & 1))
        whole = words[:, mine], np.packbits(waves).view(np.uint64).reshape(-1, _WORDS)
        # one word of four, or two, rules nearly all out
        heads, others = (np.ascontiguousarray(some[:, : 1 + (bits > 16)].T) for some in whole)
        for start in range(0, len(rows), _BLOCK[0]):
            own = heads[:, start : start + _BLOCK[0], None]
            for first in range(int(np.searchsorted(rows, ends[rows[start]])), len(rows), _BLOCK[1]):
                differ = np.bitwise_count(own[0] ^ others[0, first : first + _BLOCK[1]])
                if len(own) > 1:
                    differ += np.bitwise_count(own[1] ^ others[1, first : first + _BLOCK[1]])
                left, right = np.nonzero(differ <= bits)
                left, right = left + start, right + first
                places = np.bitwise_count(whole[0][left] ^ whole[1][right]).sum(axis=-1, dtype=np.int64)
                found = np.stack([rows[left], rows[right], np.full(len(left), turn), places], axis=1)
                blocks.append(found[(places <= bits) & (rows[right] >= ends[rows[left]])])
    return np.unique(np.concatenate(blocks), axis=0)


def exact_distances(vectors: Vectors, pairs: Positions) -> npt.NDArray[np.float64]:
    """Exact distances of pairs [P, 2]."""
    distances = np.empty(len(pairs))
    for start in range(0, len(pairs), _PAIRS):
        left, right = pairs[start : start + _PAIRS].T
        distances[start : start + _PAIRS] = np.sqrt(_squares(vectors[left], vectors[right]))
    return distances


def _squares(left: Vectors, right: Vectors) -> npt.NDArray[np.float64]:
    """Squared distances of rows, from differences in float64."""
    difference = np.asarray(left, np.float64) - np.asarray(right, np.float64)
    return np.asarray(np.einsum("nd,nd->n", difference, difference), np.float64)
