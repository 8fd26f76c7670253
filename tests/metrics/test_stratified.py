"""Precision and recall of a finite pool from a stratified audit: by hand, and by simulated audits of a pool whose truth is known."""

import numpy as np
import pytest

from ctxr.errors import DataError
from ctxr.metrics.entailment import Stratum
from ctxr.metrics.stratified import Part, allocate, counts_by_decision, reliability

POOL = ((300, 0.93, True), (200, 0.7, True), (400, 0.3, False), (3000, 0.02, False))
"""Pairs of each stratum, the share of them that is entailed, and the decision."""


def test_strata_are_weighed_by_their_sizes() -> None:
    parts = [Part(Stratum(100, 10, 9), True), Part(Stratum(300, 10, 6), True), Part(Stratum(1000, 20, 1), False)]
    found = reliability(parts, np.random.default_rng(0))
    assert found.precision.value == pytest.approx((90 + 180) / 400)
    assert found.recall.value == pytest.approx(270 / (270 + 50))
    assert found.entailed.value == pytest.approx(320)
    assert (found.called, found.pairs, found.looked) == (400, 1400, 40)


def test_what_was_not_looked_at_gives_no_figure() -> None:
    unseen = Part(Stratum(50, 0, 0), False)
    found = reliability([Part(Stratum(10, 5, 5), True), unseen], np.random.default_rng(0))
    assert found.precision.value == 1.0
    assert found.recall.value is None
    assert found.entailed.value is None
    assert reliability([unseen], np.random.default_rng(0)).precision.value is None
    with pytest.raises(DataError, match="cannot have 3 drawn and 4 entailed"):
        reliability([Part(Stratum(10, 3, 4), True)], np.random.default_rng(0))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    truth = [rng.random(size) < share for size, share, _ in POOL]
    right = sum(int(one.sum()) for one, (_, _, called) in zip(truth, POOL, strict=True) if called)
    precision, recall = right / 500, right / sum(int(one.sum()) for one in truth)
    drawn = allocate([size for size, _, _ in POOL], 240)
    held = np.zeros(2)
    studies = 80
    for _ in range(studies):
        parts = []
        for labels, count, (size, _, called) in zip(truth, drawn, POOL, strict=True):
            seen = rng.choice(labels, count, replace=False)
            parts.append(Part(Stratum(size, count, int(seen.sum())), called))
        found = reliability(parts, rng)
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
    with pytest.raises(DataError, match="negative size"):
        allocate([3], -1)


def test_an_audit_comes_to_counts_on_each_side() -> None:
    parts = [Part(Stratum(100, 10, 9), True), Part(Stratum(300, 10, 6), True), Part(Stratum(1000, 20, 1), False)]
    audit = counts_by_decision(parts)
    assert audit is not None
    # (90 + 180) / 400 of the 20 looked at
    assert (audit.true_positives, audit.false_positives) == (14, 6)
    assert (audit.false_negatives, audit.true_negatives) == (1, 19)
    assert counts_by_decision(parts[:2]) is None


def test_an_interval_holds_its_own_estimate() -> None:
    parts = [Part(Stratum(20, 10, 8), True), Part(Stratum(3000, 20, 0), False)]
    found = reliability(parts, np.random.default_rng(0))
    assert found.recall.value == found.recall.high == 1.0
    assert found.recall.low is not None
    assert found.recall.low < 0.6
    assert found.entailed.value == 16.0
