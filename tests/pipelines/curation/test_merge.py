"""Ranks and engines: whoever makes the units, and however often they are killed, the artifact has the same bytes."""

import pickle  # noqa: TID251 (what the test itself wrote)
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.engine.engines import ENGINES
from ctxr.engine.units import Job, WorkUnit
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.curation import photos
from ctxr.pipelines.curation.config import Merge
from ctxr.pipelines.curation.merge import run as merge
from ctxr.store.artifacts import MANIFEST, locked, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import remember_paths
from ctxr.store.units import RankRun, rank_lock, read_ranks
from tests.footage import two_shot_clip
from tests.pipelines.conftest import LIMIT, THRESHOLD
from tests.pipelines.curation.test_bad_inputs import run_aside
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.pipelines.curation.test_filter import refilter

runner = CliRunner()


@pytest.fixture(scope="module")
def rough(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three videos, one that is none, and an album."""
    folder = tmp_path_factory.mktemp("rough") / "own"
    shutil.copytree(footage, folder)
    (folder / "videos" / "text.mp4").write_text("this is no video")
    return folder


def make(rough: Path, out: Path, **options: Any) -> Any:
    return build(rough, out, sources=(str(rough),), set_size=5, **options)


@pytest.fixture(scope="module")
def whole(rough: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "sets"
    make(rough, out)
    return out


def typed(rough: Path, out: Path, *more: object) -> list[str]:
    options = ["--encoder", "ctxr-tiny", "--frames", "search", "--threshold", THRESHOLD, "--set-size", "5"]
    options += ["--out", str(out)]
    return ["build-sets", str(rough), *options, *map(str, more)]


def test_ranks_one_after_the_other_and_a_merge_equal_one_run(rough: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "sets"
    with pytest.raises(UnfinishedError, match="no rank") as nothing:
        merge(Merge(artifact=out))
    assert str(nothing.value.hint).endswith(f"ctxr build-sets videos/ --out {out} --rank 0 --world-size 2")
    for rank in (2, 0):
        report = make(rough, out, rank=rank, world_size=3)
        assert report.rank == f"{rank} of 3"
    assert not (out / MANIFEST).exists()
    with pytest.raises(UnfinishedError, match=r"1 source of 4 .*: clip1") as caught:
        merge(Merge(artifact=out))
    assert caught.value.hint.startswith(f"ctxr build-sets {rough}")
    assert "--rank 1 --world-size 3" in caught.value.hint
    make(rough, out, rank=1, world_size=3)
    shown = runner.invoke(app, ["merge", str(out)]).stdout
    assert same_tree(out, whole)
    assert merge(Merge(artifact=out)).up_to_date
    again = runner.invoke(app, ["merge", str(out)]).stdout
    assert {text.splitlines()[-1] for text in (shown, again)} == {f"next: ctxr report -w {tmp_path}"}


@pytest.mark.prove
def test_processes_of_torchrun_share_the_work_and_a_merge_equals_one_run(rough: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "sets", tmp_path / "whole"
    subprocess.run([sys.executable, "-m", "ctxr", *typed(rough, whole)], timeout=300, check=True)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "ctxr"]
    done = subprocess.run(
        [sys.executable, *torchrun, *typed(rough, out)], capture_output=True, text=True, timeout=300, check=True
    )
    assert sorted(re.findall(r"rank \d of 2", done.stdout)) == ["rank 0 of 2", "rank 1 of 2"]
    merge(Merge(artifact=out))
    assert same_tree(out, whole)


def test_ranks_share_the_photos_and_the_merge_embeds_none(
    rough: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photos, "SHARD", 4)
    out, shards = tmp_path / "sets", set[str]()
    for rank in range(2):
        make(rough, out, rank=rank, world_size=2)
        made = {path.name for path in (out / "sources").glob(".album.shard*.npy")}
        assert len(made - shards) == 2
        shards |= made
    monkeypatch.setattr("ctxr.pipelines.curation.videos.Embedder.embed", None)
    merge(Merge(artifact=out))
    assert same_tree(out, whole)


def test_a_run_without_a_rank_merges_too_and_takes_failures_as_they_are(
    rough: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "sets"
    make(rough, out, rank=0, world_size=1)
    monkeypatch.setattr("ctxr.media.decoder_process.Scanner.scan", None)
    assert make(rough, out, rank=0, world_size=1).counts == {"sources": 4, "finished": 3, "failed": 1}
    with pytest.raises(TypeError):
        make(rough, out, rank=0, world_size=1, retry_failed=True)
    make(rough, out)
    assert same_tree(out, whole)


def test_a_rank_without_work_leaves_a_finished_result_alone(rough: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "sets"
    shutil.copytree(whole, out)
    report = make(rough, out, rank=0, world_size=2, retry_failed=True)
    assert report.counts == {"sources": 4, "finished": 2, "failed": 0}
    assert same_tree(out, whole)
    assert merge(Merge(artifact=out)).up_to_date


def test_a_merge_takes_the_failures_that_no_rank_tried_again(footage: Path, tmp_path: Path) -> None:
    out, videos = tmp_path / "sets", tmp_path / "videos"
    videos.mkdir()
    shutil.copy(footage / "videos" / "clip0.mp4", videos / "c.mp4")
    for name in ("a", "b"):
        (videos / f"{name}.mp4").write_text(f"{name} is no video")
    make(videos, out)
    shutil.copytree(out, tmp_path / "before")
    report = make(videos, out, rank=0, world_size=2, retry_failed=True)
    assert report.counts == {"sources": 3, "finished": 1, "failed": 1}
    assert not (out / MANIFEST).exists()
    merge(Merge(artifact=out))
    assert same_tree(out, tmp_path / "before")


def test_a_merge_that_lacks_a_unit_leaves_the_earlier_result(rough: Path, whole: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "sets", tmp_path / "more"
    shutil.copytree(whole, out)
    shutil.copytree(rough, more)
    (more / "videos" / "zoo.mp4").write_text("this is no video either")
    make(more, out, rank=2, world_size=3)
    before = (out / MANIFEST).read_bytes()
    with pytest.raises(UnfinishedError, match="by any rank: text, zoo"):
        merge(Merge(artifact=out))
    assert (out / MANIFEST).read_bytes() == before


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_killed_rank_among_two_goes_on_and_the_merge_waits_for_it(
    rough: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "sets"
    second = typed(rough, out, "--rank", 1, "--world-size", 2, "--jobs", 1)
    killed = get_context("fork").Process(target=run_aside, args=(second, tmp_path / "stderr"))
    with monkeypatch.context() as patched:  # the second begins, and embeds nothing
        patched.setattr("ctxr.pipelines.curation.videos.Embedder.embed", lambda *_, **__: signal.pause())
        killed.start()
    while not list(out.glob("sources/*clip1*")):
        assert killed.is_alive()
        time.sleep(0.01)
    make(rough, out, rank=0, world_size=2)
    waiting = runner.invoke(app, ["merge", str(out)])
    killed.kill()
    killed.join()
    assert waiting.exit_code == 4
    make(rough, out, rank=1, world_size=2)
    assert runner.invoke(app, ["merge", str(out)]).exit_code == 0
    assert same_tree(out, whole)


def test_ranks_share_a_lock_that_excludes_the_merge(rough: Path, tmp_path: Path) -> None:
    out = tmp_path / "sets"
    make(rough, out, rank=1, world_size=4)
    with locked(out, shared=True):
        make(rough, out, rank=1, world_size=4)
        for command in (["merge", str(out)], typed(rough, out)):
            shown = runner.invoke(app, command)
            assert shown.exit_code == 4
            assert "another ctxr process" in shown.stderr
    with locked(out):
        assert runner.invoke(app, typed(rough, out, "--rank", 1, "--world-size", 4)).exit_code == 4


def test_a_rank_is_at_work_once_and_among_one_number_of_ranks(tmp_path: Path) -> None:
    run, other = RankRun("build-sets", 2, {}, {}, []), RankRun("filter", 3, {}, {}, [])
    with rank_lock(tmp_path, 0, run), rank_lock(tmp_path, 1, run):
        with pytest.raises(UnfinishedError, match="rank 0 of 2 is at work"), rank_lock(tmp_path, 0, run):
            pass
        with pytest.raises(UnfinishedError, match=r"rank \d of 2 is at work"), rank_lock(tmp_path, 2, other):
            pass
        assert read_ranks(tmp_path) == {0: run, 1: run}
    with rank_lock(tmp_path, 2, other):
        assert list(read_ranks(tmp_path)) == [2]
    (tmp_path / "sources" / ".2-of-3.rank").write_text('{"verb": "serve", "world": 3, "options": {}}')
    with pytest.raises(DataError, match="is damaged"):
        read_ranks(tmp_path)


def test_a_rank_that_would_embed_other_frames_than_another_decodes_nothing(
    rough: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "sets"
    make(rough, out, rank=0, world_size=2)
    second = typed(rough, out, "--rank", 1, "--world-size", 2)
    with monkeypatch.context() as patched:
        patched.setattr("ctxr.media.decoder_process.Scanner.scan", None)
        refused = runner.invoke(app, [*second, "--frames", "auto"])
    assert refused.exit_code == 2
    for chosen in ("--frames search", "--frames every"):
        assert chosen in " ".join(refused.stderr.split())
    assert [*read_ranks(out)] == [0]
    assert not (out / "sources" / "clip1").exists()
    assert runner.invoke(app, second).exit_code == 0
    # whatever ranks chose, a whole run makes what it would make without them
    make(rough, tmp_path / "fresh", frames="every")
    make(rough, out, frames="every")
    assert same_tree(out, tmp_path / "fresh")


def test_ranks_may_differ_in_what_decides_no_result(
    rough: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "sets"
    make(rough, out, rank=0, world_size=2)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(rough, "copy")
    limits = {"time_limit": 600.0, "stall_seconds": 90.0, "yield_curve": True}
    make(Path("copy"), Path("sets"), rank=1, world_size=2, precision="fp32", **limits)
    merge(Merge(artifact=out))
    assert open_artifact(out).manifest.config == open_artifact(whole).manifest.config
    assert same_tree(out / "sources", whole / "sources")


def test_ranks_that_read_other_contents_are_not_merged(rough: Path, whole: Path, tmp_path: Path) -> None:
    refilter(whole, tmp_path / "filtered", min_size=10, rank=0, world_size=2)
    other = shutil.copytree(rough, tmp_path / "other")
    for name, text in {"text.mp4": "another file", "more.mp4": "one more"}.items():
        (other / "videos" / name).write_text(text)
    for rank, sources in enumerate((rough, other)):
        make(sources, tmp_path / "sets", rank=rank, world_size=2)
    with pytest.raises(DataError, match=r"or sources: more None and \w{12}; text \w{12} and \w{12}$"):
        merge(Merge(artifact=tmp_path / "sets"))
    make(other, tmp_path / "replaced")
    refilter(tmp_path / "replaced", tmp_path / "filtered", min_size=10, rank=1, world_size=2)
    with pytest.raises(DataError, match=r"or sources: image_sets \w{12} and \w{12}"):
        merge(Merge(artifact=tmp_path / "filtered"))


def test_ranks_of_two_kinds_are_not_merged(rough: Path, tmp_path: Path) -> None:
    make(rough, tmp_path / "sets", rank=1, world_size=4)
    make(rough, tmp_path / "sets", rank=0, world_size=4, jobs=2, rate=5.0)
    with pytest.raises(DataError, match=r"ranks 0 and 1 .*: --rate 5.0 and 4.0"):
        merge(Merge(artifact=tmp_path / "sets"))
    (tmp_path / "sets").rename(tmp_path / "moved")
    make(rough, tmp_path / "moved", rank=0, world_size=1)
    (tmp_path / "moved").rename(tmp_path / "sets")
    with pytest.raises(UsageError, match="another folder"):
        merge(Merge(artifact=tmp_path / "sets"))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--rank 2 --world-size 2", "ranks are 0 to 1"),
        ("--rank -1 --world-size 2", "a whole number"),
        ("--rank 0", "--rank 0 --world-size 4"),
        ("--world-size 2", "--rank 0 --world-size 4"),
        ("--engine thread", "did you mean --engine threads?"),
        ("--engine ray:/", "did you mean --engine ray?"),
        ("--engine ray://", "--engine ray://HOST:PORT"),
        ("--engine ray://head", "--engine ray://HOST:PORT"),
        ("--engine ray://head:10001/..", "--engine ray://HOST:PORT"),
        ("--engine threads://head:1", "did you mean --engine threads?"),
    ],
)
def test_a_rank_or_engine_that_is_none_is_a_wrong_argument(rough: Path, tmp_path: Path, words: str, hint: str) -> None:
    shown = runner.invoke(app, typed(rough, tmp_path / "sets", *words.split()))
    assert shown.exit_code == 2
    assert hint in shown.stderr


def test_an_engine_that_is_not_installed_says_what_to_install(
    rough: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxr.engine.engines.find_spec", lambda name: None)
    for engine in ("ray", "ray://head:10001"):
        shown = runner.invoke(app, typed(rough, tmp_path / "sets", "--engine", engine))
        assert shown.exit_code == 2
        assert f"--engine {engine} " in shown.stderr
        assert "pip install 'ray[client]'" in shown.stderr


def test_a_rank_changes_nothing_of_a_result_that_was_edited(rough: Path, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "sets")
    ledger = tmp_path / "sets" / "sources" / "clip1" / "ledger.jsonl"
    ledger.write_text("")
    with pytest.raises(DataError, match="changed since"):
        make(rough, tmp_path / "sets", rank=0, world_size=2)
    make(rough, tmp_path / "sets")
    assert same_tree(tmp_path / "sets", whole)


def test_filtering_has_ranks_too(whole: Path, tmp_path: Path) -> None:
    refilter(whole, tmp_path / "one", min_size=10, brisque=0.4)
    for rank in range(2):
        refilter(whole, tmp_path / "two", min_size=10, brisque=0.4, rank=rank, world_size=2)
    merge(Merge(artifact=tmp_path / "two"))
    assert same_tree(tmp_path / "one", tmp_path / "two")


def test_a_rank_of_a_filter_without_work_leaves_the_result_for_the_rank_with_the_failed_video(
    footage: Path, sets: Path, filtered: Path, tmp_path: Path
) -> None:
    shutil.copytree(footage / "videos", tmp_path / "videos")
    remember_paths(sets, {sha256_file(clip): clip for clip in (tmp_path / "videos").iterdir()})
    lost = (tmp_path / "videos" / "clip1.mp4").rename(tmp_path / "clip1.mp4")
    refilter(tmp_path / "sets", tmp_path / "out", brisque=LIMIT)
    before = (tmp_path / "out" / MANIFEST).read_bytes()
    refilter(tmp_path / "sets", tmp_path / "out", brisque=LIMIT, rank=0, world_size=2)
    assert merge(Merge(artifact=tmp_path / "out")).up_to_date
    assert (tmp_path / "out" / MANIFEST).read_bytes() == before
    lost.rename(tmp_path / "videos" / "clip1.mp4")
    refilter(tmp_path / "sets", tmp_path / "out", brisque=LIMIT, rank=1, world_size=2)
    assert merge(Merge(artifact=tmp_path / "out")).counts["failed"] == 0
    assert same_tree(tmp_path / "out", filtered)


def run_reversed(job: Job[Any], units: Sequence[WorkUnit], workers: int) -> Iterator[tuple[WorkUnit, Any]]:
    """An engine as a cluster has it: the job copied, and the last unit first."""
    copied = pickle.loads(pickle.dumps(job))  # noqa: S301 (our own)
    yield from ((unit, copied(unit)) for unit in units[::-1])


@pytest.mark.usefixtures("real_encoder")
@pytest.mark.parametrize("engine", [pytest.param("processes", marks=pytest.mark.prove), "reversed"])
def test_another_engine_is_a_row(footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setitem(ENGINES, "reversed", f"{__name__}:run_reversed")
    sources = (str(two_shot_clip(tmp_path / "short.mp4", 3, frames=20)), str(footage / "photos"))
    for name, own in (("whole", {}), ("other", {"engine": engine, "jobs": 1})):
        build(footage, tmp_path / name / "sets", sources=sources, set_size=5, **own)
        refilter(tmp_path / name / "sets", tmp_path / name / "filtered", brisque=0.4, **own)
    assert same_tree(tmp_path / "other" / "sets", tmp_path / "whole" / "sets")
    assert same_tree(tmp_path / "other" / "filtered", tmp_path / "whole" / "filtered")
