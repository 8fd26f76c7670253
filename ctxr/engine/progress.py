"""How a verb reports to its caller: notes, warnings and progress."""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

T = TypeVar("T")


class ProgressTask:
    """One line of progress; this one is not shown."""

    def advance(self, steps: float = 1) -> None:
        """Add `steps` finished steps."""

    def say(self, text: str) -> None:
        """Show what is being processed."""


class Progress(ProgressTask):
    """Where a verb reports to. The command line writes it to stderr; this one shows nothing, nor do its tasks."""

    def note(self, text: str) -> None:
        """Report something useful."""

    def detail(self, text: str) -> None:
        """Report what was decided, for those who ask for it."""

    def warn(self, text: str) -> None:
        """Report something unexpected."""

    def alert(self, text: str) -> None:
        """Report what makes figures wrong, in red."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[ProgressTask]:
        """A progress line with `total` steps (None: unknown) for the duration of a with-block."""
        return nullcontext(self)

    def each(self, label: str, items: Collection[T]) -> Iterator[T]:
        """The items one after another, with a progress line of as many steps."""
        with self.task(label, len(items)) as task:
            for item in items:
                yield item
                task.advance()


class Silent(Progress):
    """Reports nothing: for use from Python."""


SILENT = Silent()
