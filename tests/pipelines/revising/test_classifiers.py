"""Which classifier decides where none is named."""

from pathlib import Path

import pytest

from ctxr.data.artifacts import finish
from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines.entailing_pairs import open_pairs
from ctxr.pipelines.revise_labels import ReviseLabels
from ctxr.pipelines.revising.classifiers import find_classifier, open_classifier
from ctxr.pipelines.talk import Silent


def trained(folder: Path, kind: str = "classifier") -> Path:
    folder.mkdir(parents=True)
    finish(folder, kind=kind, verb="train", config={}, parents=[], counts={}, models={}, files=[])
    return folder


def test_the_only_classifier_of_a_project_decides_and_of_several_one_is_named(tmp_path: Path) -> None:
    config = ReviseLabels(workdir=tmp_path)
    trained(tmp_path / "classifiers" / "half-done", kind="run")
    assert find_classifier(config) == ""
    with pytest.raises(UnfinishedError, match="holds no classifier of entailment"):
        open_classifier(config)
    one = trained(tmp_path / "classifiers" / "one")
    assert find_classifier(config) == str(one)
    two = trained(tmp_path / "classifiers" / "two")
    with pytest.raises(UsageError, match="holds 2 classifiers of entailment: one, two"):
        find_classifier(config)
    assert find_classifier(ReviseLabels(workdir=tmp_path, classifier="two")) == str(two)
    with pytest.raises(UnfinishedError, match="holds no finished classifier"):
        open_classifier(ReviseLabels(workdir=tmp_path, classifier="three"))


def test_it_learns_from_the_pairs_of_the_projects_dataset_where_none_are_named(workdir: Path) -> None:
    own, named = (open_pairs(path, workdir, Silent()) for path in (None, workdir / "dataset"))
    assert own.rows == named.rows
    assert own.side("valid")
