"""How accurate workers are and how certain that is: posteriors of skill, human accuracy, and when to act on them.

Five right of five is no proof of skill: decide on the probability that the skill lies above a threshold, not on the raw
share. Looking again after each vote makes wrong decisions a little more frequent than the posterior says, so decisions should
stay reversible.

A share of votes is not one of independent coins: a worker gives many votes. The exact interval treats them as if they were;
the interval over workers does not, and is the one to quote.

Acceptance keeps the texts whose target was found, so accuracy on accepted votes is optimistic by construction. The honest
figure is that of all votes; where a third vote was asked for only on disagreement, that of first votes alone.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaincc, betaincinv

from ctxr.errors import UsageError
from ctxr.metrics.agreement import RESAMPLES
from ctxr.metrics.compare import mean_interval
from ctxr.metrics.proportions import LEVEL, exact_interval
from ctxr.metrics.votes import Column, Doubles, Flags, Votes, factorise

Decision = Literal["allow", "block", "undecided"]
Counts = npt.ArrayLike


@dataclass(frozen=True)
class Skill:
    """What is known of one worker's rate of success.

    Attributes:
        right, votes: what it rests on; fractions where a text counts once. mean: of the posterior.
        low, high: central interval of 95 %. above: P(skill > threshold).
    """

    right: float
    votes: float
    mean: float
    low: float
    high: float
    above: float


@dataclass(frozen=True, eq=False)
class AuthorSuccess:
    """Counts of other workers who found the image of each author's descriptions.

    Attributes:
        authors: [A] names, sorted. right: [A] picks of others that name the target. votes: [A] picks of others.
        texts: [A] descriptions that others picked for. found: [A] sum over these of the share of pickers who found it: with
            `texts` the counts to judge authors by, since the picks for one text are not independent.
    """

    authors: npt.NDArray[np.object_]
    right: Doubles
    votes: Doubles
    texts: Doubles
    found: Doubles


def skills(right: Counts, votes: Counts, threshold: float) -> list[Skill]:
    """The Beta posterior of each worker, whose prior takes all skills for equally likely.

    Args:
        right, votes: [W] counts, 0 <= right <= votes; need not be whole. threshold: skill to be above, 0..1.

    Raises UsageError for impossible counts, and for a threshold outside 0..1.

    >>> [(round(skill.mean, 3), round(skill.above, 3)) for skill in skills([5, 50], [5, 52], threshold=0.8)]
    [(0.857, 0.738), (0.944, 0.999)]
    """
    hits, total = np.atleast_1d(np.asarray(right, float)), np.atleast_1d(np.asarray(votes, float))
    if hits.shape != total.shape or (hits < 0).any() or (hits > total + 1e-9).any():
        raise UsageError("right votes must lie between 0 and all votes, worker by worker")
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold {threshold:g} must lie in 0..1")
    a, b = hits + 1.0, np.maximum(total - hits, 0.0) + 1.0
    tail = (1 - LEVEL) / 2
    columns = hits, total, a / (a + b), betaincinv(a, b, tail), betaincinv(a, b, 1 - tail), betaincc(a, b, threshold)
    return [Skill(*row) for row in np.stack(columns, axis=1).tolist()]


def decisions(right: Counts, votes: Counts, good: float, poor: float | None = None) -> list[Decision]:
    """allow if P(skill > good) exceeds 95 %, block if P(skill < poor) does, else undecided.

    Args:
        right, votes: [W] counts. good: target skill. poor: skill below which a worker is blocked; default: `good`.

    Raises UsageError as for `skills`; and for `poor` above `good`.

    >>> decisions([5, 50, 3], [5, 52, 12], good=0.8)
    ['undecided', 'allow', 'block']
    """
    floor = good if poor is None else poor
    if floor > good:
        raise UsageError(f"poor {floor:g} must not exceed good {good:g}")
    above = zip(skills(right, votes, good), skills(right, votes, floor), strict=True)
    return [
        "allow" if target.above > LEVEL else "block" if 1 - least.above > LEVEL else "undecided"
        for target, least in above
    ]


def author_success(votes: Votes, right: Flags, authors: Column) -> AuthorSuccess:
    """Counts behind an author's skill: *other* workers' picks for their descriptions, and those that name the target.

    Args:
        votes: picks, one unit a description. right: [N] whether each names the target.
        authors: [U] names of who wrote each unit, in the order of `votes.unit_names`; an author's own picks are left out.

    >>> from ctxr.metrics.votes import gather
    >>> picks = gather(["d1", "d1", "d2", "d2"], ["x", "y", "ann", "x"], [3, 3, 5, 6])
    >>> counts = author_success(picks, np.array([True, True, True, False]), ["ann", "ann"])
    >>> counts.right.tolist(), counts.votes.tolist(), counts.texts.tolist(), counts.found.tolist()
    ([2.0], [3.0], [2.0], [1.0])
    """
    wrote, names = factorise(np.asarray(authors, object))
    writer, picker = names[wrote[votes.units]], votes.worker_names[votes.workers]
    others = np.array(writer != picker, bool)
    size = len(votes.unit_names)
    hits = np.bincount(votes.units[others], right[others], size).astype(np.float64)
    votes_on = np.bincount(votes.units[others], minlength=size).astype(np.float64)
    share = np.divide(hits, votes_on, out=np.zeros(size), where=votes_on > 0)
    columns = (
        np.bincount(wrote, counts, len(names)).astype(np.float64) for counts in (hits, votes_on, votes_on > 0, share)
    )
    return AuthorSuccess(names, *columns)


@dataclass(frozen=True)
class HumanAccuracy:
    """A share of right picks.

    Attributes:
        value: right / votes, 0..1; None without votes. workers: who gave them.
        low, high: exact interval, as if votes were independent; (0, 1) without votes.
        crowd_low, crowd_high: percentile interval with workers drawn again; None where `interval_of` has none.
    """

    value: float | None
    right: int
    votes: int
    workers: int
    low: float
    high: float
    crowd_low: float | None = None
    crowd_high: float | None = None


def human_accuracy(votes: Votes, right: Flags, rng: np.random.Generator, resamples: int = RESAMPLES) -> HumanAccuracy:
    """The share of votes that name the target.

    Args:
        votes: N picks. right: [N] whether each names its target. rng: equal generators give equal intervals.
        resamples: draws of as many workers with replacement; a worker comes with all his votes.

    >>> from ctxr.metrics.votes import gather
    >>> picks = gather([1, 1, 2, 2], ["x", "y", "x", "y"], [4, 4, 7, 1])
    >>> human_accuracy(picks, np.array([True, True, True, False]), np.random.default_rng(0)).value
    0.75
    """
    total, hits = len(votes), int(right.sum())
    low, high = exact_interval(hits, total)
    share = mean_interval(right.astype(np.float64), votes.workers, rng, resamples)
    return HumanAccuracy(share.value, hits, total, share.clusters, low, high, share.low, share.high)
