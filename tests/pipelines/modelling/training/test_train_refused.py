"""What cannot become a run is refused before anything is spent on it or lost by it."""

import shutil
from pathlib import Path

import msgspec
import pytest

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Image
from ctxr.store.tables import read_table, write_table
from tests.pipelines.modelling.training.conftest import Trains
from tests.pipelines.modelling.training.test_train import Note


def test_a_run_does_not_start_from_itself(train: Trains) -> None:
    folder = train("clip-zero-shot", name="own").folder
    before = (folder / "manifest.json").read_bytes()
    for start in ("own", "./own", "../runs/own"):
        with pytest.raises(UsageError, match="run own cannot"):
            train("clip-module", f"start={start}", name="own")
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (("heads=7",), UsageError, "7 heads .* 32 numbers"),
        (("fusion=concat", "heads=3"), UsageError, "3 heads .* 64 numbers"),
        (("inner=100000000000",), CtxrError, "memory on cpu .* 1 layers, 100000000000 wide"),
    ],
)
def test_a_head_that_cannot_be_built_is_one_sentence_before_anything_is_embedded(
    train: Trains, tmp_path: Path, changes: tuple[str, ...], error: type[CtxrError], message: str
) -> None:
    with pytest.raises(error, match=message):
        train("clip-module", *changes)
    assert {file.name for file in (tmp_path / "work").glob("runs/*/*")} <= {".ctxr"}


def test_fewer_seeds_leave_no_trace_of_more(train: Trains, tmp_path: Path) -> None:
    train("clip-module", "epochs=1", seeds=2)
    fewer, one = train("clip-module", "epochs=1", seeds=1), train("clip-module", "epochs=1", workdir=tmp_path / "one")
    for name in ("epochs.jsonl", "scores.jsonl", "manifest.json"):
        assert (fewer.folder / name).read_bytes() == (one.folder / name).read_bytes()


def test_steps_that_would_never_be_taken_are_refused(train: Trains) -> None:
    with pytest.raises(UsageError, match=r"batch = 13 .* 12 to train") as caught:
        train("clip-module", "batch=13", "leaked_gradients=true")
    assert caught.value.hint.startswith("--set batch=12")
    assert train("clip-module", "batch=12", "leaked_gradients=true", "epochs=1").seeds[0].epochs == 1


@pytest.mark.parametrize("recipe", ["clip-module", "clip-batch"])
def test_a_damaged_picture_of_the_test_side_is_named_before_anything_is_trained(
    train: Trains, benchmark: Path, tmp_path: Path, recipe: str
) -> None:
    damaged = shutil.copytree(benchmark, tmp_path / "damaged")
    rows = read_table(damaged / "images.jsonl", Image)
    file = next(damaged / row.path for row in rows if row.group.startswith("test"))
    file.write_bytes(file.read_bytes()[:200])
    changed = {"sha256": sha256_file(file)}
    files = sorted(open_artifact(damaged).manifest.files)
    write_table(
        damaged / "images.jsonl",
        [msgspec.structs.replace(row, **changed) if damaged / row.path == file else row for row in rows],
    )
    finish(damaged, kind="dataset", verb="world", config={}, parents=[], content=Content(files, {}, {}))
    progress = Note()
    with pytest.raises(DataError, match=rf"{file.name} is not") as caught:
        train(recipe, dataset=damaged, progress=progress)
    assert caught.value.hint.startswith("restore it")
    assert progress.said == []
    assert not list((tmp_path / "work" / "runs").iterdir())
