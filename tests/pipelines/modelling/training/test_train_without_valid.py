"""Training where nothing can choose an epoch, and what is told of a run whose sides nothing judged."""

from dataclasses import replace
from pathlib import Path

from ctxr.cli.views import training_facts as facts
from ctxr.cli.views import training_table as table
from ctxr.pipelines.modelling.config import SeedResult, Train, TrainReport
from ctxr.pipelines.modelling.train import run
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions
from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note

SAYS = "last epoch counts"


def test_galleries_without_a_valid_side_warn_that_the_last_epoch_counts(encoder: str, tmp_path: Path) -> None:
    world = tmp_path / "dataset"
    write_captions(WorldCaptions(world, train=8, valid=0, test=0, pair_train=0, pair_valid=0, side=32, workers=1))
    changes = (f"encoder={encoder}", "lr=1e-3", "epochs=1", "batch=40", "patience=0")
    progress = Note()
    report = run(Train("retrieval-clip", world, changes=changes, workdir=tmp_path / "work"), progress)
    assert any(SAYS in text for text in progress.warned)
    assert table(report).columns == ("seed", "epoch", "of")


def test_sets_without_a_valid_side_warn_that_the_last_epoch_counts(train: Trains, tmp_path: Path) -> None:
    out = tmp_path / "untold"
    write_benchmark(WorldBenchmark(out, train=4, valid=0, test=2, side=48, workers=1))
    progress = Note()
    report = train("clip-batch", "epochs=1", dataset=out, progress=progress)
    assert any(SAYS in text for text in progress.warned)
    assert table(report).columns == ("seed", "epoch", "of", "test")
    again = Note()
    train("clip-batch", "epochs=1", name="judged", progress=again)
    assert not any(SAYS in text for text in again.warned)


def test_a_classifier_learns_from_pairs_and_no_test_side_is_told_of() -> None:
    seeds = (SeedResult(0, 2, 3, 0.5, None), SeedResult(1, 3, 3, 0.75, None))
    report = TrainReport(
        "e", Path("e"), "entailment", "x", "d", {"train": 7, "valid": 4}, seeds, 0.625, None, unit="pairs"
    )
    assert facts(report)["pairs"] == "7 train, 4 valid"
    assert "queries" not in facts(report)
    assert table(report).columns == ("seed", "epoch", "of", "valid")
    assert [row[3] for row in table(report).rows[:3]] == [50.0, 75.0, 62.5]
    other = replace(report, unit="queries", seeds=tuple(replace(one, test=0.5) for one in seeds), test=0.5)
    assert facts(other)["queries"] == "7 train, 4 valid"
    assert table(other).columns == ("seed", "epoch", "of", "valid", "test")
