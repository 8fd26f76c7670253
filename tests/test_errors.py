"""Words that sentences share."""

import doctest

import ctxr.errors


def test_the_examples_hold() -> None:
    assert doctest.testmod(ctxr.errors).failed == 0
