"""The artifacts of the crowd are read as they were written, and never when they were edited."""

import json
from pathlib import Path

import pytest

from ctxr.annotation.artifacts import AggregatedAnswers, TaskBatch, open_tasks, read_judgments, read_tasks
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer
from ctxr.annotation.unit_factory import describe_units
from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError
from ctxr.store.artifacts import MANIFEST
from scripts.task_artifact import write_judgments, write_tasks
from tests.pipelines.world_dataset import write_world_dataset


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    dataset = read_dataset(write_world_dataset(tmp_path / "dataset", sets=2))
    units = describe_units(dataset, Protocol(seed=5))
    path = tmp_path / "tasks" / "describe"
    path.mkdir(parents=True)
    sets = {image_set.id: image_set for image_set in dataset.sets}
    batch = TaskBatch(tuple(units), sets, dict(dataset.images), tmp_path / "dataset")
    write_tasks(path, batch, Protocol(seed=5), task="describe")
    return path


def test_tasks_are_read_as_they_were_written(tasks: Path) -> None:
    read = read_tasks(tasks)
    assert read.name == "describe"
    assert read.protocol.seed == 5
    assert read.backend == "local"
    assert len(read.units) == 9
    assert json.loads((tasks / "pictures.json").read_text()) == {"root": "../../dataset"}
    for unit in read.units:
        assert all((read.root / read.images[name].path).is_file() for name in unit.images)
    assert [read_tasks(one.path).name for one in open_tasks(tasks.parent.parent)] == ["describe"]


def test_an_edited_table_is_not_read(tasks: Path) -> None:
    (tasks / "units.jsonl").write_text((tasks / "units.jsonl").read_text().replace('"split":"train"', '"split":"test"'))
    with pytest.raises(DataError, match=r"units\.jsonl was changed"):
        read_tasks(tasks)


def test_a_protocol_of_another_version_is_one_sentence(tasks: Path) -> None:
    manifest = tasks / MANIFEST
    manifest.write_text(manifest.read_text().replace('"targets"', '"aims"'))
    with pytest.raises(DataError, match="says another protocol"):
        read_tasks(tasks)


def test_judgments_are_read_as_they_were_written(tasks: Path, tmp_path: Path) -> None:
    read = read_tasks(tasks)
    unit = read.units[0]
    answer = Answer(unit.id, "w-a", {"description": ("red",)}, unit.images, 0, "2026-01-01T00:00:00Z", 3.5, "local")
    answered = AggregatedAnswers(
        read.root,
        {unit.id: unit},
        {unit.image_set: read.sets[unit.image_set]},
        {name: read.images[name] for name in unit.images},
        (answer,),
    )
    path = tmp_path / "judgments"
    path.mkdir()
    write_judgments(path, answered)
    assert read_judgments(path) == answered
    (path / "answers.jsonl").write_text((path / "answers.jsonl").read_text().replace("red", "blue"))
    with pytest.raises(DataError, match=r"answers\.jsonl was changed"):
        read_judgments(path)
