"""Which pictures are copies of one another, by content, perceptual hash and vector together; and which sources share footage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ctxr.store.arrays import Vectors
from ctxr.store.records import SharedFootage
from ctxr.store.units import SourceUnit

Positions = npt.NDArray[np.int64]
Distances = npt.NDArray[np.float32]

Words = npt.NDArray[np.uint64]

DISTANCE_BLOCK = 256  # exact distances taken at a time beyond the neighbours of a photo

# Two pictures below this share of the encoder's own threshold are copies, whatever their hashes: the same pixels saved again lie there,
# pictures that differ in anything one could describe do not.
STRICT_SHARE = 0.3

_HASHES, _WORDS = 4, 4
# which hash of one picture is compared with which of the other; equal cuts say nothing new
_COMPARED = [(mine, theirs) for mine in range(_HASHES) for theirs in range(_HASHES) if mine != theirs or not mine]
_BLOCK = 64, 2048  # rows and columns of Hamming distances at a time: they stay in the cache
_PAIRS = 4096  # pairs whose distance is taken at a time


@dataclass(frozen=True)
class CopyRule:
    """Two pictures are copies if their contents are equal, their distance lies below `strict`, or it lies below `loose` and
    their hashes differ in at most `bits` of 256 places. A flat picture has no hash: there, and with `loose` 0, `strict` alone decides.
    """

    strict: float
    loose: float = 0.0
    bits: int = 0

    @classmethod
    def of_encoder(cls, threshold: float) -> "CopyRule":
        """The rule for an encoder with that threshold. Measured with `python -m bench copies` (docs/experiments.md)."""
        return cls(threshold * STRICT_SHARE, 1.2, 10)

    @classmethod
    def recorded(cls, selection: Mapping[str, Any]) -> "CopyRule":
        """The rule in a manifest's `models.selection`."""
        return cls(selection["duplicate"], selection["duplicate_loose"], selection["duplicate_bits"])

    def record(self) -> dict[str, Any]:
        """The rule as `recorded` reads it."""
        return {"duplicate": self.strict, "duplicate_loose": self.loose, "duplicate_bits": self.bits}


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
        rough = self._rough(anchor)
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

    def within(self, anchor: int, distance: float) -> list[int]:
        """The photos nearer to `anchor` than `distance`."""
        near = np.flatnonzero(self._rough(anchor) < distance**2 + self.slack)
        closer = np.sqrt(_squares(self.vectors[near], self.vectors[anchor])).astype(np.float32) < distance
        return [int(at) for at in near[closer]]

    def _rough(self, anchor: int) -> npt.NDArray[np.float64]:
        products = self.vectors @ self.vectors[anchor]
        return np.asarray(self._squares + self._squares[anchor] - 2 * products, np.float64)


def find_copies(
    contents: Sequence[str],
    vectors: Vectors,
    around: Positions,
    distances: Distances,
    rule: CopyRule,
    *,
    hashes: Sequence[str],
) -> Positions:
    """Pairs [P, 2] of photos that are copies; a pair of equal contents is given with the first of that content only.

    Args:
        contents: sha256 of each photo. vectors: [N, D].
        around: [N, K] nearest photos, nearest first, with `distances` [N, K].
        hashes: hashes of each photo, as in `LedgerRow.phash`.
    """
    count, first = len(contents), dict[str, int]()
    close = distances < rule.strict
    pairs = [np.stack([np.nonzero(close)[0], around[close]], axis=1)]
    pairs.append(np.array([[at, first.setdefault(content, at)] for at, content in enumerate(contents)], np.int64))
    # all known neighbours are copies: there may be more of them
    if 0 < around.shape[1] < count - 1 and (full := np.flatnonzero(close.all(axis=1)).tolist()):
        ranking = PhotoRanking(vectors)
        pairs += [np.array([(at, other) for other in ranking.within(at, rule.strict)], np.int64) for at in full]
    different = np.array(list(first.values()), np.int64)
    alike = different[_alike([hashes[at] for at in different], np.arange(1, len(different) + 1), rule.bits)]
    pairs.append(alike[exact_distances(vectors, alike) < rule.loose])
    return np.concatenate([pair.reshape(-1, 2) for pair in pairs])


def deduplicate(pairs: Positions, ranks: Positions) -> Positions:
    """For each photo [N] the one that stands for its group: that of the lowest rank.

    A group holds whatever `pairs` [P, 2] of copies connect. So groups grow along chains: where A is a copy of B and B of C, all
    three are one group, even if A and C are not. Which photos make a group does not depend on their order.
    """
    count = len(ranks)
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), (count, count))
    _, group = connected_components(graph, directed=False)
    order = np.argsort(ranks, kind="stable")
    _, best = np.unique(group[order], return_index=True)
    return np.asarray(order[best][group], np.int64)


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
        kept = [(row, row.row) for row in unit.ledger if row.row is not None and not row.held]
        ids = [f"{source.name}/img{row.index}" for row, _ in kept]
        return cls(
            source.name, source.kind, ids, [row.phash or "" for row, _ in kept], unit.vectors[[at for _, at in kept]]
        )


def shared_footage(sources: Iterable[SourceHashes], rule: CopyRule) -> list[SharedFootage]:
    """Pairs of sources that share pictures, by name. Flat pictures are ignored.

    Hashes may differ in three times the `bits`, as two samplings of one shot miss one another by a part of a step. Two videos share
    footage only if they share different pictures: one still picture is a title or a logo.
    """
    parts = sorted((part for part in sources if len(part.ids)), key=lambda part: part.name)
    if len(parts) < 2:
        return []
    ids, hashes = ([one for part in parts for one in getattr(part, name)] for name in ("ids", "hashes"))
    vectors = np.concatenate([part.vectors for part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.ids) for part in parts])
    pairs = _alike(hashes, np.searchsorted(owner, owner, side="right"), 3 * rule.bits)
    pairs = np.unique(pairs[exact_distances(vectors, pairs) < rule.loose], axis=0)
    distances, between, shared = exact_distances(vectors, pairs), owner[pairs], []
    which, group, counts = np.unique(between, axis=0, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(counts)[:-1])
    for (one, other), own in zip(which.tolist(), members, strict=False):
        copies = np.unique(pairs[own, 1]).tolist()
        words = _words([hashes[at] for at in copies])[:, 0]
        still = bool((np.bitwise_count(words ^ words[:1]).sum(axis=-1) <= rule.bits).all())
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


def _alike(hashes: Sequence[str], ends: Positions, bits: int) -> Positions:
    """Pairs [P, 2] of rows, the second from `ends[first]` on, with hashes that differ in at most `bits` places. `ends` [N] does not
    fall."""
    rows, words = np.array([at for at, phash in enumerate(hashes) if phash], np.int64), _words(hashes)
    # one word of four, or two, rules nearly all out
    heads = np.ascontiguousarray(words[:, :, : 1 + (bits > 16)].transpose(1, 2, 0))
    blocks = [np.zeros((0, 2), np.int64)]
    for start, (mine, theirs) in product(range(0, len(rows), _BLOCK[0]), _COMPARED):
        own = heads[mine, :, start : start + _BLOCK[0], None]
        for first in range(int(np.searchsorted(rows, ends[rows[start]])), len(rows), _BLOCK[1]):
            differ = np.bitwise_count(own[0] ^ heads[theirs, 0, first : first + _BLOCK[1]])
            if len(own) > 1:
                differ += np.bitwise_count(own[1] ^ heads[theirs, 1, first : first + _BLOCK[1]])
            left, right = np.nonzero(differ <= bits)
            both = words[left + start, mine] ^ words[right + first, theirs]
            near = np.bitwise_count(both).sum(axis=-1) <= bits
            pairs = rows[np.stack([left[near] + start, right[near] + first], axis=1)]
            blocks.append(pairs[pairs[:, 1] >= ends[pairs[:, 0]]])
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
