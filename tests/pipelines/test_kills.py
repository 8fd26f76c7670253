"""Twenty kills at random moments, then the bytes of an uninterrupted run."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.test_build_sets import same_tree

pytestmark = pytest.mark.prove

KILLS = 20


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "ctxr", *map(str, arguments)]


def run_killed(run: list[str], after: float) -> bool:
    """Start `run`, kill -9 its whole group after so many seconds; whether it was still going."""
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def prove(run: list[str], whole: Path, killed: Path, seed: int) -> None:
    start = time.monotonic()
    subprocess.run([*run, "--out", str(whole)], check=True, capture_output=True)
    seconds = time.monotonic() - start
    rng = random.Random(seed)
    hit = sum(run_killed([*run, "--out", str(killed)], rng.uniform(0, seconds)) for _ in range(KILLS))
    assert hit >= 1
    subprocess.run([*run, "--out", str(killed)], check=True, capture_output=True)
    assert same_tree(whole, killed)


@pytest.mark.parametrize("seed", range(2))
def test_building_survives_twenty_kills(footage: Path, tmp_path: Path, seed: int) -> None:
    run = command("build-sets", footage, "--encoder", "ctxr-tiny", "--threshold", THRESHOLD, "--brisque", 1.5)
    prove(run, tmp_path / "whole" / "sets", tmp_path / "killed" / "sets", seed)


def test_filtering_survives_twenty_kills(footage: Path, tmp_path: Path) -> None:
    build = command(
        "build-sets", footage, "--encoder", "ctxr-tiny", "--threshold", THRESHOLD, "--out", tmp_path / "sets"
    )
    subprocess.run(build, check=True, capture_output=True)
    run = command("filter", "--input", tmp_path / "sets", "--brisque", 0.9, "--max-text", 0.05)
    prove(run, tmp_path / "whole" / "filtered", tmp_path / "killed" / "filtered", 2)
