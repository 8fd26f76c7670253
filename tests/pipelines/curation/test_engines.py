"""Vectors of another engine give the same sets, and a run goes on with the engine that it began with."""

import importlib.util
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctxr.engine.report import SetsReport
from ctxr.engine.units import ENGINES, Job, WorkUnit
from ctxr.errors import UsageError
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.openvino_tower import OpenVinoTower
from ctxr.pipelines.curation.config import Merge
from ctxr.pipelines.curation.merge import run as merge
from ctxr.pipelines.curation.photos import SHARD
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import ImageSet
from ctxr.store.tables import read_table
from tests.drawn import LOADER
from tests.footage import two_shot_clip
from tests.models.encoder_folder import make_folder
from tests.models.test_openvino_tower import uninstall
from tests.pipelines.curation.test_build_sets import build as build_sets
from tests.pipelines.curation.test_build_sets import same_tree
from tests.pipelines.curation.test_filter import refilter
from tests.pipelines.curation.test_merge import run_reversed

Build = Callable[..., SetsReport]

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="openvino is not installed"),
    pytest.mark.usefixtures("real_encoder"),
]


@pytest.fixture(scope="module")
def footage(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short clips of two shots, and the photos that all tests share."""
    folder = tmp_path_factory.mktemp("short")
    for seed in range(2):
        two_shot_clip(folder / "videos" / f"clip{seed}.mp4", seed, frames=40)
    shutil.copytree(footage / "photos", folder / "photos")
    return folder


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds with an untrained transformer of two layers."""
    return partial(build_sets, encoder=f"local-dir:{make_folder(tmp_path_factory.mktemp('encoders') / 'two')}")


@pytest.fixture(scope="module")
def built(footage: Path, build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of the videos, picked with torch."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LOADER, load_encoder)
        return build(footage, tmp_path_factory.mktemp("built") / "sets").artifact


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which OpenVINO is faster for every encoder."""
    monkeypatch.setattr(Encoder, "use_fastest", lambda encoder: encoder.use("openvino"))


def sets_of(artifact: Path) -> list[tuple[str, ...]]:
    return [row.images for row in read_table(artifact / "sets.jsonl", ImageSet)]


def precision_of(artifact: Path) -> str:
    return str(open_artifact(artifact).manifest.models["encoder"]["precision"])


def embeddings(artifact: Path, name: str) -> Any:
    return np.load(artifact / "sources" / name / "embeddings.npy", allow_pickle=False)


def test_openvino_gives_the_sets_of_torch_from_other_vectors(
    footage: Path, build: Build, built: Path, tmp_path: Path
) -> None:
    build(footage, tmp_path / "one", precision="openvino")
    assert sets_of(tmp_path / "one") == sets_of(built)
    encoder = open_artifact(tmp_path / "one").manifest.models["encoder"]
    assert (encoder["precision"], "openvino" in encoder["versions"]) == ("openvino", True)
    ours, theirs = embeddings(tmp_path / "one", "clip0"), embeddings(built, "clip0")
    assert 0 < np.abs(ours - theirs).max() < 1e-5
    build(footage, tmp_path / "two", precision="openvino")
    assert same_tree(tmp_path / "one", tmp_path / "two")


def test_a_rough_engine_gives_the_sets_of_torch_because_close_decisions_are_repeated(
    footage: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = OpenVinoTower.__call__

    def rough(tower: OpenVinoTower, batch: torch.Tensor) -> torch.Tensor:
        vectors = plain(tower, batch)
        return vectors * torch.linspace(0.85, 1.15, vectors.shape[-1])

    build(footage, tmp_path / "torch", set_size=4)
    monkeypatch.setattr(OpenVinoTower, "__call__", rough)
    build(footage, tmp_path / "rough", set_size=4, precision="openvino-bf16")
    assert sets_of(tmp_path / "rough") == sets_of(tmp_path / "torch")
    monkeypatch.setattr(Encoder, "margin", 0.0)
    build(footage, tmp_path / "careless", set_size=4, precision="openvino-bf16")
    assert sets_of(tmp_path / "careless") != sets_of(tmp_path / "torch")


def test_a_run_begun_with_torch_goes_on_with_torch_and_a_new_one_takes_the_faster_engine(
    footage: Path, build: Build, built: Path, tmp_path: Path, fast: None
) -> None:
    first = (str(footage / "videos" / "clip0.mp4"),)
    with pytest.MonkeyPatch.context() as before:
        before.setattr(Encoder, "use_fastest", lambda encoder: None)
        build(footage, tmp_path / "sets", sources=first)
    made = (tmp_path / "sets" / "sources" / "clip0").stat().st_ino
    (tmp_path / "sets" / "manifest.json").unlink()
    build(footage, tmp_path / "sets")
    assert (tmp_path / "sets" / "sources" / "clip0").stat().st_ino == made
    assert precision_of(tmp_path / "sets") == "fp32"
    assert same_tree(tmp_path / "sets" / "sources", built / "sources")
    build(footage, tmp_path / "new" / "sets", sources=first)
    assert precision_of(tmp_path / "new" / "sets") == "openvino"


def test_photos_that_were_embedded_before_a_run_was_stopped_decide_its_engine(
    footage: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"sources": (str(footage / "photos"),), "set_size": 5}
    out = tmp_path / "sets"
    assert SHARD >= 15

    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as before:
        before.setattr(Encoder, "use_fastest", lambda encoder: encoder.use("openvino"))
        before.setattr("ctxr.pipelines.curation.image_sets.SetsRun.pick_photos", stopped)
        with pytest.raises(KeyboardInterrupt):
            build(footage, out, **options)
    monkeypatch.setattr(Encoder, "use_fastest", pytest.fail)
    build(footage, out, **options)
    assert precision_of(out) == "openvino"


def run_copied(job: Job[Any], units: Sequence[WorkUnit], workers: int) -> Iterator[tuple[WorkUnit, Any]]:
    """An engine that hands on a copy of the job, where nobody may ask which engine is the fastest."""
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setattr(Encoder, "use_fastest", pytest.fail)
        yield from run_reversed(job, units, workers)


def test_copies_of_a_job_embed_with_the_engine_of_the_run(
    footage: Path, build: Build, tmp_path: Path, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "copied", f"{__name__}:run_copied")
    for engine in ("threads", "copied"):
        build(footage, tmp_path / engine / "sets", engine=engine, workers=1)
    assert same_tree(tmp_path / "threads" / "sets" / "sources", tmp_path / "copied" / "sets" / "sources")


def test_filtering_needs_openvino_only_for_frames_that_the_sets_did_not_embed(
    footage: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"sources": (str(footage / "videos" / "clip0.mp4"),), "precision": "openvino"}
    build(footage, tmp_path / "one", brisque=1.115, threshold=0.01, **options)
    build(footage, tmp_path / "plain", threshold=0.01, **options)
    uninstall(monkeypatch)
    refilter(tmp_path / "plain", tmp_path / "two", brisque=1.115)
    for table in ("sets.jsonl", "images.jsonl", "facts.jsonl", "sources/clip0/ledger.jsonl"):
        assert (tmp_path / "one" / table).read_bytes() == (tmp_path / "two" / table).read_bytes()
    assert precision_of(tmp_path / "two") == "openvino"
    # with these limits the search asks for a frame between two samples that the sets did not embed
    options |= {"threshold": 0.04, "set_size": 4}
    monkeypatch.undo()
    build(footage, tmp_path / "more", **options)
    uninstall(monkeypatch)
    with pytest.raises(UsageError, match="OpenVINO") as raised:
        refilter(tmp_path / "more", tmp_path / "filtered", brisque=1.09)
    assert "--precision" not in raised.value.hint
    assert "pip install openvino" in raised.value.hint
    monkeypatch.undo()
    refilter(tmp_path / "more", tmp_path / "filtered", brisque=1.09)
    assert precision_of(tmp_path / "filtered") == "openvino"


def test_ranks_do_not_measure_engines_and_still_go_on_with_what_a_run_began_with(
    footage: Path, build: Build, built: Path, tmp_path: Path, fast: None
) -> None:
    for name, begun in (("torch", ()), ("openvino", (str(footage / "videos" / "clip1.mp4"),))):
        out = tmp_path / name / "sets"
        if begun:
            build(footage, out, sources=begun, precision="openvino")
            (out / "manifest.json").unlink()
        for rank in (0, 1):
            build(footage, out, rank=rank, world_size=2)
        merge(Merge(artifact=out))
    assert same_tree(tmp_path / "torch" / "sets" / "sources", built / "sources")
    assert precision_of(tmp_path / "openvino" / "sets") == "openvino"
