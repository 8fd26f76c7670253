"""Cuts found against cuts known."""

import doctest

import pytest

import ctxr.metrics.cuts
from ctxr.metrics.cuts import score_cuts


def test_the_example_in_the_text_is_true() -> None:
    assert doctest.testmod(ctxr.metrics.cuts).failed == 0


def test_precision_and_recall_can_be_counted_by_hand() -> None:
    score = score_cuts([10, 20, 33, 50], hard=[10, 20, 30, 40])
    assert (score.hits, score.missed, score.false) == ((10, 20), (30, 40), (33, 50))
    assert score.precision == pytest.approx(2 / 4)
    assert score.recall == pytest.approx(2 / 4)


def test_a_found_cut_serves_one_known_cut_only() -> None:
    score = score_cuts([11], hard=[10, 12], tolerance=1)
    assert len(score.hits) == 1
    assert len(score.missed) == 1


def test_a_second_cut_in_one_dissolve_is_false() -> None:
    score = score_cuts([5, 8], hard=[], dissolves=[(4, 9)])
    assert (score.dissolves, score.false) == (1, (8,))
    assert score.recall == 1.0


def test_nothing_found_is_precise_and_finds_nothing() -> None:
    score = score_cuts([], hard=[3])
    assert (score.precision, score.recall) == (1.0, 0.0)
