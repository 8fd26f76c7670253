"""Twenty kills at random moments, then the bytes of an uninterrupted run."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.curation.test_build_sets import same_tree

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


def prove(run: list[str], folder: Path, seed: int) -> None:
    """Twenty times: a fresh run killed at a random moment, the same command again, the bytes of a run left alone."""
    whole = folder / "whole" / "out"
    start = time.monotonic()
    subprocess.run([*run, "--out", str(whole)], check=True, capture_output=True)
    seconds = time.monotonic() - start
    rng = random.Random(seed)
    alive = tried = 0
    # how long a run takes depends on what else the machine does: one that was over before its moment does not count
    while alive < KILLS and tried < 3 * KILLS:
        tried += 1
        killed = folder / f"killed{tried}" / "out"
        alive += run_killed([*run, "--out", str(killed)], rng.uniform(0, 0.95 * seconds))
        subprocess.run([*run, "--out", str(killed)], check=True, capture_output=True)
        assert same_tree(whole, killed)
        shutil.rmtree(killed.parent)
    assert alive == KILLS


@pytest.fixture(scope="module")
def rough_footage(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared footage, and a video and a photo that are none."""
    folder = tmp_path_factory.mktemp("rough")
    shutil.copytree(footage, folder / "footage")
    (folder / "footage" / "videos" / "text.mp4").write_text("this is no video")
    (folder / "footage" / "photos" / "album" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    return folder / "footage"


def test_building_survives_twenty_kills(rough_footage: Path, tmp_path: Path) -> None:
    options = ("--encoder", "ctxr-tiny", "--threshold", THRESHOLD, "--brisque", 1.5)
    prove(command("build-sets", rough_footage, *options), tmp_path, 0)


def test_filtering_survives_twenty_kills(rough_footage: Path, tmp_path: Path) -> None:
    build = command("build-sets", rough_footage, "--encoder", "ctxr-tiny", "--threshold", THRESHOLD)
    subprocess.run([*build, "--out", str(tmp_path / "sets")], check=True, capture_output=True)
    prove(command("filter", "--input", tmp_path / "sets", "--brisque", 0.9), tmp_path, 2)


def test_rebuilding_survives_twenty_kills(recipe: Path, elsewhere: Path, tmp_path: Path) -> None:
    prove(command("rebuild", recipe, "--videos", elsewhere), tmp_path, 4)


def test_exporting_survives_twenty_kills(recipes: Path, tmp_path: Path) -> None:
    prove(command("export", "--to", "hf", "--input", recipes / "sets"), tmp_path, 4)
