"""Precision and recall over a finite pool of pairs, and Entail@K, from an audit stratified by decision, probability and rank.

Strata are cut by what is recorded of every pair before the audit. Audited pairs are certain; only the others of each stratum vary. So a
census gives the truth exactly, and intervals cover the sampling of the other pairs and of whole clusters
(`python -m bench retrieval` counts the intervals that hold the truth).

Of the first 10 captions far more hold than of those behind: so a stratum's share among the first K is that of its audited pairs
there; where these are fewer than `LEAST`, that of all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import binom, ndtri, stdtrit

from ctxr.metrics.agreement import Agreement, beyond_chance, percentiles
from ctxr.metrics.compare import LEAST_CLUSTERS, Clusters, Interval, interval_of
from ctxr.metrics.proportions import LEVEL, share_limits, weighted_limits, zero_of_fall
from ctxr.metrics.ranking import row_blocks
from ctxr.metrics.retrieval import BLOCK, QueryScores, first
from ctxr.metrics.votes import Codes, Doubles, Flags

GRID, ZOOMS, ROOTS = 11, 3, (1e-3, 0.5**0.5)
"""Grid over the roots of both error rates: points per rate, refinements, and range."""


@dataclass(frozen=True, eq=False)
class PairVotes:
    """Votes on P audited pairs, tied ones too, [P] each: stratum (below S), votes cast, and how many of these say entailed."""

    strata: Codes
    cast: Codes
    yes: Codes


class LikelyShares(NamedTuple):
    """What strata hold under each of G pairs of error rates.

    Attributes:
        rates: [G, 2] the chance that a vote says yes, and no, by error. reach: [G] how far limits under them count, 0..1.
        shares: [3, G, S] the entailed share of all pairs, its variance, and what one more entailed pair of the sample adds to it;
            NaN without votes.
    """

    rates: Doubles
    reach: Doubles
    shares: Doubles


def likely_shares(votes: PairVotes, population: Doubles) -> LikelyShares | None:
    """What strata of `population` [S] pairs hold under error rates that fit the votes; None where no pair has two votes: nothing
    shows errors.

    A stratum mixes entailed pairs, whose votes say no by error, and others, whose votes say yes by error. Assumption: people err
    independently of each other and equally often on all pairs. Limits are those of a profile likelihood over the error rates.
    """
    if not (votes.cast > 1).any():
        return None
    cast, yes = np.array([(cast, yes) for cast in np.unique(votes.cast) for yes in range(cast + 1)]).T
    asked, same = votes.cast[:, None] == cast, (votes.strata == np.arange(len(population))[:, None]).astype(float)
    looks, seen, judged = same @ asked, same @ (asked & (votes.yes[:, None] == yes)), np.maximum(same.sum(axis=1), 1)

    low, high = np.full((2, 2), ROOTS).T
    for _ in range(ZOOMS):
        steps = np.linspace(low, high, GRID)
        roots = np.stack(np.meshgrid(*steps.T, indexing="ij"), axis=-1).reshape(-1, 2)
        no, wrong = cast - yes, (roots**2)[:, :, None, None]
        entailed = binom(cast, yes) * wrong[:, 1] ** no * (1 - wrong[:, 1]) ** yes
        other = binom(cast, yes) * wrong[:, 0] ** yes * (1 - wrong[:, 0]) ** no
        edge, gain = np.full((len(roots), len(population)), 1e-9), entailed - other

        def slope(share: Doubles, gain: Doubles = gain, other: Doubles = other) -> Doubles:
            return np.asarray((seen * gain / (other + share[..., None] * gain)).sum(axis=-1))

        share = zero_of_fall(slope, edge, 1 - edge)
        fit = (seen * np.log(other + share[..., None] * gain)).sum(axis=(1, 2))
        misfit = (fit.max() - fit) / -math.log(1 - LEVEL)
        near = roots[misfit <= 1]
        low = np.maximum(near.min(axis=0) - steps[1] + steps[0], ROOTS[0])
        high = np.minimum(near.max(axis=0) + steps[1] - steps[0], ROOTS[1])

    def left(share: Doubles) -> Doubles:
        """The variance that the votes leave open, less what a census would."""
        known = (looks * gain**2 / (other + share[..., None] * gain)).sum(axis=-1)
        return np.asarray(1 / np.maximum(known, 1e-9) - share * (1 - share) / np.maximum(population, 1)).clip(1e-9)

    middle, sure = (share * judged + 2) / (judged + 4), np.clip(share, 1e-4, 1 - 1e-4)
    few = (stdtrit(np.maximum(judged - 1, 1), (1 + LEVEL) / 2) / ndtri((1 + LEVEL) / 2)) ** 2
    moments = [share, left(sure) * few, left(middle) / (middle * (1 - middle))]
    shares = np.where(looks.any(axis=1), np.stack(moments), np.nan)
    return LikelyShares(near**2, np.sqrt(1 - misfit[misfit <= 1]), shares[:, misfit <= 1])


DRAWS = 4000

LEAST_DISCRIMINATION = 0.05
"""Sensitivity + specificity - 1 below which nothing can be said: the correction would divide by next to nothing."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Sensitivity and specificity over a population, with draws of what they may be, [R] each."""

    sensitivity: float
    specificity: float
    drawn_sensitivity: Doubles
    drawn_specificity: Doubles


def rogan_gladen(hits: Doubles, trials: Doubles | Codes, rates: Rates, rng: np.random.Generator) -> Interval:
    """(observed + specificity - 1) / (sensitivity + specificity - 1), cut to 0..1.

    Args:
        hits, trials: [C] how many pairs of each cluster (a picture's) the classifier calls entailed, of how many.

    No value where nothing was observed, or where the classifier hardly tells the two apart.

    >>> rates = Rates(0.8, 0.9, np.array([0.8]), np.array([0.9]))
    >>> found = rogan_gladen(np.array([31.0]), np.array([100]), rates, np.random.default_rng(0))
    >>> round(found.value, 3)
    0.3
    """
    if not trials.sum():
        return Interval(None, clusters=len(trials))
    count, draws = len(trials), len(rates.drawn_sensitivity)
    observed = np.empty(draws)
    if count == 1:  # one cluster varies as its pairs would by themselves
        observed = rng.beta(float(hits[0]) + 0.5, float(trials[0] - hits[0]) + 0.5, draws)
    for draw in range(draws if count > 1 else 0):
        weights = np.bincount(rng.integers(0, count, count), minlength=count)
        total = weights @ trials
        observed[draw] = weights @ hits / total if total else np.nan
    # the figure itself, then its draws
    sensitivity = np.append(rates.sensitivity, rates.drawn_sensitivity)
    specificity = np.append(rates.specificity, rates.drawn_specificity)
    tells = sensitivity + specificity - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.clip((np.append(hits.sum() / trials.sum(), observed) + specificity - 1) / tells, 0.0, 1.0)
    shares[tells < LEAST_DISCRIMINATION] = np.nan
    value, defined = shares[0], shares[1:][~np.isnan(shares[1:])]
    if np.isnan(value) or not defined.size:
        return Interval(None, clusters=count)
    low, high = percentiles(defined)
    return Interval(float(value), low, high, count, len(defined))


@dataclass(frozen=True)
class Stratum:
    """One part of an audit: of `population` pairs `sampled` were drawn, and people call `positive` of these entailed.

    `called`: whether the classifier's decision adds its pairs.
    """

    population: int
    sampled: int
    positive: int
    called: bool = False


def finite_total(strata: Sequence[Stratum]) -> Doubles:
    """The number of entailed pairs in all strata together, and between which numbers it is, [3]. What was drawn is known, only the
    rest of each stratum varies (`share_limits`); the distances of its limits add up by their squares (Zou and Donner 2008), because a
    prior would say too much of large strata where next to nothing holds.

    NaN where a stratum with pairs was not sampled.

    >>> finite_total([Stratum(10, 10, 7)]).tolist()
    [7.0, 7.0, 7.0]
    """
    population, sampled, positive = columns_of(strata)
    if not sampled.all():
        return np.full(3, np.nan)
    share, remainder = positive / sampled, population - sampled
    value = float(share @ population)
    below, above = unsampled_margin(sampled, positive, remainder)
    low, high = max(float(positive.sum()), value - below), min(float((positive + remainder).sum()), value + above)
    return np.array([value, low, high])


def columns_of(strata: Sequence[Stratum]) -> Doubles:
    """Population, sampled and positive pairs of the strata that hold pairs, [3, S]."""
    rows = [(stratum.population, stratum.sampled, stratum.positive) for stratum in strata if stratum.population]
    return np.array(rows, np.float64).reshape(-1, 3).T


def unsampled_margin(
    sampled: Doubles, positive: Doubles, remainder: Doubles, *, weight: int = 1, of: float = 1.0
) -> list[float]:
    """Distances of the interval below and above the estimated number of entailed pairs among those outside the sample, over all strata.

    Args:
        sampled, positive: [S] pairs that the share of each stratum is estimated from, and how many of them are entailed.
        remainder: [S] pairs outside the sample. weight: 2 where the sampled pairs vary with the share too.
        of: the distances are shares of so many pairs.
    """
    sampled, positive, remainder = (column[remainder > 0] for column in (sampled, positive, remainder))
    share = positive / sampled
    limits = share_limits(share, 1 / (1 / sampled + weight / remainder), sampled - 1)
    return [float(np.linalg.norm((limit - share) * remainder / of)) for limit in limits]


UNSEEN = "a stratum was not audited"


@dataclass(frozen=True)
class Reliability:
    """How far a revision can be trusted, each figure over the whole pool with its finite-population interval.

    Attributes:
        precision: share of the pairs called entailed that are, 0..1. recall: share of the entailed pairs of the pool that were
            called so, 0..1. entailed: how many pairs of the pool are entailed, called so or not.
        errors: shares of single votes that say yes, and no, by error, which the figures allow for; None: verdicts are taken as right.
        called: pairs called entailed. pairs: of the pool. looked: pairs that people decided.
    """

    precision: Interval
    recall: Interval
    entailed: Interval
    called: int
    pairs: int
    looked: int
    errors: tuple[Interval, ...] | None = None


def reliability(parts: Sequence[Stratum], votes: PairVotes | None = None) -> Reliability:
    """Precision and recall from what people said in each stratum; corrected for their errors where pairs have several `votes`.

    No recall, and no number of entailed pairs, where a stratum with pairs was not sampled; no precision where that is so of one
    that was called, or where nothing was.

    >>> called, other = Stratum(10, 10, 9, True), Stratum(90, 90, 3, False)
    >>> found = reliability([called, other])
    >>> found.precision.value, found.recall.value, found.recall.low, found.entailed.value
    (0.9, 0.75, 0.75, 12.0)
    """
    population, called = np.array([(part.population, part.called) for part in parts], np.int64).reshape(-1, 2).T
    likely = None if votes is None else likely_shares(votes, population.astype(np.float64))
    errors, reach, shares = likely or LikelyShares(np.ones((0, 2)), np.ones(1), np.ones(0))

    def total(kind: Flags) -> Doubles:
        """How many pairs of a kind of strata are entailed, and between which numbers, [3, G]."""
        group = np.flatnonzero(kind & (population > 0))
        if likely is None:
            return finite_total([part for part, wanted in zip(parts, kind, strict=True) if wanted])[:, None]
        size = population[group].astype(np.float64)
        share, variance, weight = shares[:, :, group] * [[size], [size**2], [size]]
        return np.stack([share.sum(axis=1), *weighted_limits(share, variance, weight, size)])

    def widest(ends: Doubles, strata: int) -> Interval:
        """A figure with its limits [3, G] under all pairs of error rates."""
        value, low, high = ends
        if not strata or np.isnan(value).any():
            return Interval(None)
        edges = (value - (value - low) * reach).min(), (value + (high - value) * reach).max()
        return Interval(float(value[reach.argmax()]), float(edges[0]), float(edges[1]), strata)

    hits, missed, every = total(called > 0), total(called == 0), total(called >= 0)
    count, pairs = int(population @ called), int(population.sum())
    return Reliability(
        widest(hits / max(count, 1), int(called.sum()) if count else 0),
        widest(_recall(hits, missed), len(parts)),
        widest(every, len(parts) if pairs else 0),
        count,
        pairs,
        sum(part.sampled for part in parts),
        errors=None if likely is None else tuple(widest(np.tile(rate, (3, 1)), len(parts)) for rate in errors.T),
    )


def _recall(hits: Doubles, missed: Doubles) -> Doubles:
    """found / (found + missed), and the shares r for which (1 - r) found - r missed may be 0 (Zou and Donner 2008), [3, G]."""
    with np.errstate(invalid="ignore"):
        value = hits[0] / (hits[0] + missed[0])

    def end(share: Doubles, found: Doubles, lost: Doubles, sign: int) -> Doubles:
        """An end of (1 - r) found - r missed, by the opposite ends of both."""
        away = np.hypot((1 - share) * (hits[0] - found), share * (missed[0] - lost))
        return np.asarray((1 - share) * hits[0] - share * missed[0] + sign * away)

    low = zero_of_fall(lambda share: end(share, hits[1], missed[2], -1), np.zeros(len(value)), value)
    high = zero_of_fall(lambda share: end(share, hits[2], missed[1], 1), value, np.ones(len(value)))
    return np.stack([value, low, high])


def allocate(populations: Sequence[int], size: int) -> list[int]:
    """The number of pairs to draw from each stratum: four (or all there are), the others by the square roots of their sizes, as by sizes
    the many pairs that would not be added would take the whole audit. The sum is `size`, unless there are fewer pairs, or four of
    each stratum are more.

    >>> allocate([10_000, 100, 2], 50)
    [44, 4, 2]
    """
    sizes = [min(count, 4) for count in populations]
    roots = np.sqrt(np.array(populations, np.float64))
    for _ in range(max(0, min(size, sum(populations)) - sum(sizes))):
        # the next pair goes where most is missing of the share by roots
        room = np.array(sizes) < np.array(populations)
        index = int(np.argmax(np.where(room, roots / (np.array(sizes) + 1), -1.0)))
        sizes[index] += 1
    return sizes


def rates(parts: Sequence[Stratum], rng: np.random.Generator, draws: int = DRAWS) -> Rates | None:
    """Sensitivity and specificity over all pairs of the pool, each stratum weighed by its size: for pairs other than the audited, so a
    census leaves the draws the width of its looks. None where a stratum with pairs was not audited, or all pairs are of one kind.
    """
    called = np.array([part.called for part in parts if part.population], bool)
    population, sampled, positive = columns_of(parts)
    if not len(called) or not sampled.all():
        return None
    share = positive / sampled
    entailed, other = population * share, population * (1 - share)
    if not entailed.sum() or not other.sum():
        return None
    chance = rng.beta(positive + 0.5, sampled - positive + 0.5, (draws, len(called)))
    sizes = rng.gamma(population, size=(draws, len(called)))
    with_chance, without = sizes * chance, sizes * (1 - chance)
    return Rates(
        float(entailed[called].sum() / entailed.sum()),
        float(other[~called].sum() / other.sum()),
        with_chance[:, called].sum(axis=1) / with_chance.sum(axis=1),
        without[:, ~called].sum(axis=1) / without.sum(axis=1),
    )


def kappa(parts: Sequence[Stratum]) -> Agreement:
    """Cohen's kappa of people and the classifier over the whole pool: strata are weighted by their size, not by how many were audited."""
    called = np.array([part.called for part in parts if part.population], np.float64)
    population, sampled, positive = columns_of(parts)
    decided = int(sampled.sum())
    if not len(called) or not sampled.all():
        return Agreement(None, decided, 2 * decided, UNSEEN)
    weight = population / population.sum()
    yes = positive / sampled
    people, classifier = float(weight @ yes), float(weight @ called)
    observed = float(weight @ (yes * called + (1 - yes) * (1 - called)))
    chance = people * classifier + (1 - people) * (1 - classifier)
    return beyond_chance(observed, chance, decided, 2 * decided)


LEAST = 4
"""Looks among the first K from which on a stratum's share is of them alone."""


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """Pairs that a sample was drawn from by strata, parallel columns [P].

    Attributes:
        images, captions: indices. strata: numbers below S. said: 1 entailed, 0 not, -1 undecided.
        drawn: whether the pair was drawn by chance from its stratum: others that people decided tell of themselves alone.
        looks: [S, 2] pairs decided and entailed of those drawn from each whole stratum, also of pictures that are not here.
    """

    images: Codes
    captions: Codes
    strata: Codes
    said: Codes
    drawn: Flags
    looks: Doubles


@dataclass(frozen=True, eq=False)
class AuditedPairs:
    """The audit of the pairs among the first K of I pictures, those written for them left out: [I] pairs that people call entailed,
    [I, S] undecided ones by stratum, and [S, 2] decided and entailed pairs that the rest of each stratum is estimated from."""

    entailed: Doubles
    rest: Doubles
    looks: Doubles


def chances(scored: QueryScores, sampled: SampledPairs, ks: Sequence[int], block: int = BLOCK) -> Doubles:
    """The chance of each pair to be among the first of each k of its picture, [P, len(ks)]: 0 or 1, but for ties."""
    everyone, width = scored.shape
    result = np.zeros((len(sampled.images), len(ks)))
    order = np.argsort(sampled.images, kind="stable")
    for rows_of in row_blocks(everyone, width, block):
        best = first(scored.rows(np.arange(rows_of.start, rows_of.stop)), ks)
        ours = order[slice(*np.searchsorted(sampled.images, [rows_of.start, rows_of.stop], sorter=order))]
        ranked, wanted = (
            rows * width + columns
            for rows, columns in (
                (best.rows, best.candidates), (sampled.images[ours] - rows_of.start, sampled.captions[ours])
            )
        )  # fmt: skip
        position = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
        listed = ranked[position] == wanted
        result[ours[listed]] = best.chances[position[listed]]
    return result


def audited_pairs(sampled: SampledPairs, chance: Doubles, images: int) -> AuditedPairs:
    """Sum up pairs by their chance [P] to be among the first K of one of `images` pictures."""
    strata = len(sampled.looks)
    unseen = sampled.said < 0
    entailed = np.bincount(sampled.images, chance * (sampled.said > 0), images)
    cell = sampled.images * strata + sampled.strata
    undecided = np.bincount(cell, chance * unseen, images * strata).reshape(images, strata)
    seen = chance * (sampled.drawn & ~unseen)
    here = np.stack(
        [np.bincount(sampled.strata, seen * weight, strata) for weight in (np.ones(len(seen)), sampled.said > 0)],
        axis=1,
    )
    return AuditedPairs(
        entailed.astype(np.float64), undecided.astype(np.float64), np.where(here[:, :1] >= LEAST, here, sampled.looks)
    )


def entailed_share(written: Doubles, audited: AuditedPairs, k: int, clusters: Clusters) -> Interval:
    """Entail@K of I pictures with `written` [I] captions of their own among the first `k`.

    Intervals hold the pictures drawn again, and what the rest of each stratum may hold (`share_limits`), put together by the
    squares of their distances from the figure (Zou and Donner 2008). No value where a stratum with undecided pairs was not audited.
    """
    undecided = audited.rest.sum(axis=0)
    open_strata = undecided > 0
    decided, positive = audited.looks[open_strata].T
    if not len(written) or not decided.all():
        return Interval(None, clusters=clusters.size)
    share = positive / decided
    counted = written + audited.entailed + audited.rest[:, open_strata] @ share
    everything = k * len(written)
    value = float(counted.sum() / everything)
    totals = clusters.totals(np.stack([counted, np.ones(len(counted))], axis=1))
    interval = interval_of(value, totals[:, 0] / (k * totals[:, 1]), clusters.size)
    if clusters.size < LEAST_CLUSTERS or not open_strata.any():
        return interval
    # pairs that were looked at stand in the figure too, and vary with the share: hence the weight
    strata = unsampled_margin(decided, positive, undecided[open_strata], weight=2, of=everything)
    pictures = [0.0 if edge is None else edge - value for edge in (interval.low, interval.high)]
    below, above = (np.hypot(distance, margin) for distance, margin in zip(pictures, strata, strict=True))
    return replace(interval, low=max(0.0, value - float(below)), high=min(1.0, value + float(above)))
