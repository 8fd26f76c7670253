"""A project with a drawn dataset of captions that hold for many pictures."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxr.models.families import locate_model
from ctxr.pipelines.revision.candidates import open_encoder
from ctxr.synthetic.captions import WorldCaptions, write_captions
from tests.pipelines.revision.stand_in import Hashed

DRAWN = WorldCaptions(Path(), train=24, valid=8, test=24, pair_train=0, pair_valid=12, side=24, workers=1, seed=5)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset alone, once."""
    folder = tmp_path_factory.mktemp("revising") / "dataset"
    write_captions(replace(DRAWN, out=folder))
    return folder


@pytest.fixture
def workdir(drawn: Path, tmp_path: Path) -> Path:
    """A project of its own for each test."""
    shutil.copytree(drawn, tmp_path / "work" / "dataset")
    return tmp_path / "work"


@pytest.fixture(autouse=True)
def cheap_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--retriever hashed` costs nothing; every other name is what it is."""
    monkeypatch.setattr("ctxr.pipelines.revision.revising.open_encoder", _encoder)
    monkeypatch.setattr("ctxr.pipelines.revision.inputs.PLAIN_ENCODERS", ("ctxr-tiny", "auto", "hashed"))
    monkeypatch.setattr("ctxr.models.families.locate_model", _located)


def _located(name: str) -> tuple[str, Sequence[Path]]:
    return (name, ()) if name == "hashed" else locate_model(name)


def _encoder(by: str, *rest: Any) -> Any:
    return Hashed() if by == "hashed" else open_encoder(by, *rest)
