"""Entail@K corrected by strata: exact after a census, right on average from a sample, and as sure as it says."""

import numpy as np
import pytest

from bench.poststratified import KINDS, studies, world
from ctxr.metrics.compare import Clusters
from ctxr.metrics.retrieval import Matrix, hits_at
from ctxr.metrics.stratified import AuditedPairs, Sampled, audited_pairs, chances, entailed_share


def test_a_census_gives_the_truth_and_the_interval_of_the_pictures_alone() -> None:
    drawn = world(np.random.default_rng(0), pictures=60)
    for k in (10, 30):
        known = drawn.known(k, 10**6, np.random.default_rng(1))
        clusters = Clusters(np.arange(60), np.random.default_rng(2), 500)
        found = entailed_share(drawn.written(k), known, k, clusters)
        truth = drawn.entailed(k)
        (plain,) = clusters.means(truth[:, None] / k, np.ones((60, 1), bool))
        assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_a_sample_is_right_on_average_among_the_first_ten_where_many_more_hold_than_behind() -> None:
    drawn = world(np.random.default_rng(0), pictures=60)
    rng = np.random.default_rng(5)
    clusters = Clusters(np.arange(60), np.random.default_rng(2), 50)
    values = []
    for _ in range(80):
        found = entailed_share(drawn.written(10), drawn.known(10, 200, rng), 10, clusters)
        assert found.value is not None
        values.append(found.value)
    truth = drawn.entailed(10).mean() / 10
    assert truth > 1.4 * drawn.entailed(30).mean() / 30
    assert np.mean(values) == pytest.approx(truth, abs=0.012)


def test_intervals_hold_the_truth_also_where_next_to_nothing_holds_in_large_strata() -> None:
    found = studies(KINDS["few hold, a better classifier"], looks=200, count=60)
    assert all(one.below + one.above <= 0.07 for one in found.values())
    assert all(abs(one.error) < one.width / 5 for one in found.values())
    assert found["E@30"].width < 0.07


def test_pairs_tied_at_the_edge_are_in_by_their_chance() -> None:
    scores = np.random.default_rng(0).integers(0, 6, (7, 20)).astype(float)
    images, captions = (one.ravel() for one in np.indices(scores.shape))
    columns = np.zeros(140, np.int64)
    sampled = Sampled(images, captions, columns, columns - 1, np.ones(140, bool), np.array([[4.0, 1.0]]))
    found = chances(Matrix(scores), sampled, (1, 5, 20), block=45)
    marked = np.random.default_rng(1).random(scores.shape) < 0.3
    for k, chance in zip((1, 5, 20), found.T.reshape(3, *scores.shape), strict=True):
        assert chance.sum(axis=1) == pytest.approx(np.full(7, k))
        assert (chance * marked).sum(axis=1) == pytest.approx(hits_at(scores, marked, k))


def test_a_stratum_with_few_looks_among_the_first_k_is_told_by_all_of_its_looks() -> None:
    zeros = np.zeros(10, np.int64)
    said = np.array([1, 1, 0, -1, -1, 0, 0, 0, 0, -1])
    sampled = Sampled(zeros, np.arange(10), zeros, said, np.ones(10, bool), np.array([[7.0, 2.0]]))
    few = audited_pairs(sampled, (np.arange(10) < 5).astype(float), 1)
    assert few.looks.tolist() == [[7.0, 2.0]]
    assert (few.entailed.tolist(), few.rest.tolist()) == ([2.0], [[2.0]])
    many = audited_pairs(sampled, (np.arange(10) < 6).astype(float), 1)
    assert many.looks.tolist() == [[4.0, 2.0]]


def test_nothing_is_said_of_a_stratum_that_nobody_looked_at() -> None:
    clusters = Clusters(np.arange(6), np.random.default_rng(0), 50)
    known = AuditedPairs(np.ones(6), np.ones((6, 2)), np.array([[4.0, 2.0], [0.0, 0.0]]))
    found = entailed_share(np.ones(6), known, 4, clusters)
    assert (found.value, found.clusters) == (None, 6)
    nothing_left = AuditedPairs(np.ones(6), np.array([[1.0, 0.0]] * 6), known.looks)
    assert entailed_share(np.ones(6), nothing_left, 4, clusters).value == pytest.approx(0.625)
