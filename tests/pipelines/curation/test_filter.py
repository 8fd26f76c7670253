"""Filtering: what falls out is replaced, and the way there does not matter."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.brisque import Brisque
from ctxr.media.images import decode_jpeg
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.filter import FilterStage, run
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Facts, ImageSet
from ctxr.store.tables import read_table
from ctxr.store.units import read_unit
from tests.pipelines.conftest import LIMIT, THRESHOLD
from tests.pipelines.curation.test_build_sets import build, same_tree


def refilter(sets: Path, out: Path, **options: Any) -> SetsReport:
    return run(Filter(input=sets, out=out, **options))


@pytest.mark.parametrize("kind", ["videos", "photos"])
def test_building_then_filtering_equals_building_with_the_limits(footage: Path, tmp_path: Path, kind: str) -> None:
    files = {"videos": ("videos/clip0.mp4", "videos/clip1.mp4"), "photos": ("photos",)}[kind]
    sources = tuple(str(footage / file) for file in files)
    size = {"videos": 10, "photos": 5}[kind]
    build(footage, tmp_path / "all", sources=sources, set_size=size, brisque=2.0)
    values = sorted(row.brisque or 0.0 for row in read_table(tmp_path / "all" / "facts.jsonl", Facts))
    limit = values[2 * len(values) // 3]
    build(footage, tmp_path / "plain", sources=sources, set_size=size)
    two = refilter(tmp_path / "plain", tmp_path / "two", brisque=limit, max_text=0.05)
    one = build(footage, tmp_path / "one", sources=sources, set_size=size, brisque=limit, max_text=0.05)
    assert one.counts == two.counts
    assert two.counts["reasons"]["low_quality"] > 0
    for table in ("sets.jsonl", "images.jsonl", "facts.jsonl"):
        assert (tmp_path / "one" / table).read_bytes() == (tmp_path / "two" / table).read_bytes()
    names = [parent for parent in ("clip0", "clip1", "clip2", "album") if (tmp_path / "one/sources" / parent).is_dir()]
    for name in names:
        assert read_unit(tmp_path / "one", name).ledger == read_unit(tmp_path / "two", name).ledger


def test_filtered_sets_hold_no_image_beyond_the_limit_and_their_sets_are_left_alone(
    built: Path, filtered: Path
) -> None:
    facts = {row.path: row for row in read_table(filtered / "facts.jsonl", Facts)}
    kept = [row for path, row in facts.items() if path.startswith("images/")]
    dropped = [row for path, row in facts.items() if path.startswith("dropped/")]
    assert len(kept) == 10 * len(read_table(filtered / "sets.jsonl", ImageSet)) > 0
    assert all((row.brisque or 0) <= LIMIT for row in kept)
    assert any((row.brisque or 0) > LIMIT for row in dropped)
    assert all((filtered / row.path).is_file() for row in [*kept, *dropped])
    assert same_tree(filtered.parent / "sets", built)


def test_a_fact_can_be_measured_again_on_the_saved_file(filtered: Path) -> None:
    row = read_table(filtered / "facts.jsonl", Facts)[0]
    again = Brisque("live").score(decode_jpeg((filtered / row.path).read_bytes()))
    assert again == pytest.approx(row.brisque, abs=1e-6)


def test_the_way_back_to_a_filter_gives_its_bytes_and_needs_no_decode_and_no_instrument(
    filtered: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refilter(project / "sets", project / "filtered", brisque=2.0)
    assert not same_tree(project / "filtered", filtered)
    monkeypatch.setattr("ctxr.media.brisque.Brisque.score", None)
    monkeypatch.setattr("ctxr.media.decoder_process.ChildFrameReader.read", None)
    refilter(project / "sets", project / "filtered", brisque=LIMIT)
    assert same_tree(project / "filtered", filtered)
    assert refilter(project / "sets", project / "filtered", brisque=LIMIT).up_to_date


def test_small_images_fall_out(built: Path, tmp_path: Path) -> None:
    report = refilter(built, tmp_path / "filtered", min_size=97)
    assert report.counts["sets"] == 0
    assert set(report.counts["reasons"]) <= {"too_small", "near_still"}


def test_a_limit_that_the_sets_were_built_with_is_not_dropped_silently(footage: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets", sources=(str(footage / "photos"),), brisque=2.0)
    with pytest.raises(DataError, match=r"--brisque 2\.0"):
        refilter(tmp_path / "sets", tmp_path / "filtered", min_size=10)


def test_filtering_needs_a_limit_and_finished_sets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to filter"):
        run(Filter(workdir=tmp_path))
    with pytest.raises(UnfinishedError, match="does not exist"):
        run(Filter(workdir=tmp_path, brisque=0.65))


def test_a_hand_edited_ledger_is_named_by_line(sets: Path, tmp_path: Path) -> None:
    ledger = sets / "sources" / "clip1" / "ledger.jsonl"
    lines = ledger.read_text().splitlines()
    lines[3] = lines[3].replace('"index":', '"index":"', 1)
    ledger.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"ledger\.jsonl:4"):
        refilter(sets, tmp_path / "filtered", brisque=0.65)


def test_a_set_keeps_its_split_when_it_is_filtered(footage: Path, project: Path) -> None:
    (project / "s.csv").write_text("clip0,test\nclip1,valid\nclip2,test\n")
    build(footage, project / "sets", splits=project / "s.csv")
    refilter(project / "sets", project / "filtered", brisque=LIMIT)
    build(footage, project / "sets", splits=project / "s.csv", brisque=LIMIT)
    rows = (project / "filtered" / "splits.jsonl").read_text()
    assert '"group":"clip1","split":"valid"' in rows
    assert rows == (project / "sets" / "splits.jsonl").read_text()


def test_every_threshold_of_a_manifest_is_the_one_that_ran(filtered: Path) -> None:
    for folder in (filtered, filtered.parent / "sets"):
        models = open_artifact(folder).manifest.models
        assert models["encoder"]["threshold"] == models["selection"]["threshold"] == float(THRESHOLD)


def test_a_split_that_lost_all_its_sets_is_named_and_one_that_had_none_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = SimpleNamespace(manifest=SimpleNamespace(counts={"splits": {"train": 3, "test": 2}}))
    monkeypatch.setattr("ctxr.pipelines.curation.filter.open_artifact", lambda path: built)
    stage = FilterStage(Filter(input=tmp_path, brisque=0.5))
    report = SetsReport(tmp_path, False, "ctxr-tiny", 0.3, {"sets": 3, "splits": {"train": 3}}, [])
    (remark,) = stage.remarks(report)
    assert "test" in remark
    assert "train" not in remark
    assert "valid" not in remark
