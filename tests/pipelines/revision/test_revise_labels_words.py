"""What `ctxr revise-labels` says before a round: of wrong options, of what is gone, and of the command that does what was planned."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from tests.pipelines.revision.stand_in import Listening, StandIn
from tests.pipelines.revision.test_revise_labels import bytes_of, options


def test_a_plan_names_the_command_that_does_it_with_everything_that_was_given(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ReviseLabels(
        workdir / "dataset",
        retriever="hashed",
        both=True,
        top_k=7,
        threshold=0.25,
        out=workdir / "a place",
        workdir=workdir,
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
    (note,) = run(ReviseLabels(workdir=workdir, retriever="hashed")).notes
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


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"entail": False, "round": 3}, "--round 3"),
        ({"round": 3}, "--round 3"),
        ({"undo": True}, "--entail and --undo"),
        ({"threshold": 1.5}, "--threshold 1.5"),
        ({"threshold": 0.5, "precision": 0.9}, "choose the threshold"),
        ({"unsure": 0.7, "threshold": 0.6}, "--unsure 0.7"),
        ({"judge": ("toy",), "threshold": 0.5, "unsure": 0.6}, r"--unsure 0\.6 .* 0\.5"),
        ({"judge": ("toy@0.2-0.8",), "threshold": 0.5}, "toy@0.2-0.8 gives limits"),
        ({"judge": ("toy@0.2-0.8", "toy")}, "twice: toy@0.2-0.8, toy"),
        ({"judge": ("tory",)}, "--judge tory"),
        ({"judge": ("toy",), "classifier": "x"}, "--judge and --classifier"),
        ({"judge": ("toy",), "model": "gpt"}, "--model gpt"),
    ],
)
def test_options_that_contradict_each_other_are_refused(wrong: dict[str, object], says: str, workdir: Path) -> None:
    with pytest.raises(UsageError, match=says):
        run(options(workdir, **wrong))


def test_an_empty_project_is_told_to_name_photos_and_one_with_sets_also_how_to_describe_them(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError) as empty:
        run(ReviseLabels(workdir=tmp_path))
    assert empty.value.hint.startswith(f"ctxr revise-labels PHOTOS --workdir {tmp_path}")
    (tmp_path / "sets").mkdir()
    with pytest.raises(UnfinishedError) as sets:
        run(ReviseLabels(workdir=tmp_path))
    assert sets.value.hint.startswith("ctxr export-tasks describe")
    assert "ctxr revise-labels PHOTOS" in sets.value.hint


def test_a_plan_names_the_round_that_was_made_with_its_options(workdir: Path) -> None:
    judge, planned = StandIn(workdir / "dataset"), options(workdir, split="test", entail=False)
    assert not run(planned, classifier=judge).notes
    run(options(workdir, split="test"), classifier=judge)
    assert [note.split(" was ")[0] for note in run(planned, classifier=judge).notes] == ["round 1"]
    assert not run(replace(planned, top_k=7), classifier=judge).notes
    assert not run(replace(planned, threshold=0.7), classifier=judge).notes


def test_another_judge_of_the_same_name_is_told_from_the_one_before(workdir: Path) -> None:
    judge, progress = StandIn(workdir / "dataset"), Listening()
    run(options(workdir, split="test"), classifier=judge)
    judge.fingerprint = "1" * 64
    run(options(workdir, split="test"), progress, judge)
    assert f"({judge.name}, now another {judge.name})" in progress.notes[0]


def test_an_option_of_an_endpoint_that_makes_another_judge_is_named_in_place_of_it(workdir: Path) -> None:
    judge, progress = StandIn(workdir / "dataset"), Listening()
    for number, most in enumerate((64, 128)):
        judge.fingerprint = str(number) * 64
        asked = options(workdir, split="test", judge=("endpoint:http://127.0.0.1:9/v1",), model="m", max_tokens=most)
        run(asked, progress, judge)
    (note,) = [note for note in progress.notes if note.startswith("round 1 ")]
    assert "--max-tokens (64, now 128)" in note
    assert judge.name not in note
