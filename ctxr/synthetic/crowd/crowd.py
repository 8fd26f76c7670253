"""A crowd of simulated workers who describe and find: a browser each, at the real pages of a server."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ctxr.annotation.tasks import describe, retrieve
from ctxr.annotation.unit_factory import attention_index
from ctxr.datasets.dataset import Dataset
from ctxr.errors import CtxrError
from ctxr.synthetic.crowd.browser import Page
from ctxr.synthetic.crowd.profiles import Profile, chances
from ctxr.synthetic.crowd.sayings import Saying, Scenes
from ctxr.synthetic.crowd.visitor import Visitor
from ctxr.synthetic.world.kinds import Verdict

_TRIES = 40
"""Attempts of a worker to write a new description that the page accepts."""


@dataclass(frozen=True)
class Cast:
    """A vote that was cast: on which text, by whom, with which chances by image id, and what would have been right."""

    text: str
    worker: str
    spread: Mapping[str, float]
    target: str


@dataclass
class SimulatedTruth:
    """The ground truth of the simulation, hidden from the workers.

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


class Person(Visitor):
    """One who describes pictures, and finds those that others have described."""

    def __init__(self, name: str, profile: Profile, link: str, known: SimulatedTruth, rng: np.random.Generator) -> None:
        super().__init__(name, link, known.pictures, rng)
        self.profile = profile
        self._known = known

    def answer(self, page: Page) -> Page | None:
        """Find, or describe; whichever the page asks for."""
        if page.form(retrieve.FIELD) is not None:
            return self._find(page)
        return self._describe(page) if page.form(describe.FIELD) is not None else None

    def _find(self, page: Page) -> Page:
        images = self.images(page)
        keys = {image: address.rpartition("/")[2] for address, image in images.items()}
        text = " ".join(page.quotes[0].split()) if page.quotes else ""
        order = tuple(images.values())
        asked = attention_index(text)
        verdicts: dict[str, Verdict]
        if asked is not None:
            verdicts = {image: place == asked for place, image in enumerate(order)}
        else:
            verdicts = dict(self._known.sayings[text].verdicts) if text in self._known.sayings else {}
        spread = chances(self.profile, verdicts, order)
        picked = str(self._rng.choice(list(spread), p=list(spread.values())))
        if text in self._known.targets:
            self._known.casts.append(Cast(text, self.name, spread, self._known.targets[text]))
        return self.send(page, retrieve.FIELD, [keys[picked]])

    def _describe(self, page: Page) -> Page:
        images = self.images(page)
        target = images[page.marked or page.pictures[0]]
        image_set = next(one for one in self._known.dataset.sets if set(one.images) == set(images.values()))
        for _ in range(_TRIES):
            truly = self._rng.random() < self.profile.writes
            saying = self._known.scenes.describe(image_set, target, truly, self._rng)
            text = " ".join(saying.text.split())
            if text in self._known.sayings:
                continue  # a vote is known by its text, so no two descriptions may be the same
            if page.form(describe.FIELD) is None:
                return page
            self._known.sayings[text] = saying
            self._known.targets[text] = target
            after = self.send(page, describe.FIELD, [text])
            if after.status != 422:
                return after
            page = after
        raise CtxrError(f"{self.name} could not word a description that the page takes: {page.words[-300:]}")
