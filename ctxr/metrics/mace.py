"""MACE: workers either know the answer or spam, each in his own way (Hovy, Berg-Kirkpatrick, Vaswani and Hovy 2013)."""

from dataclasses import dataclass

import numpy as np

from ctxr.metrics.consensus import Ballot
from ctxr.metrics.votes import Codes, Doubles, Votes

KNOWING = 0.5
"""The paper's Beta prior of knowing and spamming: a worker mostly does the one or the other."""

SPAMMING = 10.0
"""The paper's Dirichlet prior of what a spammer says."""


@dataclass(frozen=True, eq=False)
class Mace:
    """What votes say if some of them were given without looking.

    Attributes:
        value: [U] code of the likeliest of the values that were voted for, or `consensus.TIE`. confidence: [U] its posterior
            probability, 0..1. support: [N] posterior probability that each vote names the truth.
        competence: [W] posterior mean of how often each worker looks, 0..1; NaN without a vote. One who guesses among K has
            0 here and 1/K in `one_coin`.
        habits: [W, S] posterior mean of what each worker says when he does not look, by label or by shown slot; None where
            that was taken to be even.
        evidence: log likelihood of the votes under the mean rates of the best restart, by which it was chosen (the bound on
            the evidence without its penalty); comparable for the same votes only.
        converged: whether its last round gained less than the tolerance.
    """

    value: Codes
    confidence: Doubles
    support: Doubles
    competence: Doubles
    habits: Doubles | None
    evidence: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Expected:
    """One E-step: by vote [N] the probabilities that it names the truth and that its worker looked; the log evidence."""

    support: Doubles
    looked: Doubles
    evidence: float


def mace(
    votes: Votes,
    rng: np.random.Generator,
    candidates: int | Codes | None = None,
    slots: Codes | None = None,
    restarts: int = 10,
    tolerance: float = 1e-7,
    rounds: int = 200,
) -> Mace:
    """Variational EM with the paper's priors; the best of several random starts.

    Args:
        votes: each worker at most once on a unit.
        rng: draws the starts; equal generators give equal results.
        candidates: how many values each unit could have got, one number or [U]; without, units share all V labels.
        slots: [N] where each vote's value was shown, so that a habit is one of places; without, habits are of labels where
            units share them, and even over the candidates where they do not.
        restarts: starts. tolerance: gain of evidence per vote below which one stops. rounds: and after as many at the latest.

    Raises:
        DataError: a unit with fewer candidates than values voted for, or votes with repeats.

    >>> from ctxr.metrics.votes import gather
    >>> votes = gather([1, 1, 1, 2, 2, 2, 3, 3, 3], ["x", "y", "z"] * 3, [0, 0, 0, 1, 1, 0, 2, 2, 0])
    >>> found = mace(votes, np.random.default_rng(0))
    >>> found.value.tolist(), bool(found.competence[2] < found.competence[0])
    ([0, 1, 2], True)
    """
    ballot = Ballot(votes, len(votes.labels) if candidates is None else candidates)
    if slots is None and candidates is None:
        slots = votes.values
    even = 1 / ballot.kinds[votes.units]
    starts = [_climb(ballot, slots, even, rng, tolerance, rounds) for _ in range(max(1, restarts))]
    expected, converged = max(starts, key=lambda start: start[0].evidence)
    given = np.bincount(votes.workers, minlength=len(votes.worker_names))
    knew = np.bincount(votes.workers, expected.looked, len(given))
    competence = np.where(given > 0, (knew + KNOWING) / (given + 2 * KNOWING), np.nan)
    habits = None
    if slots is not None:
        spammed = _spammed(votes, slots, expected.looked) + SPAMMING
        habits = spammed / spammed.sum(axis=1, keepdims=True)
    posterior = np.zeros(len(ballot.cell_units))
    posterior[ballot.cell] = expected.support
    value, confidence = ballot.likeliest(posterior)
    return Mace(value, confidence, expected.support, competence, habits, expected.evidence, converged)


def expectation(ballot: Ballot, looking: Doubles, guessing: Doubles) -> Expected:
    """Who looked and what is true, given the rates.

    Args:
        ballot: the votes. looking: [N] rate of the vote's worker looking.
        guessing: [N] rate of him not looking and then saying just this.
    """
    posterior, normaliser = ballot.posterior(np.log1p(looking / guessing))
    support = posterior[ballot.cell]
    return Expected(support, support * looking / (looking + guessing), float(np.log(guessing).sum() + normaliser.sum()))


def _climb(
    ballot: Ballot,
    slots: Codes | None,
    even: Doubles,
    rng: np.random.Generator,
    tolerance: float,
    rounds: int,
) -> tuple[Expected, bool]:
    """Variational EM from one random start."""
    votes, crowd = ballot.votes, len(ballot.votes.worker_names)
    given = np.bincount(votes.workers, minlength=crowd)
    know = rng.uniform(0.3, 0.95, crowd)
    habit = even
    if slots is not None:
        drawn = rng.dirichlet(np.full(int(slots.max(initial=0)) + 1, SPAMMING), crowd)
        habit = drawn[votes.workers, slots]
    expected = expectation(ballot, know[votes.workers], (1 - know)[votes.workers] * habit)
    for _ in range(rounds):
        before = expected.evidence
        knew = np.bincount(votes.workers, expected.looked, crowd)
        look, spam = _mean_rates(np.stack([knew, np.maximum(given - knew, 0.0)], axis=1), KNOWING).T
        if slots is not None:
            habit = _mean_rates(_spammed(votes, slots, expected.looked), SPAMMING)[votes.workers, slots]
        expected = expectation(ballot, look[votes.workers], spam[votes.workers] * habit)
        if abs(expected.evidence - before) < tolerance * max(1, len(votes)):
            return expected, True
    return expected, False


def _spammed(votes: Votes, slots: Codes, looked: Doubles) -> Doubles:
    """How often each worker said what without looking, [W, S]."""
    crowd, kinds = len(votes.worker_names), int(slots.max(initial=0)) + 1
    keys = votes.workers * np.int64(kinds) + slots
    return np.bincount(keys, 1 - looked, crowd * kinds).reshape(crowd, kinds).astype(np.float64)


def _mean_rates(counts: Doubles, prior: float) -> Doubles:
    """exp E log of rates with a Dirichlet posterior, row by row."""
    from scipy.special import psi

    rates: Doubles = np.exp(psi(counts + prior) - psi(counts.sum(axis=1, keepdims=True) + prior * counts.shape[1]))
    return rates
