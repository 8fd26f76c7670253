"""What holds for every backend: out, answered, in again gives the judgments that the answers are worth, byte for byte."""

from pathlib import Path

import pytest

from ctxr.errors import DataError
from ctxr.pipelines.import_answers import run
from tests.annotation.backends import study

TASKS = ("describe", "retrieve", "tag", "entail")
BACKENDS = ("local", "mturk", "mturk-csv", "prolific", "label-studio")
TABLES = ("texts", "queries", "judgments")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("task", TASKS)
def test_every_backend_gives_the_judgments_that_the_answers_are_worth(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workdir = study.make_project(tmp_path, monkeypatch)
    done = study.work_locally(workdir, task)
    assert len(done) > 2
    expected = study.directly(done)
    assert expected["judgments"]
    for backend in BACKENDS:
        config = study.deliver(workdir, task, backend, done, monkeypatch)
        report = run(config)
        assert (report.new, report.refused) == (len(done), 0), backend
        assert {name: (config.folder() / f"{name}.jsonl").read_bytes() for name in TABLES} == expected, backend
        before = bytes_of(config.folder())
        report = run(config)
        assert (report.up_to_date, report.new, report.again) == (True, 0, len(done)), backend
        assert bytes_of(config.folder()) == before, backend
