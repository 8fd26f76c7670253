"""A crowd of simulated workers at the real pages of a server: each opens a link, looks at the pictures, answers, goes on."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ctxr.annotation.making import attention_place
from ctxr.annotation.simulation.browser import Browser, Page
from ctxr.annotation.simulation.profiles import Profile, chances
from ctxr.annotation.simulation.sayings import Saying, Scenes
from ctxr.annotation.tasks import describe, retrieve
from ctxr.data.dataset import Dataset
from ctxr.data.world.kinds import Verdict
from ctxr.errors import CtxrError

_TRIES = 4
"""Descriptions that a worker words anew when the page asks for it."""


@dataclass(frozen=True)
class Cast:
    """A vote that was cast: on which text, by whom, with which chances by image id, and what would have been right."""

    text: str
    worker: str
    spread: Mapping[str, float]
    target: str


@dataclass
class Known:
    """What the simulation knows and no worker is told.

    Attributes:
        pictures: image id by SHA-256 of its bytes. sayings: by text, with what each is true of.
        targets: image id by text. casts: every vote on one of these texts.
    """

    scenes: Scenes
    dataset: Dataset
    pictures: Mapping[str, str]
    sayings: dict[str, Saying] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    casts: list[Cast] = field(default_factory=list)


class Person:
    """One simulated worker with a browser of their own."""

    def __init__(self, name: str, profile: Profile, link: str, known: Known, rng: np.random.Generator) -> None:
        self.name, self.profile = name, profile
        self._known, self._rng = known, rng
        self._browser = Browser(link)
        self._page: Page | None = None
        self._link = link
        self.answers = 0

    def work(self) -> bool:
        """Do what the page asks; False when there is nothing more to do."""
        page = self._page or self._open()
        if page.form(retrieve.FIELD) is not None:
            self._page = self._find(page)
        elif page.form(describe.FIELD) is not None:
            self._page = self._describe(page)
        else:
            self._page, self._link = None, page.buttons[0] if page.buttons else "/next"
            return False
        self.answers += 1
        return True

    def _open(self) -> Page:
        """The page behind the link, past the button of an invitation."""
        page = self._browser.open(self._link)
        invitation = next((form for form in page.forms if "/i/" in form.action), None)
        return page if invitation is None else self._browser.send(page, invitation, {})

    def leave(self) -> None:
        """Close the browser."""
        self._browser.close()

    def _images(self, page: Page) -> dict[str, str]:
        """Image id by the address of each picture of the page, in the order shown."""
        seen = {}
        for address in page.pictures:
            content = hashlib.sha256(self._browser.fetch(address)).hexdigest()
            if content not in self._known.pictures:
                raise CtxrError(f"{address} is a picture that nobody knows")
            seen[address] = self._known.pictures[content]
        return seen

    def _find(self, page: Page) -> Page:
        images = self._images(page)
        keys = {image: address.rpartition("/")[2] for address, image in images.items()}
        text = " ".join(page.quotes[0].split()) if page.quotes else ""
        order = tuple(images.values())
        asked = attention_place(text)
        verdicts: dict[str, Verdict]
        if asked is not None:
            verdicts = {image: place == asked for place, image in enumerate(order)}
        else:
            verdicts = dict(self._known.sayings[text].verdicts) if text in self._known.sayings else {}
        spread = chances(self.profile, verdicts, order)
        picked = str(self._rng.choice(list(spread), p=list(spread.values())))
        if text in self._known.targets:
            self._known.casts.append(Cast(text, self.name, spread, self._known.targets[text]))
        form = page.form(retrieve.FIELD)
        assert form is not None  # noqa: S101 - asked before
        return self._browser.send(page, form, {retrieve.FIELD: [keys[picked]]})

    def _describe(self, page: Page) -> Page:
        images = self._images(page)
        target = images[page.marked or page.pictures[0]]
        image_set = next(one for one in self._known.dataset.sets if set(one.images) == set(images.values()))
        for _ in range(_TRIES):
            truly = self._rng.random() < self.profile.writes
            saying = self._known.scenes.describe(image_set, target, truly, self._rng)
            text = " ".join(saying.text.split())
            form = page.form(describe.FIELD)
            if form is None:
                return page
            self._known.sayings[text] = saying
            self._known.targets[text] = target
            after = self._browser.send(page, form, {describe.FIELD: [text]})
            if after.status != 422:
                return after
            page = after
        raise CtxrError(f"{self.name} could not word a description that the page takes: {page.words[-300:]}")


def known_pictures(dataset: Dataset) -> dict[str, str]:
    """Image id by content, of all pictures of a dataset that are at hand."""
    found = {}
    for image in dataset.images.values():
        path = dataset.picture(image)
        if path is not None and path.is_file():
            found[hashlib.sha256(path.read_bytes()).hexdigest()] = image.id
    return found


def work_in_turns(people: Sequence[Person], told: Callable[[int], None] = lambda _: None, idle_rounds: int = 2) -> int:
    """Everybody does one thing in turn until nobody has anything to do; returns how many answers were given."""
    given = idle = 0
    while idle < idle_rounds:
        busy = [person for person in people if person.work()]
        given += len(busy)
        idle = 0 if busy else idle + 1
        told(len(busy))
    return given
