"""Shards: numbered files of bounded size."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Generic, TypeVar

from ctxr.store.atomic import disk_errors

Row = TypeVar("Row")
Add = Callable[[Row, int], None]
"""Writes one sample of about so many bytes, now or with those after it."""


class Shards(Generic[Row]):
    """Writes samples to files of bounded size, each whole on the medium before the next is begun. A context manager.

    Args:
        pattern: name of a file, with the field `number`, from 0.
        most: bytes of samples in one file, unless a single sample has more.
        begin: a file of the format on a stream that is not its own to close: what adds a sample, until the block ends.

    Attributes:
        count: files begun so far.
    """

    def __init__(
        self, folder: Path, pattern: str, most: int, begin: Callable[[IO[bytes]], AbstractContextManager[Add[Row]]]
    ) -> None:
        self._folder, self._pattern, self._most, self._begin = folder, pattern, most, begin
        self._opened = ExitStack()
        self._add: Add[Row] | None = None
        self._bytes = 0
        self.count = 0

    def add(self, row: Row, size: int) -> None:
        """Write a sample of about `size` bytes; a new file is begun where it would not fit."""
        with disk_errors(self._folder):
            if self._add is None or self._bytes + size > self._most:
                self._opened.close()
                self._add = self._opened.enter_context(self._file())
                self._bytes, self.count = 0, self.count + 1
            self._add(row, size)
        self._bytes += size

    @contextmanager
    def _file(self) -> Iterator[Add[Row]]:
        self._folder.mkdir(parents=True, exist_ok=True)
        stream = (self._folder / self._pattern.format(number=self.count)).open("xb")
        try:
            with self._begin(stream) as add:
                yield add
            stream.flush()
            os.fsync(stream.fileno())
        finally:
            with suppress(OSError):  # what went wrong before is what matters
                stream.close()

    def __enter__(self) -> "Shards[Row]":
        return self

    def __exit__(self, *error: object) -> None:
        with disk_errors(self._folder):
            self._opened.__exit__(*error)  # type: ignore[arg-type]
