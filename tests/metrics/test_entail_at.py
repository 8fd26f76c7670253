"""Entail@K against counting by hand, and its correction against studies whose truth is drawn."""

from dataclasses import replace

import numpy as np
import pytest

from bench.poststratified import KINDS, studies, world
from bench.retrieval import study
from ctxr.errors import DataError
from ctxr.metrics import entail_at as entail_at_k
from ctxr.metrics.compare import Clusters
from ctxr.metrics.entail_at import ExpectedCounts, PairLabels, count, entail_at
from ctxr.metrics.proportions import share_limits
from ctxr.metrics.retrieval import Matrix, from_pairs, hits_at, relate
from ctxr.metrics.stratified import (
    AuditedPairs,
    Rates,
    SampledPairs,
    audited_pairs,
    chances,
    entailed_share,
    rogan_gladen,
)


def sure(sensitivity: float, specificity: float) -> Rates:
    """Rates that no chance is in."""
    return Rates(sensitivity, specificity, np.full(400, sensitivity), np.full(400, specificity))


def test_entail_at_k_counts_what_holds_among_the_first_k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entail_at_k, "BLOCK", 100)
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((20, 40))
    written = from_pairs(np.arange(40) % 20, np.arange(40))
    extra = from_pairs(rng.integers(0, 20, 90), rng.integers(0, 40, 90))
    judged = from_pairs(rng.integers(0, 20, 300), rng.integers(0, 40, 300))
    counted = count(Matrix(scores), PairLabels(written, extra, "gold", judged), ks=(1, 10, 30))
    own, more, seen = (one.among(np.arange(20), 40) for one in (written, extra, judged))
    for place, k in enumerate((1, 10, 30)):
        first = np.argsort(-scores, axis=1)[:, :k]
        assert np.array_equal(counted.written[:, place], np.take_along_axis(own, first, 1).sum(1))
        assert np.array_equal(counted.extra[:, place], np.take_along_axis(more & ~own, first, 1).sum(1))
        assert np.array_equal(counted.judged[:, place], np.take_along_axis(own | more | seen, first, 1).sum(1))
    found = entail_at(counted, "gold", rng, leaked=np.arange(20) < 5)
    assert [one.k for one in found] == [1, 10, 30]
    assert found[1].value.value == pytest.approx((counted.written + counted.extra)[:, 1].mean() / 10)
    assert found[1].without_leaked.value == pytest.approx((counted.written + counted.extra)[5:, 1].mean() / 10)
    assert found[1].leaked == 0.25
    assert found[1].corrected.value is None
    scores[7, 3] = np.nan
    with pytest.raises(DataError, match="picture 7"):
        count(Matrix(scores), PairLabels(written, extra, "gold", judged), ks=(1,))
    assert found[1].judged < 1.0


def test_captions_that_were_written_for_a_picture_need_no_classifier() -> None:
    counted = count(Matrix(np.eye(2)), PairLabels(relate({0: [0], 1: [1]}), relate({0: [1]}), "classifier"), ks=(1, 2))
    first, second = entail_at(counted, "classifier", np.random.default_rng(0), rates=sure(0.8, 0.9))
    assert (first.corrected.value, first.corrected.low) == (1.0, None)
    assert second.value.value == 0.75
    assert second.corrected.value == pytest.approx(0.5 + 0.5 * (0.5 + 0.9 - 1) / (0.8 + 0.9 - 1))
    assert first.leaked is None


def test_a_corrected_share_holds_the_chance_of_the_captions_that_were_written_as_well() -> None:
    rng = np.random.default_rng(0)
    written = rng.integers(0, 6, 60).astype(float)
    others = 10 - written
    counted = ExpectedCounts(written[:, None], (others / 2)[:, None], np.full((60, 1), 10.0), (10,))
    (found,) = entail_at(counted, "classifier", rng, rates=sure(1.0, 2 / 3))  # a quarter of the others holds
    (own,) = Clusters(np.arange(60), rng).means(written[:, None] / 10, np.ones((60, 1), bool))
    assert found.way == "weighed_rates"
    assert found.corrected.value == pytest.approx((written + others / 4).mean() / 10)
    wide, least = (one.high - one.low for one in (found.corrected, own))  # type: ignore[operator]
    assert wide > 0.9 * least
    assert entail_at(counted, "gold", rng, rates=sure(1.0, 2 / 3))[0].way == ""


def test_pictures_can_be_chosen() -> None:
    known = PairLabels(relate({0: [0], 1: [1]}), relate({}), "gold")
    counted = count(Matrix(np.array([[0.0, 1.0], [0.0, 1.0]])), known, images=np.array([1]), ks=(1,))
    assert counted.written.tolist() == [[1.0]]


def test_the_correction_turns_the_classifiers_error_back() -> None:
    observed = 0.3 * 0.8 + 0.7 * 0.1
    found = rogan_gladen(np.full(10, 100 * observed), np.full(10, 100), sure(0.8, 0.9), np.random.default_rng(0))
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == pytest.approx((0.3, 0.3))
    chance = np.random.default_rng(1)
    unsure = Rates(0.8, 0.9, chance.beta(80, 20, 400), chance.beta(90, 10, 400))
    wide = rogan_gladen(np.full(10, 100 * observed), np.full(10, 100), unsure, np.random.default_rng(0))
    assert wide.low is not None
    assert wide.high is not None
    assert wide.high - wide.low > 0.1


def test_nothing_is_said_where_the_classifier_says_nothing() -> None:
    rng = np.random.default_rng(0)
    assert rogan_gladen(np.array([5.0]), np.array([10]), sure(0.5, 0.5), rng).value is None
    assert rogan_gladen(np.array([0.0]), np.array([0]), sure(0.9, 0.9), rng).value is None
    # what it says must be worth 5 % at least
    shares = [rogan_gladen(np.array([5.0]), np.array([10]), sure(one, 0.5), rng).value for one in (0.54, 0.56)]
    assert shares == [None, pytest.approx(0.0)]


def test_the_sides_of_a_corrected_interval_are_those_of_its_parts() -> None:
    rng, ks = np.random.default_rng(0), (10,)
    written = np.array([1.0] * 18 + [9.0, 10.0])
    extra = rng.binomial((10 - written).astype(int), 0.35).astype(float)
    unsure = Rates(0.8, 0.9, rng.beta(8, 2, 400), rng.beta(9, 1, 400))
    clusters = Clusters(np.arange(20), rng, 400)
    counted = ExpectedCounts(written[:, None], extra[:, None], np.full((20, 1), 10.0), ks)
    (found,) = entail_at(counted, "classifier", np.random.default_rng(5), rates=unsure, clusters=clusters)
    (own,) = clusters.means(written[:, None] / 10, np.ones((20, 1), bool))
    share, part = rogan_gladen(extra, 10 - written, unsure, np.random.default_rng(5)), (10 - written).sum() / 200
    sides = [
        np.hypot(part * (getattr(share, side) - share.value), getattr(own, side) - own.value)
        for side in ("low", "high")
    ]
    told = [found.corrected.value - found.corrected.low, found.corrected.high - found.corrected.value]  # type: ignore[operator]
    assert told == pytest.approx(sides)
    # the parts lean to opposite sides, so neither can be taken for the other
    assert share.value - share.low > 1.05 * (share.high - share.value)  # type: ignore[operator]
    assert own.high - own.value > 1.05 * (own.value - own.low)  # type: ignore[operator]


def test_the_sides_of_an_interval_by_strata_are_those_of_its_parts() -> None:
    clusters = Clusters(np.arange(20), np.random.default_rng(0), 400)
    written = np.array([0.0] * 17 + [6.0, 7.0, 8.0])
    known = AuditedPairs(np.zeros(20), np.full((20, 1), 2.0), np.array([[10.0, 1.0]]))
    found = entailed_share(written, known, 10, clusters)
    (pictures,) = clusters.means((written[:, None] + 0.2) / 10, np.ones((20, 1), bool))
    # 40 pairs are estimated from 10, which stand in the figure too
    low, high = share_limits(np.array([0.1]), np.array([1 / (1 / 10 + 2 / 40)]), np.array([9.0]))
    margins = zip(("low", "high"), (low[0] - 0.1, high[0] - 0.1), strict=True)
    below, above = (np.hypot(getattr(pictures, side) - pictures.value, edge * 40 / 200) for side, edge in margins)
    assert pictures.value is not None
    assert (found.value, found.low, found.high) == pytest.approx(
        (pictures.value, pictures.value - below, pictures.value + above)
    )
    assert above > 1.2 * below


def test_a_handful_of_pictures_has_no_interval_by_strata() -> None:
    looks = np.array([[4.0, 2.0]])
    for count_of, has in ((4, False), (5, True)):
        clusters = Clusters(np.arange(count_of), np.random.default_rng(0), 50)
        known = AuditedPairs(np.ones(count_of), np.ones((count_of, 1)), looks)
        found = entailed_share(np.arange(count_of, dtype=np.float64) % 2, known, 4, clusters)
        assert (found.low is not None, found.high is not None) == (has, has)
        (pictures,) = clusters.means((np.arange(count_of)[:, None] % 2 + 1.5) / 4, np.ones((count_of, 1), bool))
        assert ((found.high or 0.0) > (pictures.high or 0.0)) is has
    nobody = Clusters([], np.random.default_rng(0), 50)
    assert entailed_share(np.zeros(0), AuditedPairs(np.zeros(0), np.zeros((0, 1)), looks), 4, nobody).value is None


def test_intervals_of_corrected_shares_hold_the_truth_nearly_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    held = np.mean([study(rng) for _ in range(60)])
    assert 0.83 <= held <= 0.995


def test_a_census_gives_the_truth_and_the_interval_of_the_pictures_alone() -> None:
    drawn = world(np.random.default_rng(0), pictures=60)
    for k in (10, 30):
        known = drawn.known(k, 10**6, np.random.default_rng(1))
        clusters = Clusters(np.arange(60), np.random.default_rng(2), 500)
        found = entailed_share(drawn.written(k), known, k, clusters)
        truth = drawn.entailed(k)
        (plain,) = clusters.means(truth[:, None] / k, np.ones((60, 1), bool))
        assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_intervals_hold_the_truth_also_where_next_to_nothing_holds_in_large_strata() -> None:
    found = studies(KINDS["few hold, a better classifier"], looks=200, count=30)
    assert all(one.below + one.above <= 0.07 for one in found.values())
    assert all(abs(one.error) < one.width / 5 for one in found.values())
    assert found["E@30"].width < 0.07


def test_pairs_tied_at_the_edge_are_in_by_their_chance() -> None:
    scores = np.random.default_rng(0).integers(0, 6, (7, 20)).astype(float)
    images, captions = (one.ravel() for one in np.indices(scores.shape))
    columns = np.zeros(140, np.int64)
    sampled = SampledPairs(images, captions, columns, columns - 1, np.ones(140, bool), np.array([[4.0, 1.0]]))
    found = chances(Matrix(scores), sampled, (1, 5, 20), block=45)
    marked = np.random.default_rng(1).random(scores.shape) < 0.3
    for k, chance in zip((1, 5, 20), found.T.reshape(3, *scores.shape), strict=True):
        assert chance.sum(axis=1) == pytest.approx(np.full(7, k))
        assert (chance * marked).sum(axis=1) == pytest.approx(hits_at(scores, marked, k))


def test_a_stratum_with_few_looks_among_the_first_k_is_told_by_all_of_its_looks() -> None:
    zeros = np.zeros(10, np.int64)
    said = np.array([1, 1, 0, -1, -1, 0, 0, 0, 0, -1])
    sampled = SampledPairs(zeros, np.arange(10), zeros, said, np.ones(10, bool), np.array([[7.0, 2.0]]))
    few = audited_pairs(sampled, (np.arange(10) < 5).astype(float), 1)
    assert few.looks.tolist() == [[7.0, 2.0]]
    assert (few.entailed.tolist(), few.rest.tolist()) == ([2.0], [[2.0]])
    many = audited_pairs(sampled, (np.arange(10) < 6).astype(float), 1)
    assert many.looks.tolist() == [[4.0, 2.0]]
    # a pair that was decided but not drawn speaks for itself alone
    drawn = audited_pairs(replace(sampled, drawn=np.arange(10) > 0), (np.arange(10) < 6).astype(float), 1)
    assert (drawn.looks.tolist(), drawn.entailed.tolist()) == ([[7.0, 2.0]], [2.0])


def test_nothing_is_said_of_a_stratum_that_nobody_looked_at() -> None:
    clusters = Clusters(np.arange(6), np.random.default_rng(0), 50)
    known = AuditedPairs(np.ones(6), np.ones((6, 2)), np.array([[4.0, 2.0], [0.0, 0.0]]))
    found = entailed_share(np.ones(6), known, 4, clusters)
    assert (found.value, found.clusters) == (None, 6)
    nothing_left = AuditedPairs(np.ones(6), np.array([[1.0, 0.0]] * 6), known.looks)
    assert entailed_share(np.ones(6), nothing_left, 4, clusters).value == pytest.approx(0.625)
    everything = AuditedPairs(np.ones(6), np.zeros((6, 2)), known.looks)
    told = entailed_share(np.ones(6), everything, 4, clusters)
    assert (told.value, told.low, told.high) == (0.5, None, None)
