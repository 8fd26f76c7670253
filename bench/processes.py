"""A command as a process of its own, with the memory of everything that it starts."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEP = 0.1
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Finished:
    """What a command took.

    Attributes:
        processor: seconds of processors, which other programs change less than `seconds`.
        mib: largest memory of its whole process tree at one time, MiB: pages that processes share count once.
        report: what it printed as JSON.
    """

    seconds: float
    processor: float
    mib: float
    report: dict[str, Any]


def ctxr(verb: str, *arguments: object) -> Finished:
    """Run `ctxr VERB … --json` with its progress thrown away.

    Raises RuntimeError with its last words if it fails, or gives up some of its sources.
    """
    command = [sys.executable, "-m", "ctxr", verb, *map(str, arguments), "--json"]
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        start, before = time.perf_counter(), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        with subprocess.Popen(command, stdout=said, stderr=told) as process:
            peak = watch(process)
        seconds = time.perf_counter() - start
        processor = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
        said.seek(0)
        told.seek(0)
        text = said.read().decode()
        report = json.loads(text) if text else {}
        if process.returncode or report.get("failures"):
            raise RuntimeError(f"ctxr {verb} failed: {report.get('error') or told.read().decode()[-500:]}")
    return Finished(seconds, processor, peak, report)


def watch(process: "subprocess.Popen[bytes]") -> float:
    """Wait for a process; the largest memory of its tree on the way, MiB; 0 where the system does not tell."""
    peak, ended = 0, threading.Event()

    def look() -> None:
        nonlocal peak
        while not ended.wait(STEP):
            peak = max(peak, sum(map(held, tree(process.pid))))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        process.wait()
    finally:
        ended.set()
        looking.join()
    return peak / 1024


def tree(root: int) -> list[int]:
    """A process and all below it, by Linux's /proc."""
    below: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # the name, in parentheses, may contain anything
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        below.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += below.get(pid, [])
    return found


def held(pid: int) -> int:
    """KiB of a process's memory, a page that n processes share counted as 1 / n."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass  # it has ended
    return 0


def gigabytes(folder: Path) -> float:
    """Size of all files below a folder, a file with several links counted once."""
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum({file.st_ino: file.st_size for file in files}.values()) / 1e9


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """OpenCV and torch on one thread each: ctxr measures a picture on one."""
    import cv2
    import torch

    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def seconds_of_others() -> float:
    """Processor seconds since the start of the system that went to other programs than this one and its ended children."""
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    try:
        user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    except OSError:
        return 0.0
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK") - own
