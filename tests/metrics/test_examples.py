"""What the docstrings of the package show is what comes out."""

import doctest
import importlib
import pkgutil

import pytest

import ctxr

MODULES = [one.name for one in pkgutil.walk_packages(ctxr.__path__, "ctxr.") if not one.name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_come_out_as_they_are_written(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
