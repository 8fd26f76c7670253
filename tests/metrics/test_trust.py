"""Skills with their uncertainty, decisions that wait, and authors judged by others."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.errors import UsageError
from ctxr.metrics.votes import gather
from ctxr.metrics.workers import author_success, decisions, skills


def slow_above(right: int, votes: int, threshold: float) -> float:
    """P(skill > threshold) for a uniform prior: that of at most `right` successes in one trial more."""
    return sum(
        math.comb(votes + 1, hits) * threshold**hits * (1 - threshold) ** (votes + 1 - hits)
        for hits in range(right + 1)
    )


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.01, 0.99))
def test_the_tail_is_the_binomial_sum(right: int, wrong: int, threshold: float) -> None:
    (skill,) = skills(right, right + wrong, threshold)
    assert skill.above == pytest.approx(slow_above(right, right + wrong, threshold))
    assert skill.mean == pytest.approx((right + 1) / (right + wrong + 2))
    # the interval ends where its tails are a fortieth
    assert skills(right, right + wrong, skill.low)[0].above == pytest.approx(0.975)
    assert skills(right, right + wrong, skill.high)[0].above == pytest.approx(0.025)


def test_no_vote_leaves_the_prior() -> None:
    (skill,) = skills(0, 0, threshold=0.9, prior=(9, 1))
    assert skill.mean == 0.9
    (flat,) = skills(0, 0, threshold=0.9)
    assert (flat.low, flat.high, flat.above) == pytest.approx((0.025, 0.975, 0.1))


def test_decisions_wait_until_the_votes_are_enough() -> None:
    always = decisions(np.arange(40), np.arange(40), good=0.9)
    assert always.index("allow") == 28  # 0.9 to the 29th power is the first below a twentieth
    assert set(always[:28]) == {"undecided"}
    never = decisions(np.zeros(40), np.arange(40), good=0.9, poor=0.5)
    assert never.index("block") == 4  # a half to the fifth power
    assert decisions([7], [10], good=0.9, poor=0.5) == ["undecided"]
    assert decisions([70], [100], good=0.9, poor=0.5) == ["undecided"]
    assert decisions([70], [100], good=0.9) == ["block"]


def test_wrong_decisions_are_rare_for_skills_drawn_from_the_prior() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(3000)
    made = np.array(decisions(rng.binomial(30, truth), np.full(3000, 30), good=0.8))
    assert np.mean(truth[made == "allow"] < 0.8) < 0.05
    assert np.mean(truth[made == "block"] > 0.8) < 0.05
    assert np.mean(made == "undecided") < 0.4


def test_counts_and_thresholds_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="right votes must lie between 0 and all votes"):
        skills([3], [2], 0.5)
    with pytest.raises(UsageError, match=r"threshold 2 must lie in 0\.\.1"):
        skills([1], [2], 2)
    with pytest.raises(UsageError, match=r"poor 0\.9 must not exceed good 0\.8"):
        decisions([1], [2], good=0.8, poor=0.9)


def test_authors_are_judged_by_others_and_text_by_text() -> None:
    picks = [  # text, picker, whether the target was found
        ("a1", "bob", True), ("a1", "cid", True), ("a1", "ann", True), ("a2", "bob", False),
        ("b1", "ann", True), ("b1", "cid", False), ("b2", "bob", True),
    ]  # fmt: skip
    votes = gather([each[0] for each in picks], [each[1] for each in picks], [1] * len(picks))
    right = np.array([each[2] for each in picks])
    found = author_success(votes, right, ["ann", "ann", "bob", "bob"])
    assert found.authors.tolist() == ["ann", "bob"]
    assert found.right.tolist() == [2, 1]
    assert found.votes.tolist() == [3, 2]
    assert found.texts.tolist() == [2, 1]
    assert found.found.tolist() == [1, 0.5]
    by_text, by_vote = skills(found.found, found.texts, 0.5), skills(found.right, found.votes, 0.5)
    # pickers of one text stand or fall together, so the text is the safer count
    assert by_text[0].high - by_text[0].low > by_vote[0].high - by_vote[0].low
