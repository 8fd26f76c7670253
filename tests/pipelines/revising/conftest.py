"""A project with a drawn dataset of captions that hold for many pictures."""

import shutil
from pathlib import Path

import pytest

from ctxr.pipelines.world_captions import WorldCaptions, write_captions

DRAWN = WorldCaptions(Path(), train=24, valid=8, test=24, pair_train=0, pair_valid=12, side=24, workers=1, seed=5)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset alone, once."""
    from dataclasses import replace

    folder = tmp_path_factory.mktemp("revising") / "dataset"
    write_captions(replace(DRAWN, out=folder))
    return folder


@pytest.fixture
def workdir(drawn: Path, tmp_path: Path) -> Path:
    """A project of its own for each test."""
    shutil.copytree(drawn, tmp_path / "work" / "dataset")
    return tmp_path / "work"
