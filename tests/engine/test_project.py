"""Which artifact of the project is read: the furthest finished one, and what is said about the choice."""

from pathlib import Path

import pytest

from ctxr.engine.progress import SILENT, Silent
from ctxr.engine.project import CHAIN, SETS, chosen, latest
from ctxr.errors import UnfinishedError
from ctxr.store.artifacts import Artifact, Content, Parent, finish


def write(path: Path, verb: str, *made_from: Artifact, salt: str = "") -> Artifact:
    path.mkdir(parents=True, exist_ok=True)
    parents = [Parent(one.path.name, "image_sets", one.sha256) for one in made_from]
    return finish(
        path, kind="image_sets", verb=verb, config={"salt": salt}, parents=parents, content=Content([], {}, {})
    )


def test_the_furthest_finished_artifact_is_taken_without_a_word(tmp_path: Path) -> None:
    made: list[Artifact] = []
    for name, verb in (("sets", "build-sets"), ("filtered", "filter"), ("dataset", "aggregate")):
        made = [write(tmp_path / name, verb, *made)]
        assert latest(tmp_path, CHAIN) == (tmp_path / name, [])
    assert latest(tmp_path, SETS) == (tmp_path / "filtered", [])


def test_what_is_further_and_unfinished_is_passed_over_and_said_but_not_what_lies_between(tmp_path: Path) -> None:
    sets = write(tmp_path / "sets", "build-sets")
    for name in ("filtered", "dataset"):
        (tmp_path / name).mkdir()
    path, notes = latest(tmp_path, CHAIN)
    assert path == tmp_path / "sets"
    assert [note.split()[0] for note in notes] == ["dataset", "filtered"]
    write(tmp_path / "dataset", "aggregate", sets)
    assert latest(tmp_path, CHAIN) == (tmp_path / "dataset", [])


def test_every_step_whose_origin_was_made_anew_is_said_with_its_command(tmp_path: Path) -> None:
    filtered = write(tmp_path / "filtered", "filter", write(tmp_path / "sets", "build-sets"))
    write(tmp_path / "dataset", "aggregate", filtered)
    write(tmp_path / "sets", "build-sets", salt="other")

    def said() -> list[tuple[str, str]]:
        return [(note.split()[0], note.partition("ctxr ")[2].split()[0]) for note in latest(tmp_path, CHAIN).notes]

    assert latest(tmp_path, CHAIN).path == tmp_path / "dataset"
    assert said() == [("filtered", "filter")]
    write(tmp_path / "filtered", "filter", salt="other")
    assert said() == [("dataset", "aggregate"), ("filtered", "filter")]


def test_without_anything_finished_the_error_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="finished image sets") as caught:
        latest(tmp_path / "nowhere", CHAIN)
    assert "ctxr build-sets" in caught.value.hint
    for name in ("filtered", "sets"):
        (tmp_path / name).mkdir()
        with pytest.raises(UnfinishedError, match=rf"{name} has no manifest\.json"):
            latest(tmp_path, CHAIN)


def test_a_missing_dataset_is_said_as_such(tmp_path: Path) -> None:
    write(tmp_path / "sets", "build-sets")
    here = f"-w {tmp_path}"
    with pytest.raises(UnfinishedError, match="no finished dataset") as caught:
        latest(tmp_path, ("dataset",))
    assert caught.value.hint.startswith(f"ctxr export-tasks describe {here}, ctxr serve --invite 5 {here}")
    for folder, hint in (
        ("tasks/describe", f"ctxr aggregate {here}, once people have"),
        ("crowd", f"ctxr aggregate {here}   (or"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        with pytest.raises(UnfinishedError) as caught:
            latest(tmp_path, ("dataset",))
        assert caught.value.hint.startswith(hint)
    (tmp_path / "dataset").mkdir()
    with pytest.raises(UnfinishedError, match=r"dataset .*manifest\.json") as caught:
        latest(tmp_path, ("dataset",))
    assert caught.value.hint.endswith(f"ctxr aggregate {here}")


def test_a_named_artifact_is_taken_as_it_is_and_a_found_one_with_its_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(Silent, "warn", lambda _, text: warnings.append(text))
    assert chosen(tmp_path / "mine", tmp_path, SETS, SILENT) == tmp_path / "mine"
    write(tmp_path / "sets", "build-sets")
    (tmp_path / "filtered").mkdir()
    assert chosen(None, tmp_path, SETS, SILENT) == tmp_path / "sets"
    assert [warning.split()[0] for warning in warnings] == ["filtered"]
