"""Entail@K: the number of the first K captions of a picture that hold for it, its own and others' (entailment paper, section 6).

Each figure states the source of its labels, and the share of pictures that it was trained on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.compare import RESAMPLES, Clusters, Interval
from ctxr.metrics.ranking import row_blocks
from ctxr.metrics.retrieval import BLOCK, QueryScores, Relation, first
from ctxr.metrics.stratified import AuditedPairs, Rates, entailed_share, rogan_gladen
from ctxr.metrics.votes import Codes, Doubles, Flags

KS = (10, 30)
LabelSource = Literal["gold", "classifier"]
Way = Literal["", "strata", "weighed_rates"]


@dataclass(frozen=True)
class EntailAt:
    """Entail@K of one run.

    Attributes:
        k: captions counted per picture. labels: of people, or of the classifier.
        value: with its interval over pictures, 0..1.
        corrected: for the classifier's error; no value where labels are gold or nothing was audited.
        judged: share of counted pairs with a label, 0..1; others count as not entailed.
        leaked: share of the pictures that the classifier was trained on, 0..1; None where unknown.
        without_leaked: the value on the other pictures alone.
        way: how it was corrected: stratum by stratum, or by sensitivity and specificity over all strata of an audit. "" where it
            was not.
    """

    k: int
    labels: LabelSource
    value: Interval
    corrected: Interval
    judged: float
    leaked: float | None
    without_leaked: Interval
    way: Way = ""


@dataclass(frozen=True, eq=False)
class PairLabels:
    """Labels of pairs of picture and caption: captions written for each picture, which hold, and further pairs that hold; `labels` says
    whose labels these are. `judged` are the pairs with a label, `written` and `extra` or not; None: all of them."""

    written: Relation
    extra: Relation
    labels: LabelSource
    judged: Relation | None = None


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected numbers among the first K of each picture, [I, len(ks)]: of captions written for it, of other ones that hold, and of
    judged ones. `known` is what an audit by strata says of each K; empty without one."""

    written: Doubles
    extra: Doubles
    judged: Doubles
    ks: tuple[int, ...]
    known: tuple[AuditedPairs, ...] = ()


def count(
    scored: QueryScores, labels: PairLabels, images: Codes | None = None, ks: Sequence[int] = KS
) -> ExpectedCounts:
    """Look at the first K captions, the candidates, of pictures, the queries (default: all), ties in expectation; each K is at most the
    number of captions. Raises DataError for a score that is not a number."""
    everyone, width = scored.shape
    chosen = np.arange(everyone) if images is None else images
    parts = [np.zeros((3, 0, len(ks)))]
    for rows_of in row_blocks(len(chosen), width, BLOCK):
        rows = chosen[rows_of]
        scores = scored.rows(rows)
        if np.isnan(scores).any():
            raise DataError(f"picture {rows[np.isnan(scores).any(axis=1)][0]} has a score that is NaN")
        written = labels.written.among(rows, width)
        extra = labels.extra.among(rows, width) & ~written
        judged = np.ones_like(extra) if labels.judged is None else labels.judged.among(rows, width) | written | extra
        best = first(scores, ks)
        # expected numbers of marked captions among the first of each k
        chances = [best.chances * marked[best.rows, best.candidates, None] for marked in (written, extra, judged)]
        sums = [[np.bincount(best.rows, column, len(rows)) for column in table.T] for table in chances]
        parts.append(np.stack([np.stack(columns, axis=1) for columns in sums]))
    written, extra, judged = np.concatenate(parts, axis=1)
    return ExpectedCounts(written, extra, judged, tuple(ks))


def entail_at(
    counted: ExpectedCounts,
    labels: LabelSource,
    rng: np.random.Generator,
    leaked: Flags | None = None,
    rates: Rates | None = None,
    *,
    resamples: int = RESAMPLES,
    clusters: Clusters | None = None,
) -> list[EntailAt]:
    """Entail@K for each K, with intervals over pictures. It is corrected stratum by stratum where `counted` knows of an audit by
    strata that audited each of them, else by `rates`; pairs that the classifier never judged stay not entailed.

    Args:
        counted: of I pictures. leaked: [I] whether the classifier was trained on a picture.
        rates: how the classifier errs on pairs like these; those written for the picture need no classifier.
        resamples: for the intervals; each holds a byte a picture. clusters: of the I pictures; default: each by itself.
    """
    images = len(counted.written)
    clusters = Clusters(np.arange(images), rng, resamples) if clusters is None else clusters
    clean = np.ones(images, bool) if leaked is None else ~leaked
    results = []
    for column, k in enumerate(counted.ks):
        written, extra = counted.written[:, column], counted.extra[:, column]
        values = np.stack([(written + extra) / k] * 2, axis=1)
        whole, without_leaked = clusters.means(values, np.stack([np.ones(images, bool), clean], axis=1))
        corrected = Interval(None, clusters=clusters.size)
        method: Way = ""
        if labels == "classifier" and images:
            if counted.known:
                corrected, method = entailed_share(written, counted.known[column], k, clusters), "strata"
            if corrected.value is None and rates is not None:
                corrected, method = _corrected(counted, column, rates, clusters, rng), "weighed_rates"
        judged = float(counted.judged[:, column].mean() / k) if images else 0.0
        share = None if leaked is None or not images else float(leaked.mean())
        corrected_by = "" if corrected.value is None else method
        results.append(EntailAt(k, labels, whole, corrected, judged, share, without_leaked, corrected_by))
    return results


def _corrected(
    counted: ExpectedCounts, column: int, rates: Rates, clusters: Clusters, rng: np.random.Generator
) -> Interval:
    """Of the judged captions that were written for others the corrected share, put together with those written for the picture."""
    total = counted.ks[column] * len(counted.written)
    written, extra, judged = (matrix[:, column] for matrix in (counted.written, counted.extra, counted.judged))
    hits, others = clusters.sums(np.stack([extra, judged - written], axis=1)).T
    part = float(others.sum() / total)
    (own,) = clusters.means(written[:, None] / counted.ks[column], np.ones((len(written), 1), bool))
    if own.value is None or not part:
        return own
    share = rogan_gladen(hits, others, rates, rng)
    if share.value is None or share.low is None or share.high is None:
        return share
    value = own.value + part * share.value
    # the captions that were written vary from picture to picture as well: distances by their squares, as in `poststratified`
    below = math.hypot(part * (share.value - share.low), own.value - (own.value if own.low is None else own.low))
    above = math.hypot(part * (share.high - share.value), (own.value if own.high is None else own.high) - own.value)
    return Interval(value, max(0.0, value - below), min(1.0, value + above), share.clusters, share.resamples)
