"""Simulated studies: how wide their intervals are and which differences they resolve, before anybody is asked.

A vote is right where a sum of normal effects stays below a threshold: of its image set, its description, its worker, and chance. The
correlations of these sums are tetrachoric: what pairs of right and wrong votes show is solved for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, owens_t

from ctxr.metrics.compare import LEAST_CLUSTERS, Interval
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.votes import Codes, Column, Doubles, Flags, factorise

POWER = 0.8
"""Probability that a difference which is there is found."""

ROUNDS = 40
"""Simulated studies that an error is averaged over."""

_SURE, _FOUND = float(ndtri((1 + LEVEL) / 2)), float(ndtri(POWER))
MOST_ALIKE = 0.95
"""Greatest correlation that is told apart from always agreeing."""


@dataclass(frozen=True)
class VoteModel:
    """Probability that a vote is `right`, and tetrachoric correlations, 0..1, of two votes on one `description`, on two descriptions of one
    `image_set` (no more than on one), and by one `worker`."""

    right: float
    description: float
    image_set: float
    worker: float


class SimulatedVotes(NamedTuple):
    """Whether votes are right, and the codes of their workers, both [sets, targets, votes]."""

    right: Flags
    workers: Codes


def both_right(right: float, alike: float) -> float:
    """Probability that two votes are right which are each right with probability `right` and whose sums correlate, 0..1."""
    return right - 2 * float(owens_t(ndtri(right), np.sqrt((1 - alike) / (1 + alike))))


def tetrachoric(right: float, both: float) -> float:
    """The correlation, 0 to .95, with which two votes are `both` right.

    >>> round(tetrachoric(0.5, 1 / 3), 4), tetrachoric(0.7, 0.4)
    (0.5, 0.0)
    """
    if not 0 < right < 1 or both <= both_right(right, 0.0):
        return 0.0
    if both >= both_right(right, MOST_ALIKE):
        return MOST_ALIKE
    return float(brentq(lambda alike: both_right(right, alike) - both, 0.0, MOST_ALIKE))


def model_of_votes(right: Flags, descriptions: Column, image_sets: Column, workers: Column) -> VoteModel | None:
    """The model of votes [N], of which each description should have its first two; None without a description that has two."""
    by_description, by_set, by_worker = (_pairs(right, of) for of in (descriptions, image_sets, workers))
    if not by_description[1]:
        return None
    share = float(right.mean())
    apart = by_set[0] - by_description[0], by_set[1] - by_description[1]
    description, image_set, worker = (
        tetrachoric(share, both / pairs) if pairs else 0.0 for both, pairs in (by_description, apart, by_worker)
    )
    return VoteModel(share, description, min(image_set, description), min(worker, MOST_ALIKE - description))


def _pairs(right: Flags, groups: Column) -> Doubles:
    """[2] pairs of votes of one group: those with both right, and all."""
    codes, _ = factorise(groups)
    hits, votes = np.bincount(codes, right), np.bincount(codes)
    return np.array([(hits * (hits - 1)).sum(), (votes * (votes - 1)).sum()], np.float64)


def simulate(
    model: VoteModel, sets: int, targets: int, votes: int, *, each: int, rng: np.random.Generator
) -> SimulatedVotes:
    """Votes on the descriptions of `targets` images in each set, by workers who give `each` of them and see a set once."""
    shape = sets, targets, votes
    ranks = rng.permuted(np.tile(np.arange(sets), (targets * votes, 1)), axis=1).T.reshape(shape)
    blocks = -(-sets // each)
    workers = np.arange(targets * votes).reshape(1, targets, votes) * blocks + ranks // each
    of_worker = rng.standard_normal(targets * votes * blocks)[workers]
    own = 1 - model.description - model.worker
    of_sets = np.sqrt(model.image_set) * rng.standard_normal((sets, 1, 1))
    of_descriptions = np.sqrt(model.description - model.image_set) * rng.standard_normal((sets, targets, 1))
    latent = of_sets + of_descriptions + np.sqrt(model.worker) * of_worker
    return SimulatedVotes(latent + np.sqrt(own) * rng.standard_normal(shape) < ndtri(model.right), workers)


def simulate_runs(model: VoteModel, rights: Sequence[float], shape: tuple[int, int], rng: np.random.Generator) -> Flags:
    """Whether models, right with these probabilities, are right about each description, [models, sets, targets]. As among people, what is
    hard for one is hard for all; only what makes a whole set hard is each model's own, so that gains come in clusters."""
    of_sets = np.sqrt(model.image_set) * rng.standard_normal((len(rights), shape[0], 1))
    of_descriptions = np.sqrt(model.description - model.image_set) * rng.standard_normal(shape)
    noise = np.sqrt(1 - model.description) * rng.standard_normal((len(rights), *shape))
    is_right: Flags = of_sets + of_descriptions + noise < ndtri(np.asarray(rights))[:, None, None]
    return is_right


def votes_used(right: Flags, needed: int) -> Codes:
    """How many of the votes [..., most] are asked for until nothing can change whether `needed` are right, [...]."""
    most = right.shape[-1]
    hits = right.cumsum(axis=-1)
    is_decided = (hits >= needed) | (np.arange(1, most + 1) - hits > most - needed)
    used: Codes = np.argmax(is_decided, axis=-1) + 1
    return used


def standard_error(values: Doubles, clusters: Codes) -> float:
    """Of the mean of values [N] whose clusters [N] are drawn again."""
    sums = np.bincount(clusters, values - values.mean())
    return float(np.sqrt((sums**2).sum()) / len(values))


def width_of(error: float) -> float:
    """The width of an interval of 95 %."""
    return 2 * _SURE * error


def resolves(error: float, clusters: int) -> float:
    """The least difference that flips of the signs of so many clusters find at .05, two-sided, with a power of .8, by the standard error of
    a difference. Flips keep the difference itself among what varies, which costs power where clusters are few."""
    kept = 1 - _SURE**2 / clusters
    return error * (_FOUND + float(np.sqrt(_FOUND**2 + kept * (_SURE**2 - _FOUND**2)))) / kept


def resolved_by(difference: Interval) -> float | None:
    """The same by the interval of a difference; None where there is none."""
    if difference.low is None or difference.high is None or difference.clusters < LEAST_CLUSTERS:
        return None
    return resolves((difference.high - difference.low) / (2 * _SURE), difference.clusters)


def least_sets(wanted: float, reached: Callable[[int], float], least: int, most: int) -> int | None:
    """A number of sets with which `reached` falls to `wanted`, as errors fall with the root, no more than it takes but for a few in a
    hundred; no fewer than `least`, and None above `most`."""
    sets = least
    for step in range(30):
        found = reached(sets)
        if found <= wanted and (sets == least or found >= 0.98 * wanted or step > 5):
            return sets
        needed = sets * (found / wanted) ** 2
        # the last steps only go up
        sets = max(least, int(np.ceil(needed if step <= 5 else max(needed, 1.01 * sets))))
        if sets > most:
            return None
    return None
