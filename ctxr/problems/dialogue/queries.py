"""Dialogues before a photo as queries for it, and BM25 over words of object labels."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

import bm25s
import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.dialogues import before_share, said_by, sharer_of
from ctxr.metrics.votes import Doubles
from ctxr.problems.queries import queries_of
from ctxr.problems.ranked import AskedQuery
from ctxr.store.records import Dialogue, ObjectLabels

K1, B = 1.5, 0.75

_WORD = re.compile("[a-z0-9]+")


@dataclass(frozen=True, eq=False)
class DialogueQuery(AskedQuery):
    """A query with what was `said` before the photo, and what of it `by_sharer`; of one without a dialogue both are its texts."""

    said: tuple[str, ...]
    by_sharer: tuple[str, ...]


def dialogue_queries(dataset: Dataset, wanted: Collection[str] | None = None) -> list[DialogueQuery]:
    """All queries of a dataset for images, or those of some ids; nothing that follows the photo is read."""
    found = []
    for one in queries_of(dataset, wanted):
        said = by_sharer = [text.text for text in one.texts]
        for talk in cast("Sequence[Dialogue]", one.payload.get("dialogues", ())):
            said, by_sharer = (said_by(before_share(talk), user) for user in (None, sharer_of(talk)))
        found.append(DialogueQuery(one, " ".join(said), tuple(said), tuple(by_sharer)))
    return found


def object_labels(dataset: Dataset) -> dict[str, tuple[str, ...]]:
    """Object labels by image, of those that have any."""
    return {row.id: row.labels for row in cast("Sequence[ObjectLabels]", dataset.payloads.get("objects", ()))}


def bm25_scores(documents: Sequence[str], queries: Sequence[str]) -> Doubles:
    """BM25 [Q, N] of documents for queries, with Lucene's idf, log(1 + (N - n + 0.5) / (n + 0.5)), and without its constant k1 + 1.

    Words are `[a-z0-9]+` in lower case; one that a query has twice counts twice.
    """
    words, scores = [_WORD.findall(one.lower()) for one in documents], np.zeros((len(queries), len(documents)))
    if not any(words):
        return scores
    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    index.index(words, show_progress=False)
    for row, query in enumerate(queries):
        if asked := [word for word in _WORD.findall(query.lower()) if word in index.vocab_dict]:
            scores[row] = index.get_scores(asked)
    return scores
