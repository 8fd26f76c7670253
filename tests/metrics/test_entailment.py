"""Figures of an entailment classifier against literal counts and the paper's own table."""

import re

import numpy as np
import pytest

from ctxr.errors import DataError
from ctxr.metrics.compare import Interval
from ctxr.metrics.entailment import FEW_CALLED, calibration, quality, threshold_for
from ctxr.metrics.stratified import Stratum, reliability


@pytest.mark.parametrize(
    ("precision", "recall", "f"),
    [
        (65.0, 90.9, 68.9),
        (66.9, 87.5, 70.2),
        (80.2, 74.3, 78.9),
        (77.7, 79.4, 78.0),
        (62.5, 81.9, 65.6),
        (74.2, 84.6, 76.1),
    ],
)
def test_f_of_one_half_is_that_of_the_paper(precision: float, recall: float, f: float) -> None:
    both = round(100 * recall)
    pairs = np.arange(10_000 - both + round(100 * both / precision))
    found = quality(pairs < 10_000, (pairs < both) | (pairs >= 10_000), pairs, np.random.default_rng(0), resamples=50)
    assert found.f.value == pytest.approx(f / 100, abs=0.0006)


def width(found: Interval) -> float:
    """Of an interval that holds its value."""
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    return found.high - found.low


def test_quality_counts_and_its_intervals_hold_whole_groups() -> None:
    rng = np.random.default_rng(0)
    entailed, called = rng.random(400) < 0.4, rng.random(400) < 0.5
    found = quality(entailed, called, np.arange(400) // 4, np.random.default_rng(1), resamples=500)
    both = (entailed & called).sum()
    precision, recall = both / called.sum(), both / entailed.sum()
    assert found.accuracy.value == pytest.approx((entailed == called).mean())
    assert (found.precision.value, found.recall.value) == pytest.approx((precision, recall))
    assert found.f.value == pytest.approx(1.25 * precision * recall / (0.25 * precision + recall))
    assert found.f.clusters == 100
    assert 0 < width(found.f) < 0.3
    assert found.majority == pytest.approx(max(entailed.mean(), 1 - entailed.mean()))


def test_a_group_that_is_copied_makes_no_interval_narrower() -> None:
    rng = np.random.default_rng(0)
    entailed, called, groups = rng.random(60) < 0.5, rng.random(60) < 0.5, np.arange(60)
    once = quality(entailed, called, groups, np.random.default_rng(1), resamples=400)
    five = np.repeat(np.arange(60), 5)
    often = quality(entailed[five], called[five], groups[five], np.random.default_rng(1), resamples=400)
    assert (once.f.low, once.f.high) == pytest.approx((often.f.low, often.f.high))


def test_nothing_called_entailed_has_no_precision() -> None:
    found = quality(
        np.array([True, False]), np.array([False, False]), ["a", "b"], np.random.default_rng(0), resamples=50
    )
    assert found.precision.value is None
    assert found.recall.value == 0.0
    assert found.f.value == 0.0


def test_draws_that_are_all_alike_make_no_interval() -> None:
    entailed = np.arange(60) % 2 == 0
    found = quality(entailed, np.zeros(60, bool), np.arange(60), np.random.default_rng(0), resamples=50)
    assert (found.recall.value, found.recall.low, found.recall.high) == (0.0, None, None)
    assert width(found.accuracy) > 0


def test_calibration_is_the_mean_gap_over_bins() -> None:
    rng = np.random.default_rng(0)
    probability = rng.random(500)
    entailed = rng.random(500) < probability**2
    found = calibration(entailed, probability, bins=10)
    gaps = []
    for one in range(10):
        inside = [i for i in range(500) if one / 10 < probability[i] <= (one + 1) / 10]
        gaps.append(len(inside) / 500 * abs(np.mean(entailed[inside]) - np.mean(probability[inside])))
    assert found.error == pytest.approx(sum(gaps))
    assert found.largest == pytest.approx(max(abs(one.entailed - one.probability) for one in found.bins))
    assert all(one.entailed_low <= one.entailed <= one.entailed_high for one in found.bins)
    assert found.brier == pytest.approx(np.mean([(p - e) ** 2 for p, e in zip(probability, entailed, strict=True)]))


def test_the_threshold_is_the_lowest_of_those_that_are_precise_enough() -> None:
    rng = np.random.default_rng(3)
    probability = np.round(rng.random(300), 2)
    entailed = rng.random(300) < probability
    wanted = 0.7
    found = threshold_for(entailed, probability, wanted)
    assert found is not None
    assert found.precision.value is not None
    assert found.precision.value == pytest.approx(entailed[probability >= found.value].mean())
    assert found.recall == pytest.approx(entailed[probability >= found.value].sum() / entailed.sum())
    assert found.precision.value >= wanted
    lower = [value for value in np.unique(probability) if value < found.value]
    assert all(entailed[probability >= value].mean() < wanted for value in lower)


def test_a_threshold_says_on_how_many_pairs_it_rests() -> None:
    found = threshold_for(np.arange(100) >= 90, np.arange(100) / 100, 1.0)
    assert found is not None
    assert (found.called, found.sure) == (10, False)
    assert found.called < FEW_CALLED
    assert re.findall(r"\d[\d.]*\d|\d", found.in_words()) == ["1.000", "95", "0.692", "1.000", "1", "10", "1.000"]
    assert found.weakness().startswith("the threshold 0.900 rests on 10 pairs, fewer than 20: ")


def test_no_threshold_where_none_is_precise_enough() -> None:
    entailed, probability = np.array([False, True]), np.array([0.9, 0.1])
    assert threshold_for(entailed, probability, 0.6) is None


def test_a_share_of_a_finite_population_knows_what_was_drawn() -> None:
    whole = reliability([Stratum(40, 40, 30, called=True), Stratum(60, 60, 6, called=True)]).precision
    assert (whole.value, whole.low, whole.high) == (0.36, 0.36, 0.36)
    part = reliability([Stratum(40, 20, 15, called=True), Stratum(60, 30, 3, called=True)]).precision
    large = reliability([Stratum(40_000, 20, 15, called=True), Stratum(60_000, 30, 3, called=True)]).precision
    assert part.value == large.value == pytest.approx(0.36)
    assert width(part) < width(large)
    assert reliability([Stratum(4, 0, 0, called=True), Stratum(4, 4, 1, called=True)]).precision.value is None


@pytest.mark.parametrize("odd", [1.2, np.nan])
def test_what_is_no_probability_is_refused(odd: float) -> None:
    entailed, probability = np.array([True, False]), np.array([0.5, odd])
    with pytest.raises(DataError, match=f"pair 1: {odd}"):
        calibration(entailed, probability)
    with pytest.raises(DataError, match=f"pair 1: {odd}"):
        threshold_for(entailed, probability, 0.5)
