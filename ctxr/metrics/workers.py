"""How accurate workers are and how certain that is: posteriors of skill, human accuracy, and when to act on them.

Five right of five is no proof of skill: decide on the probability that the skill lies above a threshold. Looking again after each
vote makes wrong decisions a little more frequent than the posterior says, so decisions should stay reversible.

A worker gives many votes. The exact interval of accuracy treats votes as independent; the one over workers does not, and is the one to
quote. Accuracy on accepted votes looks too high, since texts were kept because their target was found.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betaincc, betaincinv

from ctxr.metrics.compare import mean_interval
from ctxr.metrics.proportions import LEVEL, exact_interval
from ctxr.metrics.votes import Flags, Votes

Decision = Literal["allow", "block", "undecided"]


@dataclass(frozen=True)
class Skill:
    """A rate of success with its uncertainty, to four digits: successes of trials, posterior mean and central 95 % interval."""

    right: float
    votes: float
    mean: float
    low: float
    high: float


def skill_of(right: float, votes: float) -> Skill:
    """The Beta posterior of a worker, whose prior takes all skills for equally likely; counts need not be whole.

    >>> skill_of(50, 52)
    Skill(right=50.0, votes=52.0, mean=0.9444, low=0.8702, high=0.9882)
    """
    a, b, tail = right + 1.0, max(votes - right, 0.0) + 1.0, (1 - LEVEL) / 2
    figures = right, votes, a / (a + b), betaincinv(a, b, tail), betaincinv(a, b, 1 - tail)
    return Skill(*(round(float(figure), 4) for figure in figures))


def decision_on(right: float, votes: float, good: float, poor: float) -> Decision:
    """allow if P(skill > good) exceeds 95 %, block if P(skill < poor) does, else undecided.

    >>> [decision_on(right, votes, 0.8, 0.8) for right, votes in ((5, 5), (50, 52), (3, 12))]
    ['undecided', 'allow', 'block']
    """
    a, b = right + 1.0, max(votes - right, 0.0) + 1.0
    if betaincc(a, b, good) > LEVEL:
        return "allow"
    return "block" if 1 - betaincc(a, b, poor) > LEVEL else "undecided"


@dataclass(frozen=True)
class HumanAccuracy:
    """A share of right picks, 0..1, None without votes; its exact interval, as if votes were independent, (0, 1) without votes; and the
    percentile interval with workers drawn again, None where `interval_of` has none."""

    value: float | None
    right: int
    votes: int
    workers: int
    low: float
    high: float
    crowd_low: float | None = None
    crowd_high: float | None = None


def human_accuracy(votes: Votes, right: Flags, rng: np.random.Generator, resamples: int = 1000) -> HumanAccuracy:
    """The share of N votes that are right [N]; `resamples` draws of as many workers, each of whom comes with all his votes."""
    total, hits = len(votes), int(right.sum())
    low, high = exact_interval(hits, total)
    share = mean_interval(right.astype(np.float64), votes.workers, rng, resamples)
    return HumanAccuracy(share.value, hits, total, share.clusters, low, high, share.low, share.high)
