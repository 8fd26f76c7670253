"""Building: sets as the procedure wants them, the same bytes every time, and nothing done twice."""

import filecmp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.engine.report import SetsReport
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Image, ImageSet, LedgerRow, Shot
from ctxr.store.tables import read_table
from ctxr.store.units import read_unit
from tests.pipelines.conftest import THRESHOLD

runner = CliRunner()


def build(footage: Path, out: Path, **options: Any) -> SetsReport:
    sources = options.pop("sources", (str(footage / "videos"),))
    settings: dict[str, Any] = {"encoder": "ctxr-tiny", "threshold": float(THRESHOLD)}
    return run(BuildSets(sources=sources, out=out, **(settings | options)))


def same_tree(left: Path, right: Path) -> bool:
    """Whether two folders hold the same files with the same bytes."""
    files = [{path.relative_to(top) for path in top.rglob("*") if path.is_file()} for top in (left, right)]
    if files[0] != files[1]:
        return False
    _, different, failed = filecmp.cmpfiles(left, right, [str(name) for name in files[0]], shallow=False)
    return not different and not failed


def test_sets_have_ten_images_of_one_shot_further_apart_than_the_threshold(built: Path) -> None:
    sets = read_table(built / "sets.jsonl", ImageSet)
    images = {image.id: image for image in read_table(built / "images.jsonl", Image)}
    shots = {(shot.source, shot.shot): shot for shot in read_table(built / "shots.jsonl", Shot)}
    assert len(sets) >= 6
    for image_set in sets:
        assert len(image_set.images) == 10
        shot = shots[image_set.source, image_set.shot or 0]
        indices = [images[name].index or 0 for name in image_set.images]
        assert indices == sorted(indices)
        assert shot.start_index <= indices[0]
        assert indices[-1] < shot.end_index
        assert image_set.closest > float(THRESHOLD)
        assert all((built / images[name].path).is_file() for name in image_set.images)
        assert (built / images[image_set.images[0]].path).name == f"img{indices[0]}.jpg"


def test_the_known_cut_of_each_clip_is_found(built: Path) -> None:
    shots = read_table(built / "shots.jsonl", Shot)
    assert [(shot.source, shot.start_index, shot.end_index) for shot in shots] == [
        (f"clip{number}", start, end) for number in range(3) for start, end in ((0, 100), (100, 200))
    ]


def test_every_considered_frame_has_a_row_and_a_fate(built: Path) -> None:
    manifest = open_artifact(built).manifest
    rows = [row for number in range(3) for row in read_unit(built, f"clip{number}").ledger]
    held = [row for row in rows if row.reason == "between_samples"]
    assert len(rows) == manifest.counts["considered"] + manifest.counts["between_samples"]
    assert len(held) == manifest.counts["between_samples"]
    assert all((row.image_set is None) != (row.reason is None) for row in rows)
    assert sum(row.image_set is not None for row in rows) == 10 * manifest.counts["sets"]
    assert sum(manifest.counts["reasons"].values()) == sum(row.reason is not None for row in rows) - len(held)


def test_two_runs_are_byte_equal_whatever_the_number_of_hands(footage: Path, built: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "a" / "sets", workers=3, threads=1)
    assert same_tree(built, tmp_path / "a" / "sets")


def test_a_second_run_does_nothing_and_says_so(footage: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.pipelines.curation.videos.load_encoder", pytest.fail)
    before = {path: path.stat().st_mtime_ns for path in built.rglob("*")}
    assert build(footage, built).up_to_date
    assert before == {path: path.stat().st_mtime_ns for path in built.rglob("*")}
    typed = ["build-sets", str(footage / "videos"), "--out", str(built), "--encoder", "ctxr-tiny"]
    shown = runner.invoke(app, [*typed, "--threshold", THRESHOLD])
    assert shown.exit_code == 0
    assert "nothing to do" in shown.stdout
    assert f"next  ctxr export-tasks describe -w {built.parent}" in shown.stdout


def test_another_threshold_is_replayed_without_decoding_the_video_and_equals_a_fresh_build(
    footage: Path, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxr.media.decoder_process.Scanner.scan", None)
    replayed = build(footage, sets, threshold=0.03)
    monkeypatch.undo()
    fresh = build(footage, tmp_path / "fresh" / "sets", threshold=0.03)
    assert replayed.counts == fresh.counts
    assert same_tree(sets, tmp_path / "fresh" / "sets")


def test_a_new_source_leaves_the_finished_ones_alone(footage: Path, built: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets", sources=(str(footage / "videos" / "clip0.mp4"),))
    unit = tmp_path / "sets" / "sources" / "clip0"
    before = unit.stat().st_ino
    build(footage, tmp_path / "sets")
    assert unit.stat().st_ino == before
    for table in ("sets", "images", "shots", "sources", "facts"):
        assert (tmp_path / "sets" / f"{table}.jsonl").read_bytes() == (built / f"{table}.jsonl").read_bytes()
    assert same_tree(tmp_path / "sets" / "sources", built / "sources")


def test_the_yield_curve_counts_what_a_build_gives(footage: Path, built: Path) -> None:
    report = run(BuildSets(out=built, yield_curve=True))
    assert report.curve is not None
    assert report.curve[f"{float(THRESHOLD):.4g}"] == report.counts["video_sets"]
    counts = list(report.curve.values())
    assert counts == sorted(counts, reverse=True)


def test_the_gate_skips_only_frames_close_to_an_embedded_frame_of_their_shot(built: Path) -> None:
    for number in range(3):
        latest: dict[int, LedgerRow] = {}
        for row in read_unit(built, f"clip{number}").ledger:
            if row.row is None:
                assert row.shot in latest or row.held
                if row.reason == "between_samples":
                    continue
                assert row.gate is not None
                assert row.gate < 4.0
            else:
                latest[row.shot or 0] = row


def test_every_frame_considers_every_frame(footage: Path, tmp_path: Path) -> None:
    report = build(footage, tmp_path / "sets", sources=(str(footage / "videos" / "clip0.mp4"),), every_frame=True)
    assert report.counts["considered"] == report.counts["embedded"] == 200


def test_photos_go_with_their_nearest_and_never_with_a_duplicate(footage: Path, tmp_path: Path) -> None:
    report = build(footage, tmp_path / "sets", sources=(str(footage / "photos"),))
    sets = read_table(tmp_path / "sets" / "sets.jsonl", ImageSet)
    images = {image.id: image for image in read_table(tmp_path / "sets" / "images.jsonl", Image)}
    assert report.counts["photo_sets"] == len(sets) == 14
    assert report.counts["reasons"] == {"duplicate": 1}
    unit = read_unit(tmp_path / "sets", "album")
    rows = {f"album/{row.name}": row.row or 0 for row in unit.ledger}
    for image_set in sets:
        contents = [images[name].sha256 for name in image_set.images]
        assert len(set(contents)) == 10
        vectors = unit.vectors[[rows[name] for name in image_set.images]]
        distances = np.linalg.norm(vectors - vectors[0], axis=1)
        assert distances.tolist() == sorted(distances.tolist())
        left_out = [row for name, row in rows.items() if images.get(name) and images[name].sha256 not in contents]
        nearest_out = np.linalg.norm(unit.vectors[left_out] - vectors[0], axis=1).min()
        assert nearest_out >= distances[-1] - 1e-6


def test_a_sample_of_photo_sets_is_drawn_by_the_seed(footage: Path, tmp_path: Path) -> None:
    sources = (str(footage / "photos"),)
    drawn = [
        build(footage, tmp_path / name, sources=sources, sample=5, seed=seed)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    names = [{row.id for row in read_table(one.artifact / "sets.jsonl", ImageSet)} for one in drawn]
    assert [len(one) for one in names] == [5, 5, 5]
    assert names[0] == names[1] != names[2]


def test_sets_of_one_video_are_on_one_side(footage: Path, sets: Path, tmp_path: Path) -> None:
    assert open_artifact(sets).manifest.counts["leaking_groups"] == 0
    (tmp_path / "s.csv").write_text("clip0,test\nclip1,test\nclip2,valid\n")
    assert set(build(footage, sets, splits=tmp_path / "s.csv").counts["splits"]) == {"test", "valid"}
