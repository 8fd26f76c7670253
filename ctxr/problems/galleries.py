"""Galleries as models see them: pictures that are searched together, their captions, which belong together, and their rankings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.truth import Pair
from ctxr.errors import DataError
from ctxr.metrics.ranking import BLOCK, accuracy, count_ranks, reciprocal_rank
from ctxr.metrics.retrieval import Condensed, Matrix, QueryScores, Vectors, from_pairs, gallery_means, top
from ctxr.problems.human_labels import NO_VERDICTS, Verdicts
from ctxr.problems.queries import EvalQuery
from ctxr.problems.results import QueryResult, plain_name, qrel, trec_ranking
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Query, Record, SplitName

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class GallerySplit:
    """The galleries of one split of the benchmark.

    Attributes:
        side: the split, "" for none. galleries: ids of the image sets.
        images: ids, gallery after gallery. image_galleries: number of the gallery of each.
        captions: ids of the queries. texts: theirs. caption_galleries: number of the gallery of each.
        written: (caption, picture) by index, of pictures that a caption was written for; every caption has one.
        weak: the same of other pictures for which a judge found that it holds. unsure: those about which none is sure.
    """

    side: str
    galleries: tuple[str, ...]
    images: tuple[str, ...]
    image_galleries: tuple[int, ...]
    captions: tuple[str, ...]
    texts: tuple[str, ...]
    caption_galleries: tuple[int, ...]
    written: Pairs
    weak: Pairs = ()
    unsure: Pairs = ()

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def name(self) -> str:
        """The split, `none` for galleries without one."""
        return self.side or "none"

    @cached_property
    def image_index(self) -> dict[str, int]:
        """Places of pictures by id."""
        return {image: index for index, image in enumerate(self.images)}

    @cached_property
    def caption_index(self) -> dict[str, int]:
        """Places of captions by id."""
        return {caption: index for index, caption in enumerate(self.captions)}

    def as_query(self) -> EvalQuery:
        """All of its pictures as one query, for functions that collect the pictures of queries."""
        split: SplitName | None = self.side or None  # type: ignore[assignment]
        return EvalQuery(f"{self.side} galleries", "", (), self.images, (), False, split)

    @property
    def sha256(self) -> str:
        """Over captions and what they were written for, and the unsure pairs where there are any."""
        unsure = [self.unsure] if self.unsure else []
        return sha256_of([self.galleries, self.images, self.captions, self.texts, self.written, *unsure])

    def condensed(self, scored: Vectors | Matrix) -> QueryScores:
        """Scores of its pictures with its captions, without the unsure pairs."""
        captions, images = np.array(self.unsure, np.int64).reshape(-1, 2).T
        return Condensed(scored, from_pairs(images, captions)) if self.unsure else scored


def gallery_splits(dataset: Dataset, verdicts: Verdicts = NO_VERDICTS) -> dict[str, GallerySplit]:
    """The galleries of each side in which captions ask for pictures, with all of their pictures.

    Captions that were written for no known picture are left out. Raises DataError for a picture in two galleries of a side.
    """
    targets: dict[str, list[str]] = {}
    for query, one, position in dataset.targets():
        targets.setdefault(query.id, []).append(one.images[position])
    by_id = {image_set.id: image_set for image_set in dataset.sets}
    sides: dict[str, list[Query]] = {}
    for query in sorted(dataset.queries.values(), key=lambda query: (query.image_set, query.id)):
        if query.labels is None and query.id in targets:
            sides.setdefault(dataset.split_of(by_id[query.image_set]) or "", []).append(query)
    splits = {}
    for side, queries in sides.items():
        galleries = {name: number for number, name in enumerate(dict.fromkeys(query.image_set for query in queries))}
        images: dict[str, int] = {}
        for gallery in galleries:
            for image in by_id[gallery].images:
                if image in images:
                    raise DataError(
                        f"the picture {image} stands in the gallery {gallery!r} and in another one, or twice",
                        hint="give it one place",
                    )
                images[image] = len(images)
        captions = {query.id: number for number, query in enumerate(queries)}
        written = {(number, images[image]) for name, number in captions.items() for image in targets[name]}
        split = GallerySplit(
            side,
            tuple(galleries),
            tuple(images),
            tuple(number for name, number in galleries.items() for _ in by_id[name].images),
            tuple(captions),
            tuple(" ".join(dataset.texts[text].text for text in query.texts) for query in queries),
            tuple(galleries[query.image_set] for query in queries),
            tuple(sorted(written)),
        )
        weak = _beside(split, (pair for pair, yes in verdicts[0].items() if yes))
        splits[side] = replace(split, weak=weak, unsure=_beside(split, verdicts[1]))
    return splits


def _beside(split: GallerySplit, pairs: Iterable[Pair]) -> Pairs:
    places = (
        (split.caption_index[caption], split.image_index[image])
        for caption, image in pairs
        if caption in split.caption_index and image in split.image_index
    )
    inside = {pair for pair in places if split.caption_galleries[pair[0]] == split.image_galleries[pair[1]]}
    return tuple(sorted(inside - {*split.written}))


def first_owners(split: GallerySplit) -> np.ndarray:
    """The picture that each caption was written for, [C]; the first where it was written for several."""
    captions, images = (np.array(column, np.int64) for column in zip(*split.written, strict=True))
    return images[np.unique(captions, return_index=True)[1]]


RANKINGS, RECALLS = "rankings.jsonl", "recalls.jsonl"

MEAN_RECALL = "mean recall"
"""Measure of `RecallRow`: the mean of TR and IR at 1, 5 and 10."""

RANKED = 30
"""Candidates that are kept of each query: as many as the largest K of Entail@K."""


class QueryRanking(Record, frozen=True):
    """The best candidates of a query, best first, at most `RANKED`, with their scores: cosines, or log-odds of a match.

    Attributes:
        asks: `image` where a caption asks for pictures, `caption` where a picture asks for captions.
    """

    KEY: ClassVar[tuple[str, ...]] = ("asks", "query", "scorer")

    asks: str
    query: str
    scorer: str
    candidates: tuple[str, ...]
    scores: tuple[float, ...]


class RecallRow(Record, frozen=True):
    """A figure of a scorer on a side, 0..1: `TR@k`, `IR@k`, and their mean over k = 1, 5, 10 as `mean recall`."""

    KEY: ClassVar[tuple[str, ...]] = ("scorer", "side", "measure")

    scorer: str
    side: str
    measure: str
    value: float


def rankings_of(split: GallerySplit, table: Vectors | Matrix, scorer: str) -> list[QueryRanking]:
    """The best candidates in the gallery of every caption, and of every picture of a gallery, without unsure pairs."""
    scores_of = split.condensed(table)
    galleries, owners = np.array(split.image_galleries), np.array(split.caption_galleries)
    rows = []
    for gallery in range(len(split.galleries)):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(owners == gallery)
        part = scores_of.part(images, captions)
        names = [split.images[image] for image in images], [split.captions[caption] for caption in captions]
        for asks, scored, (queries, candidates) in (
            ("caption", part, names),
            ("image", part.turned(), names[::-1]),
        ):
            for indices, best, scores in top(scored, RANKED):
                for query, row, values in zip(indices.tolist(), best.tolist(), scores.tolist(), strict=True):
                    kept = [value for value in values if value > float("-inf")]
                    names_of = tuple(candidates[one] for one in row[: len(kept)])
                    rows.append(QueryRanking(asks, queries[query], scorer, names_of, tuple(kept)))
    return rows


def recalls_of(split: GallerySplit, table: Vectors | Matrix, scorer: str) -> list[RecallRow]:
    """TR and IR of a side; every gallery is searched by itself, and counts as often as it has captions."""
    galleries, owners = np.array(split.image_galleries), first_owners(split)
    totals: dict[str, float] = {}
    for captions, means in gallery_means(split.condensed(table), galleries, owners):
        means[MEAN_RECALL] = sum(means.values()) / len(means)
        for measure, value in means.items():
            totals[measure] = totals.get(measure, 0.0) + value * captions / len(owners)
    return [RecallRow(scorer, split.side, measure, value) for measure, value in totals.items()]


def caption_results(split: GallerySplit, table: Vectors | Matrix, scorer: str) -> Iterator[QueryResult]:
    """The result of each caption as a query for its picture."""
    galleries, owners = np.array(split.image_galleries), np.array(split.caption_galleries)
    pairs = np.array(split.written, np.int64)
    for gallery, name in enumerate(split.galleries):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(owners == gallery)
        scored = split.condensed(table).part(images, captions).turned()
        inside = pairs[(owners[pairs[:, 0]] == gallery) & (galleries[pairs[:, 1]] == gallery)]
        of = from_pairs(np.searchsorted(captions, inside[:, 0]), np.searchsorted(images, inside[:, 1]))
        step = max(1, BLOCK // max(1, len(images)))
        for start in range(0, len(captions), step):
            queries = np.arange(start, min(start + step, len(captions)))
            scores = scored.rows(queries)
            targets = of.among(queries, len(images))
            placed = count_ranks(scores, targets)
            best = scores == scores.max(axis=1, keepdims=True)
            credit, ranks = accuracy(placed), reciprocal_rank(placed)
            for row, caption in enumerate(captions[queries].tolist()):
                yield QueryResult(
                    run=scorer, query=split.captions[caption], side=split.name, image_set=name, kind="photos",
                    text=split.texts[caption], targets=tuple(split.images[images[one]] for one in np.flatnonzero(targets[row])),
                    picks=tuple(split.images[images[one]] for one in np.flatnonzero(best[row])),
                    accuracy=float(credit[row]), reciprocal_rank=float(ranks[row]), above=int(placed.above[row]),
                    level=int(placed.level[row]), tokens=len(split.texts[caption].split()),
                )  # fmt: skip


def trec_files(splits: Sequence[GallerySplit], rankings: Sequence[QueryRanking]) -> dict[str, str]:
    """Files for trec_eval, by name: `trec/ir` where captions ask for pictures, `trec/tr` where pictures ask for captions."""
    lines: dict[str, list[str]] = {}
    for split in splits:
        for caption, image in split.written:
            ends = split.captions[caption], split.images[image]
            lines.setdefault("trec/ir/qrels.txt", []).append(qrel(*ends))
            lines.setdefault("trec/tr/qrels.txt", []).append(qrel(*ends[::-1]))
    for row in rankings:
        name = f"trec/{'ir' if row.asks == 'image' else 'tr'}/{plain_name(row.scorer)}.txt"
        lines.setdefault(name, []).extend(trec_ranking(row.scorer, row.query, row.candidates, row.scores))
    return {name: "".join(rows) for name, rows in lines.items()}
