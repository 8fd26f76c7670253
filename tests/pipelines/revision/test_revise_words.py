"""What `ctxr revise-labels` says where something is gone, and of the command that would do what was planned."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from tests.pipelines.revision.stand_in import Listening, StandIn
from tests.pipelines.revision.test_revise import bytes_of, options


def test_a_plan_names_the_command_that_does_it_with_everything_that_was_given(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ReviseLabels(
        workdir / "dataset", by="hashed", both=True, top_k=7, threshold=0.25, out=workdir / "a place", workdir=workdir
    )
    words = shlex.split(run(config).facts["command"])
    assert words[:3] == ["ctxr", "revise-labels", str(workdir / "dataset")]
    # typed as it was said, it is the configuration that was planned, with --entail
    seen: list[ReviseLabels] = []
    monkeypatch.setattr("ctxr.pipelines.revision.revise_labels.run", lambda config, progress: seen.append(config))
    CliRunner().invoke(app, words[1:])
    assert seen[0].entail
    assert seen[0].entail_command() == shlex.join(words)
    assert ReviseLabels().entail_command() == "ctxr revise-labels --entail"


def test_a_picture_that_is_gone_is_named_by_its_place_in_the_plan_and_before_any_work(workdir: Path) -> None:
    dataset = read_dataset(workdir / "dataset")
    gone = dataset.picture(dataset.images[next(one for one in dataset.sets if one.id == "test").images[3]])
    assert gone is not None
    gone.unlink()
    (note,) = run(ReviseLabels(workdir=workdir, by="hashed")).notes
    assert re.match(rf"1 of 56 .* {gone}: --entail ", note)
    judge = StandIn(workdir / "dataset")
    with pytest.raises(DataError, match="is missing") as refused:
        run(options(workdir), classifier=judge)
    assert re.match(rf"1 of 56 .* {gone}$", refused.value.message)
    assert judge.claims == 0
    assert refused.value.hint.startswith("restore it")


def test_a_dataset_that_was_renamed_is_revised_again_where_it_is_named(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir), classifier=judge)
    before = bytes_of(workdir / "revised")
    (workdir / "dataset").rename(workdir / "renamed")
    for config in (ReviseLabels(workdir=workdir), options(workdir), ReviseLabels(workdir=workdir, undo=True)):
        with pytest.raises(
            UsageError, match=r"dataset, the dataset that .*revised revises, no longer exists"
        ) as refused:
            run(config, classifier=judge)
        assert refused.value.hint.startswith("ctxr revise-labels DATASET ")
    assert bytes_of(workdir / "revised") == before
    assert run(options(workdir, dataset=workdir / "renamed"), classifier=judge).did == "up to date"


def test_another_round_is_told_beforehand_with_what_differs(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir, split="test"), classifier=judge)
    asked, progress = judge.claims, Listening()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    judge.probabilities = stop  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        run(options(workdir, split="test", sample=0, threshold=0.75), progress, judge)
    assert judge.claims == asked
    assert progress.notes[0].startswith("round 1 ")
    assert "--sample (200, now 0) and the threshold (0.5, now 0.75)" in progress.notes[0]
    assert run(options(workdir, split="test"), progress, judge).did == "up to date"


def test_of_several_rounds_the_latest_in_force_says_what_differs(workdir: Path) -> None:
    judge, progress = StandIn(workdir / "dataset"), Listening()
    for changes in ({"top_k": 5}, {"top_k": 6}, {"top_k": 7, "seed": 1, "sample": 9}):
        run(options(workdir, split="test", **changes), progress, judge)
    assert [re.findall(r"--\S+ \(\d+, now \d+\)", note) for note in progress.notes if "is added, since" in note] == [
        ["--top-k (5, now 6)"],
        ["--top-k (6, now 7)", "--sample (200, now 9)", "--seed (0, now 1)"],
    ]
    run(ReviseLabels(workdir=workdir, undo=True, round=1))
    run(options(workdir, split="test", top_k=7, seed=1, sample=9), progress, judge)
    assert "round 3" in progress.notes[-2]
