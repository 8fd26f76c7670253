"""Precision and recall of a finite pool from a stratified audit: by hand, and by simulated audits of a pool whose truth is known."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import chdtri

from bench.poststratified import JUDGES, PREVALENCES, samples, voted_studies
from ctxr.metrics.agreement import cohen
from ctxr.metrics.proportions import share_limits, weighted_limits
from ctxr.metrics.stratified import (
    PairVotes,
    Stratum,
    allocate,
    finite_total,
    kappa,
    likely_shares,
    rates,
    reliability,
    rogan_gladen,
)
from ctxr.metrics.votes import gather

POOL = ((300, 0.93, True), (200, 0.7, True), (400, 0.3, False), (3000, 0.02, False))
"""Pairs of each stratum, the share of them that is entailed, and the decision."""

BARE = ((180, 0.95, True), (120, 0.9, True), (1500, 0.01, False), (4000, 0.001, False))
"""A pool in which next to nothing holds of what was not called."""


def test_strata_are_weighed_by_their_sizes() -> None:
    found = reliability([Stratum(100, 10, 9, True), Stratum(300, 10, 6, True), Stratum(1000, 20, 1, False)])
    assert found.precision.value == pytest.approx((90 + 180) / 400)
    assert found.recall.value == pytest.approx(270 / (270 + 50))
    assert found.entailed.value == pytest.approx(320)
    assert (found.called, found.pairs, found.looked) == (400, 1400, 40)


def test_the_rest_of_all_strata_varies_as_each_does_by_itself() -> None:
    strata = [Stratum(100, 10, 9), Stratum(300, 20, 0), Stratum(40, 40, 7)]
    value, below, above = 0.0, 0.0, 0.0
    for one in strata:
        share, rest = one.positive / one.sampled, one.population - one.sampled
        value += share * one.population
        if rest:
            looks = 1 / (1 / one.sampled + 1 / rest)
            low, high = share_limits(np.array([share]), np.array([looks]), np.array([one.sampled - 1.0]))
            below += (rest * (share - float(low[0]))) ** 2
            above += (rest * (float(high[0]) - share)) ** 2
    assert finite_total(strata) == pytest.approx(np.array([value, value - below**0.5, value + above**0.5]))


def test_what_was_not_looked_at_gives_no_figure() -> None:
    unseen = Stratum(50, 0, 0, False)
    found = reliability([Stratum(10, 5, 5, True), unseen])
    assert found.precision.value == 1.0
    assert found.recall.value is None
    assert found.entailed.value is None
    assert reliability([unseen]).precision.value is None


@pytest.mark.parametrize(("pool", "looks"), [(POOL, 240), (BARE, 100)])
def test_intervals_hold_the_truth_as_often_as_they_say(pool: tuple[tuple[int, float, bool], ...], looks: int) -> None:
    rng = np.random.default_rng(7)
    truth = [rng.random(size) < share for size, share, _ in pool]
    right = sum(int(one.sum()) for one, (_, _, called) in zip(truth, pool, strict=True) if called)
    precision = right / sum(size for size, _, called in pool if called)
    recall = right / sum(int(one.sum()) for one in truth)
    drawn = allocate([size for size, _, _ in pool], looks)
    held = np.zeros(2)
    studies = 40
    for _ in range(studies):
        parts = []
        for labels, count, (size, _, called) in zip(truth, drawn, pool, strict=True):
            seen = rng.choice(labels, count, replace=False)
            parts.append(Stratum(size, count, int(seen.sum()), called))
        found = reliability(parts)
        for place, (interval, value) in enumerate(((found.precision, precision), (found.recall, recall))):
            assert interval.low is not None
            assert interval.high is not None
            held[place] += interval.low <= value <= interval.high
    assert (held / studies > 0.88).all()
    assert (held / studies <= 1.0).all()


def test_draws_fill_the_audit_and_no_stratum_beyond_its_size() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        populations = rng.integers(0, 400, 9).tolist()
        size = int(rng.integers(40, 900))
        drawn = allocate(populations, size)
        assert all(min(4, count) <= one <= count for one, count in zip(drawn, populations, strict=True))
        assert sum(drawn) == min(size, sum(populations))
    assert sum(allocate([100, 100, 100], 6)) == 12


def test_sensitivity_and_specificity_are_those_of_the_population_and_not_of_the_looks() -> None:
    # 500 called, 80 % of them true, 3,400 not called, 10 % of them true; people look at as many of either
    parts = [Stratum(500, 120, 96, True), Stratum(3400, 120, 12, False)]
    found = rates(parts, np.random.default_rng(0))
    assert found is not None
    assert found.sensitivity == pytest.approx(400 / 740)
    assert found.specificity == pytest.approx(3060 / 3160)
    observed = np.random.default_rng(1).binomial(10, 500 / 3900, 2000).astype(float)
    share = rogan_gladen(observed, np.full(2000, 10.0), found, np.random.default_rng(0))
    assert share.value == pytest.approx(740 / 3900, abs=0.02)
    # ten times the looks, a far narrower interval
    more = rates([Stratum(5000, 1200, 960, True), Stratum(34000, 1200, 120, False)], np.random.default_rng(0))
    assert more is not None
    assert found.drawn_sensitivity.std() > 2.5 * more.drawn_sensitivity.std()
    # a census leaves the width of its looks: other pairs are meant
    census = rates([Stratum(50, 50, 40, True), Stratum(50, 50, 5, False)], np.random.default_rng(0))
    assert census is not None
    assert census.drawn_sensitivity.std() > 0.02
    assert rates([*parts, Stratum(9, 0, 0, False)], np.random.default_rng(0)) is None
    assert rates([Stratum(9, 9, 0, True)], np.random.default_rng(0)) is None
    assert rates([], np.random.default_rng(0)) is None


def test_kappa_of_a_pool_is_that_of_all_its_pairs() -> None:
    sizes, yes, called = (40, 60, 300), (36, 30, 15), (True, True, False)
    parts = [Stratum(size, size, held, side) for size, held, side in zip(sizes, yes, called, strict=True)]
    people = np.concatenate([np.arange(size) < held for size, held in zip(sizes, yes, strict=True)]).astype(int)
    classifier = np.repeat(np.array(called).astype(int), sizes)
    names = list(range(400))
    votes = gather(names * 2, ["a"] * 400 + ["b"] * 400, [*people.tolist(), *classifier.tolist()])
    whole = cohen(votes).value
    assert kappa(parts).value == pytest.approx(whole)
    assert kappa(parts).units == 400
    # a sample of twenty from each says the same, where its shares are the same
    fewer = [
        Stratum(size, 20, round(20 * held / size), side) for size, held, side in zip(sizes, yes, called, strict=True)
    ]
    assert kappa(fewer).value == pytest.approx(whole)
    assert kappa([*parts, Stratum(3, 0, 0, True)]).value is None
    assert kappa([Stratum(3, 3, 3, True)]).value is None


def test_an_interval_holds_its_own_estimate() -> None:
    parts = [Stratum(20, 10, 8, True), Stratum(3000, 20, 0, False)]
    found = reliability(parts)
    assert found.recall.value == found.recall.high == 1.0
    assert found.recall.low is not None
    assert found.recall.low < 0.6
    assert found.entailed.value == 16.0


VOTES = PairVotes(
    np.repeat([0, 1], [40, 60]), np.full(100, 3), np.repeat([3, 2, 1, 0, 3, 1, 0], [30, 4, 1, 5, 2, 6, 52])
)
VOTED = [Stratum(200, 40, 34, True), Stratum(2000, 60, 2, False)]


def test_error_rates_and_shares_are_the_likeliest_of_all() -> None:
    def log_likelihood(first: float, second: float, yes: float, no: float) -> float:
        total = 0.0
        for stratum, cast, said in zip(VOTES.strata, VOTES.cast, VOTES.yes, strict=True):
            share = (first, second)[stratum]
            total += math.log(
                share * math.comb(cast, said) * (1 - no) ** said * no ** (cast - said)
                + (1 - share) * math.comb(cast, said) * yes**said * (1 - yes) ** (cast - said)
            )
        return total

    likely = likely_shares(VOTES, np.array([200.0, 2000.0]))
    assert likely is not None
    errors, reaches, shares = likely
    best = int(reaches.argmax())
    at = [*shares[0, best], *errors[best]]
    highest = log_likelihood(*at)
    for place, step in itertools.product(range(4), (-0.01, 0.01)):
        moved = list(at)
        moved[place] += step
        assert log_likelihood(*moved) < highest
    # limits reach as far as the likelihood of the rates has not fallen
    for rates_of, held, reach in zip(errors, shares[0], reaches, strict=True):
        fall = highest - log_likelihood(*held, *rates_of)
        assert reach == pytest.approx(math.sqrt(max(0.0, 1 - 2 * fall / (-2 * math.log(0.05)))), abs=1e-3)


def test_votes_without_errors_say_what_their_majority_says() -> None:
    yes = np.repeat([3, 0, 3, 0], [34, 6, 2, 58])
    plain, told = reliability(VOTED), reliability(VOTED, PairVotes(VOTES.strata, VOTES.cast, yes))
    assert plain.errors is None
    assert told.errors is not None
    assert [rate.value for rate in told.errors] == pytest.approx([0, 0], abs=1e-4)
    for one, other in ((plain.precision, told.precision), (plain.recall, told.recall)):
        assert other.value == pytest.approx(one.value, abs=1e-3)
        assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=0.04)


def test_votes_that_differ_take_rare_yes_for_errors_and_widen_the_interval() -> None:
    plain, told = reliability(VOTED), reliability(VOTED, VOTES)
    assert told.errors is not None
    assert told.errors[0].value is not None
    assert 0.01 < told.errors[0].value < 0.08
    wide, narrow = (
        (one.precision.high or 0.0 for one in (told, plain)),
        (one.precision.low or 0.0 for one in (told, plain)),
    )
    width, before = (high - low for high, low in zip(wide, narrow, strict=True))
    assert width > before > 0


def test_single_votes_say_nothing_of_errors() -> None:
    single = PairVotes(VOTES.strata, np.ones(100, int), (VOTES.yes > 1).astype(int))
    assert reliability(VOTED, single) == reliability(VOTED)


def test_a_stratum_without_votes_gives_no_recall() -> None:
    told = reliability([*VOTED, Stratum(30, 0, 0, False)], VOTES)
    assert told.precision.value is not None
    assert told.recall.value is None
    assert told.entailed.value is None
    assert reliability([*VOTED, Stratum(0, 0, 0, False)], VOTES).recall == replace(
        reliability(VOTED, VOTES).recall, clusters=3
    )


@pytest.mark.parametrize("count", [0, 1, 7])
def test_limits_of_counts_of_one_weight_are_the_exact_ones_of_poisson(count: int) -> None:
    counted, weight, size = np.array([[10.0 * count]]), np.array([[10.0]]), np.array([1e4])
    exact = [10.0 * chdtri(2 * count, 0.975) / 2 if count else 0.0, 10 * chdtri(2 * count + 2, 0.025) / 2]
    variance = weight**2 * count
    assert np.ravel(weighted_limits(counted, variance, weight, size)) == pytest.approx(exact)
    mirrored = weighted_limits(size - counted, variance, weight, size)
    assert np.ravel(mirrored) == pytest.approx([1e4 - exact[1], 1e4 - exact[0]])
    # a part of either kind: distances add up by their squares
    kinds = np.concatenate([counted, size - counted], axis=1)
    low, high = weighted_limits(kinds, variance.repeat(2, 1), weight.repeat(2, 1), size.repeat(2))
    below, above = 10 * count - exact[0], exact[1] - 10 * count
    assert (1e4 - low[0], high[0] - 1e4) == pytest.approx((math.hypot(below, above),) * 2)


SAVED_LESS = {
    "good, 40 %": {"recall"},
    "mediocre, 40 %": {"precision", "recall", "entailed"},
    "miscalibrated, 5 %": {"recall"},
    "miscalibrated, 40 %": {"precision", "recall", "entailed"},
}
"""Figures that give the width of a simple random sample on which people err as often with less than a quarter fewer answers, at one of
the rates of error or more."""

EXACT_LESS = {
    "mediocre, 40 %": {"precision", "recall"},
    "miscalibrated, 5 %": {"recall"},
    "miscalibrated, 40 %": {"precision"},
}
"""The same for a sample without errors and its exact interval, where nobody errs."""


@pytest.mark.prove
@pytest.mark.parametrize(("name", "prevalence"), [*itertools.product(JUDGES, (PREVALENCES[0], PREVALENCES[-1]))])
@pytest.mark.parametrize("rate", [0.0, 0.02, 0.05, 0.1])
def test_intervals_that_allow_for_errors_hold_the_truth_and_save_answers(
    name: str, prevalence: float, rate: float
) -> None:
    errors, cell = (rate, rate), f"{name}, {100 * prevalence:g} %"
    told = voted_studies(name, prevalence, errors)
    for figure, (exact, erring) in samples(
        name, prevalence, errors, {one: row[2] for one, row in told.items()}
    ).items():
        assert told[figure][1] >= 0.94
        assert figure in SAVED_LESS.get(cell, ()) or 0.75 * erring >= 200
        assert rate or figure in EXACT_LESS.get(cell, ()) or 0.75 * exact >= 200
