"""Artifacts: the manifest is last, says everything, and is believed only when it can be."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from ctxr.engine.project import CHAIN, latest
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.store.artifacts import (
    FORMAT,
    MANIFEST,
    MARKER,
    Artifact,
    Content,
    Parent,
    finish,
    finished,
    json_config,
    locked,
    open_artifact,
    require_ours,
)

PARENT = Parent("clip", "video", "ab" * 32)


def make(path: Path, config: dict[str, object] | None = None) -> Artifact:
    path.mkdir(parents=True, exist_ok=True)
    (path / "t.jsonl").write_text("{}\n")
    return finish(
        path,
        kind="image_sets",
        verb="build-sets",
        config=config or {"rate": 5.0},
        parents=[PARENT],
        content=Content(["t.jsonl"], {"sets": 1}, {}),
    )


def test_an_artifact_is_finished_for_its_own_kind_config_and_parents_only(tmp_path: Path) -> None:
    made = make(tmp_path / "a")
    assert make(tmp_path / "b").sha256 == made.sha256
    with pytest.raises(DataError, match="holds image_sets, not dataset"):
        open_artifact(tmp_path / "a", "dataset")
    arguments = (tmp_path / "a", "image_sets", "build-sets")
    assert finished(*arguments, {"rate": 5.0}, [PARENT]) is not None
    assert finished(*arguments, {"rate": 2.0}, [PARENT]) is None
    assert finished(*arguments, {"rate": 5.0}, []) is None
    assert finished(*arguments, {"rate": 5.0}, [Parent("renamed", PARENT.kind, PARENT.sha256)]) is not None


def test_a_folder_without_manifest_is_unfinished(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="has no manifest"):
        open_artifact(tmp_path)
    with pytest.raises(UnfinishedError, match="does not exist"):
        open_artifact(tmp_path / "none")


def test_a_folder_that_ranks_worked_on_says_how_to_merge_it(tmp_path: Path) -> None:
    (tmp_path / "my sets" / "sources").mkdir(parents=True)
    (tmp_path / "my sets" / "sources" / ".0-of-2.rank").touch()
    with pytest.raises(UnfinishedError, match="has no manifest") as caught:
        open_artifact(tmp_path / "my sets", maker="ctxr build-sets videos/")
    assert caught.value.hint.startswith(f"ctxr merge '{tmp_path / 'my sets'}'")
    (tmp_path / "my sets").rename(tmp_path / "sets")
    with pytest.raises(UnfinishedError, match="has no manifest") as caught:
        latest(tmp_path, CHAIN)
    assert caught.value.hint.startswith(f"ctxr merge {tmp_path / 'sets'}")


def test_a_newer_format_is_refused_with_the_cure(tmp_path: Path) -> None:
    make(tmp_path / "a")
    file = tmp_path / "a" / MANIFEST
    file.write_text(file.read_text().replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'))
    with pytest.raises(DataError, match=f"format {FORMAT + 1}, newer") as caught:
        open_artifact(tmp_path / "a")
    assert "newer ctxr" in caught.value.hint


def test_a_damaged_manifest_is_one_sentence(tmp_path: Path) -> None:
    make(tmp_path / "a")
    (tmp_path / "a" / MANIFEST).write_text('{"kind": ')
    with pytest.raises(DataError, match="not a manifest") as caught:
        open_artifact(tmp_path / "a")
    assert caught.value.hint == "name another folder"  # a web page's, say: never to be deleted
    (tmp_path / "a" / ".ctxr").touch()
    with pytest.raises(DataError, match="is damaged") as caught:
        open_artifact(tmp_path / "a")
    assert str(tmp_path / "a") in caught.value.hint
    assert "delete" not in caught.value.hint


def test_a_folder_is_held_against_another_process_and_freed_by_its_death(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    holder = (
        "import sys; from pathlib import Path; from ctxr.store.artifacts import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(UnfinishedError, match="written by another"), locked(folder):
            pass
        process.kill()
        process.wait()
    for _ in range(2):
        with locked(folder):
            assert (folder / MARKER).read_bytes() == b""
    assert [path.name for path in folder.iterdir()] == [MARKER]


def test_a_run_that_fails_leaves_a_folder_only_if_something_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    for shared, half, kept in ((True, "", True), (False, "", False), (False, "half", True)):
        (folder / half).mkdir(parents=True, exist_ok=True)
        with pytest.raises(ValueError, match="broken"), locked(folder, shared=shared):
            raise ValueError("broken")
        assert folder.exists() == kept

    def late(*_: object) -> bool:
        (folder / MARKER).unlink()
        return True

    # another process may have opened the marker before it was removed: its lock is worth nothing
    monkeypatch.setattr("ctxr.store.artifacts.take_lock", late)
    with pytest.raises(UnfinishedError, match="written by another"), locked(folder):
        pass


def test_partial_files_of_a_killed_run_are_removed_at_any_depth_but_not_through_a_link(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "a", tmp_path / "elsewhere"
    killed = [
        folder / name for name in (".sets.jsonl.12-ab12cd34.part", "images/clip-shot0_0/.img7.jpg.12-ab12cd34.part")
    ]
    kept = [elsewhere / ".img7.jpg.12-ab12cd34.part", folder / "images/.download.part", folder / "images/img7.part"]
    for file in (*killed, *kept):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (folder / "images" / "linked").symlink_to(elsewhere)
    with locked(folder, shared=True):
        assert all(file.exists() for file in killed)
    with locked(folder):
        assert not any(file.exists() for file in killed)
    assert all(file.exists() for file in kept)


@pytest.mark.parametrize(
    ("number", "kind", "sentence", "hint"),
    [
        (errno.ENOLCK, CtxrError, "no file locks", "where flock works"),
        (errno.EIO, CtxrError, "cannot be written: refused", "choose another folder"),
        (errno.EWOULDBLOCK, UnfinishedError, "written by another", "wait for it"),
    ],
)
def test_a_lock_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[CtxrError], sentence: str, hint: str
) -> None:
    def refuse(stream: object, operation: int) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(kind, match=sentence) as caught, locked(tmp_path / "a"):
        pass
    assert hint in caught.value.hint


def test_a_file_and_a_folder_with_strangers_in_it_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_text("precious")
    with pytest.raises(UsageError, match="is a file, not a folder"):
        require_ours(tmp_path / "photo.jpg")
    with pytest.raises(UsageError, match=r"'photo\.jpg'") as caught:
        require_ours(tmp_path)
    assert "--out" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_new_an_empty_and_an_own_folder_are_taken_and_marked(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    make(tmp_path / "finished")
    for name in ("new/deep", "empty", "finished", "empty"):
        require_ours(tmp_path / name)
        with locked(tmp_path / name):
            assert (tmp_path / name / MARKER).read_bytes() == b""
        (tmp_path / name / "sets.jsonl").write_text("")


def test_a_configuration_reads_back_as_it_is_compared() -> None:
    assert json_config({"a": (1, 2), "b": Path("x/y"), "c": None}) == {"a": [1, 2], "b": "x/y", "c": None}
