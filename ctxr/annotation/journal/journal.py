"""The journal: who does what, who did what, and nothing acknowledged is ever lost."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path

from ctxr.annotation.dialogues import Event
from ctxr.annotation.journal.results import (
    Change,
    Decision,
    Lease,
    NoWork,
    Progress,
    Receipt,
    Room,
    Standing,
    Waited,
)
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks.values import Met, Values
from ctxr.data.records import ImageSet


def open_journal(
    url: str | Path,
    units: Iterable[Unit] = (),
    image_sets: Iterable[ImageSet] = (),
    protocol: Protocol | None = None,
    seed: int = 0,
    bundle: int = 20,
    lease_for: timedelta = timedelta(minutes=30),
) -> "Journal":
    """The journal at a path or SQLAlchemy URL, with `units` added that it lacks."""
    raise NotImplementedError


class Journal:
    """See the module."""

    def enrol(self, worker: str, platform: str, now: datetime) -> Standing:
        raise NotImplementedError

    def lease(self, worker: str, now: datetime, tasks: Collection[str] | None = None) -> Lease | NoWork:
        raise NotImplementedError

    def find(self, token: str) -> Lease | None:
        raise NotImplementedError

    def give_back(self, token: str, now: datetime, reason: str) -> None:
        raise NotImplementedError

    def submit(self, token: str, worker: str, values: Values, now: datetime, backend: str = "local") -> Receipt:
        raise NotImplementedError

    def met(self, lease: Lease) -> Met:
        raise NotImplementedError

    def draft(self, token: str) -> dict[str, tuple[str, ...]]:
        raise NotImplementedError

    def save_draft(self, token: str, worker: str, values: Values, now: datetime) -> None:
        raise NotImplementedError

    def progress(self) -> dict[str, Progress]:
        raise NotImplementedError

    def done_by(self, worker: str) -> int:
        raise NotImplementedError

    def completion_code(self, worker: str, now: datetime) -> str | None:
        raise NotImplementedError

    def room(self, token: str) -> Room:
        raise NotImplementedError

    def say(self, token: str, worker: str, text: str, now: datetime) -> Room:
        raise NotImplementedError

    def share(self, token: str, worker: str, now: datetime) -> Room:
        raise NotImplementedError

    def finish(self, token: str, worker: str, now: datetime) -> Room:
        raise NotImplementedError

    def leave(self, token: str, worker: str, now: datetime) -> None:
        raise NotImplementedError

    def here(self, token: str, worker: str, now: datetime) -> Room:
        """A sign of life while a page waits: who gives none for five minutes has left."""
        raise NotImplementedError

    def events(self, token: str, after: int = 0) -> list[Event]:
        raise NotImplementedError

    def units(self) -> list[Unit]:
        raise NotImplementedError

    def answers(self) -> list[Answer]:
        raise NotImplementedError

    def decisions(self) -> list[Decision]:
        raise NotImplementedError

    def waited(self) -> list[Waited]:
        raise NotImplementedError

    def standing(self, worker: str) -> Standing:
        raise NotImplementedError

    def standings(self) -> list[Standing]:
        raise NotImplementedError

    def changes(self, worker: str) -> list[Change]:
        raise NotImplementedError

    def block(self, worker: str, reason: str, by: str, now: datetime) -> Standing:
        raise NotImplementedError

    def allow(self, worker: str, reason: str, by: str, now: datetime) -> Standing:
        raise NotImplementedError

    def undo(self, worker: str, reason: str, by: str, now: datetime) -> Standing:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
