"""Building: sets as the procedure wants them, the same bytes every time, and nothing done twice."""

import filecmp
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.cli.render import Terminal
from ctxr.engine.history import HISTORY
from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UsageError
from ctxr.media.scan import ScanOptions
from ctxr.media.sources import InputSource
from ctxr.models import hub
from ctxr.models.encoders import Encoder
from ctxr.pipelines.curation import build_sets
from ctxr.pipelines.curation.build_sets import run, scan_key
from ctxr.pipelines.curation.config import BuildSets
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.records import Failure, Image, ImageSet, LedgerRow, Shot, Source
from ctxr.store.tables import read_table
from ctxr.store.units import read_unit
from tests.media.clips import break_packet, pictures, write_clip
from tests.pipelines.conftest import THRESHOLD

runner = CliRunner()


def build(footage: Path, out: Path, **options: Any) -> SetsReport:
    sources = options.pop("sources", (str(footage / "videos"),))
    settings: dict[str, Any] = {"encoder": "ctxr-tiny", "threshold": float(THRESHOLD), "frames": "search"}
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
        assert (image_set.closest or 0) > float(THRESHOLD)
        assert all((built / images[name].path).is_file() for name in image_set.images)
        assert (built / images[image_set.images[0]].path).name == f"img{indices[0]}.jpg"


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
    build(footage, tmp_path / "a" / "sets", jobs=3, threads=1)
    assert same_tree(built, tmp_path / "a" / "sets")


def test_a_second_run_says_that_there_is_nothing_to_do(footage: Path, built: Path) -> None:
    typed = ["build-sets", str(footage / "videos"), "--out", str(built), "--encoder", "ctxr-tiny", "--frames", "search"]
    shown = runner.invoke(app, [*typed, "--threshold", THRESHOLD])
    assert shown.exit_code == 0
    assert "nothing to do" in shown.stdout
    assert shown.stdout.endswith(f"next: ctxr report -w {built.parent}\n")


@pytest.mark.parametrize("threshold", [0.012, 0.03])
def test_another_threshold_is_replayed_without_scanning_the_video_and_equals_a_fresh_build(
    footage: Path, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: float
) -> None:
    monkeypatch.setattr("ctxr.media.decoder_process.Scanner.scan", None)
    replayed = build(footage, sets, threshold=threshold)
    monkeypatch.undo()
    fresh = build(footage, tmp_path / "fresh" / "sets", threshold=threshold)
    assert replayed.counts == fresh.counts
    assert same_tree(sets, tmp_path / "fresh" / "sets")


@pytest.mark.parametrize(("decoder", "named"), [("auto", True), ("pyav", True), ("opencv", False)])
def test_a_scan_depends_on_the_version_of_pyav_where_that_may_decode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoder: str, named: bool
) -> None:
    versions = Mock(return_value={})
    monkeypatch.setattr(build_sets, "package_versions", versions)
    encoder: Any = SimpleNamespace(fingerprint="f", precision="fp32")
    scan_key(InputSource("clip", "video", tmp_path, "0", 1), ScanOptions(decoder=decoder), encoder)
    assert ("av" in versions.call_args.args, "opencv-python" in versions.call_args.args) == (named, True)


def test_a_new_source_leaves_the_finished_ones_alone(footage: Path, built: Path, tmp_path: Path) -> None:
    build(footage, tmp_path / "sets", sources=(str(footage / "videos" / "clip0.mp4"),))
    unit = tmp_path / "sets" / "sources" / "clip0"
    before = unit.stat().st_ino
    build(footage, tmp_path / "sets")
    assert unit.stat().st_ino == before
    for table in ("sets", "images", "shots", "sources", "facts"):
        assert (tmp_path / "sets" / f"{table}.jsonl").read_bytes() == (built / f"{table}.jsonl").read_bytes()
    assert same_tree(tmp_path / "sets" / "sources", built / "sources")


def test_videos_that_exchange_their_names_are_built_again(footage: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    shutil.copytree(footage / "videos", videos)
    build(tmp_path, tmp_path / "sets")
    for old, new in (("clip0", "other"), ("clip1", "clip0"), ("other", "clip1")):
        (videos / f"{old}.mp4").rename(videos / f"{new}.mp4")
    assert not build(tmp_path, tmp_path / "sets", yes=True).up_to_date
    build(tmp_path, tmp_path / "fresh")
    assert same_tree(tmp_path / "sets", tmp_path / "fresh")


def test_a_folder_of_another_artifact_is_refused(footage: Path, tmp_path: Path) -> None:
    finish(tmp_path, kind="documents", verb="build-documents", config={}, parents=[], content=Content([], {}, {}))
    with pytest.raises(DataError, match="documents"):
        build(footage, tmp_path, encoder="auto")


def test_the_yield_curve_counts_what_a_build_gives(footage: Path, built: Path) -> None:
    report = run(BuildSets(out=built, yield_curve=True))
    assert report.curve is not None
    assert report.curve[f"{float(THRESHOLD):.4g}"] == report.counts["video_sets"]
    counts = list(report.curve.values())
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("frames", [pytest.param("every", marks=pytest.mark.prove), "search", "samples"])
def test_the_yield_curve_is_exact_where_it_says_so(footage: Path, tmp_path: Path, frames: str) -> None:
    report = build(footage, tmp_path / "sets", frames=frames, yield_curve=True)
    assert report.curve is not None
    assert [*report.exact] == ([f"{float(THRESHOLD):.4g}"] if frames == "search" else [*report.curve])
    thresholds = [float(THRESHOLD) * 2**exponent for exponent in (-1, 0, 0.5, 1)]
    for threshold in thresholds:
        built = build(footage, tmp_path / f"{threshold:.4g}", threshold=threshold, frames=frames)
        name, sets = f"{threshold:.4g}", built.counts["video_sets"]
        assert report.curve[name] == sets or name not in report.exact


def test_a_yield_curve_replaces_no_finished_sets(footage: Path, tmp_path: Path) -> None:
    out = tmp_path / "work" / "sets"
    command = ["build-sets", str(footage / "videos"), "--encoder", "ctxr-tiny", "--frames", "search", "--yield-curve"]
    command += ["--out", str(out)]
    first = CliRunner().invoke(app, [*command, "--threshold", THRESHOLD])
    assert first.exit_code == 0
    assert "~ " in first.stdout
    content = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    again = CliRunner().invoke(app, [*command, "--threshold", THRESHOLD, "--json"])
    assert json.loads(again.stdout)["exact"] == [f"{float(THRESHOLD):.4g}"]
    other = CliRunner().invoke(app, [*command, "--threshold", "0.3"])
    assert other.exit_code == 2
    assert "other --threshold," in " ".join(other.stderr.split())
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == content


def test_frames_that_auto_came_to_are_up_to_date_when_they_are_named(footage: Path, tmp_path: Path) -> None:
    out, clip = tmp_path / "sets", (str(footage / "videos" / "clip0.mp4"),)
    build(footage, out, sources=clip, frames="auto")
    content = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in out.rglob("*") if file.is_file()}
    report = build(footage, out, sources=clip, frames="every", yield_curve=True)
    assert (report.up_to_date, {*report.exact}) == (True, {*(report.curve or ())})
    with pytest.raises(UsageError, match="other --frames,"):
        build(footage, out, sources=clip, frames="search", yield_curve=True)
    assert {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in content} == content
    assert not build(footage, out, sources=clip, frames="search").up_to_date


def test_a_yield_curve_without_a_set_is_one_sentence(footage: Path, tmp_path: Path) -> None:
    command = ["build-sets", str(footage / "videos" / "clip0.mp4"), "--encoder", "ctxr-tiny", "--yield-curve"]
    shown = CliRunner().invoke(app, [*command, "--threshold", "1.5", "--out", str(tmp_path / "sets")])
    assert "from 0.75 to 1.945 " in shown.stdout
    assert "◀" not in shown.stdout


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
    report = build(footage, tmp_path / "sets", sources=(str(footage / "videos" / "clip0.mp4"),), frames="every")
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
        build(footage, tmp_path / name, sources=sources, sample="5", seed=seed)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    names = [{row.id for row in read_table(one.artifact / "sets.jsonl", ImageSet)} for one in drawn]
    assert [len(one) for one in names] == [5, 5, 5]
    assert names[0] == names[1] != names[2]


def test_sets_of_one_video_are_on_one_side(footage: Path, sets: Path, tmp_path: Path) -> None:
    assert open_artifact(sets).manifest.counts["leaking_groups"] == 0
    (tmp_path / "s.csv").write_text("clip0,test\nclip1,test\nclip2,valid\n")
    assert set(build(footage, sets, splits=tmp_path / "s.csv").counts["splits"]) == {"test", "valid"}


def talk_of(capsys: pytest.CaptureFixture[str], out: Path, *sources: Path, threshold: float = float(THRESHOLD)) -> str:
    names = tuple(map(str, sources))
    run(BuildSets(sources=names, out=out, encoder="ctxr-tiny", threshold=threshold, yes=True), Terminal())
    return capsys.readouterr().err


def test_no_set_at_all_has_a_cure(footage: Path, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = talk_of(capsys, sets, footage / "videos", threshold=1.5)
    assert "--threshold below 1.5" in said


def test_a_damaged_video_says_how_its_rest_can_be_used(
    footage: Path, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write_clip(tmp_path / "clip.mp4", pictures((1, 40)), options={"g": "10", "bf": "0"})
    (tmp_path / "another.mp4").write_text("no video")
    said = talk_of(capsys, sets, tmp_path / "another.mp4", break_packet(whole, 13), footage / "videos" / "clip1.mp4")
    assert "7 of 40 frames" in said
    assert "--keep-damaged" in said
    other, failure = sorted(read_table(sets / "failures.jsonl", Failure), key=lambda row: row.source)
    assert (other.reason, failure.reason) == ("not_a_video", "truncated")
    assert "--keep-damaged" not in other.retry
    options = shlex.split(failure.retry)
    assert "--keep-damaged" in options
    # a filter cannot take it either, and names the command that can
    filtered = ["filter", "--input", str(sets), "--out", str(tmp_path / "filtered"), "--min-size", "1", "--json"]
    result = json.loads(CliRunner().invoke(app, filtered).stdout)
    assert shlex.split(result["retry"]) == ["ctxr", "build-sets", "--out", str(sets), *options[2:]]
    assert {row["retry"] for row in result["failures"]} == {other.retry, failure.retry}
    assert CliRunner().invoke(app, [*options[1:], "--out", str(sets), "--yes"]).exit_code == 0
    damaged = {row.name: row.damage for row in read_table(sets / "sources.jsonl", Source)}
    assert str(damaged["clip"]).startswith("7 of 40 ")
    assert damaged["clip1"] is None
    assert [row.source for row in read_table(sets / "failures.jsonl", Failure)] == ["another"]


def test_a_tiny_video_is_named_and_the_others_are_used(footage: Path, sets: Path, tmp_path: Path) -> None:
    tiny = write_clip(tmp_path / "tiny.mp4", pictures((1, 30), size=(160, 62)))
    build(footage, sets, sources=(str(tiny), str(footage / "videos" / "clip1.mp4")), yes=True)
    (failure,) = read_table(sets / "failures.jsonl", Failure)
    assert (failure.source, failure.reason) == ("tiny", "too_small")
    assert "160 x 62" in failure.message
    assert "--keep-damaged" not in failure.retry
    assert [row.name for row in read_table(sets / "sources.jsonl", Source)] == ["clip1"]


def test_the_last_line_counts_what_failed_and_names_the_retry(footage: Path, tmp_path: Path) -> None:
    videos, out = tmp_path / "my videos", tmp_path / "work" / "sets"
    shutil.copytree(footage / "videos", videos)
    (videos / "round.mp4").symlink_to(videos / "round.mp4")
    (videos / "gone.mp4").symlink_to(videos / "nowhere.mp4")
    command = ["build-sets", str(videos), "--encoder", "ctxr-tiny", "--threshold", THRESHOLD, "--out", str(out)]
    for flags in ([], ["--yield-curve"]):
        result = CliRunner().invoke(app, [*command, *flags])
        assert result.exit_code == 0
        last, after = result.stdout.strip().splitlines()[-2:]
        assert after.startswith("next: ctxr ")
        assert last.startswith(f"2 files failed: reasons in {out / 'failures.jsonl'}; retry: ctxr build-sets")
        assert {row.reason for row in read_table(out / "failures.jsonl", Failure)} == {"no_such_file", "unreadable"}
    (videos / "gone.mp4").unlink()
    (videos / "round.mp4").unlink()
    shutil.copy(videos / "clip0.mp4", videos / "gone.mp4")
    with (videos / "gone.mp4").open("ab") as file:
        file.write(b"other content")
    again = CliRunner().invoke(app, shlex.split(last.partition("retry: ctxr ")[2]))
    assert again.exit_code == 0
    assert "failed" not in again.stdout


def test_a_video_that_is_used_in_part_is_told_of(
    footage: Path, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write_clip(tmp_path / "clip.mp4", pictures((1, 200)), options={"g": "10", "bf": "0"})
    break_packet(whole, 199)
    said = talk_of(capsys, sets, whole, footage / "videos" / "clip1.mp4")
    assert "in part: 1 of 200" in said


def test_sets_that_a_fallback_picked_say_so_again_when_nothing_is_to_do(
    footage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "cached_weights", lambda *_: None)
    monkeypatch.setattr(hub, "can_reach", lambda *_: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = BuildSets(
        sources=(str(footage / "videos" / "clip0.mp4"),), out=tmp_path / "sets", threshold=float(THRESHOLD)
    )
    assert run(config, Terminal()).encoder == "ctxr-tiny"
    capsys.readouterr()
    assert run(config, Terminal()).up_to_date
    assert "picked with ctxr-tiny" in capsys.readouterr().err
    line = {"words": ["build-sets", "--encoder", "ctxr-tiny"], "exit_code": 0, "artifacts": [{"path": "sets"}]}
    again = {**line, "words": ["build-sets"], "artifacts": [{"path": "sets", "up_to_date": True}]}
    (tmp_path / HISTORY).write_text(f"{json.dumps(line)}\n{json.dumps(again)}\n")
    assert run(replace(config, workdir=tmp_path, yield_curve=True), Terminal()).curve
    assert "picked with ctxr-tiny" not in capsys.readouterr().err


def test_the_curve_is_about_videos(footage: Path, tmp_path: Path) -> None:
    names = (str(footage / "photos"),)
    config = BuildSets(sources=names, out=tmp_path / "sets", encoder="ctxr-tiny", yield_curve=True)
    assert run(config).curve is None


def test_added_sources_are_built_as_the_first_were_whatever_auto_would_take_now(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    videos = footage / "videos"
    build(footage, tmp_path / "sets", sources=(str(videos / "clip0.mp4"),), frames="auto")
    monkeypatch.setattr(Encoder, "cheap", False)
    build(footage, tmp_path / "sets", sources=(str(videos / "clip1.mp4"),), frames="auto", add=True)
    build(footage, tmp_path / "sets", sources=(str(videos / "clip1.mp4"),), frames="every", add=True)
    assert open_artifact(tmp_path / "sets").manifest.models["selection"]["frames"] == "every"
    for option, made in (
        ({"frames": "search"}, "with --frames every,"),
        ({"keep_leaks": True}, "without --keep-leaks,"),
    ):
        with pytest.raises(UsageError, match=made):
            build(footage, tmp_path / "sets", sources=(str(videos / "clip2.mp4"),), add=True, **option)
    assert build(footage, tmp_path / "other", frames="auto").counts["between_samples"] > 0
