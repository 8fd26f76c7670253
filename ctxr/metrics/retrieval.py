"""Retrieval between pictures and captions, each with any number of correct answers: recall@k, R-precision, mAP@R.

Scores are computed block by block and never held as a whole, so 100,000 pictures against 100,000 captions fit anywhere. Figures are
means over all ways to break ties (`ctxr.metrics.ranking`), over the queries that the ground truth names (ECCV Caption, section 4).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError
from ctxr.metrics.ranking import best_of_rows, count_ranks, highest, recall, row_blocks, untied
from ctxr.metrics.votes import Codes, Doubles, Flags


@dataclass(frozen=True, eq=False)
class TopCandidates:
    """Candidates perhaps among the first of b rows, by row and number, [N], and the chance of it by k, [N, len(ks)]."""

    rows: Codes
    candidates: Codes
    chances: Doubles


def first(scores: npt.NDArray[np.floating], ks: Sequence[int]) -> TopCandidates:
    """The first of each row of scores [b, G]; each k is of 1..G.

    >>> found = first(np.array([[3.0, 1.0, 1.0, 0.0]]), (1, 2))
    >>> found.candidates.tolist(), found.chances.tolist()
    ([0, 1, 2], [[1.0, 1.0], [0.0, 0.5], [0.0, 0.5]])
    """
    best = highest(scores, max(ks))
    rows, candidates = np.nonzero((scores >= best[:, :1]) & (scores > -np.inf))
    values = scores[rows, candidates]
    chances = np.empty((len(rows), len(ks)))
    for column, k in enumerate(ks):
        edge = best[:, -k]
        above, level = values > edge[rows], values == edge[rows]
        room = k - np.bincount(rows[above], minlength=len(scores))
        share = room / np.maximum(1, np.bincount(rows[level], minlength=len(scores)))
        chances[:, column] = np.where(above, 1.0, np.where(level, share[rows], 0.0))
    return TopCandidates(rows, candidates, chances)


@dataclass(frozen=True, eq=False)
class Relation:
    """Right candidates of T queries; a query without any is not among them.

    Attributes:
        queries: [T] ascending. starts: [T + 1] where each query's candidates begin. candidates: [N] ascending in each query.
        absent: [T] right candidates beside these that have no scores (`number`), which count as not found.
    """

    queries: Codes
    starts: Codes
    candidates: Codes
    absent: Codes

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def sizes(self) -> Codes:
        """How many candidates are right for each query, [T], at least 1."""
        return np.diff(self.starts)

    def of(self, index: int) -> Codes:
        """The right candidates of the query at `index` (not of the query of that number)."""
        return self.candidates[self.starts[index] : self.starts[index + 1]]

    def pairs(self) -> Codes:
        """Queries and candidates, [2, N], in order of both."""
        return np.stack([np.repeat(self.queries, self.sizes), self.candidates])

    def among(self, queries: Codes, width: int) -> Flags:
        """Which of `width` candidates are right for these queries, [b, width]; none for a query that has none."""
        marked = np.zeros((len(queries), width), bool)
        positions = np.searchsorted(self.queries, queries)
        for row, (query, position) in enumerate(zip(queries.tolist(), positions.tolist(), strict=True)):
            if position < len(self) and self.queries[position] == query:
                marked[row, self.of(position)] = True
        return marked

    def cleared(self, scores: npt.NDArray[np.floating], queries: Codes) -> npt.NDArray[np.floating]:
        """Scores [b, G] of these queries, -inf for the pairs."""
        return np.where(self.among(queries, scores.shape[1]), -np.inf, scores) if len(self) else scores

    def turned(self) -> "Relation":
        """The same pairs with queries and candidates exchanged."""
        return from_pairs(*self.pairs()[::-1])

    def part(self, queries: Codes, candidates: Codes) -> "Relation":
        """The pairs of a subset of queries and candidates, ascending, by their positions in it."""
        rows, columns = self.pairs()
        inside = np.isin(rows, queries) & np.isin(columns, candidates)
        return from_pairs(np.searchsorted(queries, rows[inside]), np.searchsorted(candidates, columns[inside]))

    def joined(self, other: "Relation") -> "Relation":
        """The pairs of either: how CxC extends COCO's positives by those of score 3 and more."""
        return from_pairs(*np.concatenate([self.pairs(), other.pairs()], axis=1))


def from_pairs(queries: Codes, candidates: Codes) -> Relation:
    """A relation from parallel columns [N]; pairs that stand twice count once."""
    table = np.unique(np.stack([queries, candidates], axis=1).astype(np.int64), axis=0).reshape(-1, 2)
    named, starts = np.unique(table[:, 0], return_index=True)
    ends = np.append(starts, len(table)).astype(np.int64)
    return Relation(named, ends, np.ascontiguousarray(table[:, 1]), np.zeros(len(named), np.int64))


def relate(lists: Mapping[int, Iterable[int]]) -> Relation:
    """A relation from right candidates by query."""
    pairs = [(query, candidate) for query, listed in lists.items() for candidate in listed]
    return from_pairs(*np.array(pairs, np.int64).reshape(-1, 2).T)


def number(named: Mapping[str, Sequence[str]], queries: Mapping[str, int], candidates: Mapping[str, int]) -> Relation:
    """A relation from names; `queries` and `candidates` are the row and the column of each name in the scores. A query without scores,
    or whose candidates are all absent, is not in it. Two captions of ECCV's ground truth, for example, are not among COCO's 25,000."""
    listed = {queries[query]: names for query, names in named.items() if query in queries}
    relation = relate({row: [candidates[one] for one in names if one in candidates] for row, names in listed.items()})
    absent = [sum(one not in candidates for one in listed[row]) for row in relation.queries.tolist()]
    return replace(relation, absent=np.array(absent, np.int64))


KS = (1, 5, 10)

BLOCK = 16_000_000
"""Scores held at a time."""

Scores = npt.NDArray[np.floating]

NOTHING = relate({})


@dataclass(frozen=True, eq=False)
class Vectors:
    """Dot products of query vectors [Q, D] and candidate vectors [G, D]."""

    queries: npt.NDArray[np.float32]
    candidates: npt.NDArray[np.float32]
    dropped: Relation = field(default=NOTHING, kw_only=True)
    ties: str = field(default="expected", kw_only=True)

    @property
    def shape(self) -> tuple[int, int]:
        """Q and G."""
        return len(self.queries), len(self.candidates)

    def rows(self, queries: Codes) -> Scores:
        """Scores [b, G] of these queries."""
        return self.dropped.cleared(np.asarray(self.queries[queries] @ self.candidates.T), queries)

    def part(self, queries: Codes, candidates: Codes) -> "Vectors":
        """A subset of queries and candidates, ascending."""
        dropped = self.dropped.part(queries, candidates)
        return Vectors(self.queries[queries], self.candidates[candidates], dropped=dropped, ties=self.ties)

    def turned(self) -> "Vectors":
        """Queries and candidates exchanged."""
        return Vectors(self.candidates, self.queries, dropped=self.dropped.turned(), ties=self.ties)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Precomputed scores [Q, G], of a cross-encoder or from a file; may be memory-mapped."""

    values: Scores
    dropped: Relation = field(default=NOTHING, kw_only=True)
    ties: str = field(default="expected", kw_only=True)

    @property
    def shape(self) -> tuple[int, int]:
        """Q and G."""
        return self.values.shape[0], self.values.shape[1]

    def rows(self, queries: Codes) -> Scores:
        """Scores [b, G] of these queries."""
        return self.dropped.cleared(np.asarray(self.values[queries]), queries)

    def part(self, queries: Codes, candidates: Codes) -> "Matrix":
        """A subset of queries and candidates, ascending."""
        dropped = self.dropped.part(queries, candidates)
        return Matrix(self.values[np.ix_(queries, candidates)], dropped=dropped, ties=self.ties)

    def turned(self) -> "Matrix":
        """Queries and candidates exchanged."""
        return Matrix(self.values.T, dropped=self.dropped.turned(), ties=self.ties)


QueryScores = Vectors | Matrix
"""Scores of queries for candidates, computed when they are asked for; higher is better. The pairs of `dropped` are not candidates, -inf
there, and rankings close up over them (Sakai 2007). `ties` are broken as in `untied`."""


@dataclass(frozen=True, eq=False)
class RetrievalScores:
    """How well each of T queries found the R candidates that are right for it, all 0..1.

    Attributes:
        recalls: [T, len(ks)] whether one of the first k is right. r_precision: [T] share of right ones among the first R.
        map_at_r: [T] mean over r = 1..R of precision@r where the r-th is right, else 0; mAP@R is its mean.
    """

    queries: Codes
    recalls: Doubles
    ks: tuple[int, ...]
    r_precision: Doubles
    map_at_r: Doubles


def retrieved(scored: QueryScores, right: Relation, ks: Sequence[int] = KS) -> RetrievalScores:
    """Ask the queries of `right`, and rank its candidates; R counts absent ones too. Raises DataError for NaN."""
    recalls, precisions, averages = [np.zeros((0, len(ks)))], [np.zeros(0)], [np.zeros(0)]
    for rows, scores, marked in blocks_of(scored, right):
        ranks = count_ranks(scores, marked)
        recalls.append(np.stack([recall(ranks, k) for k in ks], axis=1))
        sizes = right.sizes[rows] + right.absent[rows]
        precisions.append(hits_at(scores, marked, sizes) / sizes)
        averages.append(average_precision(scores, marked, sizes))
    recalls_of, precision, average = (np.concatenate(part) for part in (recalls, precisions, averages))
    return RetrievalScores(right.queries, recalls_of, tuple(ks), precision, average)


@dataclass(frozen=True, eq=False)
class CaptionRetrieval:
    """Recall@k of each picture with captions, `tr` [I, len(ks)], and caption, `ir` [C, len(ks)], with its fold or 0."""

    tr: Doubles
    ir: Doubles
    ks: tuple[int, ...]
    image_folds: Codes
    caption_folds: Codes

    def means(self) -> dict[str, float]:
        """`TR@k` and `IR@k`, 0..1: means over the folds' means."""
        named: dict[str, float] = {}
        for name, values, folds in (("TR", self.tr, self.image_folds), ("IR", self.ir, self.caption_folds)):
            mean = np.mean([values[folds == fold].mean(axis=0) for fold in np.unique(folds)], axis=0)
            named |= {f"{name}@{k}": float(value) for k, value in zip(self.ks, mean, strict=True)}
        return named


def caption_retrieval(scored: QueryScores, owners: Codes, folds: int = 1, ks: Sequence[int] = KS) -> CaptionRetrieval:
    """Pictures ask for captions (TR) and captions for pictures (IR), each picture with as many captions as it has.

    Args:
        scored: pictures as queries, captions as candidates. owners: [C] the picture each caption was written for.
        folds: 1 for COCO 5K or all of Flickr30K; 5 for COCO 1K: pictures are parted in their order, and each fold's captions
            compete only with each other.
    """
    images = scored.shape[0]
    fold_of = np.arange(images) * folds // images
    tr, ir = [], []
    for fold in range(folds):
        pictures_in, captions_in = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of[owners] == fold)
        part = scored.part(pictures_in, captions_in) if folds > 1 else scored
        written = from_pairs(np.searchsorted(pictures_in, owners[captions_in]), np.arange(len(captions_in)))
        tr.append((pictures_in[written.queries], _recalls(part, written, ks)))
        ir.append((captions_in, _recalls(part.turned(), written.turned(), ks)))
    pictures, tr_of = (np.concatenate(column) for column in zip(*tr, strict=True))
    texts, ir_of = (np.concatenate(column) for column in zip(*ir, strict=True))
    order = np.argsort(texts)
    return CaptionRetrieval(tr_of, ir_of[order], tuple(ks), fold_of[pictures], fold_of[owners])


def gallery_means(scored: QueryScores, galleries: Codes, owners: Codes) -> Iterator[tuple[int, dict[str, float]]]:
    """(captions, `TR@k` and `IR@k`) of each gallery with captions, which is searched by itself: `galleries` [I] of the pictures, which
    are the queries, and `owners` [C], the picture that each caption was written for."""
    for gallery in np.unique(galleries[owners]):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(galleries[owners] == gallery)
        rows = np.searchsorted(images, owners[captions])
        yield len(captions), caption_retrieval(scored.part(images, captions), rows).means()


def hits_at(scores: Scores, marked: Flags, k: Codes | int) -> Doubles:
    """Expected number of marked candidates among the first k of each row, [b]; k of a row is at least 1."""
    wanted = np.minimum(np.broadcast_to(np.asarray(k), len(scores)), scores.shape[1])
    edge = _kth(scores, wanted)[:, None]
    above, level = scores > edge, scores == edge
    room = wanted - above.sum(axis=1)
    hits: Doubles = (above & marked).sum(axis=1) + room * (level & marked).sum(axis=1) / np.maximum(
        1, level.sum(axis=1)
    )
    return hits


def average_precision(scores: Scores, marked: Flags, sizes: Codes, depth: int = 0) -> Doubles:
    """AP@R of each row, [b], expected over ties: R is `sizes` [b], at least 1, the number of marked candidates unless some of the
    right ones are not scored; with `depth` AP over so many candidates, which MAP is the mean of.

    In a group of n equal scores with p marked, after a candidates with c marked, the j-th is marked with chance p / n, and then
    precision there is expected to be (c + 1 + (j - 1)(p - 1) / (n - 1)) / (a + j).
    """
    depths = np.full(len(sizes), depth) if depth else sizes
    edges = _kth(scores, np.minimum(depths, scores.shape[1]))
    precision = np.zeros(len(scores))
    for row, (edge, wanted) in enumerate(zip(edges, depths.tolist(), strict=True)):
        chosen = np.flatnonzero(scores[row] >= edge)
        values, group = np.unique(-scores[row, chosen], return_inverse=True)
        level = np.bincount(group, minlength=len(values))
        good = np.bincount(group, marked[row, chosen], len(values))
        ahead, before_group = np.cumsum(level) - level, np.cumsum(good) - good
        of = np.repeat(np.arange(len(values)), level)[:wanted]
        rank = np.arange(1, len(of) + 1)
        inside = rank - ahead[of] - 1
        before = before_group[of] + 1 + inside * np.maximum(good[of] - 1, 0) / np.maximum(level[of] - 1, 1)
        precision[row] = (good[of] / level[of] * before / rank).sum() / sizes[row]
    return precision


def trec_figures(scores: Scores, marked: Flags, ks: Sequence[int], depth: int = 0) -> dict[str, Doubles]:
    """`MAP` (with `depth`, `MAP@depth`), `P@k` and `nDCG@k` of each row, [b], expected over ties, else as trec_eval has them: gains
    are 0 or 1, discounted by log2(rank + 1) (Järvelin and Kekäläinen 2002).

    >>> found = trec_figures(np.array([[0.9, 0.5, 0.8]]), np.array([[True, True, False]]), [2])
    >>> {name: values.round(3).tolist() for name, values in found.items()}
    {'MAP': [0.833], 'P@2': [0.5], 'nDCG@2': [0.613]}
    """
    sizes = marked.sum(axis=1)
    hits = np.stack([np.zeros(len(scores)), *(hits_at(scores, marked, k) for k in range(1, max(ks, default=0) + 1))])
    discounts = 1 / np.log2(np.arange(2, len(hits) + 1))
    gains, ideal = np.cumsum(np.diff(hits, axis=0) * discounts[:, None], axis=0), np.cumsum(discounts)
    cut = min(depth or scores.shape[1], scores.shape[1])
    named = {f"MAP@{depth}" if depth else "MAP": average_precision(scores, marked, sizes, cut)}
    named |= {f"P@{k}": hits[k] / k for k in ks}
    return named | {f"nDCG@{k}": gains[k - 1] / ideal[np.minimum(sizes, k) - 1] for k in ks}


def trec_of_pairs(scored: QueryScores, right: Relation, ks: Sequence[int], depth: int) -> dict[str, Doubles]:
    """`trec_figures` of the queries of `right`, [T] each."""
    parts = [trec_figures(scores, marked, ks, depth) for _, scores, marked in blocks_of(scored, right)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def top(scored: QueryScores, k: int, right: Relation = NOTHING) -> Iterator[tuple[Codes, Codes, Scores]]:
    """The k best candidates of every query, block by block: queries [b], candidates [b, k] best first, their scores [b, k].

    Equal scores stand in the order of their numbers, unless the `ties` of the scores put the `right` ones first or last. k is cut to the
    number of candidates.
    """
    count, width = scored.shape
    for rows in row_blocks(count if min(k, width) > 0 else 0, width, BLOCK):
        queries = np.arange(rows.start, rows.stop)
        scores = scored.rows(queries)
        _refuse_nan(scores, queries)
        scores = untied(scores, right.among(queries, width), scored.ties)
        best = best_of_rows(scores, k)
        yield queries, best, np.take_along_axis(scores, best, axis=1)


def _kth(scores: Scores, k: Codes) -> Scores:
    """The k-th highest score of each row [b], k [b] being at least 1."""
    return highest(scores, int(k.max(initial=1)))[np.arange(len(scores)), -k]


def _recalls(scored: QueryScores, right: Relation, ks: Sequence[int]) -> Doubles:
    parts = [np.zeros((0, len(ks)))]
    for _, scores, marked in blocks_of(scored, right):
        ranks = count_ranks(scores, marked)
        parts.append(np.stack([recall(ranks, k) for k in ks], axis=1))
    return np.concatenate(parts)


def blocks_of(scored: QueryScores, right: Relation) -> Iterator[tuple[slice, Scores, Flags]]:
    """Queries of a relation, block by block: their places in it, their scores [b, G], and which candidates are right [b, G]."""
    width = scored.shape[1]
    for rows in row_blocks(len(right), width, BLOCK):
        scores = scored.rows(right.queries[rows])
        _refuse_nan(scores, right.queries[rows])
        marked = right.among(right.queries[rows], width)
        yield rows, untied(scores, marked, scored.ties), marked


def _refuse_nan(scores: Scores, queries: Codes) -> None:
    if not scores.max(initial=-np.inf) < np.inf:
        row, column = np.argwhere(~(scores < np.inf))[0]
        raise DataError(f"query {queries[row]}: the score of candidate {column} is {scores[row, column]}")
