"""Dialogues as they are collected: photos by boxes of Open Images, talks, third parties, and the dataset with the labels of its photos."""

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from ctxr.annotation.answers import run as import_answers
from ctxr.annotation.artifacts import read_tasks
from ctxr.annotation.config import ImportAnswers
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.journal.results import Lease
from ctxr.datasets.open import read_dataset
from ctxr.datasets.writers.job import ExportJob
from ctxr.datasets.writers.photochat import write
from ctxr.engine.progress import Silent
from ctxr.errors import DataError
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate
from ctxr.pipelines.crowd.export_tasks import run
from ctxr.store.records import ObjectLabels
from tests.annotation.journal.study import after
from tests.annotation.platforms import study
from tests.datasets.test_photo_labels import SMALL, WHOLE, boxes


def talk(workdir: Path) -> None:
    """Two people talk about each photo, the first shares it, and a third keeps it."""
    tasks = read_tasks(workdir / "tasks" / "dialogue")
    journal = open_journal(workdir / "crowd" / "answers.sqlite", tasks.units, tasks.sets.values(), tasks.protocol)
    for number in range(len(tasks.units)):
        pair = [f"w{number}-{seat}" for seat in range(3)]
        for worker in pair:
            journal.enrol(worker, "local", after(0))
        leases = [journal.lease(worker, after(number), ["dialogue"]) for worker in pair[:2]]
        first, second = (one for one in leases if isinstance(one, Lease))
        for place in range(5):
            lease = (first, second)[place % 2]
            journal.act("say", lease.token, lease.worker, after(number), f"turn {place} of {number}")
        journal.act("share", first.token, first.worker, after(number))
        for lease in (first, second):
            journal.act("finish", lease.token, lease.worker, after(number))
        third = journal.lease(pair[2], after(number), ["review"])
        assert isinstance(third, Lease)
        journal.submit(third.token, pair[2], {"verdict": ("keep",)}, after(number + 1))
    journal.close()


def test_photos_chosen_by_boxes_become_a_dataset_with_their_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    source = read_dataset(workdir / "dataset")
    names = sorted({PurePosixPath(image).stem for image in source.images})
    file = boxes(tmp_path, (names[0], "Bagel", SMALL), (names[1], "Man", SMALL), (names[2], "Plate", WHOLE))
    config = replace(study.options(workdir, "dialogue"), objects=file, targets=10, disjoint="none")
    run(config)
    units = read_tasks(config.folder()).units
    assert {PurePosixPath(unit.target or "").stem for unit in units} == {names[0]}
    assert {unit.labels for unit in units} == {("Bagel",)}
    assert run(config).up_to_date
    talk(workdir)
    import_answers(ImportAnswers(workdir=workdir))
    dataset = read_dataset(aggregate(Aggregate(workdir=workdir, resamples=10, out=workdir / "talks")).dataset)
    assert len(dataset.payloads["dialogues"]) == len(units) > 0
    known = {image: names.index(PurePosixPath(image).stem) for one in dataset.sets for image in one.images}
    labels = (("Bagel",), ("Man",), ("Plate",))
    # of the photos that nobody talked about too: else a label would tell which one was meant
    expected = [ObjectLabels(image, labels[number]) for image, number in sorted(known.items()) if number < 3]
    assert list(dataset.payloads["objects"]) == expected
    write(ExportJob(dataset, tmp_path, tmp_path / "out", {}, 1 << 20, Silent()))
    again = read_dataset(tmp_path / "out")
    assert sorted(dataset.text_of(one) for one in dataset.queries.values() if one.labels is None) == sorted(
        again.text_of(one) for one in again.queries.values()
    )
    assert {one.labels for one in again.payloads["objects"] if isinstance(one, ObjectLabels)} == {("Bagel",)}
    file.write_text(file.read_text().replace("Bagel", "Plate"))
    with pytest.raises(DataError, match=r"boxes\.csv"):
        run(replace(config, force=True))
