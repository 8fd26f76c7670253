"""How a verb speaks to whoever started it: sentences, warnings, and progress that can be watched."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class ProgressTask(Protocol):
    """One line of progress."""

    def advance(self, steps: float = 1) -> None:
        """`steps` more are done."""

    def say(self, text: str) -> None:
        """What is being worked on now."""


class Progress(Protocol):
    """What a verb needs of its surroundings; the command line shows it on stderr."""

    def note(self, text: str) -> None:
        """Something worth knowing."""

    def warn(self, text: str) -> None:
        """Something that may surprise."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[ProgressTask]:
        """A line of progress with `total` steps (None: unknown) for the length of a with-block."""


class Silent:
    """Says nothing: for use from Python."""

    def note(self, text: str) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""

    def advance(self, steps: float = 1) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    @contextmanager
    def _nothing(self) -> Iterator["Silent"]:
        yield self

    def task(self, label: str, total: float | None) -> AbstractContextManager[ProgressTask]:
        """A line that nobody sees."""
        return self._nothing()
