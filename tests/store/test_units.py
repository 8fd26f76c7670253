"""Units: nothing in them leads out of the artifact, and tidying up takes nothing that is not ours."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ctxr.errors import DataError
from ctxr.store.atomic import write_bytes
from ctxr.store.records import Facts, Image, Source
from ctxr.store.units import (
    SourceUnit,
    UnitKeys,
    merge_units,
    photo_names,
    read_unit,
    scanned_unit,
    tidy,
    unit_folder,
    write_unit,
)

PICTURE = "images/clip-shot0_0/img7.jpg"
DROPPED = "dropped/clip/img9.jpg"


def unit(name: str = "clip") -> SourceUnit:
    return SourceUnit(
        stamp=UnitKeys("scan", "select", {}),
        source=Source(name, "video", f"{name}.mp4", "ab" * 32, 10),
        shots=[],
        ledger=[],
        facts=[Facts(name, 9, DROPPED, "cd" * 32, 4, 4)],
        sets=[],
        images=[Image(f"{name}/img7", PICTURE, "ef" * 32, name, 4, 4, 7)],
        vectors=np.zeros((0, 4), np.float32),
        exact=np.zeros((0, 4), np.float32),
    )


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_unit_reads_back_as_it_was_written(tmp_path: Path) -> None:
    write_unit(tmp_path, unit())
    back = read_unit(tmp_path, "clip")
    assert (back.source, back.images, back.facts) == (unit().source, unit().images, unit().facts)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../sets/img7.jpg", "images/../../x.jpg", "", "a\\\\..\\\\b.jpg", "C:/x.jpg"]
)
@pytest.mark.parametrize(("table", "old"), [("images", PICTURE), ("facts", DROPPED)])
def test_a_path_that_leads_out_of_the_artifact_is_refused_by_file_and_row(
    tmp_path: Path, table: str, old: str, path: str
) -> None:
    write_unit(tmp_path, unit())
    edit(unit_folder(tmp_path, "clip") / f"{table}.jsonl", f'"{old}"', f'"{path}"')
    with pytest.raises(DataError, match=rf"sources/clip/{table}\.jsonl: row 1 .*inside the artifact") as caught:
        read_unit(tmp_path, "clip")
    assert str(unit_folder(tmp_path, "clip")) in caught.value.hint


@pytest.mark.parametrize("name", ["other", "..", "../clip", ".hidden", "a/b", ""])
def test_a_unit_that_calls_itself_otherwise_than_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    write_unit(tmp_path, unit())
    edit(unit_folder(tmp_path, "clip") / "source.json", '"name": "clip"', f'"name": "{name}"')
    with pytest.raises(DataError, match=r"source\.json is of"):
        read_unit(tmp_path, "clip")
    assert scanned_unit(tmp_path, "clip", unit().stamp.scan) is None


@pytest.mark.parametrize("name", ["..", "../x", ".hidden", "a/b", "", "/etc"])
def test_a_name_that_is_no_plain_folder_is_refused_before_anything_is_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="a valid name"):
        read_unit(tmp_path, name)
    with pytest.raises(DataError, match="a valid name"):
        write_unit(tmp_path, msgspec_rename(unit(), name))


def msgspec_rename(made: SourceUnit, name: str) -> SourceUnit:
    return SourceUnit(**{**vars(made), "source": msgspec.structs.replace(made.source, name=name)})


def test_a_head_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    write_unit(tmp_path, unit())
    (unit_folder(tmp_path, "clip") / "shots.jsonl").unlink()
    (unit_folder(tmp_path, "clip") / "shots.jsonl").symlink_to("shots.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read_unit(tmp_path, "clip")


def test_the_manifest_hears_of_every_file_of_a_unit(tmp_path: Path) -> None:
    write_unit(tmp_path, unit())
    listed = merge_units(tmp_path, [unit()])
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert there == set(listed)


def test_photos_whose_names_differ_in_case_get_files_apart() -> None:
    assert photo_names([Path("a.jpg"), Path("A.JPG"), Path("b.jpg")]) == ["a.jpg", "A-1.jpg", "b.jpg"]


def test_tidying_removes_what_earlier_runs_left(tmp_path: Path) -> None:
    write_unit(tmp_path, unit())
    write_unit(tmp_path, unit("gone"))
    write_bytes(tmp_path / PICTURE, b"")
    write_bytes(tmp_path / DROPPED, b"")
    kept = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} - {Path("sources/gone")}
    kept = {path for path in kept if path.parent.name != "gone"}
    left = [
        "images/clip-shot0_0/img8.jpg",
        "images/clip-shot0_1/img7.jpg",
        "images/album/p_1-2.jpeg",
        "dropped/gone/img1.jpg",
        "dropped/clip/.img9.jpg.12-ab.part",
        "sources/.clip.vectors",
        "sources/.album.shard256.npy",
        "sources/.album.shard256.json",
        "sources/..album.shard0.json.12-ab.part",
        "sources/.clip.making/shots.jsonl",
        "sources/.clip.old/source.json",
        "sources/.clip.failed",
        "sources/.0-of-2.rank",
        ".sets.jsonl.12-ab.part",
    ]
    for name in left:
        write_bytes(tmp_path / name, b"")
    tidy(tmp_path, {"clip": unit()})
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} == kept


def strange_file(folder: Path, name: str) -> Path:
    write_bytes(folder / name, b"precious")
    return folder / name


def strange_link(folder: Path, name: str) -> Path:
    """A folder of someone else, of which the artifact has a link."""
    write_bytes(folder.parent / "elsewhere" / "img1.jpg", b"precious")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(folder.parent / "elsewhere")
    return folder / name / "img1.jpg"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (strange_file, "sources/thesis/chapter.txt"),
        (strange_file, "sources/.git/config"),
        (strange_file, "images/notes.txt"),
        (strange_file, "images/clip-shot0_1/holiday.jpg"),
        (strange_file, "images/my holiday/img1.jpg"),
        (strange_file, "images/album/p (1).jpg"),
        (strange_file, "dropped/clip/IMG_0001.jpg"),
        (strange_file, "notes.part"),
        (strange_link, "images/album"),
        (strange_link, "sources/clip9"),
        (strange_link, "images"),
    ],
)
def test_tidying_takes_nothing_that_is_not_ours(tmp_path: Path, make: Callable[[Path, str], Path], name: str) -> None:
    precious = make(tmp_path / "sets", name)
    tidy(tmp_path / "sets", {"clip": unit()})
    assert precious.read_bytes() == b"precious"
