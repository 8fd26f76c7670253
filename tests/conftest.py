"""Fixtures for all rooms: a quiet environment, and real files where they are."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# tests run beside each other, one to a core; threads of their own would wait for one another most of the time
os.environ.setdefault("OMP_NUM_THREADS", "1")

# random values without a stopwatch: a busy machine, or the first run on a fresh one, is no failure
settings.register_profile("no stopwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no stopwatch")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's project, hub, or terminal width."""
    monkeypatch.delenv("CTXR_WORKDIR", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(scope="session")
def real_files() -> Path:
    """The folder of real videos and photos; tests that want it are skipped where it is not."""
    folder = Path(os.environ.get("CTXR_REAL_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "videos").is_dir():
        pytest.skip(f"no real files: set CTXR_REAL_DATA to a folder with videos/ and photos/ (looked in {folder})")
    return folder


@pytest.fixture(scope="session")
def headless() -> "Iterator[Browser]":
    """A headless Chromium; tests that want it are skipped where there is none."""
    from scripts.screenshot import browser, chromium

    if chromium() is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium (make system)")
    with browser() as opened:
        yield opened
