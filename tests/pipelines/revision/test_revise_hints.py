"""What `ctxr revise-labels` says before a round: of an empty project, of wrong options, and of a round that was made already."""

from dataclasses import replace
from pathlib import Path

import pytest

from ctxr.errors import UnfinishedError, UsageError
from ctxr.metrics.alternative import Preference
from ctxr.pipelines.revision.auditing import favours_text
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from tests.pipelines.revision.stand_in import Listening, StandIn
from tests.pipelines.revision.test_revise import options


def test_an_empty_project_is_told_to_name_photos_and_one_with_sets_also_how_to_describe_them(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError) as empty:
        run(ReviseLabels(workdir=tmp_path))
    assert empty.value.hint.startswith(f"ctxr revise-labels PHOTOS --workdir {tmp_path}")
    (tmp_path / "sets").mkdir()
    with pytest.raises(UnfinishedError) as sets:
        run(ReviseLabels(workdir=tmp_path))
    assert sets.value.hint.startswith("ctxr export-tasks describe")
    assert "ctxr revise-labels PHOTOS" in sets.value.hint


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"unsure": 0.7, "threshold": 0.6}, "--unsure 0.7"),
        ({"round": 3}, "--round 3"),
        ({"round": 3, "entail": True}, "--round 3"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_anything_is_read(
    changes: dict[str, object], option: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=option):
        run(replace(ReviseLabels(workdir=tmp_path), **changes))  # type: ignore[arg-type]


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


@pytest.mark.parametrize(("difference", "word"), [(-0.019, "0.019 lower"), (0.2, "0.200 higher")])
def test_a_difference_is_a_size_and_a_direction(difference: float, word: str) -> None:
    assert word in favours_text(Preference(10, difference, 0.5), "", "hashed")
