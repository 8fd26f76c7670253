"""Footage that the tests of building and filtering share."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

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
