"""Exports: equal bytes, refusals in a sentence, nothing half-made, and a card that invents nothing."""

import json
import os
import resource
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.writers.job import ExportJob, check_names
from ctxr.engine import stage as place
from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.pipelines.inspection.artifact_check import check_artifact
from ctxr.pipelines.sharing.config import Export
from ctxr.pipelines.sharing.export import run
from ctxr.problems.question import Subject
from ctxr.store.artifacts import Content, finish, locked, open_artifact
from tests.exports import export, forge
from tests.pipelines.curation.test_build_sets import same_tree

runner = CliRunner()

SET_FORMATS = Subject.formats


@pytest.fixture
def own(sets: Path, tmp_path: Path) -> Path:
    """A copy of the sets that a test may harm, with what is remembered beside them."""
    shutil.copytree(sets.parent, tmp_path / "own")
    return tmp_path / "own" / "sets"


@pytest.mark.parametrize("to", SET_FORMATS)
def test_two_equal_exports_are_byte_equal(
    described: Path, exported: Callable[[str], Path], tmp_path: Path, to: str
) -> None:
    export(described, tmp_path / "elsewhere" / "b", to)
    assert same_tree(exported(to), tmp_path / "elsewhere" / "b")
    assert {check.state for check in check_artifact(exported(to), Silent())} == {"ok"}


def test_shards_are_bounded_and_bear_nothing_of_the_machine(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 150_000
    # the option counts whole megabytes, and this footage is small
    monkeypatch.setattr(
        "ctxr.pipelines.sharing.export.ExportJob", lambda *given: replace(ExportJob(*given), shard_bytes=most)
    )
    export(sets, tmp_path / "tars", "webdataset")
    tars = sorted((tmp_path / "tars").glob("*.tar"))
    assert len(tars) > 3
    samples = 0
    for tar in tars:
        with tarfile.open(tar) as opened:
            members = opened.getmembers()
        keys = {member.name.partition(".")[0] for member in members}
        samples += len(keys)
        assert sum(512 + -(-member.size // 512) * 512 for member in members) <= most or len(keys) == 1
        assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {
            (0, 0, 0, "", "")
        }
    assert samples == open_artifact(sets).manifest.counts["sets"]
    export(sets, tmp_path / "parquet", "hf")
    assert len(list((tmp_path / "parquet" / "data").glob("train-*.parquet"))) > 1


def test_filtered_is_taken_before_sets_whatever_is_younger(own: Path, tmp_path: Path) -> None:
    shutil.copytree(own, own.parent / "filtered")
    for name, age in (("sets", 2), ("filtered", 1)):
        os.utime(own.parent / name / "manifest.json", (age, age))
    result = runner.invoke(app, ["export", "--to", "fiftyone", "-w", str(own.parent), "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["read"] == str(own.parent / "filtered")
    assert report["export"] == str(own.parent / "export-fiftyone")
    # the copy names no sets as its parent
    assert "filtered was made" in " ".join(result.stderr.split())
    (own.parent / "filtered" / "manifest.json").unlink()
    assert run(Export(to="fiftyone", workdir=own.parent)).read == own.parent / "sets"
    with pytest.raises(UnfinishedError, match="no finished image"):
        run(Export(to="hf", workdir=tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": ""}, "--to is missing"),
        ({"to": "webdatset"}, "--to webdatset"),
        ({"to": "hf", "shard_mb": 0}, "--shard-mb 0"),
        ({"to": "recipe", "jobs": -1}, "--jobs -1"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_written(
    sets: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(Export(input=sets, out=tmp_path / "out", **options))
    assert not (tmp_path / "out").exists()


def test_an_export_does_not_go_where_something_else_is(own: Path, tmp_path: Path) -> None:
    for out in (own, own / "inside", own.parent):
        with pytest.raises(UsageError, match="inside one another"):
            export(own, out, "hf")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"'thesis\.txt'"):
        export(own, tmp_path / "foreign", "hf")
    shutil.copytree(own, tmp_path / "other")
    with pytest.raises(UsageError, match="holds image_sets, not an export"):
        export(own, tmp_path / "other", "hf")
    (tmp_path / "other" / "manifest.json").unlink()
    with pytest.raises(UsageError, match="of another kind"):
        export(own, tmp_path / "other", "hf")
    with locked(tmp_path / "busy"), pytest.raises(UnfinishedError, match="another ctxr process"):
        export(own, tmp_path / "busy", "hf")


@pytest.mark.parametrize("to", [to for to in SET_FORMATS if to != "mteb"])  # which takes pictures that are asked about
@pytest.mark.parametrize(("harm", "message"), [("gone", "cannot be read"), ("changed", "was changed since")])
def test_a_picture_that_is_missing_or_changed_is_named(
    own: Path, tmp_path: Path, to: str, harm: str, message: str
) -> None:
    picture = next((own / "images" / "album").glob("*.png"))
    content = picture.read_bytes()
    picture.unlink()
    if harm == "changed":
        picture.write_bytes(content + b"!")
    with pytest.raises(DataError, match=f"album/{picture.name}.*{message}"):
        export(own, tmp_path / "out", to)
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not (tmp_path / "out" / ".making").exists()


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("images.jsonl", '"path":"images/album/p1.png"', '"path":"../../secret.png"', "not stay inside"),
        ("images.jsonl", '"path":"images/album/p1.png"', '"path":"/etc/passwd"', "not stay inside"),
        ("sets.jsonl", '"id":"clip0-shot0_0"', '"id":"../../clip0"', "of a folder"),
        ("sets.jsonl", '"id":"clip1-shot0_1"', '"id":"CLIP1-shot0_0"', "differs from 'CLIP1-shot0_0' in case only"),
        ("sets.jsonl", '"id":"clip1-shot0_1"', '"id":"clip1-shot0_0"', "same key id='clip1-shot0_0'"),
        ("sets.jsonl", '"album/p1.png"', '"album/p77.png"', "'album/p77.png', which images.jsonl"),
    ],
)
def test_a_table_that_leads_elsewhere_is_refused(
    own: Path, tmp_path: Path, table: str, old: str, new: str, message: str
) -> None:
    assert old in (own / table).read_text()
    forge(own / table, lambda text: text.replace(old, new))
    with pytest.raises(DataError, match=message):
        export(own, tmp_path / "out", "imagecode")
    assert not list(tmp_path.glob("*.png"))


def test_a_set_that_is_a_folder_has_a_name_of_at_most_200_characters(own: Path) -> None:
    dataset = open_sets(own)
    long, longer = (structs.replace(dataset.sets[0], id="a" * length) for length in (200, 201))
    check_names(replace(dataset, sets=(long,)))
    with pytest.raises(DataError, match="of a folder"):
        check_names(replace(dataset, sets=(longer,)))


def test_a_link_out_of_the_artifact_is_not_followed(own: Path, tmp_path: Path) -> None:
    picture = own / "images" / "album" / "p1.png"
    shutil.move(picture, tmp_path / "p1.png")
    picture.symlink_to(tmp_path / "p1.png")
    with pytest.raises(DataError, match="not stay inside"):
        export(own, tmp_path / "out", "hf")


def test_an_edited_table_is_not_exported(own: Path, tmp_path: Path) -> None:
    (own / "splits.jsonl").write_text("")
    with pytest.raises(DataError, match=r"splits\.jsonl was changed"):
        export(own, tmp_path / "out", "hf")


@pytest.mark.parametrize("to", ["hf", "webdataset", "croissant"])
def test_a_full_disk_is_one_sentence_and_leaves_the_old_export(own: Path, tmp_path: Path, to: str) -> None:
    export(own, tmp_path / "out", to)
    before = {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(CtxrError, match="disk is full"):
            export(own, tmp_path / "out", to, hide_test=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert before == {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()}


class Killed(BaseException):
    """What a kill looks like from inside: nothing is tidied up after it."""


def test_a_run_killed_while_files_are_moved_is_made_whole_and_leaves_nothing(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(sets, tmp_path / "out", "imagecode")
    (tmp_path / "out" / "mine.txt").write_text("a user's own")
    listed = len(open_artifact(tmp_path / "out").manifest.files)
    moved: list[str] = []
    real = place._keep_inside

    def killed(out: Path, file: Path) -> None:
        moved.append(file.name)
        if len(moved) == listed + 100:  # the old files are gone, some new ones are in place
            raise Killed
        real(out, file)

    with monkeypatch.context() as patched:
        patched.setattr(place, "_keep_inside", killed)
        with pytest.raises(Killed):
            export(sets, tmp_path / "out", "imagecode", hide_test=True)
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert (tmp_path / "out" / ".making").exists() or (tmp_path / "out" / ".leaving").exists()
    export(sets, tmp_path / "out", "webdataset")
    export(sets, tmp_path / "fresh", "webdataset")
    (tmp_path / "fresh" / "mine.txt").write_text("a user's own")
    assert same_tree(tmp_path / "out", tmp_path / "fresh")


@pytest.mark.parametrize("name", ["../victim.txt", "/victim.txt"])
def test_a_forged_list_of_files_removes_nothing_outside(sets: Path, tmp_path: Path, name: str) -> None:
    export(sets, tmp_path / "out", "fiftyone")
    (tmp_path / "victim.txt").write_text("precious")
    manifest = tmp_path / "out" / "manifest.json"
    listed = name if name.startswith("..") else str(tmp_path / "victim.txt")
    manifest.write_text(manifest.read_text().replace('"samples.json"', json.dumps(listed)))
    with pytest.raises(DataError, match="not inside it"):
        export(sets, tmp_path / "out", "fiftyone", hide_test=True)
    assert (tmp_path / "victim.txt").read_text() == "precious"


def test_test_answers_can_be_kept_back(described: Path, exported: Callable[[str], Path], tmp_path: Path) -> None:
    export(described, tmp_path / "hidden", "webdataset", hide_test=True)

    def answers(folder: Path) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for shard in sorted(folder.glob("*.tar")):
            with tarfile.open(shard) as tar:
                for member in tar:
                    stream = tar.extractfile(member)
                    if member.name.endswith(".json") and stream is not None:
                        row = json.loads(stream.read())
                        found.setdefault(row["split"], []).extend(query["judgments"] for query in row["queries"])
        return found

    assert all(answers(exported("webdataset"))["test"])
    hidden = answers(tmp_path / "hidden")
    assert hidden["test"]
    assert not any(hidden["test"])
    assert all(hidden["valid"])


def test_without_pyarrow_the_hint_says_what_to_install(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(CtxrError, match="package pyarrow") as caught:
        export(sets, tmp_path / "out", "hf")
    assert caught.value.hint == "pip install pyarrow"


def test_an_export_that_was_edited_is_made_again(sets: Path, tmp_path: Path) -> None:
    export(sets, tmp_path / "out", "fiftyone")
    (tmp_path / "out" / "samples.json").write_text("{}")
    assert not export(sets, tmp_path / "out", "fiftyone").up_to_date
    export(sets, tmp_path / "fresh", "fiftyone")
    assert same_tree(tmp_path / "out", tmp_path / "fresh")


def test_a_card_that_was_edited_is_kept_beside_the_new_one(sets: Path, tmp_path: Path) -> None:
    run(Export(input=sets, to="webdataset", out=tmp_path / "out"))
    card = tmp_path / "out" / "README.md"
    card.write_text(card.read_text() + "my own words\n")
    run(Export(input=sets, to="webdataset", out=tmp_path / "out"))
    assert "my own words" in (tmp_path / "out" / "README.edited.md").read_text()
    assert "my own words" not in card.read_text()


def test_an_export_is_not_replaced_by_another_format(sets: Path, tmp_path: Path) -> None:
    run(Export(input=sets, to="webdataset", out=tmp_path / "out"))
    with pytest.raises(UsageError, match="to webdataset, not to croissant"):
        run(Export(input=sets, to="croissant", out=tmp_path / "out"))


def test_what_was_only_renamed_is_a_note_and_not_left_out(sets: Path, tmp_path: Path) -> None:
    given = ["export", "--to", "imagecode", "--input", str(sets), "--out", str(tmp_path / "out")]
    shown = " ".join(runner.invoke(app, given).stdout.split())
    assert "nothing notes" in shown
    assert "static sets carry `open-images-` before their name" in shown
    again = json.loads(runner.invoke(app, [*given, "--json"]).stdout)
    assert (again["up_to_date"], again["left_out"]) == (True, [])
    assert any("static sets carry" in line for line in again["notes"])
    assert "static sets carry" in (tmp_path / "out" / "README.md").read_text()


def test_a_recipe_of_sets_that_name_no_encoder_names_none(described: Path, tmp_path: Path) -> None:
    shutil.copytree(described.parent, tmp_path, dirs_exist_ok=True)
    made = open_artifact(described).manifest
    content = Content([*made.files], made.counts, {})
    finish(tmp_path / "sets", kind=made.kind, verb=made.verb, config=made.config, parents=made.parents, content=content)
    export(tmp_path / "sets", tmp_path / "out", "recipe")
    assert json.loads((tmp_path / "out" / "recipe.json").read_text())["models"] == {}
