"""The best candidates of every query of a gallery, and its recalls, as tables of a run or an evaluation."""

from typing import ClassVar

import numpy as np

from ctxr.metrics.retrieval import Matrix, Vectors, gallery_means, top
from ctxr.problems.gallery.splits import GallerySplit, first_owners
from ctxr.store.records import Record

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
