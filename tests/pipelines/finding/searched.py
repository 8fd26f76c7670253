"""A finder of painted pictures for tests of the page."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from PIL import Image as Pillow
from starlette.testclient import TestClient

from ctxr.errors import DataError
from ctxr.media.images import Pixels
from ctxr.pipelines.finding.config import SearchAnswer, SearchQuery, SearchResult
from ctxr.pipelines.finding.page import SearchSite, make_page
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Image

COUNT = 9


@dataclass
class PaintedFinder:
    """Finds the pictures from the place on that a word names; "nothing" fits nothing."""

    folder: Path
    reads: str = "text+trace"
    version: str = "now"
    heard: list[SearchQuery] = field(default_factory=list)
    liked: list[int | Pixels] = field(default_factory=list)
    pictures: list[Image] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Paint pictures of several shapes, the last of a kind that browsers do not show."""
        self.folder.mkdir(exist_ok=True)
        for number in range(COUNT):
            height, width = 60 + 10 * (number % 3), 60 + 15 * (number % 4)
            name = f"p{number}.{'bmp' if number == COUNT - 1 else 'jpg'}"
            pixels = np.full((height, width, 3), 25 * number, np.uint8)
            pixels[height // 2 :, width // 4 : width // 2] = 200, 90, 30
            Pillow.fromarray(pixels).save(self.folder / name)
            self.pictures.append(
                Image(f"photos/p{number}", name, sha256_file(self.folder / name), "photos", width, height)
            )

    def find(self, asked: SearchQuery, count: int) -> SearchAnswer:
        self.heard.append(asked)
        if not asked.words:
            return SearchAnswer([], says="Say in words what you look for.")
        words = [word.text for word in asked.words]
        return self.answer(next((int(word) for word in words if word.isdigit()), 0), "nothing" not in words)

    def alike(self, like: int | Pixels, count: int) -> SearchAnswer:
        self.liked.append(like)
        return self.answer(like + 1 if isinstance(like, int) else 0)

    def answer(self, first: int, fits: bool | None = None) -> SearchAnswer:
        turned = [(first + step) % COUNT for step in range(COUNT)]
        here = [(place, self.pictures[place]) for place in turned if (self.folder / self.pictures[place].path).exists()]
        box = (0.25, 0.5, 0.5, 1.0)
        results = [
            SearchResult(place, one.id, one.path, 83.46 if place == 1 else None, 0.5, box, one.width, one.height)
            for place, one in here
        ]
        return SearchAnswer(results, fits, gone=COUNT - len(results))

    def picture(self, place: int) -> Path:
        file = self.folder / (self.pictures[place].path if 0 <= place < COUNT else "none")
        if not file.exists():
            raise DataError(f"{file} is gone")
        return file


def site(finder: PaintedFinder, token: str = "", narratives: Path | None = None) -> Any:
    """Its application, as `Running` of the crowd's tests serves it."""
    app = make_page(cast("Any", finder), SearchSite("holiday", "ctxr-lite", token, narratives))
    return SimpleNamespace(app=app, bell=SimpleNamespace(close=lambda: None))


def visitor(finder: PaintedFinder, *more: Any, address: str = "http://127.0.0.1:8322") -> TestClient:
    return TestClient(site(finder, *more).app, base_url=address, follow_redirects=False)
