"""Galleries that are drawn once for all tests of models."""

from pathlib import Path

import pytest

from tests.pipelines.galleries import draw


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of galleries."""
    return draw(tmp_path_factory.mktemp("galleries") / "dataset")
