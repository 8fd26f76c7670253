"""Sources: what was typed becomes named videos and albums."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ctxr.errors import UsageError
from ctxr.media.sources import find_sources
from ctxr.store.artifacts import MARKER


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
    assert by_folder.found == by_files.found == by_glob.found
    assert [source.name for source in by_folder.found] == ["a", "b"]


def test_each_reason_to_leave_files_out_is_one_sentence(tmp_path: Path) -> None:
    for name in ("a.mp4", "notes.txt", "deep/scores.csv", "funny.GIF", "new.avif"):
        write(tmp_path / name, name)
    for name in ("b.mp4", "c.mp4"):
        write(tmp_path / name, "a.mp4")
    for name in ("gone1.jpg", "gone2.jpg"):
        (tmp_path / name).symlink_to(tmp_path / name.replace("gone", "nowhere"))
    search = find_sources([str(tmp_path)])
    assert [source.name for source in search.found] == ["a"]
    lost, other, copies, moving, new = sorted(search.remarks(), key=lambda remark: (remark[0] != "2", remark))
    assert "a GIF" in moving
    assert "AVIF" in new
    assert lost.startswith("2 are left out: cannot be read: ")
    assert other.startswith("2 are left out: neither")
    assert copies.startswith("2 are left out: the same")
    assert all(name in other for name in ("notes.txt", "scores.csv"))
    (tmp_path / "c.mp4").unlink()
    assert any(
        line.startswith(f"{tmp_path / 'b.mp4'} ") and line.endswith(f" {tmp_path / 'a.mp4'}")
        for line in find_sources([str(tmp_path)]).remarks()
    )


def test_photos_of_one_folder_are_one_album(tmp_path: Path) -> None:
    for name in ("trip/1.jpg", "trip/2.JPG", "home/3.png"):
        write(tmp_path / name, name)
    found = find_sources([str(tmp_path)]).found
    assert [(source.name, source.kind, len(source.photos)) for source in found] == [
        ("home", "photos", 1),
        ("trip", "photos", 2),
    ]


@pytest.mark.parametrize("name", ["clip.mp4", "Clip.mp4"])
def test_two_files_of_one_name_in_any_case_get_names_apart_that_do_not_depend_on_order(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path / "x" / name, "one")
    write(tmp_path / "y" / "clip.mp4", "two")
    write(tmp_path / "x" / "Other.mp4", "three")
    names = [source.name for source in find_sources([str(tmp_path / "x"), str(tmp_path / "y")]).found]
    assert "Other" in names
    assert len({name.lower() for name in names}) == 3
    assert sum(name.lower().startswith("clip-") for name in names) == 2
    assert names == [source.name for source in find_sources([str(tmp_path / "y"), str(tmp_path / "x")]).found]


def test_a_file_that_is_typed_twice_is_no_copy_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.mp4", "one")
    monkeypatch.chdir(tmp_path)
    search = find_sources([str(tmp_path), "a.mp4"])
    assert ([source.name for source in search.found], search.left_out) == (["a"], ())


def test_a_folder_without_videos_or_photos_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "")
    with pytest.raises(UsageError, match="video or photo"):
        find_sources([str(tmp_path)])


def test_a_pipe_is_not_waited_for_and_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "pipe.mp4")
    (other,) = find_sources([str(tmp_path / "other")]).found
    (tmp_path / "other" / "pipe.mp4").rename(tmp_path / "pipe.mp4")
    os.mkfifo(tmp_path / "other" / "pipe.jpg")
    with pytest.raises(UsageError, match="video or photo"):
        find_sources([str(tmp_path / "other")])
    (tmp_path / "other" / "pipe.jpg").rename(tmp_path / "pipe.jpg")
    search = find_sources([str(tmp_path)])
    assert [(one.kind, one.bytes, one.sha256) for one in search.found] == [("video", 0, other.sha256)]
    ((file, why),) = search.left_out
    assert file == tmp_path / "pipe.jpg"
    assert "regular file" in why


def test_an_artifact_among_the_sources_is_left_out_and_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "clip.mp4", "footage")
    before = find_sources([str(tmp_path)])
    write(tmp_path / "work" / "sets" / MARKER, "")
    write(tmp_path / "work" / "sets" / "images" / "clip-shot0_0" / "img1.jpg", "a frame of it")
    write(tmp_path / "work" / ".ctxr-cache" / "img2.jpg", "another")
    monkeypatch.chdir(tmp_path)
    search = find_sources([".", str(Path("work"))])
    assert [source.sha256 for source in search.found] == [source.sha256 for source in before.found]
    ((folder, why),) = search.left_out
    assert folder == Path("work/sets")
    assert "artifact of ctxr" in why
    assert find_sources(["*", "work/*"]).left_out == search.left_out
    with pytest.raises(UsageError, match=r"work: work/sets .*artifact of ctxr"):
        find_sources(["work"])


@pytest.mark.parametrize("name", ["work/sets", "work/.ctxr-cache"])
def test_an_artifact_that_is_named_is_no_footage(tmp_path: Path, name: str) -> None:
    write(tmp_path / name / MARKER, "")
    write(tmp_path / name / "img1.jpg", "a frame")
    with pytest.raises(UsageError, match="artifact of ctxr") as raised:
        find_sources([str(tmp_path / name)])
    assert raised.value.hint == "name the videos, not the artifact"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("~nosuchuser/videos", "user 'nosuchuser'"),
        ("n" * 300, "name too long"),
        ("", "an empty name"),
        ("nowhere/none", "file or folder"),
    ],
)
def test_a_name_that_cannot_be_is_one_sentence(typed: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_sources([typed])


def named_in_bytes(folder: Path, name: bytes) -> Path:
    file = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text("footage")
    except OSError:
        pytest.skip("this file system takes only names that are text")
    return file


@pytest.mark.parametrize("name", [b"caf\xe9.mp4", b"caf\xe9.jpg", b"caf\xe9/1.jpg", b"caf\xe9/1.mp4"])
def test_a_name_that_is_no_text_costs_only_itself(tmp_path: Path, name: bytes) -> None:
    file = named_in_bytes(tmp_path, name)
    with pytest.raises(UsageError, match="not UTF-8"):
        find_sources([str(tmp_path)])
    write(tmp_path / "clip.mp4", "other footage")
    for typed in ([str(tmp_path)], [str(tmp_path / "clip.mp4"), str(file)], [str(tmp_path / "*")]):
        search = find_sources(typed)
        assert [source.name for source in search.found] == ["clip"]
        assert ["UTF-8" in why for _, why in search.left_out] == [True]


def test_an_album_in_a_folder_that_is_no_text_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(named_in_bytes(tmp_path, b"caf\xe9/1.jpg").parent)
    write(Path("clip.mp4"), "footage")
    search = find_sources(["."])
    assert [source.name for source in search.found] == ["clip"]
    ((folder, why),) = search.left_out
    assert folder == Path()
    assert "UTF-8" in why


def closed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nobody may list `folder`, whoever runs the tests."""
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_folder_that_cannot_be_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "clip.mp4", "footage")
    write(tmp_path / "locked" / "more.mp4", "more")
    closed(monkeypatch, tmp_path / "locked")
    search = find_sources([str(tmp_path)])
    assert [source.name for source in search.found] == ["clip"]
    assert search.left_out == ((tmp_path / "locked", "cannot be read: Permission denied"),)
    closed(monkeypatch, tmp_path)
    with pytest.raises(UsageError, match="is left out: cannot be read: Permission denied") as raised:
        find_sources([str(tmp_path)])
    assert raised.value.hint == f"chmod -R u+rX {tmp_path}"


def test_a_path_below_a_closed_folder_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", denied)
    with pytest.raises(UsageError, match=r"footage .*Permission denied"):
        find_sources([str(tmp_path / "locked" / "footage")])


def test_a_link_to_a_folder_is_named_and_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "videos" / "a.mp4", "a")
    write(tmp_path / "in" / "b.mp4", "b")
    (tmp_path / "in" / "more").symlink_to(tmp_path / "videos")
    search = find_sources([str(tmp_path / "in")])
    assert [source.name for source in search.found] == ["b"]
    ((folder, why),) = search.left_out
    assert folder == tmp_path / "in" / "more"
    assert "a link to" in why
