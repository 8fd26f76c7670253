"""A run that takes sources away, or sets that people were asked about, asks first."""

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ctxr.cli.app import app
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.records import ImageSet, Source
from ctxr.store.tables import read_table
from tests.footage import two_shot_clip
from tests.pipelines.conftest import LIMIT, THRESHOLD
from tests.pipelines.curation.test_build_sets import same_tree


def ctxr(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def build(project: Path, *words: object) -> Result:
    options = ("--encoder", "ctxr-tiny", "--threshold", THRESHOLD, "--frames", "search")
    return ctxr("build-sets", *options, "-w", project, *words)


def names(sets: Path) -> list[str]:
    return [row.name for row in read_table(sets / "sources.jsonl", Source)]


def ids(folder: Path) -> set[str]:
    return {row.id for row in read_table(folder / "sets.jsonl", ImageSet)}


@pytest.fixture
def asked(sets: Path) -> set[str]:
    """Ids of the sets that tasks of the project are about."""
    assert ctxr("export-tasks", "describe", "-w", sets.parent).exit_code == 0
    return ids(sets.parent / "tasks" / "describe")


def test_a_run_that_removes_sources_is_refused_in_numbers_and_changes_nothing(
    footage: Path, sets: Path, built: Path
) -> None:
    one = footage / "videos" / "clip0.mp4"
    rest = {row for row in ids(sets) if not row.startswith("clip0")}
    refused = build(sets.parent, one)
    assert refused.exit_code == 2
    assert f"removes 2 of 3 sources (clip1, clip2) and {len(rest)} of {len(ids(sets))} sets in {sets}" in refused.stderr
    assert "--add" in refused.stderr
    assert "--yes" in refused.stderr
    assert same_tree(sets, built)
    told = build(sets.parent, one, "--yes")
    assert told.exit_code == 0
    assert "this run removes 2 of 3 sources" in told.stderr
    assert names(sets) == ["clip0"]


def test_add_keeps_the_sources_that_are_there(footage: Path, sets: Path, tmp_path: Path) -> None:
    two_shot_clip(tmp_path / "new.mp4", 7)
    before = {row.id: row for row in read_table(sets / "sets.jsonl", ImageSet)}
    for changed in (False, True):
        if changed:  # as a killed run leaves it
            (sets / MANIFEST).unlink()
        assert build(sets.parent, tmp_path / "new.mp4", "--add").exit_code == 0
        assert names(sets) == ["clip0", "clip1", "clip2", "new"]
        assert before.items() <= {row.id: row for row in read_table(sets / "sets.jsonl", ImageSet)}.items()
    again = build(sets.parent, footage / "videos", "--add")
    assert (again.exit_code, names(sets)) == (0, ["clip0", "clip1", "clip2", "new"])
    assert "nothing to do" in again.stdout


def test_add_keeps_an_album_without_the_videos_beside_it(footage: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    shutil.copytree(footage / "photos" / "album", folder)
    shutil.copy(footage / "videos" / "clip0.mp4", folder)
    shutil.copy(footage / "videos" / "clip1.mp4", tmp_path)
    photos = sorted(folder.glob("*.png"))
    assert build(tmp_path, *photos).exit_code == 0
    assert build(tmp_path, tmp_path / "clip1.mp4", "--add").exit_code == 0
    assert names(tmp_path / "sets") == ["clip1", "mixed"]


def test_a_source_that_is_lost_is_an_error_of_add(footage: Path, tmp_path: Path) -> None:
    videos = shutil.copytree(footage / "videos", tmp_path / "videos")
    assert build(tmp_path, videos).exit_code == 0
    (videos / "clip1.mp4").rename(tmp_path / "moved.mp4")
    refused = build(tmp_path, videos / "clip0.mp4", "--add")
    assert refused.exit_code == 3
    assert "clip1, a source of" in refused.stderr
    assert build(tmp_path, videos / "clip0.mp4", "--add", "--yes").exit_code == 0
    assert names(tmp_path / "sets") == ["clip0", "clip2"]


@pytest.mark.parametrize("option", [["--rate", "2"], ["--set-size", "5"], ["--threshold", "0.03"], ["--salt", "2"]])
def test_other_options_need_consent_where_people_were_asked(
    footage: Path, sets: Path, built: Path, asked: set[str], option: list[str]
) -> None:
    refused = build(sets.parent, footage / "videos", *option)
    assert refused.exit_code == 2
    assert f"replaces {len(ids(sets))} of {len(ids(sets))} sets" in refused.stderr
    assert f"are about {len(asked)} of" in refused.stderr
    assert "--add" not in refused.stderr
    assert same_tree(sets, built)
    shutil.rmtree(sets.parent / "tasks")
    assert build(sets.parent, footage / "videos", *option).exit_code == 0


def test_a_run_that_leaves_damaged_videos_out_again_is_refused(tmp_path: Path) -> None:
    for seed in range(2):
        two_shot_clip(tmp_path / "videos" / f"clip{seed}.mkv", seed)
    cut = tmp_path / "videos" / "clip1.mkv"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size * 7 // 10])
    assert build(tmp_path, tmp_path / "videos", "--keep-damaged").exit_code == 0
    refused = build(tmp_path, tmp_path / "videos")
    assert refused.exit_code == 2
    assert "removes 1 of 2 sources (clip1)" in refused.stderr
    assert build(tmp_path, tmp_path / "videos", "--yes").exit_code == 0


def test_a_run_that_adds_or_retries_asks_nothing(footage: Path, sets: Path, tmp_path: Path, asked: set[str]) -> None:
    more = shutil.copytree(footage / "videos", tmp_path / "videos")
    shutil.copytree(footage / "photos", more / "photos")
    (more / "broken.mp4").write_text("no video")
    first = build(sets.parent, more)
    assert first.exit_code == 0
    retry = first.stdout.strip().splitlines()[-2].partition("retry: ctxr ")[2]
    two_shot_clip(more / "broken.mp4", 8)
    assert ctxr(*shlex.split(retry)).exit_code == 0
    assert build(sets.parent, more, "--keep-damaged").exit_code == 0
    assert asked <= ids(sets)


def test_filter_names_a_retry_that_finds_the_sets_again(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    videos = tmp_path / "videos"
    videos.mkdir()
    shutil.copy(footage / "videos" / "clip0.mp4", videos)
    (videos / "broken.mp4").write_text("no video")
    options = ("--encoder", "ctxr-tiny", "--threshold", THRESHOLD, "--frames", "search")
    assert ctxr("build-sets", "videos", *options, "-w", "mine", "--out", "mine/others").exit_code == 0
    told = ctxr("filter", "--min-size", "1", "-w", "mine", "--input", "mine/others")
    retry = next(line for line in told.stdout.splitlines() if "retry: " in line).partition("retry: ctxr ")[2]
    shutil.copy(footage / "videos" / "clip1.mp4", videos / "broken.mp4")
    assert ctxr(*shlex.split(retry)).exit_code == 0
    assert names(tmp_path / "mine" / "others") == ["broken", "clip0"]


def test_another_pool_of_photos_needs_consent_where_people_were_asked(footage: Path, tmp_path: Path) -> None:
    photos = shutil.copytree(footage / "photos", tmp_path / "photos")
    assert build(tmp_path, photos).exit_code == 0
    shutil.copy(footage / "photos" / "album" / "p3.png", photos / "album" / "q.png")
    assert build(tmp_path, photos).exit_code == 0
    assert ctxr("export-tasks", "describe", "-w", tmp_path).exit_code == 0
    (photos / "album" / "p4.png").unlink()
    assert build(tmp_path, photos).exit_code == 2
    assert build(tmp_path, photos, "--yes").exit_code == 0


@pytest.mark.parametrize("limit", [{"brisque": LIMIT - 0.01}, {"min_size": 20}])
def test_filter_asks_before_it_takes_sets_that_tasks_are_about(
    project: Path, filtered: Path, limit: dict[str, Any]
) -> None:
    words = [word for name, value in limit.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert ctxr("export-tasks", "describe", "-w", project).exit_code == 0
    assert ctxr("filter", "-w", project, "--brisque", LIMIT).exit_code == 0
    refused = ctxr("filter", "-w", project, *words)
    assert refused.exit_code == 2
    assert "tasks or answers" in refused.stderr
    assert same_tree(project / "filtered", filtered)
    assert ctxr("filter", "-w", project, *words, "--yes").exit_code == 0
    assert open_artifact(project / "filtered").manifest.config["brisque"] == limit.get("brisque")


def test_a_rank_needs_the_same_consent_and_the_merge_none_beyond_it(footage: Path, sets: Path) -> None:
    one, rank = footage / "videos" / "clip0.mp4", ("--rank", 0, "--world-size", 1)
    assert build(sets.parent, one, *rank).exit_code == 2
    assert build(sets.parent, one, *rank, "--yes").exit_code == 0
    assert ctxr("merge", sets).exit_code == 0
    assert names(sets) == ["clip0"]
