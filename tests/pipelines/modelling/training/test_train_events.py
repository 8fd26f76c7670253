"""`ctxr train --tensorboard`: event files beside the run, and one sentence where nothing can write them."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from ctxr.errors import UsageError
from ctxr.store.artifacts import open_artifact
from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note


class Writer:
    """Stands in for the writer of the package: a line for each scalar."""

    def __init__(self, folder: str, purge_step: int) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._file = Path(folder) / f"events-{purge_step}"

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        with self._file.open("a") as stream:
            stream.write(f"{tag} {step} {value}\n")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)


@pytest.mark.usefixtures("writer")
def test_each_epoch_is_written_once_whether_or_not_the_run_was_interrupted(train: Trains, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train("clip-module", tensorboard=True, progress=Note("epoch 1 of 2"))
    run = train("clip-module", tensorboard=True).folder
    files = sorted((run / "tensorboard" / "seed0").iterdir())
    assert [file.name for file in files] == ["events-1", "events-2"]
    for file, epoch in zip(files, "12", strict=True):
        tags = [line.split()[:2] for line in file.read_text().splitlines()]
        assert tags == [["train/loss", epoch], ["valid/accuracy", epoch], ["train/seconds", epoch]]
    assert not any("tensorboard" in name for name in open_artifact(run).manifest.files)
    plain = train("clip-module", workdir=tmp_path / "plain").folder
    assert (plain / "manifest.json").read_bytes() == (run / "manifest.json").read_bytes()


@pytest.mark.usefixtures("writer")
def test_a_training_from_the_start_takes_the_place_of_the_events_of_another(train: Trains) -> None:
    for change in ("lr=1e-3", "lr=1e-4"):
        run = train("clip-module", change, tensorboard=True).folder
    (file,) = (run / "tensorboard" / "seed0").iterdir()
    assert file.read_text().count("train/loss") == 2


def test_without_the_package_it_is_one_sentence_before_anything_is_done(
    train: Trains, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match="the package tensorboard") as caught:
        train("clip-module", tensorboard=True)
    assert caught.value.hint == "pip install tensorboard"
    assert {file.name for file in (tmp_path / "work").glob("runs/*/*")} <= {".ctxr"}
