"""Shards: numbered files of bounded size."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Generic, Protocol, TypeVar

from ctxr.store.atomic import disk_errors

Row = TypeVar("Row")
Taken = TypeVar("Taken", contravariant=True)


class Shard(Protocol[Taken]):
    """One file of a format, written to a stream that is not its own to close."""

    def add(self, row: Taken, size: int) -> None:
        """Write one sample of about `size` bytes, now or with those after it."""

    def finish(self) -> None:
        """Write the remaining samples and close."""

    def abandon(self) -> None:
        """Close the stream without writing more."""


class Shards(Generic[Row]):
    """Writes samples to files of bounded size, each whole on the medium before the next is begun. A context manager.

    Args:
        pattern: name of a file, with the field `number`, from 0.
        most: bytes of samples in one file, unless a single sample has more.
        begin: starts a file of the format on a stream.

    Attributes:
        count: files begun so far.
    """

    def __init__(self, folder: Path, pattern: str, most: int, begin: Callable[[IO[bytes]], Shard[Row]]) -> None:
        self._folder, self._pattern, self._most, self._begin = folder, pattern, most, begin
        self._shard: Shard[Row] | None = None
        self._stream: IO[bytes] | None = None
        self._bytes = 0
        self.count = 0

    def add(self, row: Row, size: int) -> None:
        """Write a sample of about `size` bytes; a new file is begun where it would not fit."""
        if self._shard is not None and self._bytes + size > self._most:
            self._finish()
        with disk_errors(self._folder):
            (self._shard or self._next()).add(row, size)
        self._bytes += size

    def _next(self) -> Shard[Row]:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._stream = (self._folder / self._pattern.format(number=self.count)).open("xb")
        self._shard = self._begin(self._stream)
        self._bytes, self.count = 0, self.count + 1
        return self._shard

    def _finish(self) -> None:
        if self._shard is None or self._stream is None:
            return
        try:
            with disk_errors(self._folder):
                self._shard.finish()
                self._stream.flush()
                os.fsync(self._stream.fileno())
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Let go of the file as it is; what went wrong before is what matters."""
        if self._shard is not None:
            with suppress(OSError, ValueError):
                self._shard.abandon()
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()
        self._shard = self._stream = None

    def __enter__(self) -> "Shards[Row]":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._abandon()
