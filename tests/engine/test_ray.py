"""The engine of Ray: the bytes of one process, whatever dies on the way; what kills its worker costs itself alone."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from bench.processes import tree
from ctxr.datasets.rebuilding import RecipeImage
from ctxr.engine import engines
from ctxr.engine.engines import Engine, map_units
from ctxr.engine.options import Options
from ctxr.engine.progress import SILENT
from ctxr.engine.units import Job, WorkUnit
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.pipelines.curation import build_sets, photos
from ctxr.pipelines.curation.build_sets import BuildVideos
from ctxr.pipelines.curation.config import BuildSets, Filter, Rebuild, Verify
from ctxr.pipelines.curation.filter import run as filter_sets
from ctxr.pipelines.curation.rebuild import run as rebuild
from ctxr.pipelines.curation.verify import run as verify
from ctxr.pipelines.finding import index
from ctxr.pipelines.finding.config import Search
from ctxr.pipelines.finding.search import run as search
from ctxr.pipelines.modelling import region_shards
from ctxr.pipelines.modelling.config import RegionsConfig
from ctxr.pipelines.modelling.regions import run as regions
from ctxr.store.records import Failure
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit
from tests.engine.ray_jobs import CountThreads, Tried, write_units
from tests.exports import export, forge
from tests.footage import two_shot_clip
from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.curation.test_build_sets import same_tree

ray = pytest.importorskip("ray", reason="ray is not installed: make peers")

ROOT = Path(__file__).resolve().parents[2]
RAY = Engine("ray", 3)
"""More workers than the cluster has processors: what has no place yet holds nothing up."""


@pytest.fixture(scope="module", autouse=True)
def short_folder() -> Iterator[None]:
    """Where Ray keeps its logs and sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="ctxr-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(scope="module")
def cluster(short_folder: None) -> Iterator[None]:
    """One Ray for tests of this file: starting it takes seconds."""
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos of two shots, a file that is none, and photos."""
    folder = tmp_path_factory.mktemp("sources")
    for seed in range(4):
        two_shot_clip(folder / "videos" / f"clip{seed}.mp4", seed, frames=40)
    (folder / "videos" / "text.mp4").write_text("this is no video")
    (folder / "album").mkdir()
    rng = np.random.default_rng(5)
    for number in range(9):
        coarse = Image.fromarray(rng.integers(0, 255, (6, 8, 3)).astype(np.uint8))
        coarse.resize((96, 72), Image.Resampling.BICUBIC).save(folder / "album" / f"p{number}.png")
    return folder


OPTIONS: dict[str, Any] = {
    "encoder": "ctxr-tiny",
    "threshold": float(THRESHOLD),
    "frames": "search",
    "set_size": 5,
    "jobs": 2,
}


def build(sources: Path, out: Path, **more: Any) -> Path:
    build_sets.run(BuildSets(sources=(str(sources),), out=out, **(OPTIONS | more)))
    return out


@pytest.fixture(scope="module")
def whole(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets that threads made."""
    return build(sources, tmp_path_factory.mktemp("whole") / "sets")


def tried(folder: Path, payloads: Sequence[str]) -> tuple[list[str], list[int]]:
    """What the units with these payloads gave, and how often each was begun."""
    folder.mkdir(exist_ok=True)
    job, units = Tried(folder), [WorkUnit(str(at), None, payload) for at, payload in enumerate(payloads)]
    results = {unit.name: result for unit, result in map_units(job, units, RAY, SILENT, "trying")}
    return [results[unit.name] for unit in units], [job.begun(unit.name) for unit in units]


@pytest.mark.usefixtures("cluster")
def test_a_unit_that_kills_its_worker_is_tried_twice_and_lost_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the workers go too: the paths that they get may be relative
    here = str(tmp_path)
    results, begun = tried(Path("tried"), ["", "die", "", "die once", ""])
    assert results == [here, "lost", here, here, here]
    assert begun == [1, 2, 1, 2, 1]


@pytest.mark.usefixtures("cluster")
def test_what_a_job_raises_in_a_worker_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="refused") as caught:
        tried(tmp_path, ["", "refuse"])
    assert (caught.value.message, caught.value.hint) == ("refused", "by its payload")


@pytest.mark.usefixtures("cluster")
def test_an_interrupt_that_a_callback_of_ray_swallows_ends_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, before, calls = ray.wait, signal.getsignal(signal.SIGINT), list[int]()

    def swallowing(futures: list[Any], **options: Any) -> Any:
        calls.append(len(futures))
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return wait(futures, **options)

    monkeypatch.setattr(ray, "wait", swallowing)
    with pytest.raises(KeyboardInterrupt):
        tried(tmp_path, ["", ""])
    assert len(calls) == 1
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("cluster")
def test_a_loss_that_is_no_result_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tried, "lost", Job.lost)
    with pytest.raises(CtxrError, match="1 ended two"):
        tried(tmp_path, ["", "die"])


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_cannot_open_the_folder_of_the_command_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setattr(Path, "cwd", lambda: gone)
    with pytest.raises(CtxrError, match=rf"{gone} .* {socket.gethostname()}") as caught:
        tried(tmp_path / "tried", [""])
    assert "share" in caught.value.hint


@pytest.mark.usefixtures("cluster")
def test_two_workers_give_the_bytes_of_one_process(
    sources: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(photos, "SHARD", 4)
        patched.setattr(photos, "STRIPE", 4)
        build(sources, tmp_path / "sets", engine="ray")
    assert same_tree(tmp_path / "sets", whole)


@pytest.mark.prove
@pytest.mark.usefixtures("cluster")
def test_two_workers_filter_as_one_process(whole: Path, tmp_path: Path) -> None:
    sets = shutil.copytree(whole.parent, tmp_path, dirs_exist_ok=True) / whole.name
    for engine in ("threads", "ray"):
        filter_sets(Filter(input=sets, out=tmp_path / engine, brisque=1.0, engine=engine, jobs=2))
    assert same_tree(tmp_path / "ray", tmp_path / "threads")
    assert not same_tree(tmp_path / "ray", tmp_path / "sets")


@pytest.mark.usefixtures("cluster")
def test_workers_compute_with_as_many_threads_as_the_command() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # Ray would allow one, which rounds otherwise
    try:
        counts = map_units(CountThreads(), [WorkUnit("one", None)], RAY, SILENT, "counting")
        assert [count for _, count in counts] == [2]
    finally:
        torch.set_num_threads(before)


@pytest.mark.prove
@pytest.mark.usefixtures("cluster")
def test_two_workers_rebuild_and_verify_as_one_process(
    sources: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "PART", 4)
    recipe = export(whole, tmp_path / "recipe", "recipe").export
    images = read_table(recipe / "images.jsonl", RecipeImage)
    frame, photo = (next(row for row in images if (row.index is None) == still) for still in (False, True))
    for row in (frame, photo):
        forge(recipe / "images.jsonl", lambda text, row=row: text.replace(row.pixels, "0" * 64))  # type: ignore[misc]
    moved = shutil.copytree(sources, tmp_path / "moved")
    (moved / "videos" / "clip3.mp4").unlink()
    for engine in ("threads", "ray"):
        rebuild(Rebuild(recipe=recipe, videos=moved, out=tmp_path / engine, engine=engine, jobs=2))
        (tmp_path / engine / frame.path).write_bytes(b"changed")
    changed = tmp_path / "ray" / frame.path
    assert same_tree(tmp_path / "ray", tmp_path / "threads")
    options: dict[str, Any] = {"workdir": tmp_path, "videos": moved, "jobs": 2}
    for artifact, ids in ((recipe, {frame.id, photo.id}), (tmp_path / "ray", {frame.id})):
        one, other = (verify(Verify(artifact, engine=engine, **options)) for engine in ("threads", "ray"))
        assert one == other
        assert {row["id"] for row in one.differences} == ids
    assert changed.read_bytes() == b"changed"


@pytest.mark.prove
@pytest.mark.usefixtures("cluster")
def test_two_workers_find_regions_and_index_pictures_as_one_process(
    sources: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_shards, "SHARD", 4)
    monkeypatch.setattr(index, "CHUNK", 4)
    album = shutil.copytree(sources / "album", tmp_path / "album")
    (album / "broken.png").write_bytes(b"no picture")
    for engine in ("threads", "ray"):
        options: dict[str, Any] = {"workdir": tmp_path / engine, "engine": engine, "jobs": 2}
        assert regions(RegionsConfig(whole, "grid:ctxr-tiny", **options)).pictures > 8
        report = search(Search(album, text="red", model="ctxr-tiny", **options))
        assert (report.pictures, report.left_out) == (9, ("broken.png",))
    for made in ("regions", "indexes"):
        assert same_tree(tmp_path / "ray" / made, tmp_path / "threads" / made)


@pytest.mark.parametrize(
    "options",
    [
        lambda engine: Rebuild(engine=engine),
        lambda engine: Verify(engine=engine),
        lambda engine: RegionsConfig(engine=engine),
        lambda engine: Search(engine=engine),
    ],
    ids=["rebuild", "verify", "regions", "search"],
)
def test_an_unknown_engine_is_refused(options: Callable[[str], Options]) -> None:
    with pytest.raises(UsageError, match="--engine rya"):
        options("rya").check()


class Poisoned(BuildVideos):
    """A video that ends the process which works on it."""

    def make(self, unit: WorkUnit) -> SourceUnit:
        if unit.name == "clip1":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().make(unit)


@pytest.mark.prove
@pytest.mark.usefixtures("cluster")
def test_a_video_that_kills_its_workers_is_one_failure(
    sources: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(build_sets, "BuildVideos", Poisoned)
        build(sources, tmp_path / "sets", engine="ray")
    failures = {row.source: row.reason for row in read_table(tmp_path / "sets" / "failures.jsonl", Failure)}
    assert failures == {"clip1": "worker_died", "text": "not_a_video"}
    units, expected = tmp_path / "sets" / "sources", whole / "sources"
    assert [same_tree(units / f"clip{number}", expected / f"clip{number}") for number in (0, 2, 3)] == [True] * 3
    assert not (units / "clip1").exists()
    build(sources, tmp_path / "sets", retry_failed=True)
    assert same_tree(units / "clip1", expected / "clip1")


def words_of(pid: int) -> str:
    """How a process was started, or what it calls itself."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


BUSY = "ray::UnitActor.make"


class Hunt:
    """Runs a command again and again, and kills what it consists of, once workers are busy."""

    def __init__(self, command: Sequence[str], rng: random.Random) -> None:
        self.command, self.rng, self.seen, self.told = command, rng, set[int](), ""

    def run(self, kills: Iterable[str]) -> list[int]:
        """Exit codes of the runs, of which the last one was left alone."""
        waiting, codes = list(kills)[::-1], list[int]()
        while not codes or codes[-1] or waiting:
            process = subprocess.Popen(
                self.command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            while waiting and (targets := self._targets(process, waiting[-1])):
                kind, ending = waiting.pop(), signal.SIGKILL
                if kind == "interrupt":
                    ending = signal.SIGINT
                os.kill(self.rng.choice(targets), ending)
                if kind != "worker":
                    break
            _, told = process.communicate(timeout=300)
            codes.append(process.returncode)
            self.told += told
            assert codes[-1] or not waiting  # or the work was over before all could be killed
        return codes

    def _targets(self, process: "subprocess.Popen[str]", kind: str) -> list[int]:
        """Processes of a kind, once workers are busy; none where the command is over before."""
        while process.poll() is None:
            words = {pid: words_of(pid) for pid in tree(process.pid)}
            self.seen.update(words)
            if busy := [pid for pid in words if words[pid].startswith(BUSY)]:
                time.sleep(self.rng.uniform(0, 0.3))
                raylets = [pid for pid in words if "/raylet/raylet " in words[pid]]
                return {"worker": busy, "raylet": raylets}.get(kind, [process.pid])
            time.sleep(0.02)
        return []

    def is_over(self, patience: float = 120) -> bool:
        """Whether all processes end that were seen."""
        until = time.monotonic() + patience
        while any("ray" in words_of(pid) for pid in self.seen):
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")


@pytest.mark.prove
@needs_proc
@pytest.mark.parametrize(
    "kills", [["interrupt"], ["interrupt", "driver", "worker", "raylet"]], ids=["interrupted", "killed"]
)
def test_a_build_that_is_stopped_leaves_no_process_and_goes_on_to_the_same_bytes(
    sources: Path, whole: Path, tmp_path: Path, kills: list[str]
) -> None:
    out = tmp_path / "sets"
    options = [word for name, value in OPTIONS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "ctxr", "build-sets", str(sources), *options, "--engine", "ray", "--out", str(out)]
    hunt = Hunt(command, random.Random(0))
    assert hunt.run(kills)[0] == 130
    assert "Traceback" not in hunt.told
    assert same_tree(out, whole)
    assert hunt.is_over()


KINDS = ["worker"] * 3 + ["raylet", "driver"]
"""Kinds of which fifty are drawn with each seed: most are of workers, since the others cost a new start."""


@pytest.mark.prove
@needs_proc
@pytest.mark.parametrize("seed", range(5))
def test_units_are_there_once_however_often_workers_raylets_and_drivers_are_killed(tmp_path: Path, seed: int) -> None:
    rng, out, more = random.Random(seed), str(tmp_path / "out"), 0 if seed == 0 else 1000
    kills = ["worker", "raylet", "driver"] if seed == 0 else rng.choices(KINDS, k=50)
    hunt = Hunt(script(f"write_units({out!r}, {100 + more}, 0.4, 'ray')"), rng)
    hunt.run(kills)
    hunt.run([])  # makes what lost two workers in the last run
    for making in Path(out).glob(".*.making"):  # of killed workers
        shutil.rmtree(making)
    write_units(str(tmp_path / "whole"), 100 + more, 0, "threads")
    assert same_tree(Path(out), tmp_path / "whole")
    assert hunt.is_over()


@pytest.mark.prove
@needs_proc
def test_the_memory_of_the_driver_does_not_grow_with_the_units() -> None:
    """From 1,000 empty units to 1,000,000, which are not in memory."""
    done = subprocess.run(script("do_nothing(1_000, 1_000_000)"), cwd=ROOT, capture_output=True, text=True, check=True)
    small, large = map(int, done.stdout.split())
    assert large < 1.1 * small


def script(call: str) -> list[str]:
    """A command that calls a function beside the jobs."""
    return [sys.executable, "-c", f"from tests.engine import ray_jobs; ray_jobs.{call}"]
