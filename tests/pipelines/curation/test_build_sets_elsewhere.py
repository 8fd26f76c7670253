"""Sets of sources that URLs name are those of the same files in a folder, byte for byte, and need no copy that is still there."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.engine.progress import SILENT
from ctxr.errors import DataError
from ctxr.media.sources import SourceSearch, find_sources
from ctxr.pipelines.curation import build_sets
from ctxr.pipelines.curation import filter as filtering
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.inspection.artifact_check import check_artifact
from ctxr.store.paths import CACHE
from ctxr.store.records import Failure
from ctxr.store.remote import Store
from ctxr.store.tables import read_table
from ctxr.store.units import album_files
from tests.pipelines.conftest import LIMIT as BRISQUE
from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.stores import memory, put, s3_server


@pytest.fixture(autouse=True)
def empty_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr("ctxr.media.sources._ADDED", {})
    store = fsspec.filesystem("memory")
    yield store
    store.rm("/", recursive=True)


@pytest.fixture(scope="module")
def of_folder(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sets of all footage, in a folder."""
    return build(footage, tmp_path_factory.mktemp("folder") / "sets", sources=(str(footage),)).artifact


def lose(project: Path) -> None:
    """Remove the files of URLs from the cache."""
    files = [*(project / CACHE / "elsewhere").glob("*/*/[a-z]*")]
    assert len(files) > 10
    for file in files:
        file.unlink()


def test_a_url_gives_the_sets_of_the_folder_also_where_files_leave_the_cache(
    footage: Path, of_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, copy = memory(footage, "memory://bucket/footage"), Store.copy

    def find_and_lose(*given: Any) -> SourceSearch:
        search = find_sources(*given)
        lose(tmp_path)
        return search

    with monkeypatch.context() as patch:
        patch.setattr(build_sets, "find_sources", find_and_lose)
        build(footage, tmp_path / "sets", sources=(url,))
    assert same_tree(of_folder, tmp_path / "sets")
    lose(tmp_path)
    monkeypatch.setattr(Store, "copy", lambda *_: pytest.fail("copied again"))
    assert build(footage, tmp_path / "sets", sources=(url,)).up_to_date
    monkeypatch.setattr(Store, "copy", copy)
    filtering.run(Filter(input=of_folder, out=tmp_path / "here" / "filtered", brisque=BRISQUE))
    filtering.run(Filter(input=tmp_path / "sets", out=tmp_path / "filtered", brisque=BRISQUE))
    assert same_tree(tmp_path / "here" / "filtered", tmp_path / "filtered")


def test_a_dry_run_does_not_look_into_what_it_does_not_copy(footage: Path, tmp_path: Path) -> None:
    clip = (footage / "videos" / "clip0.mp4").read_bytes()
    fsspec.filesystem("memory").pipe_file("/bucket/clip", clip)
    typed = ["build-sets", "memory://bucket/clip", "--out", str(tmp_path / "sets"), "--dry-run"]
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 0, result.stderr
    assert not (tmp_path / "sets").exists()


@pytest.mark.prove
def test_an_album_that_does_not_fit_into_the_cache_is_filtered_and_no_problem(
    footage: Path, of_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = memory(footage, "memory://bucket/footage")
    build(footage, tmp_path / "sets", sources=(url,))

    def lose_and_compare(*given: Any) -> Any:
        lose(tmp_path)
        return album_files(*given)

    with monkeypatch.context() as patch:
        patch.setattr(filtering, "album_files", lose_and_compare)
        filtering.run(Filter(input=tmp_path / "sets", out=tmp_path / "filtered", brisque=BRISQUE))
    filtering.run(Filter(input=of_folder, out=tmp_path / "here" / "filtered", brisque=BRISQUE))
    assert same_tree(tmp_path / "here" / "filtered", tmp_path / "filtered")
    lose(tmp_path)
    assert "problem" not in {check.state for check in check_artifact(tmp_path / "sets", SILENT)}
    fsspec.filesystem("memory").pipe_file(f"{url}/photos/album/p4.png", b"other")
    with pytest.raises(DataError, match=r"album/p4\.png .*changed"):
        filtering.run(Filter(input=tmp_path / "sets", out=tmp_path / "other", brisque=BRISQUE))


def test_sources_are_added_to_those_of_a_url_that_are_no_longer_in_the_cache(
    footage: Path, of_folder: Path, tmp_path: Path
) -> None:
    url = memory(footage, "memory://bucket/footage")
    build(footage, tmp_path / "sets", sources=(f"{url}/videos/clip0.mp4", f"{url}/photos"))
    lose(tmp_path)
    build(footage, tmp_path / "sets", sources=(f"{url}/videos/clip1.mp4", f"{url}/videos/clip2.mp4"), add=True)
    for table in ("sources.jsonl", "shots.jsonl"):
        assert (tmp_path / "sets" / table).read_bytes() == (of_folder / table).read_bytes()


def test_a_video_that_vanishes_is_a_failure_with_its_url(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Any
) -> None:
    url, copy = memory(footage / "videos", "memory://bucket/videos"), Store.copy

    def late(self: Store, *given: Any) -> None:
        if self.url.endswith("clip1.mp4"):
            empty_store.store.pop(self.path, None)
        copy(self, *given)

    monkeypatch.setattr(Store, "copy", late)
    report = build(footage, tmp_path / "sets", sources=(url,))
    assert (report.counts["videos"], report.counts["failed"]) == (2, 1)
    (row,) = read_table(tmp_path / "sets" / "failures.jsonl", Failure)
    assert (row.source, row.path, row.reason) == ("clip1", "memory:///bucket/videos/clip1.mp4", "no_such_file")
    assert str(tmp_path) not in row.message
    monkeypatch.setattr(Store, "copy", copy)
    put(empty_store, footage / "videos", "/bucket/videos")
    assert build(footage, tmp_path / "sets", sources=(url,), retry_failed=True).counts["failed"] == 0


@pytest.mark.prove
def test_a_bucket_gives_the_sets_of_the_folder(
    footage: Path, of_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server(monkeypatch) as server:
        put(fsspec.filesystem("s3"), footage, "s3://clips/footage")
        build(footage, tmp_path / "sets", sources=("s3://clips/footage/",))
        assert same_tree(of_folder, tmp_path / "sets")
        shutil.rmtree(tmp_path / CACHE / "elsewhere")
        first = len(server.requests)
        build(footage, tmp_path / "sets", sources=("s3://clips/footage/",))
        again = server.requests[first:]
        assert build(footage, tmp_path / "sets", sources=("s3://clips/footage/",)).up_to_date
        assert sum("/footage/" in one for one in again) > 17
        assert not [one for one in server.requests[first + len(again) :] if "/footage/" in one]


@pytest.mark.parametrize("option", ["-w", "--out", "--splits"])
def test_a_folder_to_write_to_is_no_url(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed = ["build-sets", "videos", option, "s3://bucket/work", "--threshold", THRESHOLD, "--json"]
    result = CliRunner().invoke(app, typed)
    error = json.loads(result.stdout)
    assert (result.exit_code, f"{option.replace('-w', '--workdir')} s3://bucket/work" in error["error"]) == (2, True)
    assert error["hint"]
    assert [*tmp_path.iterdir()] == []
