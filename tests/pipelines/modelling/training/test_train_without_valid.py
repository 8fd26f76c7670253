"""Training where nothing can choose an epoch."""

from pathlib import Path

from ctxr.pipelines.modelling.config import Train
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
    assert (report.valid, report.test) == (None, None)


def test_sets_without_a_valid_side_warn_that_the_last_epoch_counts(train: Trains, tmp_path: Path) -> None:
    out = tmp_path / "untold"
    write_benchmark(WorldBenchmark(out, train=4, valid=0, test=2, side=48, workers=1))
    progress = Note()
    report = train("clip-batch", "epochs=1", dataset=out, progress=progress)
    assert any(SAYS in text for text in progress.warned)
    assert (report.valid, report.seeds[0].test) == (None, report.test)
    assert report.test is not None
    again = Note()
    train("clip-batch", "epochs=1", name="judged", progress=again)
    assert not any(SAYS in text for text in again.warned)
