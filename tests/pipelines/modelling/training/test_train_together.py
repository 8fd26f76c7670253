"""Several processes that train one model: the result of one, written by the first, whatever becomes of the others."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from ctxr.datasets.open import read_dataset
from ctxr.engine.units import RankShard, this_process
from ctxr.errors import UsageError
from ctxr.models.precision import choose_device
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run
from ctxr.problems.galleries import gallery_splits
from ctxr.problems.runs import EPOCHS, HistoryRow
from ctxr.store.tables import read_table
from ctxr.synthetic.captions import WorldCaptions, write_captions
from tests.pipelines.modelling.training.test_train import Note

ROOT = Path(__file__).resolve().parents[4]

PROGRAM = """
import json, os, sys
import ctxr
from ctxr.models.training.loop import Trainer

trainings, workdir, kind = json.loads(sys.argv[1])
encode, keep, second = Trainer._encode, Trainer._keep, os.environ["RANK"] == "1"

def with_little_memory(self, tower, rows, facts):
    if len(rows) > 8:
        raise MemoryError
    return encode(self, tower, rows, facts)

def killed(self, row):
    keep(self, row)
    os.kill(os.getpid(), 9)

def refuse(event, about):
    path, how = str(about[0]) if about else "", str(about[1]) if event == "open" else "w"
    if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and workdir in path and set(how) & set("wax+"):
        raise SystemExit(f"{event} {path}")

if second:
    sys.addaudithook(refuse)
    Trainer._encode = with_little_memory
    Trainer._keep = killed if kind == "killed" else keep
if kind == "killed":
    (recipe, dataset, changes), = trainings
    words = [word for change in changes for word in ("--set", change)]
    sys.argv = ["ctxr", "train", "--recipe", recipe, "--dataset", dataset, "-w", workdir, "--device", "cpu", *words]
    from ctxr.cli.app import main
    main()
for recipe, dataset, changes in trainings:
    ctxr.train(recipe=recipe, dataset=dataset, set=tuple(changes), workdir=workdir, device="cpu")
"""


class Ended(NamedTuple):
    """Of a process: its exit code, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str


def two_processes(trainings: list[tuple[str, Path, tuple[str, ...]]], workdir: Path, kind: str = "") -> list[Ended]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = json.dumps([[(name, str(path), changes) for name, path, changes in trainings], str(workdir), kind])
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, words],
            env={**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    told = [one.communicate(timeout=240) for one in started]
    return [Ended(one.returncode, *words) for one, words in zip(started, told, strict=True)]


def alike(one: Path, other: Path) -> bool:
    """Whether the weights in two files differ by rounding alone."""
    files = load_file(one), load_file(other)
    assert files[0].keys() == files[1].keys()
    first, second = (torch.cat([file[name].flatten().double() for name in files[0]]) for file in files)
    return float((first - second).norm() / first.norm()) < 1e-5


def files_in(workdir: Path) -> list[str]:
    names = (one.relative_to(workdir).as_posix() for one in workdir.rglob("*"))
    return sorted(name for name in names if not name.startswith((".ctxr-cache", "history")))


@pytest.mark.parametrize(
    "recipes", [{"clip-batch"}, pytest.param({"retrieval-clip", "retrieval-blip"}, marks=pytest.mark.prove)]
)
def test_two_processes_train_what_one_does_and_the_second_writes_nothing(
    benchmark: Path, encoder: str, tmp_path: Path, recipes: set[str]
) -> None:
    world = tmp_path / "galleries"
    write_captions(WorldCaptions(world, train=8, valid=4, test=4, pair_train=0, pair_valid=0, side=32, workers=1))
    batch = f"batch={len(gallery_splits(read_dataset(world))['train'].written) - 1}"
    # the last steps have one row, which is fewer than there are processes, and the second process lacks memory for more than 8
    few, pairs = ("lr=1e-4", "patience=0", "precision=fp32"), ("encoder=random:blip-tiny", "rerank=2")
    trainings = [
        (
            "clip-batch",
            benchmark,
            (*few, "epochs=2", "encoder=ctxr-tiny", "start=", "batch=11", "schedule=cosine", "clip=1.0"),
        ),
        ("retrieval-clip", world, (*few, "epochs=1", f"encoder={encoder}", batch)),
        ("retrieval-blip", world, (*few, "epochs=1", *pairs, f"rerank_by={encoder}", batch, "at_once=5")),
    ]
    trainings = [training for training in trainings if training[0] in recipes]
    one, two = tmp_path / "one", tmp_path / "two"
    ended = two_processes(trainings, two)
    assert [process.code for process in ended] == [0, 0], ended
    assert (ended[1].out, ended[1].err) == ("", "")
    for recipe, dataset, changes in trainings:
        run(Train(recipe, dataset, changes=changes, workdir=one, device="cpu"))
        ran = [workdir / "runs" / recipe for workdir in (one, two)]
        assert alike(*(folder / "seed0" / "encoder.safetensors" for folder in ran))
        alone, shared = (
            [(row.loss, row.accuracy) for row in read_table(folder / EPOCHS, HistoryRow)] for folder in ran
        )
        assert shared == [pytest.approx(row, rel=1e-5) for row in alone]
    assert files_in(one) == files_in(two)
    assert len((two / "history.jsonl").read_text().splitlines()) == len(trainings)


@pytest.mark.prove
def test_where_a_process_dies_the_first_says_so_and_one_alone_goes_on(
    benchmark: Path, encoder: str, tmp_path: Path
) -> None:
    changes = (f"encoder={encoder}", "start=", "lr=1e-3", "epochs=3", "batch=5", "patience=0", "precision=fp32")
    begun = time.monotonic()
    first, second = two_processes([("clip-batch", benchmark, changes)], tmp_path / "two", "killed")
    assert (first.code, second.code) == (1, -9), first
    assert "lost one another" in first.err
    assert "Traceback" not in first.err
    assert time.monotonic() - begun < 120

    progress = Note()
    for name in ("one", "two"):
        run(Train("clip-batch", benchmark, changes=changes, workdir=tmp_path / name, device="cpu"), progress)
    assert "seed 0 resumes after epoch 1 of 3" in progress.said
    assert alike(*(tmp_path / name / "runs/clip-batch/seed0/encoder.safetensors" for name in ("one", "two")))


@pytest.mark.parametrize(
    ("set_to", "problem"),
    [
        ({"WORLD_SIZE": "two", "RANK": "0", "MASTER_ADDR": "here"}, "WORLD_SIZE=two and RANK=0"),
        ({"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "here"}, "WORLD_SIZE=2 and RANK=2"),
        ({"WORLD_SIZE": "2", "MASTER_ADDR": "here"}, "WORLD_SIZE=2 and RANK= "),
        ({"WORLD_SIZE": "2", "RANK": "1"}, "WORLD_SIZE=2 and RANK=1"),
    ],
)
def test_an_environment_that_names_no_process_is_refused(
    monkeypatch: pytest.MonkeyPatch, set_to: dict[str, str], problem: str
) -> None:
    assert this_process() == RankShard(0, 1)
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=problem):
        this_process()


def test_a_process_of_torchrun_takes_the_gpu_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.models.precision.DEVICE.require", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert (choose_device("auto"), choose_device("cuda:0")) == ("cuda", "cuda:0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert (choose_device("auto"), choose_device("cuda"), choose_device("cuda:0")) == ("cuda:1", "cuda:1", "cuda:0")
    with pytest.raises(UsageError, match="cuda:2"):
        choose_device("cuda:2")
