"""Figures on language that can be counted by hand."""

import pytest

from ctxr.metrics.language import Parsed, language, mention_share, tree_depth


def test_figures_can_be_counted_by_hand() -> None:
    found = language([Parsed(("a", "red", "hat", "."), 1, (2,)), Parsed(("a", "b"), 3, (1, 0, 0))])
    assert found is not None
    assert (found.descriptions, found.mean_length, found.median_length, found.longest) == (2, 3.0, 3.0, 4)
    assert (found.word_types, found.mean_sentences, found.three_or_more) == (5, 2.0, 0.5)
    assert found.mean_depth == 0.75


def test_without_trees_there_is_no_depth_and_without_texts_nothing() -> None:
    found = language([Parsed(("a",), 1)])
    assert found is not None
    assert found.mean_depth is None
    assert language([]) is None
    assert mention_share([], {"red"}) is None


def test_depth_counts_the_edges_below_the_root() -> None:
    assert tree_depth([0]) == 0
    assert tree_depth([1, 1]) == 1
    assert tree_depth([1, 2, 3, 3]) == 3
    assert tree_depth([]) == 0


def test_heads_in_a_circle_are_refused() -> None:
    with pytest.raises(ValueError, match="form a cycle"):
        tree_depth([1, 0])
