"""How a verb reports to its caller: notes, warnings and progress."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol


class ProgressTask(Protocol):
    """One line of progress."""

    def advance(self, steps: float = 1) -> None:
        """Add `steps` finished steps."""

    def say(self, text: str) -> None:
        """Show what is being processed."""


class Progress(Protocol):
    """Where a verb reports to; the command line writes it to stderr."""

    def note(self, text: str) -> None:
        """Report something useful."""

    def warn(self, text: str) -> None:
        """Report something unexpected."""

    def alert(self, text: str) -> None:
        """Report what makes figures wrong, in red."""

    def finished(self, artifact: Path, up_to_date: bool) -> None:
        """Report the folder of an artifact that was written, or that was up to date."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[ProgressTask]:
        """A progress line with `total` steps (None: unknown) for the duration of a with-block."""


class Silent:
    """Reports nothing: for use from Python."""

    def note(self, text: str) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""

    alert = warn

    def finished(self, artifact: Path, up_to_date: bool) -> None:
        """Nothing."""

    def advance(self, steps: float = 1) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[ProgressTask]:
        """A progress line that is not shown."""
        return nullcontext(self)


SILENT: Progress = Silent()
