"""Filtering: what falls out is replaced, and the way there does not matter."""

from pathlib import Path
from typing import Any

import pytest

from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.images import decode_jpeg
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.filter import run
from ctxr.store.records import Facts, ImageSet
from ctxr.store.tables import read_table
from ctxr.store.units import read_unit
from tests.pipelines.curation.test_build_sets import build, same_tree


def refilter(sets: Path, out: Path, **options: Any) -> SetsReport:
    return run(Filter(input=sets, out=out, **options))


@pytest.fixture(scope="module")
def limit(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """A BRISQUE limit that about a third of the footage exceeds."""
    folder = tmp_path_factory.mktemp("limit")
    build(footage, folder / "sets", brisque=2.0)
    values = sorted(row.brisque or 0.0 for row in read_table(folder / "sets" / "facts.jsonl", Facts))
    return values[2 * len(values) // 3]


@pytest.mark.parametrize("kind", ["videos", "photos"])
def test_building_then_filtering_equals_building_with_the_limits(footage: Path, tmp_path: Path, kind: str) -> None:
    sources = (str(footage / kind),)
    size = {"videos": 10, "photos": 5}[kind]
    build(footage, tmp_path / "all", sources=sources, set_size=size, brisque=2.0)
    values = sorted(row.brisque or 0.0 for row in read_table(tmp_path / "all" / "facts.jsonl", Facts))
    limit = values[2 * len(values) // 3]
    build(footage, tmp_path / "plain", sources=sources, set_size=size)
    two = refilter(tmp_path / "plain", tmp_path / "two", brisque=limit, max_text=0.05)
    one = build(footage, tmp_path / "one", sources=sources, set_size=size, brisque=limit, max_text=0.05)
    assert one.counts == two.counts
    assert two.counts["reasons"]["blurry"] > 0
    for table in ("sets.jsonl", "images.jsonl", "facts.jsonl"):
        assert (tmp_path / "one" / table).read_bytes() == (tmp_path / "two" / table).read_bytes()
    names = [parent for parent in ("clip0", "clip1", "clip2", "album") if (tmp_path / "one/sources" / parent).is_dir()]
    for name in names:
        assert read_unit(tmp_path / "one", name).ledger == read_unit(tmp_path / "two", name).ledger


def test_filtered_sets_hold_no_image_beyond_the_limit(footage: Path, tmp_path: Path, limit: float) -> None:
    build(footage, tmp_path / "sets")
    report = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=limit)
    facts = {row.path: row for row in read_table(tmp_path / "filtered" / "facts.jsonl", Facts)}
    kept = [row for path, row in facts.items() if path.startswith("images/")]
    dropped = [row for path, row in facts.items() if path.startswith("dropped/")]
    assert len(kept) == 10 * report.counts["sets"]
    assert all((row.brisque or 0) <= limit for row in kept)
    assert any((row.brisque or 0) > limit for row in dropped)
    assert all((tmp_path / "filtered" / row.path).is_file() for row in [*kept, *dropped])


def test_a_fact_can_be_measured_again_on_the_saved_file(footage: Path, tmp_path: Path, limit: float) -> None:
    from ctxr.media.brisque import Brisque

    build(footage, tmp_path / "sets")
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=limit)
    row = read_table(tmp_path / "filtered" / "facts.jsonl", Facts)[0]
    again = Brisque("live").score(decode_jpeg((tmp_path / "filtered" / row.path).read_bytes()))
    assert again == pytest.approx(row.brisque, abs=1e-6)


def test_another_threshold_needs_no_decode_and_no_instrument(
    footage: Path, tmp_path: Path, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(footage, tmp_path / "sets")
    first = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=limit)
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=2.0)
    monkeypatch.setattr("ctxr.media.brisque.Brisque.score", None)
    monkeypatch.setattr("ctxr.media.frames.ChildFrameReader.read", None)
    back = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=limit)
    assert back.counts == first.counts


def test_two_ways_to_one_filter_are_byte_equal(footage: Path, tmp_path: Path, limit: float) -> None:
    build(footage, tmp_path / "sets")
    refilter(tmp_path / "sets", tmp_path / "a", brisque=2.0)
    refilter(tmp_path / "sets", tmp_path / "a", brisque=limit)
    refilter(tmp_path / "sets", tmp_path / "b", brisque=limit)
    assert same_tree(tmp_path / "a", tmp_path / "b")
    assert refilter(tmp_path / "sets", tmp_path / "b", brisque=limit).up_to_date


def test_a_video_that_moved_is_found_by_content(footage: Path, tmp_path: Path, limit: float) -> None:
    (tmp_path / "videos").mkdir()
    for clip in (footage / "videos").iterdir():
        (tmp_path / "videos" / clip.name).write_bytes(clip.read_bytes())
    build(footage, tmp_path / "sets", sources=(str(tmp_path / "videos"),))
    (tmp_path / "videos").rename(tmp_path / "moved")
    with pytest.raises(DataError, match="no such file"):
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=limit)
    report = refilter(tmp_path / "sets", tmp_path / "filtered", brisque=limit, videos=tmp_path / "moved")
    assert report.counts["measured"] > 0


def test_small_images_fall_out(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets")
    report = refilter(tmp_path / "sets", tmp_path / "filtered", min_size=97)
    assert report.counts["sets"] == 0
    assert set(report.counts["reasons"]) <= {"too_small", "near_still"}


def test_a_limit_that_the_sets_were_built_with_is_not_dropped_silently(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets", brisque=2.0)
    with pytest.raises(DataError, match=r"built with --brisque 2\.0, which this filter leaves out"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)


def test_filtering_needs_a_limit_and_finished_sets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to filter by"):
        run(Filter(workdir=tmp_path))
    with pytest.raises(UnfinishedError, match="does not exist"):
        run(Filter(workdir=tmp_path, brisque=0.65))


def test_a_hand_edited_ledger_is_named_by_line(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets")
    ledger = tmp_path / "sets" / "sources" / "clip1" / "ledger.jsonl"
    lines = ledger.read_text().splitlines()
    lines[3] = lines[3].replace('"index":', '"index":"', 1)
    ledger.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"ledger\.jsonl:4"):
        refilter(tmp_path / "sets", tmp_path / "filtered", brisque=0.65)


def test_the_sets_that_are_filtered_are_left_as_they_were(footage: Path, tmp_path: Path, limit: float) -> None:
    build(footage, tmp_path / "sets")
    build(footage, tmp_path / "copy" / "sets")
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=limit)
    assert same_tree(tmp_path / "sets", tmp_path / "copy" / "sets")
    assert read_table(tmp_path / "filtered" / "sets.jsonl", ImageSet)


def test_a_set_keeps_its_split_when_it_is_filtered(footage: Path, tmp_path: Path, limit: float) -> None:
    (tmp_path / "s.csv").write_text("clip0,test\nclip1,valid\nclip2,test\n")
    build(footage, tmp_path / "plain", splits=tmp_path / "s.csv")
    refilter(tmp_path / "plain", tmp_path / "two", brisque=limit)
    build(footage, tmp_path / "one", splits=tmp_path / "s.csv", brisque=limit)
    rows = (tmp_path / "two" / "splits.jsonl").read_text()
    assert '"group":"clip1","split":"valid"' in rows
    assert rows == (tmp_path / "one" / "splits.jsonl").read_text()
