"""Sources: what was typed becomes named videos and albums."""

import os
from pathlib import Path

import pytest

from ctxr.data.sources import find_sources, safe_name
from ctxr.errors import UsageError


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_folders_files_and_globs_give_the_same_sources(tmp_path: Path) -> None:
    for name in ("a.mp4", "deep/b.webm", "notes.txt", ".hidden.mp4"):
        write(tmp_path / name, name)
    by_folder = find_sources([str(tmp_path)])
    by_files = find_sources([str(tmp_path / "a.mp4"), str(tmp_path / "deep" / "b.webm")])
    by_glob = find_sources([str(tmp_path / "**" / "*.[mw]*")])
    assert by_folder == by_files == by_glob
    assert [source.name for source in by_folder.found] == ["a", "b"]


def test_photos_of_one_folder_are_one_album(tmp_path: Path) -> None:
    for name in ("trip/1.jpg", "trip/2.JPG", "home/3.png"):
        write(tmp_path / name, name)
    found = find_sources([str(tmp_path)]).found
    assert [(source.name, source.kind, len(source.photos)) for source in found] == [
        ("home", "photos", 1),
        ("trip", "photos", 2),
    ]


def test_two_files_of_one_name_get_names_apart_that_do_not_depend_on_order(tmp_path: Path) -> None:
    write(tmp_path / "x" / "clip.mp4", "one")
    write(tmp_path / "y" / "clip.mp4", "two")
    names = [source.name for source in find_sources([str(tmp_path / "x"), str(tmp_path / "y")]).found]
    assert len(set(names)) == 2
    assert all(name.startswith("clip-") for name in names)
    assert names == [source.name for source in find_sources([str(tmp_path / "y"), str(tmp_path / "x")]).found]


def test_a_file_that_is_there_twice_counts_once_and_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", "same")
    write(tmp_path / "b.mp4", "same")
    search = find_sources([str(tmp_path)])
    assert [source.name for source in search.found] == ["a"]
    assert search.left_out[0][1] == f"the same content as {tmp_path / 'a.mp4'}"


def test_a_path_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        find_sources([str(tmp_path / "none")])


def test_a_folder_without_videos_or_photos_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "")
    with pytest.raises(UsageError, match="no video or photo in"):
        find_sources([str(tmp_path)])


@pytest.mark.parametrize(
    ("text", "name"), [("../../etc/passwd", "etc_passwd"), ("Ünï cødé", "n_c_d"), ("...", "source"), ("a b", "a_b")]
)
def test_a_name_is_safe_as_a_folder(text: str, name: str) -> None:
    assert safe_name(text) == name


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    os.mkfifo(tmp_path / "pipe.jpg")
    search = find_sources([str(tmp_path)])
    assert {(source.kind, source.bytes) for source in search.found} == {("photos", 0), ("video", 0)}
    assert search.left_out == ((tmp_path / "pipe.jpg", "cannot be read: not a regular file"),)
