"""A small untrained encoder, and pictures of several sizes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from ctxr.models.encoders import Encoder, load_encoder
from tests.models.encoder_folder import make_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("encoder") / "small")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return load_encoder(f"local-dir:{folder}", device="cpu")


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pictures() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, (50 + 3 * (n % 4), 70 + n, 3), dtype=np.uint8) for n in range(21)]
