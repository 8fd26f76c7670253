"""One answer for each unit from several votes: by majority, or weighing workers by how often they seem to be right.

In picking, candidates differ from unit to unit (ten images of a set), so a table of who takes which value for which is
empty of sense. `one_coin` knows only how often a worker is right, and that wrong votes fall evenly on the other candidates.
Where all units share the same few labels, `ctxr.metrics.dawid_skene` learns whole tables.
"""

from dataclasses import dataclass

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.differences import cells
from ctxr.metrics.votes import Codes, Doubles, Votes

TIE = -1
"""Stands for the value of a unit whose votes decide nothing, or that has none."""

CLOSE = 1e-9
"""Posterior probabilities that differ by less are a tie."""


@dataclass(frozen=True, eq=False)
class Majority:
    """The commonest value of each unit.

    Attributes:
        value: [U] code, or `TIE`. count: [U] votes for the commonest value. votes: [U] votes on the unit.
    """

    value: Codes
    count: Codes
    votes: Codes


@dataclass(frozen=True, eq=False)
class OneCoin:
    """What votes say if each worker is right with one probability.

    Attributes:
        value: [U] code of the likeliest of the values that were voted for, or `TIE`. confidence: [U] its posterior
            probability, 0..1; below a half something that nobody voted for may be likelier than it.
        support: [N] posterior probability that each vote names the truth.
        accuracy: [W] how often each worker is right, 0..1; NaN for workers without a vote.
        log_likelihood: of all votes. iterations: rounds of EM. converged: whether the last one changed nothing to speak of.
    """

    value: Codes
    confidence: Doubles
    support: Doubles
    accuracy: Doubles
    log_likelihood: float
    iterations: int
    converged: bool


class Ballot:
    """The values that were voted for, unit by unit, and how many other candidates there were.

    Attributes:
        cell: [N] cell of each vote. cell_units: [C]. cell_values: [C]. kinds: [U] candidates of each unit.
        unseen: [U] candidates that nobody voted for. size: units U.
    """

    def __init__(self, votes: Votes, candidates: int | Codes) -> None:
        self.votes, self.size = votes.once(), len(votes.unit_names)
        self.cell, self.cell_units, self.cell_values = cells(votes.units, self.size, votes.values, len(votes.labels))
        self.kinds = np.broadcast_to(np.asarray(candidates, np.int64), (self.size,))
        self.unseen = self.kinds - np.bincount(self.cell_units, minlength=self.size)
        for short in np.flatnonzero((self.unseen < 0) | (self.kinds < 2)):
            raise DataError(
                f"unit {str(votes.unit_names[short])!r} is said to have {self.kinds[short]} candidates, "
                f"and votes name {self.kinds[short] - self.unseen[short]}",
                "pass how many candidates each unit has, two or more",
            )

    def posterior(self, odds: Doubles) -> tuple[Doubles, Doubles]:
        """Probability of each cell being the truth [C], and the log of the normaliser [U].

        `odds` [N]: log of how much likelier each vote is if its value is the truth than if it is not. All candidates are
        equally likely beforehand, those that nobody voted for too.
        """
        score = np.bincount(self.cell, odds, len(self.cell_units))
        # what nobody voted for scores 0
        most = np.where(self.unseen > 0, 0.0, -np.inf)
        np.maximum.at(most, self.cell_units, score)
        each = np.exp(score - most[self.cell_units])
        total = np.bincount(self.cell_units, each, self.size) + self.unseen * np.exp(-np.maximum(most, 0.0))
        return each / total[self.cell_units], most + np.log(total / self.kinds)

    def likeliest(self, posterior: Doubles) -> tuple[Codes, Doubles]:
        """Value code [U], `TIE` where two are equally likely, and its probability [U], 0 for units without votes."""
        confidence = np.zeros(self.size)
        np.maximum.at(confidence, self.cell_units, posterior)
        best = posterior > confidence[self.cell_units] - CLOSE
        value = np.full(self.size, TIE)
        value[self.cell_units[best]] = self.cell_values[best]
        value[np.bincount(self.cell_units[best], minlength=self.size) > 1] = TIE
        return value, confidence


def majority(votes: Votes) -> Majority:
    """The commonest value of each unit; ties stay ties, whatever the order of the votes.

    >>> from ctxr.metrics.votes import gather
    >>> majority(gather([1, 1, 1, 2, 2], ["x", "y", "z", "x", "y"], [4, 4, 7, 4, 7])).value.tolist()
    [0, -1]
    """
    size = len(votes.unit_names)
    cell, cell_units, cell_values = cells(votes.once().units, size, votes.values, len(votes.labels))
    count = np.bincount(cell, minlength=len(cell_units))
    most = np.zeros(size, np.int64)
    np.maximum.at(most, cell_units, count)
    best = count == most[cell_units]
    value = np.full(size, TIE)
    value[cell_units[best]] = cell_values[best]
    value[np.bincount(cell_units[best], minlength=size) != 1] = TIE
    return Majority(value, most, np.bincount(votes.units, minlength=size))


def one_coin(
    votes: Votes,
    candidates: int | Codes,
    smoothing: float = 1.0,
    tolerance: float = 1e-6,
    rounds: int = 500,
) -> OneCoin:
    """Dawid and Skene's model with one number for each worker, by EM from the shares of the votes.

    Args:
        votes: each worker at most once on a unit.
        candidates: how many values each unit could have got, one number or [U]; wrong votes fall evenly on K - 1.
        smoothing: right votes, and wrong ones, that each worker is given beforehand. 0 is maximum likelihood, which makes
            workers with a few votes infallible.
        tolerance: EM stops when no accuracy changes by more. rounds: and after as many at the latest.

    Raises:
        DataError: a unit with fewer candidates than values voted for, or votes with repeats.

    >>> from ctxr.metrics.votes import gather
    >>> votes = gather([1, 1, 1, 2, 2, 2], ["x", "y", "z"] * 2, [4, 4, 7, 5, 5, 8])
    >>> found = one_coin(votes, candidates=10)
    >>> votes.labels[found.value].tolist(), bool(found.accuracy[2] < found.accuracy[0])
    ([4, 5], True)
    """
    ballot = Ballot(votes, candidates)
    others = np.log(ballot.kinds[votes.units] - 1)
    given = np.bincount(votes.workers, minlength=len(votes.worker_names))
    shares = np.bincount(ballot.cell) / np.bincount(votes.units, minlength=ballot.size)[ballot.cell_units]
    accuracy, support = np.full(len(given), np.nan), shares[ballot.cell]
    log_likelihood, converged, iteration = 0.0, False, 0
    while iteration < rounds and not converged:
        iteration += 1
        right = np.bincount(votes.workers, support, len(given))
        before, accuracy = accuracy, (right + smoothing) / np.maximum(given + 2 * smoothing, 1e-300)
        accuracy = np.clip(accuracy, 1e-9, 1 - 1e-9)
        wrong = np.log1p(-accuracy)[votes.workers] - others
        posterior, normaliser = ballot.posterior(np.log(accuracy)[votes.workers] - wrong)
        support = posterior[ballot.cell]
        log_likelihood = float(wrong.sum() + normaliser.sum())
        converged = bool(np.abs(accuracy - before).max(initial=0.0) <= tolerance)
    posterior = np.zeros(len(ballot.cell_units))
    posterior[ballot.cell] = support
    value, confidence = ballot.likeliest(posterior)
    accuracy = np.where(given > 0, accuracy, np.nan)
    return OneCoin(value, confidence, support, accuracy, log_likelihood, iteration, converged)
