"""The dataset that runs were made on: found by content in their project or where it lay then, or missed in one sentence."""

from pathlib import Path

import pytest

from ctxr.datasets.lineage import common_dataset, content_of, picture_parents, remember_dataset
from ctxr.engine.progress import SILENT
from ctxr.errors import UnfinishedError, UsageError
from ctxr.store.artifacts import Content, Parent, finish, open_artifact
from tests.pipelines.modelling.training.test_train import Note
from tests.releases import TRAIN, VALID, draw_sets, write_release


def artifact(folder: Path, kind: str, *parents: Parent, note: str = "") -> Path:
    config = {"note": note}
    finish(folder, kind=kind, verb="test", config=config, parents=parents, content=Content([], {}, {}))
    return folder


def dataset(folder: Path, note: str = "") -> Path:
    return artifact(folder, "dataset", note=note)


def made_on(run: Path, *folders: Path) -> Path:
    return artifact(run, "run", *(Parent(one.name, "dataset", open_artifact(one).sha256) for one in folders))


def test_the_dataset_of_runs_is_found_in_their_project_beside_newer_ones(tmp_path: Path) -> None:
    old, progress = dataset(tmp_path / "dataset", "old"), Note()
    dataset(tmp_path / "revised", "new")
    runs = [made_on(tmp_path / "runs" / name, old) for name in ("a", "b", "c")]
    assert common_dataset(runs, progress) == old
    (line,) = progress.said
    assert line.endswith(f" a and 2 more on {old}")
    assert common_dataset([artifact(tmp_path / "runs" / "mute", "run"), runs[0]], progress) == old


def test_runs_that_name_no_dataset_leave_the_choice_open(tmp_path: Path) -> None:
    assert common_dataset([], Note()) is None
    regions = Parent("grid", "regions", "ab" * 32)
    assert common_dataset([artifact(tmp_path / "runs" / "mute", "run", regions)], Note()) is None


def test_a_dataset_outside_the_project_is_found_where_it_lay_while_it_is_as_it_was(tmp_path: Path) -> None:
    far = dataset(tmp_path / "far", "one")
    run = made_on(tmp_path / "work" / "runs" / "a", far)
    with pytest.raises(UnfinishedError, match=": a on far") as caught:
        common_dataset([run], Note())
    assert caught.value.hint == "--dataset PATH   names its folder"
    remember_dataset(run, far)
    assert common_dataset([run], Note()) == far
    dataset(far, "another")
    with pytest.raises(UnfinishedError, match="has changed"):
        common_dataset([run], Note())


def test_a_dataset_that_was_made_anew_is_offered_and_not_taken(tmp_path: Path) -> None:
    run = made_on(tmp_path / "runs" / "a", dataset(tmp_path / "dataset", "old"))
    dataset(tmp_path / "dataset", "new")
    with pytest.raises(UnfinishedError, match=": a on dataset") as caught:
        common_dataset([run], Note())
    assert caught.value.hint.startswith(f"--dataset {tmp_path / 'dataset'}   ")


def test_runs_on_different_datasets_are_not_evaluated_together_unasked(tmp_path: Path) -> None:
    first, second = dataset(tmp_path / "dataset"), dataset(tmp_path / "revised", "new")
    runs = [made_on(tmp_path / "runs" / "a", first), made_on(tmp_path / "runs" / "b", second)]
    told = f": a on {first}, b on {second}"
    with pytest.raises(UsageError, match=told) as caught:
        common_dataset(runs, Note())
    assert caught.value.hint.startswith(f"--dataset {first}   ")


def test_runs_that_asked_different_things_of_one_release_have_it_in_common(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    runs = [
        artifact(tmp_path / "work" / "runs" / name, "run", Parent("release", "release", digest * 32))
        for name, digest in (("a", "ab"), ("b", "cd"))
    ]
    with pytest.raises(UnfinishedError, match="a and 1 more on release"):
        common_dataset(runs, Note())
    for run in runs:
        remember_dataset(run, release)
    assert common_dataset(runs, Note()) == release


def test_published_pairs_are_what_they_are_read_from_in_its_folder(tmp_path: Path) -> None:
    pairs = tmp_path / "snli"
    (pairs / "captions").mkdir(parents=True)
    (pairs / "train.tsv").write_text("pairID\n1\n")
    (pairs / "captions" / "a.json").write_text("{}")
    before = content_of(pairs)
    artifact(pairs / "runs" / "a", "run")
    (pairs / "notes.log").write_text("read by nobody")
    assert content_of(pairs) == before
    (pairs / "captions" / "a.json").rename(pairs / "a.json")
    assert content_of(pairs) != before
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no dataset"):
        content_of(tmp_path / "empty")


def test_pictures_of_a_release_are_known_by_the_manifest_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = write_release(tmp_path / "release", test=None)
    draw_sets(release, [*TRAIN, *VALID])
    hashed = picture_parents(release, content_of(release), tmp_path / "one", SILENT)
    files = [file.relative_to(release).as_posix() for file in release.rglob("*.*")]
    finish(release, kind="export", verb="export", config={}, parents=[], content=Content(files, {}, {}))
    monkeypatch.setattr("ctxr.datasets.changes.sha256_file", None)
    assert picture_parents(release, content_of(release), tmp_path / "two", SILENT) == hashed
