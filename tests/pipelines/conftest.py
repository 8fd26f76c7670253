"""Footage that the tests of building and filtering share."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.exports import export
from tests.footage import two_shot_clip

THRESHOLD = "0.02"
"""Low enough that the wandering patch makes sets with the embedded encoder."""


@pytest.fixture(scope="session")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `videos` with three clips of two shots, and a folder `photos/album` with fourteen photos."""
    folder = tmp_path_factory.mktemp("footage")
    for seed in range(3):
        two_shot_clip(folder / "videos" / f"clip{seed}.mp4", seed)
    album = folder / "photos" / "album"
    album.mkdir(parents=True)
    rng = np.random.default_rng(5)
    for number in range(14):
        coarse = rng.integers(0, 255, (6, 8, 3)).astype(np.uint8)
        Image.fromarray(coarse).resize((96, 72), Image.Resampling.BICUBIC).save(album / f"p{number}.png")
    (album / "p99.png").write_bytes((album / "p0.png").read_bytes())
    return folder


@pytest.fixture(scope="session")
def recipes(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with `sets` of the shared footage, and the recipe of them."""
    from tests.pipelines.test_build_sets import build

    project = tmp_path_factory.mktemp("recipes")
    build(footage, project / "sets", sources=(str(footage),))
    export(project / "sets", project / "recipe", "recipe")
    return project


@pytest.fixture(scope="session")
def elsewhere(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as another owner keeps them: other names, another order of folders."""
    folder = tmp_path_factory.mktemp("owner")
    for number, clip in enumerate(sorted((footage / "videos").iterdir())):
        shutil.copy(clip, folder / f"holiday{9 - number}.mp4")
    shutil.copytree(footage / "photos" / "album", folder / "deep" / "pictures")
    return folder


@pytest.fixture
def recipe(recipes: Path, tmp_path: Path) -> Path:
    """A copy of the recipe that came by mail: nothing is remembered beside it."""
    shutil.copytree(recipes / "recipe", tmp_path / "mail" / "recipe")
    return tmp_path / "mail" / "recipe"
