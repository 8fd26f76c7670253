"""Writing: the old file or the new one, and the disk's refusals in one sentence."""

import errno
import os
import re
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctxr.errors import CtxrError
from ctxr.store.atomic import disk_errors, link_or_copy, replace_folder, write_bytes


def test_a_write_replaces_the_whole_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_bytes(tmp_path / "f", b"old and long")
    write_bytes(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]


def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(tmp_path: Path) -> None:
    write_bytes(tmp_path / "f", b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(CtxrError, match="disk is full") as caught:
            write_bytes(tmp_path / "f", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "same command again" in caught.value.hint
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CtxrError, match="in its way"):
        write_bytes(tmp_path / "file" / "x", b"")


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    for name in ("final", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("")
    replace_folder(tmp_path / "made", tmp_path / "final")
    assert os.listdir(tmp_path) == ["final"]
    assert os.listdir(tmp_path / "final") == ["made"]


def test_a_link_is_the_same_file_replaces_what_was_there_and_can_be_made_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    for copy in ("a", "b", "b"):
        link_or_copy(tmp_path / "a", tmp_path / copy)
    assert (tmp_path / "b").read_text() == "a"
    assert (tmp_path / "b").stat().st_ino == (tmp_path / "a").stat().st_ino
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_linked_symlink_survives_the_link_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "link").symlink_to("a")
    link_or_copy(tmp_path / "link", tmp_path / "far" / "copy")
    assert not (tmp_path / "far" / "copy").is_symlink()
    assert (tmp_path / "far" / "copy").read_text() == "a"


@pytest.mark.parametrize("linking", [True, False])
def test_what_was_there_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linking: bool
) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace" if linking else "os.link", refuse)
    monkeypatch.setattr("pathlib.Path.replace" if linking else "shutil.copyfile", refuse)
    with pytest.raises(CtxrError, match="disk is full"):
        link_or_copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "make the folder"),
        (errno.EROFS, "choose another folder"),
        (errno.ENOTDIR, "choose another folder"),
        (errno.EIO, "choose another folder"),
    ],
)
def test_every_refusal_of_the_disk_names_the_file_and_a_cure(tmp_path: Path, number: int, hint: str) -> None:
    with pytest.raises(CtxrError, match=re.escape(str(tmp_path))) as caught, disk_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert caught.value.hint.startswith(hint)


def test_writers_of_one_file_do_not_trip_over_one_another(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(50):
            write_bytes(tmp_path / "f", bytes([number]) * 1000, durable=False)

    with ThreadPoolExecutor(8) as pool:
        for job in [pool.submit(write, number) for number in range(8)]:
            job.result()
    assert len(set((tmp_path / "f").read_bytes())) == 1
    assert os.listdir(tmp_path) == ["f"]
