"""Fixtures for all rooms: a quiet environment, and real files where they are; and what may be skipped."""

import gc
import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.decoders import end_all, start

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# tests run beside each other, one to a core; threads of their own would wait for one another most of the time
os.environ.setdefault("OMP_NUM_THREADS", "1")

# random values without a stopwatch: a busy machine, or the first run on a fresh one, is no failure
settings.register_profile("no stopwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no stopwatch")

ROOT = Path(__file__).resolve().parent.parent
R = TypeVar("R", pytest.TestReport, pytest.CollectReport)

MAY_BE_SKIPPED = (
    # data that is not part of the repository
    "no real files",
    "no entailment rows",
    # programs: `make system` installs them where it may
    "no Chromium on this machine",
    "no PostgreSQL server on this machine",
    "tesseract is not installed",
    "ctxr-lite is not in the cache",
    "the ffmpeg program is not installed",
    # packages that are in no extra that the tests install, or that have no wheel for every Python: see `make peers`
    "eccv_caption is not installed",
    "faiss is not installed",
    "fiftyone is not installed",
    "mteb is not installed",
    "ray is not installed",
    "tesserocr is not installed",
    "s3fs is not installed",
    "aiohttp is not installed",
    "moto is not installed",
    # systems
    "Windows has no such signals",
    "no pipes",
    "only Linux kills a child with its parent",
    "reads /proc",
    "this file system takes only names that are text",
    "this system has no links",
    "this system has no pipes in folders",
)
"""How the reasons begin for which a test may be skipped; a test that is skipped for another one fails."""


def _judged(report: R) -> R:
    """The report of a test or of a file, failed where it was skipped for a reason that is not listed."""
    if report.outcome == "skipped" and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(MAY_BE_SKIPPED):
            report.outcome = "failed"
            report.longrepr = f"skipped for a reason that tests/conftest.py does not list: {reason}"
    return report


LONGEST = (
    "test_demo",
    "test_second_runs",
    "test_ray",
    "test_accessible",
    "test_app_browser",
    "test_search",
    "test_sides",
    "test_build_sets",
)
"""Modules whose tests take longest: they begin first, so that no process waits for another at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


def pytest_collection() -> None:
    """Search for no garbage while tests are collected: what they import and compile lives until the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of each later search for garbage, too; and search less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let libraries see at the end that nothing was leaked."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _judged((yield))


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's project, hub, package index, or terminal width."""
    monkeypatch.delenv("CTXR_WORKDIR", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(scope="session", autouse=True)
def kept_decoders() -> Iterator[pytest.MonkeyPatch]:
    """Where the decoder process is not the subject, it is kept from one scan to the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxr.media.decoder_process.ChildProcess", start)
        yield patch
        end_all()


@pytest.fixture(scope="session", autouse=True)
def empty_figures() -> Iterator[None]:
    """Where `drawn_figures` are not asked for, their files are empty: to draw them takes seconds."""

    def empty(charts: Mapping[str, object]) -> dict[str, bytes]:
        return {f"figures/{name}.{kind}": b"" for name in charts for kind in ("svg", "pdf")}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxr.pipelines.modelling.eval.drawn", empty)
        yield


@pytest.fixture(scope="module")
def drawn_figures(empty_figures: None) -> Iterator[None]:
    """Evaluations draw their figures."""
    from ctxr.problems.drawing import drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxr.pipelines.modelling.eval.drawn", drawn)
        yield


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
    from playwright.sync_api import expect

    from scripts.screenshot import browser, chromium

    if chromium() is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium (make system)")
    expect.set_options(timeout=60_000)  # milliseconds; only ends a test that hangs
    with browser() as opened:
        yield opened
