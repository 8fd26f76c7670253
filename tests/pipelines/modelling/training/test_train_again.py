"""A finished run that is asked for again: it stays as long as it can, is known under another name of its data, and is mended."""

from pathlib import Path

import pytest

from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note

SCORES, WEIGHTS = "scores.jsonl", "seed1/head.safetensors"


def contents(run: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in run.rglob("*")
        if file.is_file() and "making" not in file.parts
    }


def test_a_dataset_that_was_renamed_is_the_same(train: Trains, benchmark: Path, tmp_path: Path) -> None:
    train("clip-module", "epochs=1", seeds=2)
    (tmp_path / "moved").symlink_to(benchmark)
    assert train("clip-module", "epochs=1", seeds=2, dataset=tmp_path / "moved").up_to_date


def test_a_run_of_other_settings_stays_until_the_first_new_seed_is_done(train: Trains) -> None:
    run = train("clip-module").folder
    before = contents(run)
    progress = Note("epoch 1 of 2")
    with pytest.raises(KeyboardInterrupt):
        train("clip-module", "lr=1e-2", progress=progress)
    assert contents(run) == before
    assert train("clip-module").up_to_date
    assert any("was made otherwise (lr)" in text for text in progress.said)
    assert not train("clip-module", "lr=1e-2").up_to_date
    assert contents(run)[SCORES] != before[SCORES]


def test_damaged_weights_are_trained_again_and_the_other_seeds_are_kept(train: Trains) -> None:
    run = train("clip-module", "epochs=1", seeds=2).folder
    before = contents(run)
    (run / WEIGHTS).write_bytes(before[WEIGHTS][:99])
    kept = (run / "seed0/head.safetensors").stat().st_mtime_ns
    progress = Note()
    assert not train("clip-module", "epochs=1", seeds=2, progress=progress).up_to_date
    assert any("seed1 was changed" in text for text in progress.warned)
    assert {name: text for name, text in contents(run).items() if "clock" not in name} == {
        name: text for name, text in before.items() if "clock" not in name
    }
    assert (run / "seed0/head.safetensors").stat().st_mtime_ns == kept
