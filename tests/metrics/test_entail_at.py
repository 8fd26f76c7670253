"""Entail@K against counting by hand, and its correction against studies whose truth is drawn."""

import numpy as np
import pytest

from bench.retrieval import study
from ctxr.errors import DataError
from ctxr.metrics.compare import Clusters
from ctxr.metrics.corrected import Audit, by_predictive_values, rogan_gladen
from ctxr.metrics.entail_at import Counted, Entailed, count, entail_at
from ctxr.metrics.relations import from_pairs, relate
from ctxr.metrics.retrieval import Matrix


def test_entail_at_k_counts_what_holds_among_the_first_k() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((20, 40))
    written = from_pairs(np.arange(40) % 20, np.arange(40))
    extra = from_pairs(rng.integers(0, 20, 90), rng.integers(0, 40, 90))
    judged = from_pairs(rng.integers(0, 20, 300), rng.integers(0, 40, 300))
    counted = count(Matrix(scores), Entailed(written, extra, "gold", judged), ks=(1, 10, 30), block=100)
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
    assert found[1].judged < 1.0


def test_captions_that_were_written_for_a_picture_need_no_classifier() -> None:
    counted = count(Matrix(np.eye(2)), Entailed(relate({0: [0], 1: [1]}), relate({0: [1]}), "classifier"), ks=(1, 2))
    first, second = entail_at(counted, "classifier", np.random.default_rng(0), audit=Audit(5, 5, 0, 10))
    assert (first.corrected.value, first.corrected.low) == (1.0, None)
    assert second.value.value == 0.75
    assert second.corrected.value == pytest.approx(0.5 + 0.5 * 0.25)
    assert first.leaked is None


def test_a_corrected_share_holds_the_chance_of_the_captions_that_were_written_as_well() -> None:
    rng = np.random.default_rng(0)
    written = rng.integers(0, 6, 60).astype(float)
    others = 10 - written
    counted = Counted(written[:, None], (others / 2)[:, None], np.full((60, 1), 10.0), (10,))
    sure = Audit(10**6, 10**6, 0, 2 * 10**6)  # half of what is called so holds, whatever chance does
    (found,) = entail_at(counted, "classifier", rng, audit=sure)
    (own,) = Clusters(np.arange(60), rng).means(written[:, None] / 10, np.ones((60, 1), bool))
    assert found.way == "predictive_values"
    assert found.corrected.value == pytest.approx((written + others / 4).mean() / 10)
    wide, least = (one.high - one.low for one in (found.corrected, own))  # type: ignore[operator]
    assert wide > 0.9 * least
    (turned,) = entail_at(counted, "classifier", rng, audit=sure, audit_of="any_pairs")
    assert turned.way == "rates"
    assert entail_at(counted, "gold", rng, audit=sure)[0].way == ""


def test_pictures_can_be_chosen() -> None:
    known = Entailed(relate({0: [0], 1: [1]}), relate({}), "gold")
    counted = count(Matrix(np.array([[0.0, 1.0], [0.0, 1.0]])), known, images=np.array([1]), ks=(1,))
    assert counted.written.tolist() == [[1.0]]


@pytest.mark.parametrize("ks", [(0,), (3,), ()])
def test_k_is_at_most_the_number_of_captions(ks: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="needs K of 1 to 2"):
        count(Matrix(np.eye(2)), Entailed(relate({}), relate({}), "gold"), ks=ks)


def test_the_correction_turns_the_classifiers_error_back() -> None:
    exact = Audit(800, 100, 200, 900)
    observed = 0.3 * 0.8 + 0.7 * 0.1
    found = rogan_gladen(np.full(10, 100 * observed), np.full(10, 100), exact, np.random.default_rng(0))
    assert found.value == pytest.approx(0.3)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.3 < found.high


def test_nothing_is_said_where_the_classifier_says_nothing() -> None:
    rng = np.random.default_rng(0)
    assert rogan_gladen(np.array([5.0]), np.array([10]), Audit(5, 5, 5, 5), rng).value is None
    assert rogan_gladen(np.array([0.0]), np.array([0]), Audit(9, 1, 1, 9), rng).value is None
    assert by_predictive_values(np.array([5.0]), np.array([10]), Audit(0, 0, 1, 9), rng).value is None
    with pytest.raises(DataError, match="negative count"):
        Audit(-1, 0, 0, 0)


def test_intervals_of_corrected_shares_hold_the_truth_nearly_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    held = np.array([study(rng) for _ in range(120)]).mean(axis=0)
    assert held.min() >= 0.85
    assert held.max() <= 0.995
