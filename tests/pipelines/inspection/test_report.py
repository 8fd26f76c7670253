"""The page as a file: what it is about, what is in it, what is refused, and that equal artifacts give equal bytes."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media import images
from ctxr.media.images import thumbnail
from ctxr.pipelines.inspection import report
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.pages import edition
from ctxr.pipelines.inspection.report import run
from ctxr.store.kinds import SET_KINDS, SetKind
from ctxr.store.paths import CACHE
from ctxr.store.records import Failure
from tests.pipelines.opened import data_of
from tests.pipelines.report_artifacts import paint, photo_unit, project, video_unit, write

runner = CliRunner()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return project(tmp_path / "work")


def test_the_page_is_about_the_whole_chain_and_says_so(work: Path) -> None:
    result = runner.invoke(app, ["report", "-w", str(work)])
    assert result.exit_code == 0
    assert f"{work / 'sets'} → {work / 'filtered'}" in result.stdout
    page = (work / "report.html").read_text(encoding="utf-8")
    assert page.index("<b>sets</b>") < page.index("<b>filtered</b>")
    told = json.loads(runner.invoke(app, ["report", "-w", str(work), "--json"]).stdout)
    assert (told["page"], told["sets"]) == ((work / "report.html").as_posix(), 14)
    assert (told["missing"], told["notes"], told["folder"]) == ([], [], None)
    for name, chain in (("sets", ["sets"]), ("filtered", ["sets", "filtered"])):
        assert [path.name for path in run(Report(workdir=work, input=work / name)).chain] == chain
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src &#39;none&#39;" in policy[1]
    assert not re.search("unsafe|http", policy[1])


@pytest.mark.parametrize(("name", "exact"), [("sets", 1), ("filtered", 0)])
def test_the_curve_marks_thresholds_at_which_a_build_would_search_further(
    filtered: Path, tmp_path: Path, name: str, exact: int
) -> None:
    page = run(Report(input=filtered.parent / name, out=tmp_path / "page.html")).page.read_text(encoding="utf-8")
    dots = re.findall(r'class="knot( counted)?".*?<title>[\d.]+: (~ )?\d', page)
    assert [bool(hollow) for hollow, _ in dots] == [bool(mark) for _, mark in dots]
    assert len(dots) == 17
    assert sum(not hollow for hollow, _ in dots) == exact
    assert "~ (hollow)" in page


def test_equal_artifacts_give_equal_bytes_wherever_they_lie(tmp_path: Path) -> None:
    first, second = (run(Report(workdir=project(tmp_path / name))).page.read_bytes() for name in ("here", "there"))
    assert first == second == run(Report(workdir=tmp_path / "here")).page.read_bytes()  # in the place of the first


def test_what_was_edited_is_said_on_the_page_and_beside_it(work: Path) -> None:
    assert run(Report(workdir=work)).notes == []
    picture = sorted((work / "filtered" / "images").rglob("*.jpg"))[0]
    paint(picture, 1234)
    later = (work / "filtered" / "manifest.json").stat().st_mtime_ns + 10**9
    os.utime(picture, ns=(later, later))
    name = picture.relative_to(work).as_posix()
    result = runner.invoke(app, ["report", "-w", str(work), "--json"])
    note = f"{name} was changed"
    (told,) = json.loads(result.stdout)["notes"]
    assert told.startswith(note)
    assert note in " ".join(result.stderr.split())
    assert note in (work / "report.html").read_text(encoding="utf-8")
    table = work / "filtered" / "sets.jsonl"
    table.write_bytes(table.read_bytes() + b"\n")
    assert "filtered/sets.jsonl was changed" in run(Report(workdir=work)).notes[0]


def test_the_headline_counts_videos_that_failed_or_gave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "sets"
    units = [video_unit(out, "clip", sets=2), video_unit(out, "barren", sets=0, seed=9)]
    write(out, units, failures=[Failure("torn", "torn.mp4", "unreadable", "no picture", "ctxr build-sets torn.mp4")])
    page = run(Report(workdir=tmp_path)).page.read_text(encoding="utf-8")
    assert "2 from 1 of 3 videos (1 failed, 1 gave none)." in page
    write(tmp_path / "all" / "sets", [video_unit(tmp_path / "all" / "sets", "clip")])
    assert "1 from 1 video." in run(Report(workdir=tmp_path / "all")).page.read_text(encoding="utf-8")


def test_sets_of_a_new_kind_are_among_the_distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SET_KINDS, "keyframes", SetKind(ordered=True))
    unit = video_unit(tmp_path / "sets", "clip", sets=2)
    unit = replace(unit, sets=[msgspec.structs.replace(one, kind="keyframes") for one in unit.sets])
    write(tmp_path / "sets", [unit])
    page = run(Report(workdir=tmp_path)).page.read_text(encoding="utf-8")
    assert "pairs from keyframes" in page
    assert "sets from keyframes" in page


def test_an_unfinished_filter_is_passed_over_and_said(work: Path) -> None:
    (work / "filtered" / "manifest.json").unlink()
    result = runner.invoke(app, ["report", "-w", str(work)])
    assert result.exit_code == 0
    assert "filtered is unfinished" in result.stderr
    assert "filtered is unfinished" in (work / "report.html").read_text(encoding="utf-8")


def test_a_filter_of_other_sets_is_said_on_the_page(work: Path) -> None:
    write(work / "sets", [video_unit(work / "sets", "clip9")])
    written = run(Report(workdir=work))
    assert [path.name for path in written.chain] == ["filtered"]
    assert [(note.split()[0], "ctxr filter" in note) for note in written.notes] == [("filtered", True)]


def test_an_artifact_that_was_moved_alone_says_that_its_parent_is_not_beside_it(work: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (work / "filtered").rename(tmp_path / "alone" / "mine")
    written = run(Report(workdir=tmp_path / "alone", input=tmp_path / "alone" / "mine"))
    assert [path.name for path in written.chain] == ["mine"]
    assert "that mine was" in written.notes[0]


def test_nothing_finished_is_one_sentence_with_exit_code_4(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="finished image sets"):
        run(Report(workdir=tmp_path))
    (tmp_path / "sets").mkdir()
    with pytest.raises(UnfinishedError, match=r"sets has .*manifest\.json"):
        run(Report(workdir=tmp_path))
    assert runner.invoke(app, ["report", "-w", str(tmp_path)]).exit_code == 4
    assert runner.invoke(app, ["report", "-w", str(tmp_path), "--input", str(tmp_path / "none")]).exit_code == 2
    assert runner.invoke(app, ["report", "--more", str(tmp_path / "none.html")]).exit_code == 2


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        ('"index":2,', '"index":"two",', r"ledger\.jsonl:3: field `index`: expected `int`"),
        (r'"reason":"\w+"', '"reason":"boring"', r"ledger\.jsonl:\d+: .*`reason`: 'boring' .*'near_still', "),
    ],
)
def test_a_damaged_table_is_named_by_file_and_line(work: Path, pattern: str, text: str, message: str) -> None:
    table = work / "filtered" / "sources" / "clip0" / "ledger.jsonl"
    table.write_text(re.sub(pattern, text, table.read_text(), count=1))
    with pytest.raises(DataError, match=message):
        run(Report(workdir=work))
    assert not (work / "report.html").exists()


def test_missing_and_broken_pictures_are_counted_and_the_rest_is_shown(work: Path) -> None:
    folder = work / "filtered" / "images" / "clip0-shot0_0"
    (folder / "img0.jpg").unlink()
    (folder / "img1.jpg").write_bytes(b"no picture")
    # a link out of the artifact is not shown
    Pillow.new("RGB", (20, 20)).save(work / "private.jpg")
    outside = sorted((work / "filtered" / "images" / "clip0-shot1_0").iterdir())[0]
    outside.unlink()
    outside.symlink_to(work / "private.jpg")
    written = run(Report(workdir=work))
    assert written.missing[0] == "images/clip0-shot0_0/img0.jpg is missing"
    assert written.missing[1].startswith("images/clip0-shot0_0/img1.jpg ")
    assert written.missing[2:] == [f"images/clip0-shot1_0/{outside.name} is missing"]
    assert "3 pictures cannot" in written.page.read_text(encoding="utf-8")


def test_no_set_at_all_is_a_page_that_says_why(tmp_path: Path) -> None:
    out = tmp_path / "sets"
    unit = video_unit(out, "clip")
    unit.sets.clear()
    unit.images.clear()
    unit.ledger[:] = [
        msgspec.structs.replace(row, image_set=None, reason=row.reason or "set_incomplete") for row in unit.ledger
    ]
    write(out, [unit])
    page = run(Report(workdir=tmp_path)).page.read_text(encoding="utf-8")
    assert "No set of" in page
    assert "set incomplete (4)" in page


def test_a_page_says_what_an_artifact_lacks(tmp_path: Path) -> None:
    retry = "ctxr build-sets clip.mp4 --retry-failed"
    write(tmp_path / "sets", [], failures=[Failure("clip", "clip.mp4", "truncated", "clip.mp4: 3 of 9 frames", retry)])
    page = run(Report(workdir=tmp_path)).page.read_text(encoding="utf-8")
    assert "No source gave" in page
    assert f"<code>{retry}</code>" in page
    album = tmp_path / "photos" / "sets"
    write(album, [photo_unit(album, "album", 6, 6)])
    page = run(Report(workdir=album.parent)).page.read_text(encoding="utf-8")
    assert "is a video" in page
    assert "thresholds would give" not in page
    clip = tmp_path / "clip" / "sets"
    write(clip, [video_unit(clip, "clip", measured=False)])
    written = run(Report(workdir=clip.parent))
    assert [path.name for path in written.chain] == ["sets"]
    assert "Blur: not measured" in written.page.read_text(encoding="utf-8")


def test_many_pictures_lie_in_a_folder_beside_the_page(work: Path) -> None:
    written = run(Report(workdir=work, inside=5))
    assert written.folder == work / "report"
    named = data_of(written.page)["pictures"]
    assert {f"report/{file.name}" for file in (work / "report").glob("*.jpg")} == set(named)
    assert "data:image" not in written.page.read_text(encoding="utf-8")
    again = run(Report(workdir=work))
    assert (again.page, again.folder) == (written.page, None)
    assert "data:image" in written.page.read_text(encoding="utf-8")  # the second page stands in the place of the first
    assert not (work / "report").exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("inside", [0, 1200])
def test_any_number_of_processes_gives_the_same_page(work: Path, monkeypatch: pytest.MonkeyPatch, inside: int) -> None:
    (work / "filtered" / "images" / "clip0-shot0_0" / "img1.jpg").write_bytes(b"no picture")
    one = run(Report(workdir=work, inside=inside))
    assert len(one.missing) == 1
    shutil.rmtree(work / CACHE)
    before = one.page.read_bytes(), contents(work / "report")
    monkeypatch.setattr(edition, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(edition, "AT_ONCE", 5)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    several = run(Report(workdir=work, inside=inside))
    assert (several.page.read_bytes(), contents(work / "report")) == before
    assert several.missing == one.missing


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The pictures of which thumbnails were made."""
    made = []

    def counted(path: Path, *arguments: Any, **named: Any) -> bytes:
        made.append(path)
        return thumbnail(path, *arguments, **named)

    monkeypatch.setattr(images, "thumbnail", counted)
    return made


def test_thumbnails_are_made_once(work: Path, made: list[Path]) -> None:
    first = run(Report(workdir=work)).page.read_bytes()
    assert len(made) == len(contents(work / CACHE))
    before = list(made)
    assert run(Report(workdir=work)).page.read_bytes() == first
    assert made == before
    picture = work / "filtered" / "images" / "clip0-shot0_0" / "img0.jpg"
    paint(picture, 1234)
    del made[:]
    assert run(Report(workdir=work)).page.read_bytes() != first
    assert made == [picture]


@pytest.mark.parametrize("damage", [b"", b"\xff\xd8\xff", b"0" * 5000])
def test_a_damaged_entry_of_the_cache_is_made_again(work: Path, made: list[Path], damage: bytes) -> None:
    first = run(Report(workdir=work)).page.read_bytes()
    kept = contents(work / CACHE)
    name = sorted(kept)[0]
    (work / CACHE / name).write_bytes(damage + kept[name][len(damage) :] if len(damage) == 3 else damage)
    del made[:]
    assert run(Report(workdir=work)).page.read_bytes() == first
    assert len(made) == 1
    assert contents(work / CACHE) == kept


def test_a_cache_that_cannot_be_written_changes_nothing(work: Path) -> None:
    first = run(Report(workdir=work)).page.read_bytes()
    shutil.rmtree(work / CACHE)
    (work / CACHE).write_text("a file")
    assert run(Report(workdir=work)).page.read_bytes() == first


def test_an_interrupted_report_leaves_the_earlier_one(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(Report(workdir=work, inside=5))
    before = contents(work)

    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "write_page", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(Report(workdir=work, inside=5))
    assert contents(work) == before


def test_a_folder_that_is_not_ours_is_left_alone(work: Path) -> None:
    (work / "report").mkdir()
    (work / "report" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="an image folder"):
        run(Report(workdir=work, inside=5))
    assert run(Report(workdir=work)).folder is None
    assert (work / "report" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("notes.html", "not a page"),
        ("folder.html", "is a folder, not a page"),
        ("page.txt", "end in .html"),
        ("sets/report.html", "inside the artifact"),
    ],
)
def test_a_page_never_takes_the_place_of_something_else(work: Path, out: str, sentence: str) -> None:
    (work / "notes.html").write_text("mine")
    (work / "folder.html").mkdir()
    with pytest.raises(UsageError, match=sentence):
        run(Report(workdir=work, out=work / out))
    assert (work / "notes.html").read_text() == "mine"
