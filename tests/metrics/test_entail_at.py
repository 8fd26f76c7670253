"""Entail@K against counting by hand, and its correction against studies whose truth is drawn."""

import numpy as np
import pytest

from bench.retrieval import study
from ctxr.errors import DataError
from ctxr.metrics.compare import Clusters
from ctxr.metrics.entail_at import Counted, Entailed, count, entail_at
from ctxr.metrics.retrieval import Matrix, from_pairs, relate
from ctxr.metrics.stratified import Rates, rogan_gladen


def sure(sensitivity: float, specificity: float) -> Rates:
    """Rates that no chance is in."""
    return Rates(sensitivity, specificity, np.full(400, sensitivity), np.full(400, specificity))


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
    first, second = entail_at(counted, "classifier", np.random.default_rng(0), rates=sure(0.8, 0.9))
    assert (first.corrected.value, first.corrected.low) == (1.0, None)
    assert second.value.value == 0.75
    assert second.corrected.value == pytest.approx(0.5 + 0.5 * (0.5 + 0.9 - 1) / (0.8 + 0.9 - 1))
    assert first.leaked is None


def test_a_corrected_share_holds_the_chance_of_the_captions_that_were_written_as_well() -> None:
    rng = np.random.default_rng(0)
    written = rng.integers(0, 6, 60).astype(float)
    others = 10 - written
    counted = Counted(written[:, None], (others / 2)[:, None], np.full((60, 1), 10.0), (10,))
    (found,) = entail_at(counted, "classifier", rng, rates=sure(1.0, 2 / 3))  # a quarter of the others holds
    (own,) = Clusters(np.arange(60), rng).means(written[:, None] / 10, np.ones((60, 1), bool))
    assert found.way == "weighed_rates"
    assert found.corrected.value == pytest.approx((written + others / 4).mean() / 10)
    wide, least = (one.high - one.low for one in (found.corrected, own))  # type: ignore[operator]
    assert wide > 0.9 * least
    assert entail_at(counted, "gold", rng, rates=sure(1.0, 2 / 3))[0].way == ""


def test_pictures_can_be_chosen() -> None:
    known = Entailed(relate({0: [0], 1: [1]}), relate({}), "gold")
    counted = count(Matrix(np.array([[0.0, 1.0], [0.0, 1.0]])), known, images=np.array([1]), ks=(1,))
    assert counted.written.tolist() == [[1.0]]


@pytest.mark.parametrize("ks", [(0,), (3,), ()])
def test_k_is_at_most_the_number_of_captions(ks: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="needs K of 1 to 2"):
        count(Matrix(np.eye(2)), Entailed(relate({}), relate({}), "gold"), ks=ks)


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


def test_intervals_of_corrected_shares_hold_the_truth_nearly_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    held = np.mean([study(rng) for _ in range(120)])
    assert 0.85 <= held <= 0.995
