"""Splits of image sets: photos find their neighbours within a split, what was dealt stays, and leaks are reported."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from ctxr.annotation.config import ExportTasks
from ctxr.datasets.splits import SPLITS, hash_split, read_published
from ctxr.engine.progress import SILENT, Progress, Silent
from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.crowd.config import Plan
from ctxr.pipelines.crowd.export_tasks import run as export_tasks
from ctxr.pipelines.crowd.plan import run as plan
from ctxr.pipelines.curation.build_sets import _pooled, run
from ctxr.pipelines.curation.config import BuildSets, Filter
from ctxr.pipelines.curation.copies import CopyRule, SourceHashes
from ctxr.pipelines.curation.filter import run as run_filter
from ctxr.pipelines.curation.photos import PhotoPicking
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run as write_report
from ctxr.pipelines.sharing.config import Export
from ctxr.pipelines.sharing.export import run as export
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Image, ImageSet, LedgerRow, SharedFootage, Split
from ctxr.store.tables import read_table
from tests.pipelines.curation.test_build_sets import same_tree

SIZE = 4


class Alerts(Silent):
    def __init__(self) -> None:
        self.alerts: list[str] = []

    def alert(self, text: str) -> None:
        self.alerts.append(text)


@pytest.fixture(scope="module")
def albums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four albums of twelve photos each."""
    folder = tmp_path_factory.mktemp("albums")
    rng = np.random.default_rng(7)
    for album in "abcd":
        (folder / album).mkdir()
        for number in range(12):
            coarse = rng.integers(0, 255, (18, 24, 3)).astype(np.uint8)
            photo = Pillow.fromarray(coarse).resize((192, 144), Pillow.Resampling.BICUBIC)
            photo.save(folder / album / f"{album}{number}.png")
    return folder


def build(folder: Path, out: Path, *names: str, progress: Progress = SILENT, **changes: Any) -> SetsReport:
    sources = tuple(str(folder / name) for name in names)
    settings: dict[str, Any] = {"encoder": "ctxr-tiny", "set_size": SIZE, "sample": "all", **changes}
    return run(BuildSets(sources, out=out, workdir=out.parent, **settings), progress)


def dealt(out: Path) -> dict[str, str]:
    return {row.group: row.split for row in read_table(out / "splits.jsonl", Split)}


def csv(path: Path, **splits: str) -> Path:
    path.write_text("".join(f"{group},{split}\n" for group, split in splits.items()))
    return path


def require_unmixed(out: Path) -> None:
    splits, images = dealt(out), {row.id: row for row in read_table(out / "images.jsonl", Image)}
    for image_set in read_table(out / "sets.jsonl", ImageSet):
        assert {splits[images[name].group] for name in image_set.images} == {splits[image_set.group]}


def test_photo_sets_hold_photos_of_one_split(albums: Path, tmp_path: Path) -> None:
    splits = csv(tmp_path / "s.csv", a="train", b="train", c="test", d="valid")
    report = build(albums, tmp_path / "sets", "a", "b", "c", "d", splits=splits)
    assert report.counts["splits"] == {"test": 12, "train": 24, "valid": 12}
    assert report.counts["leaking_groups"] == report.counts["leaking_images"] == 0
    require_unmixed(tmp_path / "sets")
    mixed = {
        frozenset(name.partition("/")[0] for name in image_set.images)
        for image_set in read_table(tmp_path / "sets" / "sets.jsonl", ImageSet)
    }
    assert frozenset("ab") in mixed


def test_a_sample_is_shared_among_the_splits(albums: Path, tmp_path: Path) -> None:
    splits = csv(tmp_path / "s.csv", a="train", b="train", c="test", d="valid")
    report = build(albums, tmp_path / "sets", "a", "b", "c", "d", splits=splits, sample="8")
    assert report.counts["splits"] == {"test": 2, "train": 4, "valid": 2}
    whole = build(albums, tmp_path / "whole" / "sets", "a", "b", "c", "d", splits=splits, sample="1000")
    assert whole.counts["sets"] == 48


def test_photos_that_move_to_another_split_are_picked_again(albums: Path, tmp_path: Path) -> None:
    first = csv(tmp_path / "first.csv", a="train", b="train", c="test", d="valid")
    second = csv(tmp_path / "second.csv", a="train", b="test", c="test", d="valid")
    build(albums, tmp_path / "sets", "a", "b", "c", "d", splits=first)
    build(albums, tmp_path / "sets", "a", "b", "c", "d", splits=second)
    require_unmixed(tmp_path / "sets")
    build(albums, tmp_path / "fresh" / "sets", "a", "b", "c", "d", splits=second)
    assert same_tree(tmp_path / "sets", tmp_path / "fresh" / "sets")


def test_filtering_keeps_splits_unmixed(albums: Path, tmp_path: Path) -> None:
    splits = csv(tmp_path / "s.csv", a="train", b="train", c="test", d="test")
    build(albums, tmp_path / "sets", "a", "b", "c", "d", splits=splits)
    run_filter(Filter(workdir=tmp_path, min_size=8))
    assert dealt(tmp_path / "filtered") == read_published(splits)
    require_unmixed(tmp_path / "filtered")


def test_what_was_dealt_stays_when_sources_are_added_and_the_manifest_says_so(albums: Path, tmp_path: Path) -> None:
    out = tmp_path / "sets"
    build(albums, out, "a")
    assert dealt(out) == {f"a/{split}": split for split in SPLITS}
    before = [parent.kind for parent in open_artifact(out).manifest.parents]
    for names in (("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")):
        earlier = dealt(out)
        build(albums, out, *names)
        assert dealt(out).items() >= earlier.items()
    assert build(albums, out, "a", "b", "c", "d").up_to_date
    assert write_report(Report(workdir=tmp_path)).sets == 48
    build(albums, tmp_path / "fresh" / "sets", "a", "b", "c", "d")
    afresh = dealt(tmp_path / "fresh" / "sets")
    assert "splits_kept" not in before
    assert "splits_kept" in open_artifact(out).manifest.counts
    assert dealt(out) != afresh


def test_a_refused_run_keeps_the_splits_and_a_run_without_result_restores_them(albums: Path, tmp_path: Path) -> None:
    out, broken = tmp_path / "sets", tmp_path / "broken.mp4"
    build(albums, out, "a", "b", "c")
    before = (out / "splits.jsonl").read_bytes()
    with pytest.raises(UsageError, match="1 of 3 sources"):
        build(albums, out, "a", "b", salt="other")
    broken.write_bytes(b"no video")
    with pytest.raises(DataError, match="no source"):
        build(tmp_path, out, "broken.mp4", salt="other", yes=True)
    assert (out / "splits.jsonl").read_bytes() == before
    assert build(albums, out, "a", "b", "c").up_to_date


def test_a_finished_deal_without_a_manifest_is_kept(albums: Path, tmp_path: Path) -> None:
    build(albums, tmp_path / "sets", "a")
    build(albums, tmp_path / "sets", "a", "b", "c", "d")
    manifest = (tmp_path / "sets" / "manifest.json").read_bytes()
    (tmp_path / "sets" / "manifest.json").unlink()
    build(albums, tmp_path / "sets", "a", "b", "c", "d")
    assert (tmp_path / "sets" / "manifest.json").read_bytes() == manifest


@pytest.fixture(scope="module")
def copied(albums: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three albums and an album of three photos of the first, saved again at half size, among others."""
    folder = tmp_path_factory.mktemp("copied")
    for album in "abc":
        shutil.copytree(albums / album, folder / album)
    shutil.copytree(albums / "d", folder / "again")
    for number in range(3):
        with Pillow.open(albums / "a" / f"a{number}.png") as photo:
            photo.resize((96, 72)).save(folder / "again" / f"z{number}.jpg", quality=70)
    return folder


def shared(out: Path) -> list[tuple[str, str, int]]:
    return [(row.first, row.second, row.shared) for row in read_table(out / "groups.jsonl", SharedFootage)]


def test_albums_with_copies_of_photos_go_to_one_split(copied: Path, tmp_path: Path) -> None:
    progress = Alerts()
    for salt in ("1", "2", "3"):
        out = tmp_path / salt / "sets"
        report = build(copied, out, "a", "b", "c", "again", salt=salt, progress=progress)
        assert shared(out) == [("a", "again", 3)]
        assert read_table(out / "groups.jsonl", SharedFootage)[0].example[1].startswith("again/z")
        assert dealt(out)["a"] == dealt(out)["again"]
        assert len(set(dealt(out).values())) == 3
        assert "leaking_footage" not in report.counts
    assert not progress.alerts


def test_a_killed_run_asks_and_deals_as_it_would_have_before(albums: Path, tmp_path: Path) -> None:
    out = tmp_path / "sets"
    build(albums, out, "a", "b", "c")
    export_tasks(ExportTasks(task="describe", workdir=tmp_path, keep_leaks=True))
    (out / "manifest.json").replace(out / ".manifest.json")  # as a killed run leaves it
    with pytest.raises(UsageError, match="1 of 3 sources"):
        build(albums, out, "a", "b")
    with pytest.raises(UsageError, match="36 of 36 sets"):
        build(albums, out, "a", "b", "c", threshold=0.5)
    build(albums, out, "a", "b", "c", salt="other", yes=True)
    build(albums, tmp_path / "fresh" / "sets", "a", "b", "c", salt="other")
    assert same_tree(out, tmp_path / "fresh" / "sets")


def test_small_albums_go_to_train_where_they_are_too_few_for_a_set(albums: Path, tmp_path: Path) -> None:
    for album in "abcd":
        (tmp_path / album).mkdir()
        for number in range(3):
            shutil.copy(albums / album / f"{album}{number}.png", tmp_path / album)
    report = build(tmp_path, tmp_path / "work" / "sets", *"abcd")
    assert report.counts["splits"] == {"train": 12}


def test_what_leaks_is_red_everywhere_and_no_task_is_made_of_it(copied: Path, tmp_path: Path) -> None:
    splits = csv(tmp_path / "s.csv", a="train", again="test")
    progress, out = Alerts(), tmp_path / "sets"
    report = build(copied, out, "a", "b", "c", "again", splits=splits, progress=progress)
    assert report.counts["leaking_footage"] == 1
    assert shared(out) == [("a", "again", 3)]
    run_filter(Filter(workdir=tmp_path, min_size=8), progress)
    assert shared(tmp_path / "filtered") == [("a", "again", 3)]
    plan(Plan(workdir=tmp_path), progress)
    export(Export(to="croissant", workdir=tmp_path), progress)
    write_report(Report(workdir=tmp_path), progress)
    assert len(progress.alerts) == 5
    assert all("1 pair of sources" in line for line in progress.alerts)
    assert sum("a and again" in line for line in progress.alerts) == 4
    assert "1 pair of sources" in write_report(Report(workdir=tmp_path)).page.read_text(encoding="utf-8")
    with pytest.raises(DataError, match="a and again"):
        export_tasks(ExportTasks(task="describe", workdir=tmp_path))
    assert export_tasks(ExportTasks(task="describe", workdir=tmp_path, keep_leaks=True)).units > 0


def test_keep_leaks_deals_each_source_by_itself_and_says_what_leaks(copied: Path, tmp_path: Path) -> None:
    salt = next(
        str(salt) for salt in range(99) if len({hash_split(name, str(salt)) for name in ("a", "again", "b")}) == 3
    )
    report = build(copied, tmp_path / "sets", "a", "b", "again", salt=salt, keep_leaks=True)
    assert report.counts["leaking_footage"] == 1
    grouped = build(copied, tmp_path / "sets", "a", "b", "again", salt=salt)
    assert "leaking_footage" not in grouped.counts


@pytest.mark.parametrize(("needed", "split"), [(2, "valid"), (3, "train")])
def test_an_album_of_just_enough_photos_for_a_set_stays_where_it_was_dealt(needed: int, split: str) -> None:
    album = SourceHashes("a", "photos", ["1", "2"], ["", ""], np.eye(2, dtype=np.float32))
    assert _pooled([Split("a", "valid")], [album], {"a"}, BuildSets(set_size=needed)) == {"a": split}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of seventy photos, of which five are saved again at half size."""
    folder = tmp_path_factory.mktemp("many") / "photos"
    folder.mkdir()
    rng = np.random.default_rng(11)
    for number in range(70):
        coarse = rng.integers(0, 255, (18, 24, 3)).astype(np.uint8)
        photo = Pillow.fromarray(coarse).resize((192, 144), Pillow.Resampling.BICUBIC)
        photo.save(folder / f"p{number:02}.png")
        if number < 5:
            photo.resize((96, 72)).save(folder / f"p{number:02}-small.jpg", quality=70)
    return folder.parent


def split_of_photos(out: Path) -> dict[str, str | None]:
    return {row.name or "": row.group for row in read_table(out / "sources" / "photos" / "ledger.jsonl", LedgerRow)}


def test_photos_of_a_lone_folder_are_dealt_each_with_its_copies(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "sets"
    report = build(many, out, "photos")
    assert dealt(out) == {f"photos/{split}": split for split in SPLITS}
    assert all(report.counts["splits"][split] >= 2 * SIZE - 5 for split in SPLITS)
    assert report.counts["leaking_groups"] == report.counts["leaking_images"] == 0
    require_unmixed(out)
    groups = split_of_photos(out)
    assert all(groups[f"p{number:02}.png"] == groups[f"p{number:02}-small.jpg"] for number in range(5))
    again = build(many, tmp_path / "again" / "sets", "photos")
    assert again.counts == report.counts
    assert same_tree(out, tmp_path / "again" / "sets")


def test_published_splits_outrank_and_keep_a_lone_folder_whole(many: Path, tmp_path: Path) -> None:
    build(many, tmp_path / "sets", "photos", splits=csv(tmp_path / "s.csv", photos="valid"))
    assert dealt(tmp_path / "sets") == {"photos": "valid"}


def test_photos_that_were_dealt_alone_stay_where_they_are_when_others_come(
    many: Path, albums: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "own" / "photos", tmp_path / "sets"
    shutil.copytree(many / "photos", folder)
    build(folder.parent, out, "photos")
    before = split_of_photos(out)
    for number in range(6):
        shutil.copy(albums / "b" / f"b{number}.png", folder / f"a{number}.png")
    shutil.copytree(albums / "a", folder.parent / "a")
    build(folder.parent, out, "photos", "a")
    assert split_of_photos(out).items() >= before.items()
    assert "a" in dealt(out)
    require_unmixed(out)
    (folder.parent / "c").mkdir()
    for number in range(8):
        shutil.copy(folder / f"p{number:02}.png", folder.parent / "c" / f"c{number}.png")
    build(folder.parent, out, "photos", "a", "c")
    rows = [row for row in read_table(out / "groups.jsonl", SharedFootage) if "c" in (row.first, row.second)]
    assert {row.first for row in rows} <= {"c", *(f"photos/{split}" for split in SPLITS)}
    assert sum(row.shared for row in rows if row.second != "c") >= 8
    sizes = Counter(split_of_photos(out).values()) | {"c": 8}
    assert all(row.of == sizes[row.second] for row in rows)


def test_by_default_a_tenth_of_the_photos_makes_sets_that_share_few_of_them(many: Path, tmp_path: Path) -> None:
    splits = csv(tmp_path / "s.csv", photos="train")
    few = build(many, tmp_path / "sets", "photos", splits=splits, sample="", set_size=2)
    assert few.counts["sets"] == 30
    shown = Counter(image for row in read_table(tmp_path / "sets" / "sets.jsonl", ImageSet) for image in row.images)
    every = build(many, tmp_path / "every" / "sets", "photos", splits=splits, sample="all", set_size=2)
    assert every.counts["sets"] == 70
    # pairs of sixty photos could be apart; drawn by chance, thirty of seventy pairs share a third of theirs
    assert sum(count - 1 for count in shown.values()) <= 12
    assert PhotoPicking(CopyRule(), "", 0).count(1000) == 100


@pytest.mark.parametrize("sample", ["0", "-1", "some", "1.5", "1e3"])
def test_a_sample_that_is_no_number_of_sets_is_one_sentence(many: Path, tmp_path: Path, sample: str) -> None:
    with pytest.raises(UsageError, match=r"--sample .* number of sets"):
        build(many, tmp_path / "sets", "photos", sample=sample)


def test_splits_that_name_no_source_are_refused_with_the_names(albums: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="names none") as refused:
        build(albums, tmp_path / "sets", "a", "b", splits=csv(tmp_path / "s.csv", other="test"))
    assert refused.value.hint == "they are a, b"


def test_adding_inherits_what_decided_the_folder_or_refuses(albums: Path, tmp_path: Path) -> None:
    out, splits = tmp_path / "sets", csv(tmp_path / "s.csv", a="test", b="valid")
    build(albums, out, "a", "b", salt="mine", sample="5", splits=splits)
    with pytest.raises(UsageError, match="other splits") as refused:
        build(albums, out, "c", add=True, sample="")
    assert "--splits" in refused.value.hint
    other: tuple[dict[str, Any], ...] = {"salt": "yours", "sample": ""}, {"sample": "7"}
    for option, given in zip(("salt", "sample"), other, strict=True):
        with pytest.raises(UsageError, match=f"--{option}"):
            build(albums, out, "c", add=True, splits=splits, **given)
    for given in ({"encoder": "ctxr-lite"}, {"threshold": 0.05}, {"set_size": SIZE + 1}):
        with pytest.raises(UsageError, match=f"--{next(iter(given)).replace('_', '-')}"):
            build(albums, out, "c", add=True, splits=splits, sample="", **given)
    build(albums, out, "c", add=True, splits=splits, sample="")
    assert open_artifact(out).manifest.config["salt"] == "mine"
    assert open_artifact(out).manifest.counts["sets"] == 5
    build(albums, tmp_path / "whole" / "sets", "a", "b", "c", salt="mine", sample="5", splits=splits)
    assert dealt(out) == dealt(tmp_path / "whole" / "sets")


def test_mirrored_and_turned_copies_tie_two_albums_as_copies_do(albums: Path, tmp_path: Path) -> None:
    shutil.copytree(albums / "a", tmp_path / "a")
    (tmp_path / "b").mkdir()
    for number in range(6):
        with Pillow.open(albums / "a" / f"a{number}.png") as photo:
            turn = Pillow.Transpose.FLIP_LEFT_RIGHT if number % 2 else Pillow.Transpose.ROTATE_90
            photo.transpose(turn).save(tmp_path / "b" / f"m{number}.jpg", quality=80)
    for salt in ("1", "2", "3"):
        build(tmp_path, tmp_path / salt / "sets", "a", "b", salt=salt)
        assert shared(tmp_path / salt / "sets") == [("a", "b", 6)]
        assert len({*dealt(tmp_path / salt / "sets").values()}) == 1
    apart = csv(tmp_path / "s.csv", a="train", b="test")
    assert build(tmp_path, tmp_path / "apart" / "sets", "a", "b", splits=apart).counts["leaking_footage"] == 1
