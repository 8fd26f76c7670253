"""A finished run that is asked for again: it stays as long as it can, is known under another name of its data, and is mended."""

import shutil
from pathlib import Path

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from tests.models.encoder_folder import make_folder
from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note
from tests.problems.scores import scores_of

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


def test_a_copy_of_an_encoder_changes_nothing_until_the_first_one_is_gone(
    train: Trains, benchmark: Path, tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "one")
    run = train("clip-module", "epochs=1", f"encoder=local-dir:{folder}").folder
    before = contents(run)[SCORES]
    copied = (f"encoder=local-dir:{shutil.copytree(folder, tmp_path / 'two')}", "epochs=1")
    assert train("clip-module", *copied).up_to_date
    shutil.rmtree(folder)
    assert not train("clip-module", *copied).up_to_date
    assert contents(run)[SCORES] == before
    assert scores_of(run, read_dataset(benchmark))


def test_a_run_of_other_settings_stays_until_the_first_new_seed_is_done(train: Trains) -> None:
    run = train("clip-module").folder
    before = contents(run)
    progress = Note("epoch 1 of 2")
    with pytest.raises(KeyboardInterrupt):
        train("clip-module", "lr=1e-2", progress=progress)
    assert contents(run) == before
    assert train("clip-module").up_to_date
    assert any("settings (lr " in text for text in progress.said)
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


def test_sets_without_a_valid_side_warn_that_the_last_epoch_counts(train: Trains, tmp_path: Path) -> None:
    out = tmp_path / "untold"
    write_benchmark(WorldBenchmark(out, train=4, valid=0, test=2, side=48, workers=1))
    progress = Note()
    report = train("clip-batch", "epochs=1", dataset=out, progress=progress)
    assert any("last epoch counts" in text for text in progress.warned)
    assert (report.valid, report.seeds[0].test) == (None, report.test)
    assert report.test is not None
    again = Note()
    train("clip-batch", "epochs=1", name="judged", progress=again)
    assert not any("last epoch counts" in text for text in again.warned)
