"""Which judge decides where none is named."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.inputs import open_judges
from ctxr.problems.entailment.pairs import open_pairs
from ctxr.store.artifacts import Content, finish


def trained(folder: Path, kind: str = "classifier") -> Path:
    folder.mkdir(parents=True)
    finish(folder, kind=kind, verb="train", config={}, parents=[], content=Content([], {}, {}))
    return folder


def test_the_only_classifier_of_a_project_decides_and_of_several_one_is_named(tmp_path: Path) -> None:
    config, shown = ReviseLabels(workdir=tmp_path), Silent()
    trained(tmp_path / "classifiers" / "half-done", kind="run")
    cascade, _ = open_judges(config, shown)
    assert (cascade.name, cascade.toy) == ("toy-judge", True)
    one = trained(tmp_path / "classifiers" / "one")
    with pytest.raises(DataError, match=str(one)):
        open_judges(config, shown)
    trained(tmp_path / "classifiers" / "two")
    with pytest.raises(UsageError, match="holds 2 classifiers of entailment: one, two"):
        open_judges(config, shown)
    for name, hint in (("nosuch", "are one, two"), ("tow", r"mean two\? .*are one, two")):
        for named in (replace(config, classifier=name), replace(config, judge=(f"classifier:{name}",))):
            with pytest.raises(UsageError, match=f"classifier '{name}' in") as caught:
                open_judges(named, shown)
            assert re.search(hint, caught.value.hint)


def test_it_learns_from_the_pairs_of_the_projects_dataset_where_none_are_named(workdir: Path) -> None:
    own, named = (open_pairs(path, workdir, Silent()) for path in (None, workdir / "dataset"))
    assert own.rows == named.rows
    assert own.in_split("valid")
