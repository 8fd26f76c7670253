"""What was changed since it was written is refused before anything is learned from it or kept of it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from ctxr.errors import DataError
from ctxr.pipelines.modelling.config import Listen, RegionsConfig
from ctxr.pipelines.modelling.listen import run as listen
from ctxr.pipelines.modelling.regions import run as look
from ctxr.store.records import Image
from ctxr.store.tables import read_table
from tests.models.encoder_folder import make_folder
from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note

Build = Callable[[str], Any]


@pytest.fixture
def copied(benchmark: Path, tmp_path: Path) -> Path:
    return shutil.copytree(benchmark, tmp_path / "copied")


@pytest.fixture
def build(train: Trains, copied: Path, encoder: str, tmp_path: Path) -> Build:
    """Builds something on the copy: a run, region features, or a listener's estimate."""

    def call(what: str) -> Any:
        if what == "train":
            return train("clip-module", "epochs=1", dataset=copied)
        if what == "regions":
            return look(RegionsConfig(copied, f"grid:{encoder}", 9, "small", tmp_path / "work", "cpu"))
        return listen(
            Listen(endpoint="http://127.0.0.1:9", model="m", dataset=copied, workdir=tmp_path / "work", dry_run=True)
        )

    return call


def pictures(dataset: Path, side: str) -> list[Path]:
    return [dataset / row.path for row in read_table(dataset / "images.jsonl", Image) if row.group.startswith(side)]


@pytest.mark.parametrize("what", ["train", "regions"])
def test_nothing_is_kept_of_a_changed_picture_that_looks_old(
    build: Build, copied: Path, what: str, tmp_path: Path
) -> None:
    one, other = pictures(copied, "train")[:2]
    kept, written = one.read_bytes(), one.stat().st_mtime_ns
    one.write_bytes(other.read_bytes())
    os.utime(one, ns=(written, written))
    with pytest.raises(DataError, match=rf"{one.name} was changed"):
        build(what)
    remembered = {file: file.read_bytes() for file in (tmp_path / "work" / ".ctxr-cache").rglob("*.npy")}
    shutil.rmtree(tmp_path / "work")
    one.write_bytes(kept)
    build(what)
    assert all(file.read_bytes() == content for file, content in remembered.items())


@pytest.mark.parametrize("what", ["train", "regions", "listen"])
def test_an_edited_table_is_refused(build: Build, copied: Path, what: str) -> None:
    build(what)
    table = copied / "texts.jsonl"
    rows = [json.loads(line) | {"text": "a red circle"} for line in table.read_text().splitlines()]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"texts\.jsonl was changed") as caught:
        build(what)
    assert "run ctxr " in caught.value.hint


def test_other_weights_of_an_encoder_of_the_same_name_train_again(train: Trains, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "one")
    named = f"encoder=local-dir:{folder}"
    first = (train("clip-module", "epochs=1", named).folder / "scores.jsonl").read_bytes()
    assert train("clip-module", "epochs=1", named).up_to_date
    with pytest.raises(KeyboardInterrupt):
        train("clip-batch", named, progress=Note("epoch 1 of 2"))
    other = make_folder(tmp_path / "other", seed=1)
    shutil.copy(other / "open_clip_model.safetensors", folder)
    again = train("clip-module", "epochs=1", named)
    assert not again.up_to_date
    assert (again.folder / "scores.jsonl").read_bytes() != first
    progress = Note()
    resumed = train("clip-batch", named, progress=progress).folder
    assert [text[:21] for text in progress.said] == ["seed 0, epoch 1 of 2:", "seed 0, epoch 2 of 2:"]
    fresh = train("clip-batch", f"encoder=local-dir:{other}", name="fresh").folder
    own, whole = (load_file(run / "seed0" / "encoder.safetensors") for run in (resumed, fresh))
    assert all((own[name] == whole[name]).all() for name in own)
