"""Which classifier decides where none is named."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ctxr.engine.progress import Silent
from ctxr.errors import UnfinishedError, UsageError
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.decisions import find_classifier, open_classifier
from ctxr.pipelines.revision.revise_labels import threshold
from ctxr.problems.entailment.pairs import open_pairs
from ctxr.store.artifacts import Content, finish


def trained(folder: Path, kind: str = "classifier") -> Path:
    folder.mkdir(parents=True)
    finish(folder, kind=kind, verb="train", config={}, parents=[], content=Content([], {}, {}))
    return folder


def test_the_only_classifier_of_a_project_decides_and_of_several_one_is_named(tmp_path: Path) -> None:
    config = ReviseLabels(workdir=tmp_path)
    trained(tmp_path / "classifiers" / "half-done", kind="run")
    assert find_classifier(config) == ""
    with pytest.raises(UnfinishedError, match="classifier of entailment"):
        open_classifier(config)
    one = trained(tmp_path / "classifiers" / "one")
    assert find_classifier(config) == str(one)
    two = trained(tmp_path / "classifiers" / "two")
    with pytest.raises(UsageError, match="holds 2 classifiers of entailment: one, two"):
        find_classifier(config)
    assert find_classifier(ReviseLabels(workdir=tmp_path, classifier="two")) == str(two)
    (tmp_path / "classifiers" / "three").mkdir()
    with pytest.raises(UnfinishedError, match="no finished classifier"):
        open_classifier(ReviseLabels(workdir=tmp_path, classifier="three"))
    for wrong, hint in (
        ("nosuch", "are one, two"),
        ("tow", r"mean two\? .*are one, two"),
    ):
        with pytest.raises(UsageError, match=f"classifier '{wrong}' in") as caught:
            find_classifier(ReviseLabels(workdir=tmp_path, classifier=wrong))
        assert re.search(hint, caught.value.hint)


def test_a_plan_tells_the_threshold_and_who_chose_it(tmp_path: Path) -> None:
    folder = tmp_path / "classifiers" / "one"
    (folder / "seed0").mkdir(parents=True)
    notes = {
        "recipe": asdict(ClassifierRecipe()), "text_fingerprint": "", "image_fingerprint": "", "threshold": 0.625,
        "reached": 0.75, "epoch": 1, "made_by": "",
    }  # fmt: skip
    (folder / "seed0" / "config.json").write_text(json.dumps(notes))
    content = Content(["seed0/config.json"], {}, {})
    finish(folder, kind="classifier", verb="train", config={}, parents=[], content=content)
    config = ReviseLabels(workdir=tmp_path)
    assert re.findall(r"\d\.\d+", threshold(config, str(folder))) == ["0.625", "0.750"]
    assert threshold(replace(config, threshold=0.9), str(folder)) == "0.9, by --threshold"
    assert "a precision of 0.9 on dev" in threshold(replace(config, precision=0.9), str(folder))
    with pytest.raises(UnfinishedError, match=r"two .*finished classifier"):
        threshold(config, str(tmp_path / "classifiers" / "two"))


def test_it_learns_from_the_pairs_of_the_projects_dataset_where_none_are_named(workdir: Path) -> None:
    own, named = (open_pairs(path, workdir, Silent()) for path in (None, workdir / "dataset"))
    assert own.rows == named.rows
    assert own.in_split("valid")
