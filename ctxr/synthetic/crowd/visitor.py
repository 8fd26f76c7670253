"""Simulated workers at the pages of a server: those who describe and find images, and those who judge entailment."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ctxr.annotation.tasks import describe, entail, retrieve
from ctxr.annotation.unit_factory import attention_index
from ctxr.datasets.dataset import Dataset
from ctxr.errors import CtxrError
from ctxr.synthetic.crowd.browser import Browser, Page
from ctxr.synthetic.crowd.profiles import Profile, chances
from ctxr.synthetic.crowd.sayings import Saying, Scenes
from ctxr.synthetic.world.kinds import Verdict


class Visitor(ABC):
    """One worker with a browser of their own; what they answer, `answer` says.

    Attributes:
        pictures: image id by SHA-256 of its bytes. answers: given so far.
    """

    def __init__(self, name: str, link: str, pictures: Mapping[str, str], rng: np.random.Generator) -> None:
        self.name, self.answers = name, 0
        self._pictures, self._rng = pictures, rng
        self._browser = Browser(link)
        self._page: Page | None = None
        self._link = link

    def work(self) -> bool:
        """Do what the page asks; False when there is nothing more to do."""
        page = self._page or self._open()
        after = self.answer(page)
        if after is None:
            self._page, self._link = None, page.buttons[0] if page.buttons else "/next"
            return False
        self._page = after
        self.answers += 1
        return True

    @abstractmethod
    def answer(self, page: Page) -> Page | None:
        """The page that comes after answering this one; None where it asks nothing."""

    def leave(self) -> None:
        """Close the browser."""
        self._browser.close()

    def send(self, page: Page, field: str, values: list[str]) -> Page:
        """The page that comes after answering the `field` of this one. Raises CtxrError where it does not ask for it."""
        form = page.form(field)
        if form is None:
            raise CtxrError(f"{page.address} does not ask for {field}")
        return self._browser.send(page, form, {field: values})

    def images(self, page: Page) -> dict[str, str]:
        """Image id by the address of each picture of the page, in the order shown."""
        seen = {}
        for address in page.pictures:
            content = hashlib.sha256(self._browser.fetch(address)).hexdigest()
            if content not in self._pictures:
                raise CtxrError(f"{address} is an unknown image")
            seen[address] = self._pictures[content]
        return seen

    def _open(self) -> Page:
        """The page behind the link, past the button of an invitation."""
        page = self._browser.open(self._link)
        invitation = next((form for form in page.forms if "/i/" in form.action), None)
        return page if invitation is None else self._browser.send(page, invitation, {})


def image_ids(dataset: Dataset) -> dict[str, str]:
    """Image id by content, of all available images of a dataset."""
    ids = {}
    for image in dataset.images.values():
        path = dataset.picture(image)
        if path is not None and path.is_file():
            ids[hashlib.sha256(path.read_bytes()).hexdigest()] = image.id
    return ids


def work_in_turns(
    people: Sequence[Visitor], report: Callable[[int], None] = lambda _: None, idle_rounds: int = 2
) -> int:
    """Workers act in turn until none has anything to do; returns the number of answers."""
    answers = idle = 0
    while idle < idle_rounds:
        busy = [person for person in people if person.work()]
        answers += len(busy)
        idle = 0 if busy else idle + 1
        report(len(busy))
    return answers


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

    def __init__(self, name: str, profile: Profile, link: str, truth: SimulatedTruth, rng: np.random.Generator) -> None:
        super().__init__(name, link, truth.pictures, rng)
        self.profile = profile
        self._known = truth

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
        attention = attention_index(text)
        verdicts: dict[str, Verdict]
        if attention is not None:
            verdicts = {image: position == attention for position, image in enumerate(order)}
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
        image_set = next(
            image_set for image_set in self._known.dataset.sets if set(image_set.images) == set(images.values())
        )
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


SAID: Mapping[Verdict, str] = {True: entail.ENTAILMENT, False: entail.CONTRADICTION, None: entail.NEUTRAL}
"""The label of a true, a false, and an undecidable sentence."""


class SimulatedJudge(Visitor):
    """Gives the true label, and a wrong one with probability `wrong`.

    Args:
        truth: whether a sentence holds, by (image id, sentence); other pairs are "cannot be told".
    """

    def __init__(
        self,
        name: str,
        link: str,
        pictures: Mapping[str, str],
        truth: Mapping[tuple[str, str], Verdict],
        wrong: float,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(name, link, pictures, rng)
        self._truth, self._wrong = truth, wrong

    def answer(self, page: Page) -> Page | None:
        """Judge the sentence below the captions of the image."""
        if page.form(entail.FIELD) is None:
            return None
        (image,) = self.images(page).values()
        correct = SAID[self._truth.get((image, " ".join(page.quotes[-1].split())))]
        others = [label for label in entail.LABELS if label != correct]
        says = str(self._rng.choice(others)) if self._rng.random() < self._wrong else correct
        return self.send(page, entail.FIELD, [says])
