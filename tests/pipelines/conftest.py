"""Footage that the tests of building and filtering share."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from ctxr.models.encoders import load_encoder
from tests.drawn import LOADER, load_drawn
from tests.exports import export
from tests.footage import two_shot_clip

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.pipelines.opened import Open, OpenedPage

THRESHOLD = "0.02"
"""Low enough that the wandering patch makes sets with the embedded encoder."""

LIMIT = 1.115
"""A BRISQUE limit that a third of the frames exceed, so that others take their places."""


_encoders = pytest.MonkeyPatch()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """In this folder, sets are picked with a drawn encoder, since encoding takes most of the time of a build."""
    _encoders.setattr(LOADER, load_drawn)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Elsewhere the encoder itself picks."""
    _encoders.undo()


@pytest.fixture
def real_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder itself, as child processes load it."""
    monkeypatch.setattr(LOADER, load_encoder)


@pytest.fixture(scope="session")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `videos` with three clips of two shots, and a folder `photos/album` with fourteen photos."""
    folder = tmp_path_factory.mktemp("footage")
    for seed in range(3):
        two_shot_clip(folder / "videos" / f"clip{seed}.mp4", seed)
    album = folder / "photos" / "album"
    album.mkdir(parents=True)
    rng = np.random.default_rng(5)
    for number in range(14):
        coarse = rng.integers(0, 255, (6, 8, 3)).astype(np.uint8)
        Image.fromarray(coarse).resize((96, 72), Image.Resampling.BICUBIC).save(album / f"p{number}.png")
    (album / "p99.png").write_bytes((album / "p0.png").read_bytes())
    return folder


@pytest.fixture(scope="session")
def built(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of the videos, to be read only."""
    from tests.pipelines.curation.test_build_sets import build

    return build(footage, tmp_path_factory.mktemp("built") / "sets").artifact


@pytest.fixture(scope="session")
def filtered(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those sets filtered with `LIMIT`, beside a copy of them, to be read only."""
    from tests.pipelines.curation.test_filter import refilter

    project = tmp_path_factory.mktemp("filtered")
    shutil.copytree(built.parent, project, dirs_exist_ok=True)
    return refilter(project / "sets", project / "filtered", brisque=LIMIT).artifact


@pytest.fixture
def sets(built: Path, tmp_path: Path) -> Path:
    """A copy of the sets, and of what was remembered of them, that a test may change."""
    shutil.copytree(built.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "sets"


@pytest.fixture
def project(filtered: Path, tmp_path: Path) -> Path:
    """A copy of a project with `sets`, `filtered` and all measurements, that a test may change."""
    shutil.copytree(filtered.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="session")
def recipes(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with `sets` of the shared footage, and the recipe of them."""
    from tests.pipelines.curation.test_build_sets import build

    project = tmp_path_factory.mktemp("recipes")
    build(footage, project / "sets", sources=(str(footage),))
    export(project / "sets", project / "recipe", "recipe")
    return project


@pytest.fixture(scope="session")
def elsewhere(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as another owner keeps them: other names, another order of folders."""
    folder = tmp_path_factory.mktemp("owner")
    for number, clip in enumerate(sorted((footage / "videos").iterdir())):
        shutil.copy(clip, folder / f"holiday{9 - number}.mp4")
    shutil.copytree(footage / "photos" / "album", folder / "deep" / "pictures")
    return folder


@pytest.fixture
def recipe(recipes: Path, tmp_path: Path) -> Path:
    """A copy of the recipe that came by mail: nothing is remembered beside it."""
    shutil.copytree(recipes / "recipe", tmp_path / "mail" / "recipe")
    return tmp_path / "mail" / "recipe"


@pytest.fixture
def show(headless: "Browser") -> "Iterator[Open]":
    """Opens a page from its file; at the end of the test nothing may have been asked for or complained about."""
    from tests.pipelines.opened import OpenedPage

    everything: list[OpenedPage] = []
    contexts = []

    def opener(page: Path, theme: str = "light", width: int = 1280, address: str = "") -> "OpenedPage":
        context = headless.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
        contexts.append(context)
        opened = OpenedPage(context.new_page())
        everything.append(opened)

        def refuse(route: object) -> None:
            opened.asked.append(route.request.url)  # type: ignore[attr-defined]
            route.abort()  # type: ignore[attr-defined]

        context.route(re.compile(r"^(?!file:|data:)"), refuse)
        opened.tab.on("console", lambda one: opened.complaints.append(one.text))
        opened.tab.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.tab.goto(page.resolve().as_uri() + address)
        return opened

    yield opener
    for context in contexts:
        context.close()
    assert [(one.asked, one.complaints) for one in everything] == [([], []) for _ in everything]
