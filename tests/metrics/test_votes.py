"""Votes as codes: names come back, repeats are refused by name."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.errors import DataError
from ctxr.metrics.votes import factorise, gather

COLUMNS: list[st.SearchStrategy[list[Any]]] = [
    st.lists(st.integers(-(10**12), 10**12)),
    st.lists(st.integers(-3, 9)),
    st.lists(st.text(max_size=3)),
    st.lists(st.floats(allow_nan=False)),
]


@given(st.one_of(COLUMNS))
def test_names_at_their_codes_are_the_column_again(column: list[Any]) -> None:
    codes, names = factorise(column)
    assert [names[code] for code in codes] == column
    assert all(one < other for one, other in pairwise(names.tolist()))


def test_an_array_and_a_list_are_coded_alike() -> None:
    columns: list[list[Any]] = [[5, 3, 5], ["b", "a", "b"], [0.5, 0.25, 0.5], [True, False, True]]
    for column in columns:
        codes, names = factorise(np.array(column))
        assert codes.tolist() == factorise(column)[0].tolist() == [1, 0, 1]
        assert names.tolist() == sorted(set(column))


def test_a_second_vote_of_a_worker_on_a_unit_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="vote 3: worker 'ann' judged unit 'u1' a second time") as caught:
        gather(["u1", "u1", "u2", "u1"], ["ann", "bob", "ann", "ann"], [1, 1, 1, 2])
    assert "latest round" in caught.value.hint


def test_votes_that_are_chosen_keep_their_codes() -> None:
    votes = gather(["a", "b", "c"], ["x", "y", "z"], [1, 2, 3])
    last = votes.where(np.array([False, False, True]))
    assert (last.units.tolist(), last.workers.tolist(), last.values.tolist()) == ([2], [2], [2])
    assert last.unit_names is votes.unit_names
