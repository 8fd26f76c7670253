"""The majority of votes, against counting by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from ctxr.errors import DataError
from ctxr.metrics.consensus import TIE, majority
from ctxr.metrics.votes import gather
from tests.metrics.crowd import table, tables


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


def test_votes_with_repeats_are_refused() -> None:
    with pytest.raises(DataError, match="votes with repeats"):
        majority(gather([1, 1], ["x", "x"], [1, 2], repeats=True))


def test_no_votes_are_no_trouble() -> None:
    assert majority(gather([], [], [])).size == 0
