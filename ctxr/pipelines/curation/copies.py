"""Which pictures are copies of one another, by content, perceptual hash and vector together; and which sources share footage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ctxr.pipelines.curation.ranking import Distances, PhotoRanking, Positions
from ctxr.store.arrays import Vectors
from ctxr.store.records import SetKind, SharedFootage
from ctxr.store.units import SourceUnit

Words = npt.NDArray[np.uint64]

STRICT_SHARE = 0.3
"""Two pictures below this share of the encoder's own threshold are copies, whatever their hashes: the same pixels saved again
lie there, pictures that differ in anything one could describe do not."""

_HASHES, _WORDS = 4, 4
_COMPARED = [(mine, theirs) for mine in range(_HASHES) for theirs in range(_HASHES) if mine != theirs or not mine]
"""Which hash of one picture is compared with which of the other; equal cuts say nothing new."""
_BLOCK = 64, 2048  # rows and columns of Hamming distances at a time: they stay in the cache
_PAIRS = 4096  # pairs whose distance is taken at a time


@dataclass(frozen=True)
class CopyRule:
    """Two pictures are copies if their contents are equal, their distance lies below `strict`, or it lies below `loose` and
    their hashes differ in at most `bits` of 256 places. Without a hash, or with `loose` 0, `strict` alone decides.
    """

    strict: float
    loose: float = 0.0
    bits: int = 0

    @classmethod
    def of_encoder(cls, threshold: float) -> "CopyRule":
        """The rule for an encoder with that threshold. Measured with `python -m bench copies` (docs/log.md)."""
        return cls(threshold * STRICT_SHARE, 1.2, 10)

    @classmethod
    def recorded(cls, selection: Mapping[str, Any]) -> "CopyRule":
        """The rule in a manifest's `models.selection`; that of a version without hashes has `duplicate` alone."""
        return cls(selection["duplicate"], selection.get("duplicate_loose", 0.0), selection.get("duplicate_bits", 0))

    def record(self) -> dict[str, Any]:
        """The rule as `recorded` reads it."""
        return {"duplicate": self.strict, "duplicate_loose": self.loose, "duplicate_bits": self.bits}


def find_copies(
    contents: Sequence[str],
    vectors: Vectors,
    around: Positions,
    distances: Distances,
    rule: CopyRule,
    *,
    hashes: Sequence[str | None],
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
    pairs.append(alike[_distances(vectors, alike) < rule.loose])
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
    labels: Positions = order[best][group]
    return labels


@dataclass(frozen=True)
class SourceHashes:
    """What was embedded of one source: image ids [N], hashes [N] as in `LedgerRow.phash`, vectors [N, D]."""

    name: str
    kind: SetKind
    ids: Sequence[str]
    hashes: Sequence[str | None]
    vectors: Vectors

    @classmethod
    def of(cls, unit: SourceUnit) -> "SourceHashes":
        """Those of a video."""
        source = unit.source
        kept = [(row, row.row) for row in unit.ledger if row.row is not None and not row.held]
        ids = [f"{source.name}/img{row.index}" for row, _ in kept]
        return cls(source.name, source.kind, ids, [row.phash for row, _ in kept], unit.vectors[[at for _, at in kept]])


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
    blocks, ranking = [pairs[_distances(vectors, pairs) < rule.loose]], PhotoRanking(vectors)
    for at in (at for at, phash in enumerate(hashes) if phash is None):
        near = [other for other in ranking.within(at, rule.strict) if owner[other] != owner[at] and hashes[other] != ""]
        blocks.append(np.array([sorted((at, other)) for other in near], np.int64).reshape(-1, 2))
    pairs = np.unique(np.concatenate(blocks), axis=0)
    distances, between, shared = _distances(vectors, pairs), owner[pairs], []
    which, group, counts = np.unique(between, axis=0, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(counts)[:-1])
    for (one, other), own in zip(which.tolist(), members, strict=False):
        copies = np.unique(pairs[own, 1]).tolist()
        if parts[one].kind == parts[other].kind == "video" and _is_still([hashes[at] for at in copies], rule.bits):
            continue
        closest = own[distances[own].argmin()]
        example = ids[pairs[closest, 0]], ids[pairs[closest, 1]]
        of = sum(phash != "" for phash in parts[other].hashes)
        distance = round(float(distances[closest]), 6)
        shared.append(SharedFootage(parts[one].name, parts[other].name, len(copies), of, example, distance))
    return shared


def _is_still(hashes: Sequence[str | None], bits: int) -> bool:
    """Whether frames show one picture; of several without a hash it is not known."""
    words = _words(hashes)[:, 0]
    return len(hashes) == 1 or (len(words) == len(hashes) and bool((_count(words, words[:1]) <= bits).all()))


def _words(hashes: Sequence[str | None]) -> Words:
    """The hashes [M, 4, 4] of those that have any."""
    digits = bytes.fromhex("".join(phash for phash in hashes if phash))
    return np.frombuffer(digits, np.uint64).reshape(-1, _HASHES, _WORDS)


def _count(left: Words, right: Words) -> npt.NDArray[np.uint64]:
    """In how many places hashes [..., 4] differ."""
    differences: npt.NDArray[np.uint64] = np.bitwise_count(left ^ right).sum(axis=-1)
    return differences


def _alike(hashes: Sequence[str | None], ends: Positions, bits: int) -> Positions:
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
            near = _count(words[left + start, mine], words[right + first, theirs]) <= bits
            pairs = rows[np.stack([left[near] + start, right[near] + first], axis=1)]
            blocks.append(pairs[pairs[:, 1] >= ends[pairs[:, 0]]])
    return np.unique(np.concatenate(blocks), axis=0)


def _distances(vectors: Vectors, pairs: Positions) -> npt.NDArray[np.float64]:
    """Exact distances of pairs [P, 2]."""
    distances = np.empty(len(pairs))
    for start in range(0, len(pairs), _PAIRS):
        left, right = pairs[start : start + _PAIRS].T
        difference = np.asarray(vectors[left], np.float64) - vectors[right]
        distances[start : start + _PAIRS] = np.sqrt(np.einsum("nd,nd->n", difference, difference))
    return distances
