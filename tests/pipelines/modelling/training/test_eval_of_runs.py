"""`ctxr eval` of trained runs: on any dataset and side, and what is said of how they came about."""

import shutil
from pathlib import Path

import pytest

from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.pipelines.modelling.eval import run
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a train and a test side whose queries are called as those of the benchmark, about other pictures."""
    out = tmp_path_factory.mktemp("world") / "other"
    write_benchmark(WorldBenchmark(out, train=5, valid=0, test=2, video=0.5, side=48, workers=1, seed=7))
    return out


@pytest.fixture(scope="module")
def untested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a train side alone."""
    out = tmp_path_factory.mktemp("world") / "untested"
    write_benchmark(WorldBenchmark(out, train=5, valid=0, test=0, video=0.5, side=48, workers=1, seed=8))
    return out


def evaluated(dataset: Path | None, workdir: Path, *runs: str, progress: Progress = SILENT, **more: str) -> EvalReport:
    config = Eval(runs, dataset, workdir, resamples=20, permutations=20, tokenizer="regex", **more)  # type: ignore[arg-type]
    return run(config, progress)


def test_a_run_is_scored_on_other_sides_and_datasets_and_says_what_it_learned_from(
    train: Trains, benchmark: Path, other: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    train("clip-batch", "epochs=1", dataset=other, name="far")
    progress = Note()
    train("clip-module", "epochs=1", "start=far", name="near", seeds=2, progress=progress)
    foreign = "far: trained on another"
    assert any(one.startswith(foreign) for one in progress.warned)

    fit = evaluated(benchmark, work, "near", split="train")
    assert set(fit.tables) > {"train/accuracy", "train/seeds"}
    assert any("fit of near" in note for note in fit.notes)
    assert any(one.startswith(foreign.replace("far: ", "near: starts from far, ")) for one in fit.notes)
    assert "test/accuracy" in evaluated(other, work, "near").tables
    assert any(one.startswith(foreign) for one in evaluated(benchmark, work, "near", "far").notes)

    progress = Note()
    assert evaluated(benchmark, work, progress=progress).runs == ("near",)
    assert any("run far is" in one and "ctxr eval far " in one for one in progress.warned)


def test_without_a_dataset_runs_are_evaluated_on_what_they_were_made_on_and_not_on_the_newest_sets(
    train: Trains, benchmark: Path, other: Path, tmp_path: Path
) -> None:
    work, progress = tmp_path / "work", Note()
    shutil.copytree(other, work / "dataset")
    train("clip-zero-shot", name="base")
    report = evaluated(None, work, progress=progress)
    assert report.dataset == benchmark.name
    (line,) = progress.said
    assert line.endswith(f" base on {benchmark}")
    assert not progress.warned
    assert (report.results / "manifest.json").read_text() == (
        evaluated(benchmark, work, "base").results / "manifest.json"
    ).read_text()
    train("clip-zero-shot", name="near", dataset=None)
    assert evaluated(None, work, "near").dataset == "dataset"
    with pytest.raises(UsageError, match=r" 2 different datasets: base on .*, near on .*dataset"):
        evaluated(None, work)


def test_a_run_without_anything_to_judge_is_left_out_of_all_and_scored_by_name(
    train: Trains, benchmark: Path, untested: Path, tmp_path: Path
) -> None:
    work, progress = tmp_path / "work", Note()
    report = train("clip-module", "epochs=1", dataset=untested, name="blind")
    assert report.judged_on == ""
    with pytest.raises(UnfinishedError, match=r"no run in .* untested"):
        evaluated(untested, work, progress=progress)
    assert "ctxr eval blind" in progress.warned[-1]
    assert "train/accuracy" in evaluated(untested, work, "blind").tables
    with pytest.raises(UnfinishedError, match=r"no run in .* dataset"):
        evaluated(benchmark, work)
    assert "test/accuracy" in evaluated(benchmark, work, "blind").tables


def test_where_test_chose_the_epoch_training_and_evaluation_say_so(
    train: Trains, benchmark: Path, tmp_path: Path
) -> None:
    report = train("clip-module", "judged_on_test=true", name="peeked")
    assert report.judged_on == "test"
    notes = evaluated(benchmark, tmp_path / "work", "peeked").notes
    assert any("epoch of peeked (judged_on_test)" in note for note in notes)
    assert not any("those of test" in note for note in notes)
