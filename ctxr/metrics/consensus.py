"""One answer for each unit from several votes: by majority, or weighted by estimated skill (Dawid and Skene 1979)."""

from dataclasses import dataclass

import numpy as np

from ctxr.metrics.agreement import cells
from ctxr.metrics.votes import Codes, Doubles, Votes

TIE = -1
"""Stands for the value of a unit whose votes decide nothing, or that has none."""


def majority(votes: Votes) -> Codes:
    """Code of the commonest value of each unit [U], or `TIE`; ties stay ties, whatever the order of the votes."""
    size = len(votes.unit_names)
    cell, cell_units, cell_values = cells(votes.units, size, votes.values, len(votes.labels))
    count = np.bincount(cell, minlength=len(cell_units))
    most = np.zeros(size, np.int64)
    np.maximum.at(most, cell_units, count)
    best = count == most[cell_units]
    value = np.full(size, TIE)
    value[cell_units[best]] = cell_values[best]
    value[np.bincount(cell_units[best], minlength=size) != 1] = TIE
    return value


@dataclass(frozen=True, eq=False)
class DawidSkene:
    """Maximum-likelihood estimates.

    Attributes:
        posterior: [U, V] probability of each class; the prior where a unit has no vote. prior: [V] share of each class.
        confusion: [W, V true, V said] probability; zeros where nothing is known of a class.
        history: log likelihood of all votes after each round.
    """

    posterior: Doubles
    prior: Doubles
    confusion: Doubles
    history: tuple[float, ...]


def dawid_skene(votes: Votes, smoothing: float = 0.0, tolerance: float = 1e-8, rounds: int = 500) -> DawidSkene:
    """EM from the shares of each unit's votes, which are taken as independent given its class.

    Args:
        smoothing: votes that each worker is given beforehand in each cell of his table, and units in each class; 0 is the
            paper's.
        tolerance: gain of log likelihood per vote below which EM stops. rounds: and after as many at the latest.
    """
    size, crowd, kinds = len(votes.unit_names), len(votes.worker_names), len(votes.labels)
    cells = votes.workers * np.int64(kinds) + votes.values
    counts = np.bincount(votes.units * np.int64(kinds) + votes.values, minlength=size * kinds).reshape(size, kinds)
    judged = counts.sum(axis=1) > 0
    # classes come first, so that each is one stretch of memory
    posterior = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)).T.copy()
    prior, confusion = np.zeros(kinds), np.zeros((crowd, kinds, kinds))
    history: list[float] = []
    converged = not len(votes)
    while len(history) < rounds and not converged:
        prior = (posterior[:, judged].sum(axis=1) + smoothing) / (judged.sum() + kinds * smoothing)
        # equation 2.3: how often each worker says what where what is true, [W, V true, V said]
        tables = np.full((crowd, kinds, kinds), smoothing)
        for true, row in enumerate(posterior):
            tables[:, true, :] += np.bincount(cells, row[votes.units], crowd * kinds).reshape(crowd, kinds)
        totals = tables.sum(axis=2, keepdims=True)
        confusion = np.divide(tables, totals, out=np.zeros_like(tables), where=totals > 0)
        # equation 2.5: the classes of units, [V, U]
        with np.errstate(divide="ignore"):
            logs, start = np.log(confusion), np.log(prior)
        likelihoods = [np.bincount(votes.units, logs[:, true, :].reshape(-1)[cells], size) for true in range(kinds)]
        scores = np.stack([row + log for row, log in zip(likelihoods, start, strict=True)])
        most = scores.max(axis=0)
        likelihood = np.exp(scores - most)
        total = likelihood.sum(axis=0)
        posterior = likelihood / total
        history.append(float((most + np.log(total)).sum()))
        converged = len(history) > 1 and abs(history[-1] - history[-2]) < tolerance * len(votes)
    return DawidSkene(posterior.T, prior, confusion, tuple(history))
