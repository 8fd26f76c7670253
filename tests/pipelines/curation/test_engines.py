"""Rounded vectors give the same sets, and a run has one precision wherever its parts are made."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctxr.engine.engines import ENGINES
from ctxr.engine.report import SetsReport
from ctxr.engine.units import Job, WorkUnit
from ctxr.errors import UsageError
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.pipelines.curation.config import Merge
from ctxr.pipelines.curation.merge import run as merge
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import ImageSet
from ctxr.store.tables import read_table
from tests.drawn import LOADER
from tests.footage import two_shot_clip
from tests.models.encoder_folder import make_folder
from tests.pipelines.curation.test_build_sets import build as build_sets
from tests.pipelines.curation.test_build_sets import same_tree
from tests.pipelines.curation.test_merge import run_reversed

Build = Callable[..., SetsReport]
AUTO = "ctxr.models.encoders.choose_precision"

pytestmark = pytest.mark.usefixtures("real_encoder")


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short clips of two shots."""
    folder = tmp_path_factory.mktemp("short")
    for seed in range(2):
        two_shot_clip(folder / "videos" / f"clip{seed}.mp4", seed, frames=40)
    return folder


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds with an untrained transformer of two layers."""
    return partial(build_sets, encoder=f"local-dir:{make_folder(tmp_path_factory.mktemp('encoders') / 'two')}")


@pytest.fixture(scope="module")
def built(footage: Path, build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of the videos, picked in fp32."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LOADER, load_encoder)
        return build(footage, tmp_path_factory.mktemp("built") / "sets").artifact


def rounds(monkeypatch: pytest.MonkeyPatch, auto: str = "bf16") -> None:
    """Make this a machine on which `auto` takes that precision."""
    monkeypatch.setattr(AUTO, lambda precision, *machine: auto if precision == "auto" else precision)


def sets_of(artifact: Path) -> list[tuple[str, ...]]:
    return [row.images for row in read_table(artifact / "sets.jsonl", ImageSet)]


def precision_of(artifact: Path) -> str:
    return str(open_artifact(artifact).manifest.models["encoder"]["precision"])


def embeddings(artifact: Path) -> Any:
    return np.load(artifact / "sources" / "clip0" / "embeddings.npy", allow_pickle=False)


def test_bf16_gives_the_sets_of_fp32_from_other_vectors(
    footage: Path, build: Build, built: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        build(footage, tmp_path / name, precision="bf16")
    assert same_tree(tmp_path / "one", tmp_path / "two")
    assert precision_of(tmp_path / "one") == "bf16"
    assert sets_of(tmp_path / "one") == sets_of(built)
    assert 1e-5 < np.abs(embeddings(tmp_path / "one") - embeddings(built)).max() < 0.05


def test_rough_vectors_give_the_sets_of_fp32_because_close_decisions_are_repeated(
    footage: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rough(encoder: Encoder) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda batch: encoder._fine(batch.float()) * torch.linspace(0.85, 1.15, encoder.dim)

    build(footage, tmp_path / "exact", set_size=4)
    monkeypatch.setattr(Encoder, "_rounded", property(rough))
    build(footage, tmp_path / "rough", set_size=4, precision="bf16")
    assert sets_of(tmp_path / "rough") == sets_of(tmp_path / "exact")
    monkeypatch.setattr(Encoder, "margin", 0.0)
    build(footage, tmp_path / "careless", set_size=4, precision="bf16")
    assert sets_of(tmp_path / "careless") != sets_of(tmp_path / "exact")


def run_elsewhere(job: Job[Any], units: Sequence[WorkUnit], workers: int) -> Iterator[tuple[WorkUnit, Any]]:
    """An engine that hands on a copy of the job, to a machine on which `auto` takes fp32."""
    with pytest.MonkeyPatch.context() as elsewhere:
        rounds(elsewhere, "fp32")
        yield from run_reversed(job, units, workers)


def test_copies_of_a_job_embed_in_the_precision_of_the_run(
    footage: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds(monkeypatch)
    monkeypatch.setitem(ENGINES, "elsewhere", f"{__name__}:run_elsewhere")
    for engine in ("threads", "elsewhere"):
        build(footage, tmp_path / engine / "sets", engine=engine, jobs=1)
    assert precision_of(tmp_path / "elsewhere" / "sets") == "bf16"
    assert same_tree(tmp_path / "threads" / "sets" / "sources", tmp_path / "elsewhere" / "sets" / "sources")


def test_ranks_are_merged_on_any_machine_but_not_those_of_unlike_machines(
    footage: Path, build: Build, tmp_path: Path
) -> None:
    out = tmp_path / "sets"

    def rank(number: int, auto: str) -> None:
        with pytest.MonkeyPatch.context() as there:
            rounds(there, auto)
            build(footage, out, rank=number, world_size=2)

    rank(0, "bf16")
    with pytest.raises(UsageError, match=r"rank 0 .* --precision bf16, .* --precision fp32"):
        rank(1, "fp32")
    assert not (out / "sources" / "clip1").exists()
    rank(1, "bf16")
    with pytest.MonkeyPatch.context() as here:
        rounds(here, "fp32")
        merge(Merge(artifact=out))
    assert precision_of(out) == "bf16"
