"""Majority, one coin and MACE: against slow versions, and on crowds whose truth is known."""

import doctest
import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxr.metrics.consensus
import ctxr.metrics.mace
from ctxr.errors import DataError
from ctxr.metrics.consensus import TIE, Ballot, majority, one_coin
from ctxr.metrics.mace import expectation, mace
from ctxr.metrics.votes import Votes, gather
from tests.metrics.crowd import pick, table, tables


def slow_one_coin(votes: Votes, kinds: int, smoothing: float, rounds: int) -> tuple[list[float], list[float], float]:
    """Every candidate of every unit, each round: support [N], accuracy [W], log likelihood."""
    rows = list(zip(votes.units.tolist(), votes.workers.tolist(), votes.values.tolist(), strict=True))
    sizes = Counter(row[0] for row in rows)
    said = Counter((row[0], row[2]) for row in rows)
    support = [said[unit, value] / sizes[unit] for unit, _, value in rows]
    accuracy: dict[int, float] = {}
    log_likelihood = 0.0
    for _ in range(rounds):
        for worker in {row[1] for row in rows}:
            own = [support[place] for place, row in enumerate(rows) if row[1] == worker]
            accuracy[worker] = (sum(own) + smoothing) / (len(own) + 2 * smoothing)
        joint = {
            (unit, truth): math.prod(
                accuracy[worker] if value == truth else (1 - accuracy[worker]) / (kinds - 1)
                for where, worker, value in rows
                if where == unit
            )
            / kinds
            for unit in sizes
            for truth in range(kinds)
        }
        total = {unit: sum(joint[unit, truth] for truth in range(kinds)) for unit in sizes}
        support = [joint[unit, value] / total[unit] for unit, _, value in rows]
        log_likelihood = sum(math.log(each) for each in total.values())
    return support, [accuracy[worker] for worker in sorted(accuracy)], log_likelihood


def test_the_examples_in_the_text_are_true() -> None:
    assert doctest.testmod(ctxr.metrics.consensus).failed == 0
    assert doctest.testmod(ctxr.metrics.mace).failed == 0


@given(rows=tables())
def test_the_majority_is_the_commonest_value_and_ties_stay_ties(rows: list[list[float | str | None]]) -> None:
    votes = table(rows)
    found = majority(votes)
    mixed = np.random.default_rng(0).permutation(len(votes))
    again = majority(votes.where(mixed))
    for unit in range(len(votes.unit_names)):
        said = Counter(votes.values[votes.units == unit].tolist()).most_common()
        tied = len(said) > 1 and said[0][1] == said[1][1]
        assert found.value[unit] == again.value[unit] == (TIE if tied else said[0][0])
        assert (found.count[unit], found.votes[unit]) == (said[0][1], sum(count for _, count in said))


def test_a_unit_without_votes_is_a_tie_of_none() -> None:
    votes = gather([1, 2, 2], ["x", "x", "y"], [5, 5, 5])
    some = votes.where(votes.units == 1)
    assert majority(some).value.tolist() == [TIE, 0]
    assert one_coin(some, 10).value.tolist() == [TIE, 0]
    assert one_coin(some, 10).confidence[0] == 0
    assert mace(some, np.random.default_rng(0), 10).value.tolist() == [TIE, 0]


@given(rows=tables(kinds=3), smoothing=st.sampled_from([0.5, 1.0, 2.0]))
def test_one_coin_is_the_letter_of_its_algorithm(rows: list[list[float | str | None]], smoothing: float) -> None:
    votes = table(rows)
    if not len(votes):
        return
    found = one_coin(votes, 10, smoothing, tolerance=-1, rounds=4)
    support, accuracy, log_likelihood = slow_one_coin(votes, 10, smoothing, 4)
    assert found.support == pytest.approx(np.array(support))
    assert found.accuracy == pytest.approx(np.array(accuracy))
    assert found.log_likelihood == pytest.approx(log_likelihood)
    assert found.iterations == 4


def test_one_coin_knows_the_careless_and_beats_the_majority() -> None:
    skills = np.array([0.95] * 4 + [0.3] * 8)
    picks = pick(np.random.default_rng(3), 1500, 5, skills)
    votes = picks.votes()
    found, plain = one_coin(votes, 10), majority(votes)
    assert found.converged
    assert found.accuracy == pytest.approx(skills, abs=0.05)
    wise, many = np.mean(found.value == picks.truth), np.mean(plain.value == picks.truth)
    assert wise > many + 0.05
    # what it is sure of to nine in ten is right about as often as it says
    sure = found.confidence > 0.9
    assert np.mean(found.value[sure] == picks.truth[sure]) == pytest.approx(found.confidence[sure].mean(), abs=0.02)


def test_each_unit_may_have_its_own_number_of_candidates() -> None:
    votes = gather([1, 1, 2, 2], ["x", "y", "x", "y"], ["a", "a", "b", "b"])
    found = one_coin(votes, np.array([2, 50]))
    # two who agree on one of fifty are surer than two who agree on one of two
    assert found.confidence[1] > found.confidence[0]
    assert one_coin(votes, 50).confidence[0] == pytest.approx(one_coin(votes, 50).confidence[1])


def test_candidates_that_cannot_be_are_refused() -> None:
    votes = gather(["u", "u", "u"], ["x", "y", "z"], [1, 2, 3])
    with pytest.raises(DataError, match="unit 'u' is said to have 2 candidates, and votes name 3"):
        one_coin(votes, 2)
    with pytest.raises(DataError, match="votes with repeats"):
        majority(gather([1, 1], ["x", "x"], [1, 2], repeats=True))


def test_two_equals_who_disagree_decide_nothing() -> None:
    votes = gather([1, 1], ["x", "y"], [1, 2])
    assert one_coin(votes, 10).value.tolist() == [TIE]


def test_thousands_of_unlikely_votes_on_a_unit_do_not_vanish() -> None:
    # of two candidates each has a thousand votes of people who are nearly always wrong
    votes = gather(np.zeros(2000, int), np.arange(2000), np.arange(2000) % 2)
    found = expectation(Ballot(votes, 2), np.full(2000, 1e-9), np.full(2000, 0.5))
    assert found.support == pytest.approx(np.full(2000, 0.5))
    posterior, normaliser = Ballot(votes, 2).posterior(np.full(2000, -5.0))
    assert posterior == pytest.approx(np.array([0.5, 0.5]))
    assert normaliser == pytest.approx(np.array([-5000.0]))


def test_no_votes_are_no_trouble() -> None:
    none = gather([], [], [])
    assert majority(none).value.size == one_coin(none, 10).value.size == 0
    assert mace(none, np.random.default_rng(0)).value.size == 0


@given(rows=tables(workers=3, units=2, kinds=3), seed=st.integers(0, 99))
def test_maces_expectation_is_the_sum_over_truths_and_looks(rows: list[list[float | str | None]], seed: int) -> None:
    votes = table(rows)
    kinds = 4
    rng = np.random.default_rng(seed)
    looking, guessing = rng.uniform(0.1, 0.9, len(votes)), rng.uniform(0.05, 0.2, len(votes))
    found = expectation(Ballot(votes, kinds), looking, guessing)
    evidence = 0.0
    for unit in range(len(votes.unit_names)):
        own = np.flatnonzero(votes.units == unit)
        weight = {}
        for truth in range(kinds):
            for looks in product((False, True), repeat=len(own)):
                likely = 1 / kinds
                for row, look in zip(own, looks, strict=True):
                    likely *= looking[row] * (votes.values[row] == truth) if look else guessing[row]
                weight[truth, looks] = likely
        total = sum(weight.values())
        evidence += math.log(total)
        for place, row in enumerate(own):
            support = sum(each for (truth, _), each in weight.items() if truth == votes.values[row])
            looked = sum(each for (_, looks), each in weight.items() if looks[place])
            assert found.support[row] == pytest.approx(support / total)
            assert found.looked[row] == pytest.approx(looked / total)
    assert found.evidence == pytest.approx(evidence)


def test_mace_finds_spammers_and_their_habit_of_labels() -> None:
    rng = np.random.default_rng(4)
    picks = pick(rng, 600, 5, np.full(9, 0.9), kinds=4)
    values = np.where(picks.workers < 3, np.where(rng.random(picks.workers.size) < 0.9, 2, 0), picks.values)
    votes = gather(picks.units, picks.workers, values)
    found = mace(votes, np.random.default_rng(0))
    assert found.converged
    assert found.competence[:3].max() < 0.2
    assert found.competence[3:].min() > 0.8
    assert found.habits is not None
    assert found.habits[:3, 2].min() > 0.8
    assert np.mean(found.value == picks.truth) > np.mean(majority(votes).value == picks.truth) + 0.05


def test_mace_finds_a_habit_of_slots_where_candidates_differ() -> None:
    rng = np.random.default_rng(5)
    picks = pick(rng, 500, 4, np.full(8, 0.9))
    shuffled = np.array([rng.permutation(10) for _ in picks.units])  # slot of each candidate, vote by vote
    # workers 0 and 1 always take what is shown first
    first = shuffled.argmin(axis=1)
    values = np.where(picks.workers < 2, first, picks.values)
    slots = shuffled[np.arange(len(values)), values]
    names = np.array([f"set{unit}/{value}" for unit, value in zip(picks.units, values, strict=True)])
    votes = gather(picks.units, picks.workers, names)
    found = mace(votes, np.random.default_rng(0), candidates=10, slots=slots)
    assert found.competence[:2].max() < 0.15
    assert found.competence[2:].min() > 0.75
    assert found.habits is not None
    # 250 votes beside a prior of ten a slot
    assert found.habits[:2, 0].min() > 0.7
    truth = np.array([f"set{unit}/{value}" for unit, value in enumerate(picks.truth)])
    wise, many = (np.mean(votes.labels[each] == truth) for each in (found.value, majority(votes).value))
    assert wise > many + 0.04
    even = mace(votes, np.random.default_rng(0), candidates=10)
    assert even.habits is None
    assert even.competence[:2].max() < 0.2


def test_competence_is_accuracy_less_luck() -> None:
    picks = pick(np.random.default_rng(6), 2000, 3, np.full(6, 0.7))
    votes = picks.votes()
    found = mace(votes, np.random.default_rng(0), candidates=10)
    assert found.competence == pytest.approx((one_coin(votes, 10).accuracy - 0.1) / 0.9, abs=0.03)


def test_equal_generators_give_equal_results() -> None:
    votes = pick(np.random.default_rng(6), 60, 3, np.full(6, 0.7)).votes()
    one, other = (mace(votes, np.random.default_rng(1)) for _ in range(2))
    assert one.competence.tolist() == other.competence.tolist()
    assert one.evidence == other.evidence
    assert one.evidence >= mace(votes, np.random.default_rng(1), restarts=1).evidence
