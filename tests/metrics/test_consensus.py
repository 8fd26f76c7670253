"""Dawid and Skene: the anaesthetists of 1979, the letter of the algorithm, and workers who mix classes up."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from ctxr.metrics.consensus import TIE, dawid_skene, majority
from ctxr.metrics.votes import Votes, factorise, gather
from tests.metrics.crowd import table, tables

JUDGED = """
111 1 1 1 1   333 4 3 3 4   112 2 1 2 2   222 3 1 2 1   222 3 2 2 2   222 3 3 2 2   122 2 1 1 1   333 3 4 3 3   222 2 2 2 3
232 2 2 2 3   444 4 4 4 4   222 3 3 4 3   111 1 1 1 1   222 3 2 1 2   121 1 1 1 1   111 2 1 1 1   111 1 1 1 1   111 1 1 1 1
222 2 2 2 1   222 1 3 2 2   222 2 2 2 2   222 2 2 2 1   222 3 2 2 2   221 2 2 2 2   111 1 1 1 1   111 1 1 1 1   232 2 2 2 2
111 1 1 1 1   111 1 1 1 1   112 1 1 2 1   111 1 1 1 1   333 3 2 3 3   111 1 1 1 1   222 2 2 2 2   222 3 2 3 2   433 4 3 4 3
221 2 2 3 2   232 3 2 3 3   333 3 4 3 2   111 1 1 1 1   111 1 1 1 1   121 2 1 1 1   232 2 2 2 2   121 1 1 1 1   222 2 2 2 2
"""


def anaesthetists() -> Votes:
    """Fitness for anaesthesia of 45 patients, 1 to 4 (Dawid and Skene 1979, table 1): 315 judgments, the first observer's three as three
    votes of one worker."""
    patients = [patient.split() for line in JUDGED.strip().splitlines() for patient in line.split("   ")]
    rows = [
        (number, observer, int(grade))
        for number, patient in enumerate(patients, start=1)
        for observer, grades in enumerate(patient, start=1)
        for grade in grades
    ]
    (units, unit_names), (workers, worker_names), (values, labels) = (
        factorise(column) for column in zip(*rows, strict=True)
    )
    return Votes(units, workers, values, unit_names, worker_names, labels)


def slow_em(votes: Votes, rounds: int) -> tuple[list[list[float]], list[float], list[list[list[float]]], float]:
    """Equations 2.3 to 2.7 by loops: posterior [U][V], prior [V], confusion [W][V][V], log likelihood."""
    rows = list(zip(votes.units.tolist(), votes.workers.tolist(), votes.values.tolist(), strict=True))
    size, crowd, kinds = (len(names) for names in (votes.unit_names, votes.worker_names, votes.labels))
    own = [[row for row in rows if row[0] == unit] for unit in range(size)]
    posterior = [
        [sum(row[2] == kind for row in own[unit]) / len(own[unit]) for kind in range(kinds)] for unit in range(size)
    ]
    for _ in range(rounds):
        prior = [sum(posterior[unit][kind] for unit in range(size)) / size for kind in range(kinds)]
        confusion = [[[0.0] * kinds for _ in range(kinds)] for _ in range(crowd)]
        for worker in range(crowd):
            for true in range(kinds):
                for unit, who, said in rows:
                    if who == worker:
                        confusion[worker][true][said] += posterior[unit][true]
                total = sum(confusion[worker][true])
                if total:
                    confusion[worker][true] = [each / total for each in confusion[worker][true]]
        log_likelihood = 0.0
        for unit in range(size):
            joint = [
                prior[true] * math.prod(confusion[worker][true][said] for _, worker, said in own[unit])
                for true in range(kinds)
            ]
            posterior[unit] = [each / sum(joint) for each in joint]
            log_likelihood += math.log(sum(joint))
    return posterior, prior, confusion, log_likelihood


def test_the_anaesthetists_come_out_as_published() -> None:
    found = dawid_skene(anaesthetists())
    assert len(found.history) < 500
    assert found.prior.round(2).tolist() == [0.40, 0.42, 0.11, 0.07]
    published = [[0.89, 0.11, 0, 0], [0.07, 0.88, 0.05, 0], [0, 0.34, 0.66, 0], [0, 0, 0.56, 0.44]]
    assert found.confusion[0].round(2).tolist() == published
    assert found.posterior.sum(axis=1) == pytest.approx(np.ones(45))


@given(rows=tables(workers=4, units=6, kinds=3))
def test_any_table_is_the_letter_of_the_algorithm(rows: list[list[float | str | None]]) -> None:
    votes = table(rows)
    if not len(votes):
        assert len(dawid_skene(votes).history) < 500
        return
    found = dawid_skene(votes, tolerance=0, rounds=5)
    posterior, prior, confusion, log_likelihood = slow_em(votes, 5)
    assert found.posterior == pytest.approx(np.array(posterior), abs=1e-7)
    assert found.prior == pytest.approx(np.array(prior), abs=1e-7)
    assert found.confusion == pytest.approx(np.array(confusion), abs=1e-6)
    assert found.history[-1] == pytest.approx(log_likelihood, abs=1e-7)


@given(rows=tables())
def test_the_likelihood_never_falls(rows: list[list[float | str | None]]) -> None:
    history = dawid_skene(table(rows)).history
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(history))


def test_a_unit_without_votes_gets_the_prior_and_does_not_move_it() -> None:
    votes = anaesthetists()
    some = votes.where(votes.units < 40)
    found = dawid_skene(some)
    assert found.posterior[44] == pytest.approx(found.prior)
    assert found.prior.sum() == pytest.approx(1)
    without = replace(some, unit_names=votes.unit_names[:40])
    assert found.prior == pytest.approx(dawid_skene(without).prior)


def test_smoothing_leaves_nothing_impossible() -> None:
    found = dawid_skene(anaesthetists(), smoothing=0.5)
    assert found.confusion.min() > 0
    assert found.confusion.sum(axis=2) == pytest.approx(np.ones((5, 4)))
    assert found.prior.sum() == pytest.approx(1)


@given(rows=tables())
def test_the_majority_is_the_commonest_value_and_ties_stay_ties(rows: list[list[float | str | None]]) -> None:
    votes = table(rows)
    found = majority(votes)
    mixed = np.random.default_rng(0).permutation(len(votes))
    again = majority(votes.where(mixed))
    for unit in range(len(votes.unit_names)):
        said = Counter(votes.values[votes.units == unit].tolist()).most_common()
        tied = len(said) > 1 and said[0][1] == said[1][1]
        assert found[unit] == again[unit] == (TIE if tied else said[0][0])


def test_a_unit_without_votes_is_a_tie_of_none() -> None:
    votes = gather([1, 2, 2], ["x", "x", "y"], [5, 5, 5])
    assert majority(votes.where(votes.units == 1)).tolist() == [TIE, 0]
    assert majority(gather([], [], [])).size == 0
