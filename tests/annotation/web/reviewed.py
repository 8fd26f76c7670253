"""A review of painted sets, for the tests of its pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from ctxr.annotation.web.chat import UnitNotifier
from ctxr.annotation.web.review import Review, make_review, review_signer
from ctxr.annotation.web.site import Invitation
from ctxr.datasets.dataset import Dataset
from ctxr.store.records import Decision, Image, ImageSet, Source
from ctxr.store.tables import read_appended
from tests.annotation.web.crowd import BASE, KEY, SIZE, paint
from tests.annotation.web.reading import read

SETS = 3


def painted(folder: Path, suffix: str = ".jpg") -> Dataset:
    """Three sets of ten frames of one video."""
    names = [f"clip/img{number}" for number in range(10 * SETS)]
    files = paint(folder / "images", names)
    images = {}
    for number, name in enumerate(names):
        path = f"images/{files[name].stem}{suffix}"
        files[name].rename(folder / path)
        images[name] = Image(name, path, f"{number:064x}", "clip", *SIZE, number)
    sets = tuple(
        ImageSet(f"clip-shot0_{at}", "video", tuple(names[10 * at : 10 * at + 10]), "clip", "clip", 0, 0.1, 0.2)
        for at in range(SETS)
    )
    source = Source("clip", "video", "clip.mp4", "ab" * 32, 1)
    return Dataset("painted", folder, sets, images, sources=(source,))


@dataclass
class Reviewed:
    """A review under test, whose log is `file`."""

    folder: Path
    scores: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = self.folder / "decisions.jsonl"
        self.review = Review(painted(self.folder / "sets"), self.file, self.scores)
        self.signer = review_signer(KEY)
        self.app: ASGIApp = make_review(self.review, BASE, self.signer)
        self.bell = UnitNotifier()

    def path(self, person: str = "w-ada") -> str:
        return f"/i/{self.signer.sign(Invitation(person))}"

    def visitor(self) -> TestClient:
        return TestClient(self.app, base_url=BASE, follow_redirects=True, raise_server_exceptions=False)

    def invited(self, person: str = "w-ada") -> TestClient:
        """A browser that came in by its personal link."""
        visitor = self.visitor()
        form = read(visitor.get(self.path(person))).form()
        visitor.post(form.action, data=form.fields, follow_redirects=False)
        return visitor

    def rows(self) -> list[Decision]:
        return read_appended(self.file, Decision)
