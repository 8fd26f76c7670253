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
from scipy.special import betaincc, betaincinv

from ctxr.errors import UsageError
from ctxr.metrics.agreement import RESAMPLES
from ctxr.metrics.compare import mean_interval
from ctxr.metrics.proportions import LEVEL, exact_interval
from ctxr.metrics.votes import Flags, Votes

Decision = Literal["allow", "block", "undecided"]


@dataclass(frozen=True)
class Skill:
    """What is known of one worker's rate of success.

    Attributes:
        mean: of the posterior. low, high: central interval of 95 %. above: P(skill > threshold).
    """

    mean: float
    low: float
    high: float
    above: float


def skill_of(right: float, votes: float, threshold: float) -> Skill:
    """The Beta posterior of a worker, whose prior takes all skills for equally likely.

    Args:
        right, votes: counts, 0 <= right <= votes; need not be whole. threshold: skill to be above, 0..1.

    Raises UsageError for impossible counts, and for a threshold outside 0..1.

    >>> skill = skill_of(50, 52, threshold=0.8)
    >>> round(skill.mean, 3), round(skill.above, 3)
    (0.944, 0.999)
    """
    if not 0 <= right <= votes + 1e-9:
        raise UsageError("right votes must lie between 0 and all votes")
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold {threshold:g} must lie in 0..1")
    a, b, tail = right + 1.0, max(votes - right, 0.0) + 1.0, (1 - LEVEL) / 2
    low, high, above = betaincinv(a, b, tail), betaincinv(a, b, 1 - tail), betaincc(a, b, threshold)
    return Skill(a / (a + b), float(low), float(high), float(above))


def decision_on(right: float, votes: float, good: float, poor: float) -> Decision:
    """allow if P(skill > good) exceeds 95 %, block if P(skill < poor) does, else undecided.

    Raises UsageError as for `skill_of`; and for `poor` above `good`.

    >>> [decision_on(right, votes, 0.8, 0.8) for right, votes in ((5, 5), (50, 52), (3, 12))]
    ['undecided', 'allow', 'block']
    """
    if poor > good:
        raise UsageError(f"poor {poor:g} must not exceed good {good:g}")
    if skill_of(right, votes, good).above > LEVEL:
        return "allow"
    return "block" if 1 - skill_of(right, votes, poor).above > LEVEL else "undecided"


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
