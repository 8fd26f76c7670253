"""A small site for tests: painted pictures, a unit of every task, and a clock that stands still until it is moved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow
from starlette.testclient import TestClient

from ctxr.annotation.journal.identities import Identities, Visit, read_visits
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.pseudonyms import pseudonym
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks import entail, review, tag
from ctxr.annotation.web.app import make_app
from ctxr.annotation.web.chat import UnitNotifier
from ctxr.annotation.web.site import SHIPPED, Invitation, Site, crowd_signer
from ctxr.store.records import Image, ImageSet
from ctxr.web.translations import read_languages
from tests.annotation.crowd_units import EVERY_KIND
from tests.annotation.web.reading import HtmlReader, read

KEY = b"k" * 32
BASE = "http://testserver"
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
IMAGES = tuple(f"clip/img{number}" for number in (2, 10, 11, 12, 13, 14, 15, 16, 17, 30))
SET = ImageSet("clip-shot0_0", "video", IMAGES, "clip", "clip", 0, 0.1, 0.2)
SIZE = (96, 64)
LANGUAGES = tuple(read_languages(SHIPPED).values())

SHOWN: dict[str, Any] = {"image_set": SET.id, "group": "clip", "ordered": True}

UNITS: dict[str, Unit] = {
    unit.task: unit
    for unit in (
        Unit("u-describe", "describe", images=IMAGES, target=IMAGES[3], **SHOWN),
        Unit("u-retrieve", "retrieve", images=IMAGES, query="q", texts=("The left ear is folded.",), text_ids=("t",), **SHOWN),
        Unit("u-dialogue", "dialogue", images=IMAGES[:1], target=IMAGES[0], labels=("Dog", "Bread"), **SHOWN),
        Unit(
            "u-review",
            "review",
            images=IMAGES[:1],
            target=IMAGES[0],
            query="review/d",
            texts=("Hi!", "Look at this", "", "Oh!"),
            text_ids=("d/0", "d/1"),
            speakers=(0, 0, 0, 1),
            labels=review.LABELS,
            **SHOWN,
        ),
        Unit(
            "u-tag", "tag", images=IMAGES, target=IMAGES[3], query="tag/q", texts=("A dog.",), text_ids=("t",),
            labels=tuple(tag.NOTES), **SHOWN,
        ),
        Unit(
            "u-entail", "entail", images=IMAGES[:1], query="entail/q", texts=("A dog sits.",), text_ids=("s",),
            statement="There is an animal.", labels=entail.LABELS, **SHOWN,
        ),
        Unit(
            "u-own", "own", images=IMAGES, target=IMAGES[3], query="own/q", texts=("A dog.",), text_ids=("t",),
            asked=EVERY_KIND, **SHOWN,
        ),
        Unit(
            "u-repeat", "repeat", images=IMAGES, query="q", texts=("A dog.",), text_ids=("t",), of="u-x", like="retrieve",
            round=1, **SHOWN,
        ),
    )
}  # fmt: skip
"""A unit of every task, by task."""


def paint(folder: Path, images: Sequence[str] = IMAGES) -> dict[str, Path]:
    """Pictures that can be told apart, by image id."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for number, image in enumerate(images):
        files[image] = folder / f"{number}.jpg"
        coarse = np.random.default_rng(number).integers(0, 255, (4, 6, 3)).astype(np.uint8)
        Pillow.fromarray(coarse).resize(SIZE, Pillow.Resampling.BICUBIC).save(files[image], quality=90)
    return files


def rows(files: dict[str, Path], root: Path) -> list[Image]:
    """Table rows of painted pictures."""
    return [Image(name, file.relative_to(root).as_posix(), "ab" * 32, "clip", *SIZE) for name, file in files.items()]


@dataclass
class Clock:
    """Says what it is told."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


@dataclass
class Crowd:
    """A site under test."""

    site: Site
    clock: Clock
    folder: Path
    bell: UnitNotifier = field(default_factory=UnitNotifier)

    def __post_init__(self) -> None:
        self.app = make_app(self.site, self.bell)

    def visitor(self, **headers: str) -> TestClient:
        return TestClient(
            self.app, base_url=BASE, headers=headers, follow_redirects=True, raise_server_exceptions=False
        )

    def invited(self, name: str) -> TestClient:
        """A browser that came in by its personal link."""
        visitor = self.visitor()
        page = visitor.get(f"/i/{self.site.signer.sign(Invitation(name))}")
        form = read(page).form()
        visitor.post(form.action, data=form.fields, follow_redirects=False)
        return visitor

    def opened(self, name: str = "ada") -> tuple[TestClient, HtmlReader]:
        """A browser that came in, and its first page of work."""
        visitor = self.invited(name)
        return visitor, read(visitor.get("/next"))

    def close(self) -> None:
        self.site.journal.close()
        self.site.identities.close()

    def visits(self) -> list[Visit]:
        return read_visits(self.folder / "private")

    def worker(self, name: str) -> str:
        return self.site.pseudonym("local", name)


def crowd(
    folder: Path, units: Sequence[Unit] | None = None, clock: Callable[[], datetime] | None = None, **settings: Any
) -> Crowd:
    """A site over units (default: one of every task), its journal in `folder`; `settings` are those of Site and Protocol."""
    access = {name: settings.pop(name) for name in ("anybody", "studies", "base_url") if name in settings}
    chosen = tuple(UNITS.values()) if units is None else units
    protocol = Protocol(**({"disjoint": "none"} | settings.pop("protocol", {})))
    given = clock if isinstance(clock, Clock) else Clock()
    journal = open_journal(folder / "answers.sqlite", chosen, [SET], protocol)
    site = Site(
        journal,
        Identities(folder / "private", KEY),
        partial(pseudonym, KEY),
        crowd_signer(KEY),
        paint(folder / "images"),
        dict.fromkeys(IMAGES, SIZE),
        access.pop("base_url", BASE),
        **access,
        now=clock or given,
        **({"rate": 0} | settings),
    )
    for buckets in (site.workers, site.addresses, site.newcomers):
        buckets.clock = lambda: site.now().timestamp()  # on a busy machine they would fill again on the way
    return Crowd(site, given, folder)


def opened(make: Callable[..., Crowd], *units: Unit, **settings: Any) -> tuple[Crowd, TestClient, HtmlReader]:
    """A site, a browser that came in, and its first page of work."""
    site = make(*units, **settings)
    return site, *site.opened()
