"""What the docstrings of metrics, records and readers show is what comes out."""

import doctest
import importlib
import pkgutil

import pytest

import ctxr.datasets
import ctxr.engine
import ctxr.metrics
import ctxr.store

MODULES = [
    one.name
    for room in (ctxr.metrics, ctxr.store, ctxr.engine, ctxr.datasets)
    for one in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_come_out_as_they_are_written(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
