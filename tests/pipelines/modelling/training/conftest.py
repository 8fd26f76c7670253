"""A small drawn benchmark and a small untrained encoder, made once; each test trains in a project of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctxr.engine.progress import SILENT
from ctxr.models.training.recipe import HEADS
from ctxr.pipelines.modelling.config import Train, TrainReport
from ctxr.pipelines.modelling.train import run
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from tests.models.encoder_folder import make_folder

SMALL = ("lr=1e-3", "epochs=2", "batch=5", "start=", "patience=0")
"""Changes by which a published recipe without a head trains in a second."""

SMALL_HEAD = (*SMALL, "inner=32", "layers=1")
"""Those of one with a head."""

Trains = Callable[..., TrainReport]


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset artifact with 12 train, 6 valid and 6 test queries."""
    out = tmp_path_factory.mktemp("world") / "dataset"
    write_benchmark(WorldBenchmark(out, train=12, valid=6, test=6, video=0.5, side=48, workers=1))
    return out


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of an untrained encoder."""
    return f"local-dir:{make_folder(tmp_path_factory.mktemp('encoder') / 'one')}"


@pytest.fixture
def train(benchmark: Path, encoder: str, tmp_path: Path) -> Trains:
    """Trains a recipe on the benchmark in the project `tmp_path / "work"`, made small; keywords are fields of `Train`."""

    def call(recipe: str, *changes: str, **more: Any) -> TrainReport:
        dataset, workdir = more.pop("dataset", benchmark), more.pop("workdir", tmp_path / "work")
        progress = more.pop("progress", SILENT)
        kind = recipe.partition("-")[2]
        small = () if kind == "zero-shot" else SMALL_HEAD if kind in HEADS else SMALL
        changes = (f"encoder={encoder}", *small, *changes)
        return run(Train(recipe, dataset, changes=changes, workdir=workdir, **more), progress)

    return call
