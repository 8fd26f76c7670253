"""`ctxr build-documents`: an artifact that is whole, equal when it is made again, and the dataset of a project without another."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.documents import documents_of, is_documents
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.curation.config import BuildDocuments
from ctxr.pipelines.curation.documents import run
from ctxr.pipelines.inspection.artifact_check import check_artifact
from tests.pipelines.curation.test_build_sets import same_tree
from tests.pipelines.world_dataset import write_world_dataset


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_dataset(tmp_path_factory.mktemp("world") / "world", sets=5)


def recipes(dataset: Path, out: Path, **options: int) -> BuildDocuments:
    return replace(BuildDocuments("recipe", dataset, out=out, train=3, valid=1, test=0), **options)  # type: ignore[arg-type]


def test_equal_runs_are_byte_equal_and_a_second_one_does_nothing(world: Path, tmp_path: Path) -> None:
    report = run(recipes(world, tmp_path / "a"))
    assert (report.up_to_date, report.notes, report.counts["splits"]) == (
        False,
        [],
        {"train": 3, "valid": 1, "test": 0},
    )
    run(recipes(world, tmp_path / "b"))
    assert same_tree(tmp_path / "a", tmp_path / "b")
    assert run(recipes(world, tmp_path / "a")).up_to_date
    assert not run(recipes(world, tmp_path / "a", seed=1)).up_to_date
    assert {check.state for check in check_artifact(tmp_path / "a", Silent())} == {"ok"}


def test_documents_are_the_dataset_of_a_project_without_another(world: Path, tmp_path: Path) -> None:
    run(recipes(world, tmp_path / "documents"))
    dataset = open_dataset(None, tmp_path, Silent())
    assert is_documents(dataset)
    for one in documents_of(dataset):
        assert all((tmp_path / "documents" / dataset.images[name].path).is_file() for name in one.images)
        assert {*one.links.sum(axis=0)} == {1}
    write_world_dataset(tmp_path / "dataset")
    assert not is_documents(open_dataset(None, tmp_path, Silent()))


def test_a_dataset_that_was_edited_is_refused(tmp_path: Path) -> None:
    texts = write_world_dataset(tmp_path / "world", sets=5) / "texts.jsonl"
    texts.write_bytes(texts.read_bytes().replace(b"The", b"A", 1) + b"\n")
    with pytest.raises(DataError, match=r"texts\.jsonl was changed"):
        run(recipes(tmp_path / "world", tmp_path / "documents"))


def test_a_failure_keeps_the_documents_that_were_there(world: Path, tmp_path: Path) -> None:
    run(recipes(world, tmp_path / "documents"))
    with pytest.raises(DataError, match="video set with 5 described images"):
        run(BuildDocuments("story-sis", world, out=tmp_path / "documents"))
    assert run(recipes(world, tmp_path / "documents")).up_to_date


def test_a_picture_that_was_changed_is_named(tmp_path: Path) -> None:
    world = write_world_dataset(tmp_path / "world")
    for picture in (world / "images").rglob("*.jpg"):
        picture.write_bytes(b"changed")
    with pytest.raises(DataError, match=r"video.*img.*was changed"):
        run(recipes(world, tmp_path / "out"))


def test_no_document_is_a_wrong_number_of_documents(world: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no document"):
        run(recipes(world, tmp_path / "out", train=0, valid=0))


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (["recipe", "--train", "3", "--valid", "1", "--test", "9"], 0, "test gives 0 of 9 documents"),
        (["coco", "--train", "9", "--valid", "9", "--test", "9"], 3, "15 captioned images"),
        (["stories"], 2, "stories"),
    ],
)
def test_the_command_says_what_it_made_or_why_not(
    world: Path, tmp_path: Path, words: list[str], code: int, shown: str
) -> None:
    done = CliRunner().invoke(app, ["build-documents", *words, "--dataset", str(world), "-w", str(tmp_path)])
    assert (done.exit_code, shown in done.output) == (code, True)
