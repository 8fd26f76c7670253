"""Entail@K from an audit by strata: in each stratum what people saw among the first K is known, the rest of it is estimated.

One precision for all ranks would not do: of the first 10 captions far more hold than of those behind. So a stratum's share is that
of its looks among the first K; where fewer than `LEAST` fell there, that of all its looks. What was looked at counts as it is: a
census gives the truth exactly, and its interval is that of the pictures alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxr.metrics.compare import LEAST_CLUSTERS, Clusters, Interval, interval_of
from ctxr.metrics.finite_population import rest_spread
from ctxr.metrics.first import first
from ctxr.metrics.resampling import LEVEL
from ctxr.metrics.retrieval import BLOCK, QueryScores
from ctxr.metrics.votes import Codes, Doubles

LEAST = 4
"""Looks among the first K from which on a stratum's share is of them alone."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Pairs that a sample was drawn from by strata, parallel columns [P].

    Attributes:
        images, captions: places. strata: numbers below S. said: 1 entailed, 0 not, -1 where nobody decided.
        drawn: whether the pair was drawn by chance from its stratum: others that people know of tell of themselves alone.
        looks: [S, 2] pairs decided and entailed of those drawn from each whole stratum, also of pictures that are not here.
    """

    images: Codes
    captions: Codes
    strata: Codes
    said: Codes
    drawn: np.typing.NDArray[np.bool_]
    looks: Doubles


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """What is known of the pairs among the first K of I pictures, those written for them left out.

    Attributes:
        entailed: [I] pairs that people call so. rest: [I, S] those that nobody decided, by stratum. looks: [S, 2] decided and
            entailed of the pairs that the rest of each stratum is estimated from.
    """

    entailed: Doubles
    rest: Doubles
    looks: Doubles


def chances(scored: QueryScores, sampled: Sampled, ks: Sequence[int], block: int = BLOCK) -> Doubles:
    """The chance of each pair to be among the first of each k of its picture, [P, len(ks)]: 0 or 1, but for ties."""
    everyone, width = scored.shape
    step = max(1, block // width)
    found = np.zeros((len(sampled.images), len(ks)))
    order = np.argsort(sampled.images, kind="stable")
    for start in range(0, everyone, step):
        held = np.arange(start, min(start + step, everyone))
        best = first(scored.rows(held), ks)
        ours = order[slice(*np.searchsorted(sampled.images, [start, held[-1] + 1], sorter=order))]
        known, wanted = (
            rows * width + columns
            for rows, columns in (
                (best.rows, best.candidates), (sampled.images[ours] - start, sampled.captions[ours])
            )
        )  # fmt: skip
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        there = known[place] == wanted
        found[ours[there]] = best.chances[place[there]]
    return found


def known_at(sampled: Sampled, chance: Doubles, images: int) -> KnownPairs:
    """Sum up pairs by their chance [P] to be among the first K of one of `images` pictures."""
    strata = len(sampled.looks)
    unseen = sampled.said < 0
    entailed = np.bincount(sampled.images, chance * (sampled.said > 0), images)
    cell = sampled.images * strata + sampled.strata
    rest = np.bincount(cell, chance * unseen, images * strata).reshape(images, strata)
    seen = chance * (sampled.drawn & ~unseen)
    here = np.stack(
        [np.bincount(sampled.strata, seen * weight, strata) for weight in (np.ones(len(seen)), sampled.said > 0)],
        axis=1,
    )
    return KnownPairs(
        entailed.astype(np.float64), rest.astype(np.float64), np.where(here[:, :1] >= LEAST, here, sampled.looks)
    )


def entailed_share(
    written: Doubles, known: KnownPairs, k: int, clusters: Clusters, confidence: float = LEVEL
) -> Interval:
    """Entail@K of I pictures, of which `written` [I] captions among the first `k` are their own.

    Intervals hold the pictures drawn again, and what the rest of each stratum may hold (`share_limits`), put together by the
    squares of their distances from the figure (Zou and Donner 2008): a prior would say too much of strata where next to nothing
    holds. No value where a stratum with pairs that nobody decided was not looked at.
    """
    rest = known.rest.sum(axis=0)
    held = rest > 0
    looks, positive = known.looks[held].T
    if not len(written) or not looks.all():
        return Interval(None, clusters=clusters.size)
    share = positive / looks
    counted = written + known.entailed + known.rest[:, held] @ share
    everything = k * len(written)
    value = float(counted.sum() / everything)
    totals = clusters.totals(np.stack([counted, np.ones(len(counted))], axis=1))
    found = interval_of(value, totals[:, 0] / (k * totals[:, 1]), clusters.size, confidence)
    if clusters.size < LEAST_CLUSTERS or not held.any():
        return found
    # pairs that were looked at stand in the figure too, and vary with the share: hence the weight
    strata = rest_spread(looks, positive, rest[held], weight=2, of=everything, confidence=confidence)
    pictures = [0.0 if edge is None else edge - value for edge in (found.low, found.high)]
    below, above = (np.hypot(drawn, each) for drawn, each in zip(pictures, strata, strict=True))
    return replace(found, low=max(0.0, value - float(below)), high=min(1.0, value + float(above)))
