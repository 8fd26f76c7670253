"""What people reject is in no set, single images are replaced, and the ledger names who decided."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ctxr.datasets.decisions import footage_of
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.report import SetsReport
from ctxr.engine.state import DECISIONS
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.curation.config import Filter, Merge
from ctxr.pipelines.curation.filter import run
from ctxr.pipelines.curation.merge import run as merge
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Decision, Image, ImageSet, LedgerRow, Source
from ctxr.store.tables import append, read_table
from ctxr.store.units import read_unit
from tests.pipelines.conftest import LIMIT
from tests.pipelines.curation.test_build_sets import build, same_tree


class Listening(Silent):
    """Keeps warnings."""

    def __init__(self) -> None:
        self.warnings = list[str]()

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def refilter(sets: Path, out: Path, progress: Progress | None = None, **options: Any) -> SetsReport:
    return run(Filter(input=sets, out=out, workdir=out.parent, **options), progress or Silent())


def sets_of(folder: Path) -> dict[str, ImageSet]:
    return {one.id: one for one in read_table(folder / "sets.jsonl", ImageSet)}


def ledger_of(folder: Path, source: str) -> dict[int, LedgerRow]:
    return {row.index: row for row in read_unit(folder, source).ledger}


def decide(sets: Path, file: Path, *decisions: tuple[str, Any, Any], person: str = "w-ada") -> None:
    """Add decisions on images or sets of an artifact, as a review does."""
    images = {row.id: row for row in read_table(sets / "images.jsonl", Image)}
    sources = {row.name: row for row in read_table(sets / "sources.jsonl", Source)}
    members = {one.id: one.images for one in sets_of(sets).values()}
    for name, decision, reason in decisions:
        about = {one: footage_of(images[one], sources[images[one].source]) for one in members.get(name, (name,))}
        append(file, Decision(name, decision, reason, person, "2026-01-01T00:00:00+00:00", about))


def test_a_rejected_frame_is_replaced_and_the_ledger_names_who_rejected_it_and_why(sets: Path) -> None:
    work, first = sets.parent, next(iter(sets_of(sets).values()))
    gone = first.images[3]
    decide(sets, work / DECISIONS, (gone, "reject", "faces"), (first.id, "keep", ""))
    report = refilter(sets, work / "out", drop=work / DECISIONS)
    images = {row.id for row in read_table(work / "out" / "images.jsonl", Image)}
    assert gone not in images
    assert report.counts["reasons"]["rejected_by_person"] == 1
    row = ledger_of(work / "out", first.source)[int(gone.rpartition("img")[2])]
    assert (row.reason, row.person, row.because, row.image_set, row.value) == (
        "rejected_by_person",
        "w-ada",
        "faces",
        None,
        None,
    )
    assert len(sets_of(work / "out")[first.id].images) == 10
    others = {name: one for name, one in sets_of(sets).items() if one.shot != first.shot or one.source != first.source}
    assert {name: sets_of(work / "out")[name] for name in others} == others
    assert not list((work / "out" / "dropped").rglob("*.jpg")) if (work / "out" / "dropped").exists() else True
    assert b'"person"' not in (work / "out" / "sources" / "clip2" / "ledger.jsonl").read_bytes()


def test_dropping_nothing_and_dropping_what_is_in_no_set_give_the_sets_themselves(sets: Path) -> None:
    work = sets.parent
    decide(sets, work / DECISIONS, *((name, "keep", "") for name in sets_of(sets)))
    refilter(sets, work / "out", drop=work / DECISIONS)
    assert sets_of(work / "out") == sets_of(sets)
    loser = next(row for row in ledger_of(sets, "clip0").values() if row.reason == "too_close")
    (work / "ids.txt").write_text(f"clip0/img{loser.index}\n")
    refilter(sets, work / "other", drop=work / "ids.txt")
    assert sets_of(work / "other") == sets_of(sets)


def test_a_rejected_set_is_left_out_nothing_takes_its_place_and_the_others_stay_as_they_are(sets: Path) -> None:
    work, before = sets.parent, sets_of(sets)
    gone = next(iter(before.values()))
    decide(sets, work / DECISIONS, (gone.id, "reject", "nudity"))
    refilter(sets, work / "out", drop=work / DECISIONS, brisque=2.0)
    assert sets_of(work / "out") == {name: one for name, one in before.items() if name != gone.id}
    ledger = ledger_of(work / "out", gone.source)
    fates = {
        (ledger[int(name.rpartition("img")[2])].reason, ledger[int(name.rpartition("img")[2])].because)
        for name in gone.images
    }
    assert fates == {("rejected_by_person", "nudity")}
    paths = {file.name for file in (work / "out").rglob("*.jpg") if file.parent.name in (gone.id, gone.source)}
    assert not paths & {f"{name.rpartition('/')[2]}.jpg" for name in gone.images}


def test_a_set_in_the_place_of_a_rejected_one_that_shares_a_frame_with_it_is_left_out_too(sets: Path) -> None:
    work, before = sets.parent, sets_of(sets)
    by_shot: dict[Any, list[ImageSet]] = {}
    for one in before.values():
        by_shot.setdefault((one.source, one.shot), []).append(one)
    first, second, *_ = next(group for group in by_shot.values() if len(group) > 1)
    decide(sets, work / DECISIONS, (first.images[9], "reject", "plates"), (second.id, "reject", "faces"))
    refilter(sets, work / "out", drop=work / DECISIONS)
    kept = {image for one in sets_of(work / "out").values() for image in one.images}
    assert not kept & {first.images[9], *second.images}


def test_a_kept_frame_is_asked_for_no_limit(sets: Path) -> None:
    work = sets.parent
    refilter(sets, work / "strict", brisque=LIMIT)
    bad = [row for row in ledger_of(work / "strict", "clip0").values() if row.reason == "low_quality"]
    (work / "keep.csv").write_text("id,person\n" + "".join(f"clip0/img{row.index},Ada\n" for row in bad))
    refilter(sets, work / "out", brisque=LIMIT, keep=work / "keep.csv")
    after = ledger_of(work / "out", "clip0")
    assert bad
    assert not [row for row in bad if after[row.index].reason == "low_quality"]
    assert any(after[row.index].image_set for row in bad)
    decide(sets, work / DECISIONS, *((name, "keep", "") for name in sets_of(sets)))
    refilter(sets, work / "all", brisque=LIMIT, keep=work / DECISIONS)
    assert sets_of(work / "all") == sets_of(sets)
    with pytest.raises(UsageError, match="nothing to filter"):
        refilter(sets, work / "none", keep=work / DECISIONS)


def test_other_decisions_filter_again_equal_ones_do_not_and_bytes_are_equal(sets: Path) -> None:
    work, (first, second, *_) = sets.parent, list(sets_of(sets))
    log = work / DECISIONS
    decide(sets, log, (first, "reject", "faces"))
    refilter(sets, work / "out", drop=log)
    shutil.copytree(work / "out", work / "copy")
    decide(sets, log, (second, "keep", ""))
    assert refilter(sets, work / "out", drop=log).up_to_date
    decide(sets, log, (second, "reject", "faces"))
    assert not refilter(sets, work / "out", drop=log, yes=True).up_to_date
    assert not same_tree(work / "out", work / "copy")
    decide(sets, log, (second, "open", ""))
    assert not refilter(sets, work / "out", drop=log, yes=True).up_to_date
    assert same_tree(work / "out", work / "copy")
    config = open_artifact(work / "out").manifest.config
    assert len(config["drop"]) == 64
    assert "keep" not in config


def test_ranks_that_read_other_decisions_are_not_merged_and_equal_ones_write_the_same_bytes(sets: Path) -> None:
    work, (first, second, *_) = sets.parent, list(sets_of(sets))
    log = work / DECISIONS
    decide(sets, log, (first, "reject", "faces"))
    refilter(sets, work / "one", drop=log)
    for rank in (0, 1):
        refilter(sets, work / "two", drop=log, rank=rank, world_size=2)
    merge(Merge(artifact=work / "two"))
    assert same_tree(work / "one", work / "two")
    refilter(sets, work / "three", drop=log, rank=0, world_size=2)
    decide(sets, log, (second, "reject", "faces"))
    refilter(sets, work / "three", drop=log, rank=1, world_size=2)
    with pytest.raises(DataError, match="--drop"):
        merge(Merge(artifact=work / "three"))


def test_decisions_about_other_footage_of_the_same_name_are_passed_over_and_told(sets: Path) -> None:
    work, first, heard = sets.parent, next(iter(sets_of(sets).values())), Listening()
    other = dict.fromkeys(first.images, "0" * 16)
    append(work / DECISIONS, Decision(first.id, "reject", "faces", "w-ada", None, other))
    append(work / DECISIONS, Decision("../../etc/passwd", "reject", images={"../../etc/passwd": "0" * 16}))
    refilter(sets, work / "out", heard, drop=work / DECISIONS)
    assert sets_of(work / "out") == sets_of(sets)
    assert [text.split()[0] for text in heard.warnings] == ["2"]


@pytest.mark.parametrize(
    "name", ["../sets", "clip0/../img1", "/etc/passwd", "clip0/img999999", "clip9/img1", "clip0-shot0_99", "\x1b[2J"]
)
def test_an_id_in_a_list_that_nothing_has_is_an_error_with_its_line_and_nothing_is_written(
    sets: Path, name: str
) -> None:
    work = sets.parent
    (work / "ids.txt").write_text(f"{next(iter(sets_of(sets)))}\n{name}\n")
    with pytest.raises(DataError, match=r"ids\.txt:2"):
        refilter(sets, work / "out", drop=work / "ids.txt")
    assert not (work / "out" / "manifest.json").exists()


def test_a_file_that_is_none_and_a_folder_are_refused(sets: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        refilter(sets, sets.parent / "out", drop=Path("nowhere"))
    with pytest.raises((DataError, OSError)):
        refilter(sets, sets.parent / "out", drop=sets)


def test_rejected_photos_and_their_copies_are_in_no_set_and_others_take_their_places(
    footage: Path, tmp_path: Path
) -> None:
    build(footage, tmp_path / "sets", sources=(str(footage / "photos"),), set_size=4, sample="3")
    before = sets_of(tmp_path / "sets")
    gone = next(iter(before.values()))
    # p99 is a copy of p0, and one of them stands for both
    (tmp_path / "drop.txt").write_text(f"{gone.id}\nalbum/p0.png\nalbum/p99.png\n")
    refilter(tmp_path / "sets", tmp_path / "out", drop=tmp_path / "drop.txt", min_size=1)
    after = sets_of(tmp_path / "out")
    out = {*gone.images, "album/p0.png", "album/p99.png"}
    assert after
    assert not out & {image for one in after.values() for image in one.images}
    assert not out & {f"album/{file.name}" for file in (tmp_path / "out" / "images").rglob("*.png")}
    rows = {row.name: row for row in read_unit(tmp_path / "out", "album").ledger}
    assert {rows[name.rpartition("/")[2]].reason for name in gone.images} <= {"rejected_by_person", "duplicate"}
    assert rows[gone.images[0].rpartition("/")[2]].person == ""


def test_the_report_and_the_search_show_no_rejected_picture(sets: Path) -> None:
    from ctxr.pipelines.inspection.config import Report
    from ctxr.pipelines.inspection.report import run as report

    work, gone = sets.parent, next(iter(sets_of(sets).values()))
    decide(sets, work / DECISIONS, (gone.id, "reject", "nudity"))
    refilter(sets, work / "filtered", drop=work / DECISIONS, brisque=2.0)
    page = report(Report(workdir=work)).page.read_text(encoding="utf-8")
    data = json.loads(page.partition('id="data"')[2].partition(">")[2].partition("</script>")[0])
    number = next(at for at, reason in enumerate(data["reasons"]) if reason["key"] == "rejected_by_person")
    shown = [row for rows in data["ledger"] for row in rows if row[2] == number]
    assert len(shown) == 10
    assert {row[6] for row in shown} == {-1}
