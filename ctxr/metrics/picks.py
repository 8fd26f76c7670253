"""How often people find the target: the human accuracy of a benchmark, and the interval that it deserves.

A share of votes is not one of independent coins: a worker gives many votes. Wilson's interval treats them as if they were;
the interval over workers does not, and is the one to quote.

Acceptance keeps the texts whose target was found, so accuracy on accepted votes is optimistic by construction. The honest
figure is that of all votes; where a third vote was asked for only on disagreement, that of first votes alone.
"""

from dataclasses import dataclass

import numpy as np

from ctxr.metrics.proportions import wilson_interval
from ctxr.metrics.resampling import LEVEL, RESAMPLES, percentiles
from ctxr.metrics.votes import Flags, Votes


@dataclass(frozen=True)
class HumanAccuracy:
    """A share of right picks.

    Attributes:
        value: right / votes, 0..1; None without votes. workers: who gave them.
        low, high: Wilson's interval, as if votes were independent; (0, 1) without votes.
        crowd_low, crowd_high: percentile interval with workers drawn again; None with fewer than two workers.
    """

    value: float | None
    right: int
    votes: int
    workers: int
    low: float
    high: float
    crowd_low: float | None = None
    crowd_high: float | None = None


def human_accuracy(
    votes: Votes,
    right: Flags,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = LEVEL,
) -> HumanAccuracy:
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
    low, high = wilson_interval(hits, total, confidence)
    given = np.bincount(votes.workers, minlength=1)
    found = np.bincount(votes.workers, right, minlength=1)[given > 0]
    given = given[given > 0]
    crowd = len(given)
    value = hits / total if total else None
    if crowd < 2:
        return HumanAccuracy(value, hits, total, crowd, low, high)
    # one row of draws at a time keeps memory at the size of the crowd
    drawn = (rng.integers(0, crowd, crowd) for _ in range(resamples))
    shares = np.array([found[rows].sum() / given[rows].sum() for rows in drawn])
    return HumanAccuracy(value, hits, total, crowd, low, high, *percentiles(shares, confidence))
