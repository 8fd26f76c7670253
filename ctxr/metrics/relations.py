"""Which candidates are right for which queries, many to many, as compressed rows: ten thousand positives need no matrix."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.votes import Codes, Flags


@dataclass(frozen=True, eq=False)
class Relation:
    """Right candidates of T queries; a query without any is not among them.

    Attributes:
        queries: [T] ascending. starts: [T + 1] where each query's candidates begin. candidates: [N] ascending in each query.
    """

    queries: Codes
    starts: Codes
    candidates: Codes

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def sizes(self) -> Codes:
        """How many candidates are right for each query, [T], at least 1."""
        return np.diff(self.starts)

    def of(self, place: int) -> Codes:
        """The right candidates of the query at `place` (not of the query of that number)."""
        return self.candidates[self.starts[place] : self.starts[place + 1]]

    def pairs(self) -> tuple[Codes, Codes]:
        """Queries [N] and candidates [N], in order of both."""
        return np.repeat(self.queries, self.sizes), self.candidates

    def mask(self, places: slice, width: int) -> Flags:
        """Which of `width` candidates are right for the queries at these places, [b, width]."""
        start, stop, _ = places.indices(len(self))
        marked = np.zeros((stop - start, width), bool)
        rows = np.repeat(np.arange(stop - start), self.sizes[start:stop])
        marked[rows, self.candidates[self.starts[start] : self.starts[stop]]] = True
        return marked

    def among(self, queries: Codes, width: int) -> Flags:
        """Which of `width` candidates are right for these queries, [b, width]; none for a query that has none."""
        marked = np.zeros((len(queries), width), bool)
        found = np.searchsorted(self.queries, queries)
        for row, (query, place) in enumerate(zip(queries.tolist(), found.tolist(), strict=True)):
            if place < len(self) and self.queries[place] == query:
                marked[row, self.of(place)] = True
        return marked

    def turned(self) -> "Relation":
        """The same pairs with queries and candidates exchanged.

        >>> relate({0: [1], 2: [1, 3]}).turned().queries.tolist()
        [1, 3]
        """
        queries, candidates = self.pairs()
        return from_pairs(candidates, queries)

    def joined(self, other: "Relation") -> "Relation":
        """The pairs of either: how CxC extends COCO's positives by those of score 3 and more.

        >>> relate({0: [1]}).joined(relate({0: [2, 1], 4: [0]})).sizes.tolist()
        [2, 1]
        """
        one, two = self.pairs(), other.pairs()
        return from_pairs(np.concatenate([one[0], two[0]]), np.concatenate([one[1], two[1]]))


def from_pairs(queries: Codes, candidates: Codes) -> Relation:
    """A relation from parallel columns [N]; pairs that stand twice count once. Raises DataError for negative numbers."""
    if len(queries) and min(int(queries.min()), int(candidates.min())) < 0:
        raise DataError("a query or a candidate has a negative number")
    table = np.unique(np.stack([queries, candidates], axis=1).astype(np.int64), axis=0).reshape(-1, 2)
    named, starts = np.unique(table[:, 0], return_index=True)
    return Relation(named, np.append(starts, len(table)).astype(np.int64), np.ascontiguousarray(table[:, 1]))


def relate(lists: Mapping[int, Iterable[int]]) -> Relation:
    """A relation from right candidates by query.

    >>> relate({5: [2, 0, 2], 1: []}).of(0).tolist()
    [0, 2]
    """
    pairs = [(query, candidate) for query, listed in lists.items() for candidate in listed]
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return from_pairs(table[:, 0], table[:, 1])


@dataclass(frozen=True, eq=False)
class Numbered:
    """A relation made from names.

    Attributes:
        relation: of T queries. absent: [T] right candidates of each that nobody scored: they can never be found, and count.
        unasked: pairs of queries that nobody scored, or of which every candidate is absent.
    """

    relation: Relation
    absent: Codes
    unasked: int


def number(named: Mapping[str, Sequence[str]], queries: Mapping[str, int], candidates: Mapping[str, int]) -> Numbered:
    """A relation from names; two captions of ECCV's ground truth, for example, are not among COCO's 25,000.

    Args:
        queries, candidates: the row and the column of each name in the scores.
    """
    lists: dict[int, list[int]] = {}
    absent: dict[int, int] = {}
    unasked = 0
    for query, listed in named.items():
        known = [candidates[one] for one in listed if one in candidates] if query in queries else []
        if known:
            lists[queries[query]] = known
            absent[queries[query]] = len(listed) - len(known)
        else:
            unasked += len(listed)
    relation = relate(lists)
    return Numbered(relation, np.array([absent[query] for query in relation.queries.tolist()], np.int64), unasked)
