"""What was measured, kept between runs in `bench/out/`, so that parts can be measured again."""

import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.processes import cores, seconds_of_others
from bench.table import Median, Row, runs_of

PACKAGES = (
    "torch",
    "open_clip_torch",
    "numpy",
    "opencv-python",
    "av",
    "faiss-cpu",
    "piq",
    "tesserocr",
)
"""Whose versions decide figures."""

HARDWARE = ("processor", "memory", "GPU")
MISSING = "not installed"
QUIET = 0.05
"""Share of the processors that other programs may use while times are measured."""

LAYOUT = 1
"""Of the file; another number for another meaning of its fields."""


@dataclass(frozen=True)
class Part:
    """One bench.

    Attributes:
        date: of the measurement, ISO 8601. seconds: that it took. others: share of the processors that other
            programs used meanwhile, 0..1.
        error: why it failed, in a sentence; `rows` are then those before.
    """

    name: str
    date: str
    seconds: float
    others: float
    rows: tuple[Row, ...]
    error: str = ""

    @property
    def quiet(self) -> bool:
        """Whether its times say something on their own; beside others only their ratios do."""
        return self.others <= QUIET


def measured(name: str) -> Part:
    """Run a bench in a process of its own: neither its memory nor its failure is another's."""
    start, before = time.perf_counter(), seconds_of_others()
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            rows, error = alone.submit(rows_of, name).result()
    except BrokenProcessPool as failure:
        rows, error = [], f"its process was killed: {failure}"
    seconds = time.perf_counter() - start
    others = max(0.0, seconds_of_others() - before) / seconds / cores()
    return Part(name, datetime.date.today().isoformat(), seconds, others, tuple(rows), error)


def rows_of(name: str) -> tuple[list[Row], str]:
    """The rows of the module of that name, until it failed, and why it did."""
    rows: list[Row] = []
    try:
        rows.extend(import_module(f"bench.{name}").measure())
    except Exception as failure:  # whatever went wrong is said, and the other benches run
        return rows, f"{type(failure).__name__}: {failure}"
    return rows, ""


def machine() -> dict[str, str]:
    """What decides figures beside the code: processor, memory, versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    facts = {
        "processor": f"{processor()}, {platform.machine()}, {cores()} cores",
        "memory": f"{memory:.0f} GiB",
        "GPU": gpu(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = MISSING
    return facts | {
        name: program(name, option) for name, option in (("ffmpeg", "-version"), ("tesseract", "--version"))
    }


def processor() -> str:
    """Name of the processor, with the units for bf16 that it has."""
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"^model name\s*: (.*)$", described, re.MULTILINE)
    units = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if re.search(rf"\b{flag}\b", described)]
    return ", ".join([name[1] if name else platform.processor() or "unknown processor", *units])


def gpu() -> str:
    """Name of the first CUDA device."""
    import torch

    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else "none"


def program(name: str, option: str) -> str:
    """The version in a program's first line."""
    if shutil.which(name) is None:
        return MISSING
    said = subprocess.run([name, option], check=True, capture_output=True, text=True)
    number = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    return number[0] if number else "unknown version"


def save(path: Path, facts: Mapping[str, str], parts: Iterable[Part]) -> None:
    """Keep the parts of one machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {
        "layout": LAYOUT,
        "machine": facts,
        "parts": [{**vars(part), "rows": [_plain(row) for row in part.rows]} for part in parts],
    }
    path.write_text(json.dumps(kept, indent=1, default=lambda number: number.item()))


def read(path: Path, facts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Part]]:
    """The facts and the parts that were measured before; those of another machine or in another layout are forgotten.

    A package that is missing now was there when a part was measured that needed it.
    """
    try:
        kept = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return dict(facts), {}
    if kept["layout"] != LAYOUT or any(kept["machine"][name] != facts[name] for name in HARDWARE):
        return dict(facts), {}
    known = {name: kept["machine"].get(name, fact) if fact == MISSING else fact for name, fact in facts.items()}
    rows = {part["name"]: tuple(map(_row, part["rows"])) for part in kept["parts"]}
    return known, {part["name"]: Part(**{**part, "rows": rows[part["name"]]}) for part in kept["parts"]}


def _plain(row: Row) -> dict[str, Any]:
    return {**vars(row), "seconds": _median(row.seconds), "against_seconds": _median(row.against_seconds)}


def _median(figure: float | None) -> tuple[tuple[float, ...], str] | None:
    return None if figure is None else (runs_of(figure), getattr(figure, "turns", ""))


def _row(stored: dict[str, Any]) -> Row:
    ours, theirs = stored["seconds"], stored["against_seconds"]
    return Row(**{**stored, "seconds": Median(*ours), "against_seconds": None if theirs is None else Median(*theirs)})
