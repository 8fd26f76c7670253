"""What holds for every backend: out, answered, in again gives the judgments that the answers are worth, byte for byte."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from ctxr.annotation.answers import run
from ctxr.annotation.artifacts import read_judgments, read_tasks
from ctxr.annotation.config import ImportAnswers
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.crowd.export_tasks import run as export
from tests.annotation.platforms import study

TASKS = ("describe", "retrieve", "review", "tag", "entail", "repeat")
BACKENDS = ("local", "prolific", "label-studio")
TABLES = ("texts", "queries", "judgments")


def talk(workdir: Path) -> list[Answer]:
    """Two people talk about a photo on our own server, and it is imported."""
    export(study.options(workdir, "dialogue"))
    tasks = read_tasks(workdir / "tasks" / "dialogue")
    journal = open_journal(workdir / "crowd" / "answers.sqlite", tasks.units, tasks.sets.values(), tasks.protocol)
    people, now = [study.person(name) for name in study.WORKERS[:2]], study.START
    for worker in people:
        journal.enrol(worker, "local", now)
    first, second = (journal.lease(worker, now, ["dialogue"]) for worker in people)
    assert isinstance(first, Lease)
    assert isinstance(second, Lease)
    leases = sorted((first, second), key=lambda lease: lease.seat)
    for number in range(6):
        lease = leases[number % 2]
        now += timedelta(seconds=4)
        journal.act("say", lease.token, lease.worker, now, f"=Message {number} about the weekend, <b>really</b>")
    journal.act("share", leases[0].token, leases[0].worker, now)
    for lease in leases:
        now += timedelta(seconds=2)
        journal.act("finish", lease.token, lease.worker, now)
    stored = journal.answers()
    journal.close()
    return stored


@pytest.mark.parametrize("task", TASKS)
def test_every_backend_gives_the_judgments_that_the_answers_are_worth(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    if task in ("review", "repeat"):
        _ = talk(workdir) if task == "review" else study.work_locally(workdir, "retrieve")
        run(ImportAnswers(workdir=workdir))
        for file in (workdir / "crowd").glob("answers.sqlite*"):
            file.unlink()  # from here on only the verdicts
    done = study.work_locally(workdir, task)
    assert done
    expected = study.directly(done)
    assert expected["judgments"]
    for backend in BACKENDS:
        config = study.deliver(workdir, task, backend, done)
        report = run(config)
        assert (report.new, report.refused) == (len(done), 0), backend
        assert {name: (config.folder() / f"{name}.jsonl").read_bytes() for name in TABLES} == expected, backend
        before = study.files_of(config.folder())
        report = run(config)
        assert (report.up_to_date, report.new, report.again) == (True, 0, len(done)), backend
        assert study.files_of(config.folder()) == before, backend


@pytest.mark.parametrize("about", ["image", "set", "query"])
def test_answers_to_own_fields_come_back_from_every_backend_as_they_were_given(
    about: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    task = study.own_file(workdir, about)
    done = study.work_locally(workdir, task)
    given = {(one.unit.id, study.person(one.identity)): one.values for one in done}
    assert len(given) == len(done) == 3 * len({one.unit.id for one in done}) > 0
    for backend in BACKENDS:
        config = study.deliver(workdir, task, backend, done)
        report = run(config)
        assert (report.new, report.refused) == (len(done), 0), backend
        assert {(one.unit, one.worker): one.values for one in read_judgments(config.folder()).answers} == given
        assert run(config).up_to_date


HOSTILE = {
    '"x": 1e309': "unreadable",
    '"x": "12"': "unreadable",
    '"x": null': "not_marked",
    '"x": -3': "not_marked",
    '"x": 100.01': "not_marked",
    '"x": 1e300': "not_marked",
    '"x": 10, "rotation": 12.5': "not_marked",
}


@pytest.mark.parametrize("place", HOSTILE)
def test_a_place_outside_the_picture_is_refused_alone(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    task = study.own_file(workdir, "image")
    done = study.work_locally(workdir, task)
    config = study.deliver(workdir, task, "label-studio", done)
    assert config.file
    text = config.file.read_text(encoding="utf-8")
    config.file.write_text(
        re.sub(r'"type": "keypoint"(.*?)"x": [0-9.]+', rf'"type": "keypoint"\1{place}', text, count=1)
    )
    assert config.file.read_text(encoding="utf-8") != text
    report = run(config)
    assert (report.new, report.reasons) == (len(done) - 1, {HOSTILE[place]: 1})


def test_two_places_for_one_field_are_refused_alone_and_nan_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    task = study.own_file(workdir, "image")
    done = study.work_locally(workdir, task)
    config = study.deliver(workdir, task, "label-studio", done)
    assert config.file
    text = config.file.read_text(encoding="utf-8")
    rows = json.loads(text)
    regions = rows[0]["annotations"][0]["result"]
    regions += [one for one in regions if one["type"] == "rectangle"]
    config.file.write_text(json.dumps(rows))
    assert run(config).reasons == {"not_marked": 1}
    config.file.write_text(re.sub(r'"x": [0-9.]+', '"x": NaN', text, count=1))
    with pytest.raises(DataError, match=config.file.name):
        run(config)


def test_a_talk_comes_from_our_own_server_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    stored = talk(workdir)
    report = run(ImportAnswers(workdir=workdir))
    assert (report.new, report.refused) == (2, 0)
    read = read_judgments(workdir / "judgments")
    units = {unit.id: unit for unit in read.units.values()}
    outcomes = [task_of(units[answer.unit]).score(units[answer.unit], answer) for answer in stored]
    assert read.dialogues == tuple(row for outcome in outcomes for row in outcome.dialogues)
    assert read.texts == tuple(row for outcome in outcomes for row in outcome.texts)
    assert run(ImportAnswers(workdir=workdir)).up_to_date
    with pytest.raises(UsageError, match="connect two workers"):
        export(study.options(workdir, "dialogue", "label-studio"))


def spoil(file: Path, how: str, unit: Unit) -> None:
    """What may happen to a file on its way."""
    text = file.read_text(encoding="utf-8")
    if how == "foreign":
        file.write_text(text.replace(unit.id, "retrieve-0123456789abcdef"))
    elif how == "truncated":
        file.write_text(text[: len(text) * 2 // 3])
    else:
        one, other = '"image_1"', '"image_2"'
        file.write_text(text.replace(one, "\0").replace(other, one).replace("\0", other))


@pytest.mark.parametrize("how", ["foreign", "edited", "truncated"])
@pytest.mark.parametrize("backend", ["label-studio", "prolific"])
def test_a_spoilt_file_is_refused_with_its_row_and_changes_nothing(
    backend: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    done = study.work_locally(workdir, "retrieve")
    config = study.deliver(workdir, "retrieve", backend, done)
    run(config)
    before = study.files_of(config.folder())
    file = config.file
    assert file is not None
    if backend == "prolific":
        spoil_submissions(workdir, file, how)
    else:
        spoil(file, how, done[0].unit)
    if how == "edited" and backend == "prolific":
        # a submission is somebody else's: its answers are refused one by one
        report = run(ImportAnswers(file, backend, workdir / "fresh", workdir))
        assert report.reasons == {"submission": sum(one.identity == study.WORKERS[0] for one in done)}
        assert report.new == len(done) - report.refused
    else:
        with pytest.raises(DataError, match=rf"{file.name}:\d+: "):
            run(ImportAnswers(file, backend, config.folder(), workdir))
    assert study.files_of(config.folder()) == before


def spoil_submissions(workdir: Path, file: Path, how: str) -> None:
    text = file.read_text()
    if how == "truncated":
        file.write_text(text[: len(text) * 2 // 3])
    elif how == "edited":
        file.write_text(text.replace(f'"participant_id": "{study.WORKERS[0]}"', '"participant_id": "somebody"'))
    else:
        launched = workdir / "tasks" / "retrieve-prolific" / "prolific" / "launched.json"
        launched.write_text('{"study":"study-1"}')
        file.write_text(text.replace("study-1", "study-2"))
