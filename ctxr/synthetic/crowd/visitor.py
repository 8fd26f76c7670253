"""Simulated workers on the pages of a server: those who describe and find images, and those who judge entailment."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.errors import CtxrError
from ctxr.synthetic.crowd.browser import Browser, Page


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


def known_pictures(dataset: Dataset) -> dict[str, str]:
    """Image id by content, of all available images of a dataset."""
    found = {}
    for image in dataset.images.values():
        path = dataset.picture(image)
        if path is not None and path.is_file():
            found[hashlib.sha256(path.read_bytes()).hexdigest()] = image.id
    return found


def work_in_turns(people: Sequence[Visitor], told: Callable[[int], None] = lambda _: None, idle_rounds: int = 2) -> int:
    """Workers act in turn until none has anything to do; returns the number of answers."""
    given = idle = 0
    while idle < idle_rounds:
        busy = [person for person in people if person.work()]
        given += len(busy)
        idle = 0 if busy else idle + 1
        told(len(busy))
    return given
