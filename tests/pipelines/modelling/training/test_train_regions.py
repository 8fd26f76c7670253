"""`ctxr train` and `ctxr eval` with cross-encoders over region features."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.modelling.config import Eval, RegionsConfig, TrainReport
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.pipelines.modelling.regions import run as look
from ctxr.store.artifacts import open_artifact
from ctxr.store.paths import portable
from ctxr.store.records import Score
from ctxr.store.tables import read_table
from tests.models.cross.volta_layout import CONFIGS, FEATURES, make_checkpoint, make_state
from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note
from tests.problems.scores import scores_of

TrainsOver = Callable[..., TrainReport]


@pytest.fixture(scope="module")
def looked(benchmark: Path, encoder: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """(region features of the drawn benchmark, how many for each region)."""
    report = look(RegionsConfig(benchmark, f"grid:{encoder}", 9, "small", tmp_path_factory.mktemp("looked"), "cpu"))
    return report.regions, report.features


@pytest.fixture
def over(train: Trains, looked: tuple[Path, int], tmp_path: Path) -> TrainsOver:
    """Trains a recipe over an untrained UNITER and the regions of the benchmark."""

    def call(recipe: str, *changes: str, **more: object) -> TrainReport:
        folder, features = looked
        workdir = more.setdefault("workdir", tmp_path / "work")
        assert isinstance(workdir, Path)
        shutil.copytree(folder, workdir / "regions" / "small", dirs_exist_ok=True)
        named: tuple[str, ...] = (f"encoder=random:uniter-tiny:{features}", "regions=small")
        if recipe.endswith("zero-shot"):
            named = (*named, "epochs=0")
        return train(recipe, *named, *changes, **more)

    return call


@pytest.mark.parametrize(
    ("variant", "parity"),
    [("zero-shot", "fixed"), ("batch", "fixed"), ("module", "fixed"), ("none", "code"), ("temporal", "code")],
)
def test_a_run_over_regions_scores_every_candidate_and_again_to_the_same_bits(
    over: TrainsOver, benchmark: Path, looked: tuple[Path, int], variant: str, parity: str
) -> None:
    report = over(f"uniter-{variant}", parity=parity)
    manifest = open_artifact(report.folder, "run").manifest
    assert [parent.kind for parent in manifest.parents] == ["dataset", "model", "regions"]
    assert manifest.parents[2].sha256 == open_artifact(looked[0]).sha256
    dataset = read_dataset(benchmark)
    rows = read_table(report.folder / "scores.jsonl", Score)
    asked = [query.id for query, image_set, _ in dataset.targets() if dataset.split_of(image_set) != "train"]
    assert len(rows) == 10 * len(asked) == 120
    assert sorted(scores_of(report.folder, dataset, asked), key=Score.key) == rows
    learned = {"zero-shot": set(), "none": {"encoder", "score"}, "batch": {"encoder", "score"}}
    names = {file.stem for file in (report.folder / "seed0").glob("*.safetensors")}
    assert names == learned.get(variant, {"encoder", "head"})


def test_the_whole_network_learns_with_the_head(over: TrainsOver) -> None:
    runs = [over("uniter-temporal"), over("uniter-temporal", "epochs=1", "lr=1e-9", name="still")]
    one, other = (load_file(run.folder / "seed0" / "encoder.safetensors") for run in runs)
    moved = {name for name, weights in one.items() if float((weights - other[name]).abs().max()) > 1e-5}
    still = {name.partition(".")[0] for name in one.keys() - moved}
    assert {"stages", "words", "regions", "pool_text", "pool_vision"} <= {name.partition(".")[0] for name in moved}
    assert "aligned" in still


def test_an_encoder_is_evaluated_by_its_name_with_regions_by_theirs(
    over: TrainsOver, benchmark: Path, looked: tuple[Path, int], tmp_path: Path
) -> None:
    run = over("uniter-zero-shot")
    name, work = f"random:uniter-tiny:{looked[1]}", tmp_path / "work"
    report = evaluate(Eval((name,), benchmark, work, regions="small", resamples=10, device="cpu", split="test"))
    trained = evaluate(Eval((run.run,), benchmark, work, resamples=10, device="cpu", split="test"))
    assert report.tables["test/accuracy"].rows[0][1:] == trained.tables["test/accuracy"].rows[0][1:]


def test_a_checkpoint_of_volta_is_trained_on_over_features_that_somebody_else_extracted(
    train: Trains, benchmark: Path, tmp_path: Path
) -> None:
    rng, work = np.random.default_rng(0), tmp_path / "work"
    for name in read_dataset(benchmark).images:
        file = tmp_path / "extracted" / f"{name}.npz"
        file.parent.mkdir(parents=True, exist_ok=True)
        boxes = np.array([[0, 0, 24, 24], [10, 5, 40, 48]], np.float32)
        np.savez(
            file, x=rng.normal(size=(2, FEATURES)).astype(np.float32), bbox=boxes, image_w=48, image_h=48, num_bbox=2
        )
    look(RegionsConfig(benchmark, f"file:{tmp_path / 'extracted'}", 2, "faster-rcnn", work, "cpu"))
    checkpoint = make_checkpoint(tmp_path / "volta", CONFIGS["vilbert"], make_state(CONFIGS["vilbert"]))
    encoder = f"volta:{checkpoint}"
    report = train("vilbert-temporal", f"encoder={encoder}", "heads=4")
    assert (report.encoder, report.regions, len(report.seeds)) == (portable(encoder, work), "faster-rcnn", 1)
    evaluated = evaluate(
        Eval((encoder, report.run), benchmark, work, regions="faster-rcnn", resamples=10, device="cpu")
    )
    assert evaluated.runs == (report.encoder, "vilbert-temporal")
    (checkpoint / "vocab.txt").unlink()
    with pytest.raises(DataError, match="vocab"):
        scores_of(report.folder, read_dataset(benchmark))


def test_regions_that_are_not_there_or_of_another_width_are_one_sentence(
    over: TrainsOver, looked: tuple[Path, int]
) -> None:
    with pytest.raises(UsageError, match="needs region features"):
        over("uniter-batch", "regions=")
    with pytest.raises(UnfinishedError, match="nothing"):
        over("uniter-batch", "regions=nothing")
    with pytest.raises(DataError, match=rf"{looked[1]} features .* random:uniter-tiny:7 needs 7"):
        over("uniter-batch", "encoder=random:uniter-tiny:7")


def test_test_may_choose_the_epoch_only_where_somebody_says_so(over: TrainsOver) -> None:
    progress = Note()
    report = over("uniter-batch", "judged_on_test=true", progress=progress)
    assert any("chooses the epoch" in text for text in progress.warned)
    rows = (report.folder / "epochs.jsonl").read_text().splitlines()
    assert len(rows) == 2
    best = max(float(row.rpartition(":")[2].strip(" }")) for row in rows)
    assert report.test == pytest.approx(best)
