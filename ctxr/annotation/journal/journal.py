"""The journal as everybody else sees it; each method is one transaction."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from sqlalchemy import Connection, update

from ctxr.annotation.dialogues import Event
from ctxr.annotation.journal import (
    choosing,
    counting,
    endings,
    filling,
    leasing,
    opening,
    reading,
    returning,
    rooms,
    standing,
    submitting,
    tables,
    withdrawing,
)
from ctxr.annotation.journal.clock import micros
from ctxr.annotation.journal.database import Database
from ctxr.annotation.journal.endings import Ending
from ctxr.annotation.journal.results import (
    Change,
    Decision,
    Lease,
    NoWork,
    Progress,
    Receipt,
    Refused,
    Room,
    Standing,
    Waited,
)
from ctxr.annotation.journal.rules import Rules
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
    lease_for: timedelta = timedelta(minutes=30),
    busy_seconds: float = 30.0,
    asked: Collection[str] | None = None,
) -> "Journal":
    """The journal at a path (SQLite) or SQLAlchemy URL, made where there is none, with those of `units` that it lacked.

    Args:
        image_sets: the sets of the units; needed where units are to be described or talked about.
        protocol: the published one where None. seed: of the order in which units are served and pictures shown.
        lease_for: time to answer.
        busy_seconds: how long to wait for another program that writes to a SQLite file.
        asked: ids of all units that are still asked; with it others that follow from no answer are served no more.

    Raises CtxrError, with a hint, for a database that cannot be opened or is none; DataError for a unit that is there with
    another content, for an answered one that is not `asked`, and for a journal of a newer schema; UsageError for an address that
    is none.
    """
    rules = Rules((protocol or Protocol()).check(), seed, lease_for)
    database = Database(url, busy_seconds)
    try:
        opening.prepare(database)
        with database.writing() as connection:
            filling.add_sets(connection, image_sets)
            filling.add_units(connection, units, rules)
            if asked is not None:
                withdrawing.withdraw(connection, asked, rules)
            opening.check_questions(connection, rules)
    except BaseException:
        database.close()
        raise
    return Journal(database, rules)


class Journal:
    """Units, leases, answers and talks of a study. Safe to share between threads, and between processes by opening it in each.

    Workers are pseudonyms. Times are aware datetimes. What a worker may not do raises Refused, what the database cannot do
    CtxrError.
    """

    def __init__(self, database: Database, rules: Rules) -> None:
        self._database = database
        self._rules = rules

    def enrol(self, worker: str, platform: str, now: datetime) -> Standing:
        """The worker's standing; who is new is dealt a pool. Again, it changes nothing."""
        with self._database.writing() as connection:
            return standing.enrol(connection, worker, platform, micros(now), self._rules)

    def lease(self, worker: str, now: datetime, tasks: Collection[str] | None = None) -> Lease | NoWork:
        """The lease that the worker holds, else a new one of `tasks` (any where None), else why there is none."""
        with self._database.writing() as connection:
            given = choosing.choose(connection, worker, micros(now), tasks, self._rules)
            found = given if isinstance(given, NoWork) else reading.lease(connection, given)
        if found is None:
            raise LookupError(given)
        return found

    def find(self, token: str) -> Lease | None:
        """The lease of a token, in whatever state it is; None for a token that never was."""
        with self._database.reading() as connection:
            return reading.lease(connection, token)

    def give_back(self, token: str, now: datetime, reason: str) -> None:
        """Free the place of a live lease; anything else is left as it is."""
        with self._database.writing() as connection:
            row = leasing.by_token(connection, token)
            if row is not None and row["state"] == "live":
                returning.free(connection, row, "returned", reason, micros(now), self._rules)

    def submit(self, token: str, worker: str, values: Values, now: datetime, backend: str = "local") -> Receipt:
        """The receipt of an answer that is on the disk, with everything that follows from it.

        An answer after the lease's time is taken while nobody has asked for its place. Raises Refused: `unknown`, `not_yours`,
        `expired`, `already_answered` (with other values), `invalid` (see `problems`), `talk`.
        """
        with self._database.writing() as connection:
            return submitting.submit(connection, token, worker, values, micros(now), backend, self._rules)

    def met(self, lease: Lease) -> Met:
        """What the worker described before, and what others wrote about the set of the lease."""
        with self._database.reading() as connection:
            return submitting.met(connection, lease.unit, lease.worker)

    def draft(self, token: str) -> dict[str, tuple[str, ...]]:
        """Values that were saved before they were submitted; empty where none were."""
        with self._database.reading() as connection:
            row = leasing.by_token(connection, token)
        if row is None or row["draft"] is None:
            return {}
        return msgspec.json.decode(row["draft"], type=dict[str, tuple[str, ...]])

    def save_draft(self, token: str, worker: str, values: Values, now: datetime) -> None:
        """Keep values that are not submitted yet. Raises Refused for a lease that is not live, or not theirs."""
        with self._database.writing() as connection:
            row = submitting.own_lease(connection, token, worker)
            if row["state"] != "live":
                raise Refused("expired", "This task is no longer open. Please take a new one.")
            draft = submitting.encoded({name: tuple(value) for name, value in values.items()})
            connection.execute(update(tables.lease).where(leasing.lease.token == token).values(draft=draft))

    def ending(
        self,
        worker: str,
        began: datetime,
        now: datetime,
        bundle: int,
        before: int = 0,
        tasks: Collection[str] | None = None,
    ) -> Ending | None:
        """How the paid work that the worker `began` has ended: once a bundle is on the disk beside the answers they gave
        `before`, or there is no more work of `tasks` for them; None until then.
        """
        with self._database.reading() as connection:
            return endings.ending(connection, worker, bundle, micros(now), tasks, before, micros(began), self._rules)

    def room(self, token: str) -> Room:
        """The talk as the seat of this lease sees it. Raises Refused for a lease without a talk."""
        with self._database.reading() as connection:
            return rooms.view(connection, rooms.seat_of(connection, token))

    def events(self, token: str, after: int = 0) -> list[Event]:
        """What happened in the talk after event number `after`, oldest first; no number is too large to ask for."""
        after = min(max(after, 0), rooms.LAST_EVENT)
        with self._database.reading() as connection:
            return rooms.log_of(connection, rooms.seat_of(connection, token)["room"], after)

    def say(self, token: str, worker: str, text: str, now: datetime) -> Room:
        """Say something; the room afterwards. Raises Refused: `alone`, `empty`, `too_long`, `closed`, `expired`, `not_yours`."""
        self._reclaim(now)
        with self._database.writing() as connection:
            return rooms.act(connection, token, worker, "say", text, micros(now), self._rules)

    def share(self, token: str, worker: str, now: datetime) -> Room:
        """Share the photo. Raises Refused: `too_early`, `not_yours`, `already_shared` and those of `say`."""
        self._reclaim(now)
        with self._database.writing() as connection:
            return rooms.act(connection, token, worker, "share", "", micros(now), self._rules)

    def finish(self, token: str, worker: str, now: datetime) -> Room:
        """Say that the talk is whole; when both did, it is stored. Raises Refused: `too_early` and those of `say`."""
        self._reclaim(now)
        with self._database.writing() as connection:
            return rooms.act(connection, token, worker, "finish", "", micros(now), self._rules)

    def leave(self, token: str, worker: str, now: datetime) -> None:
        """Leave a talk: after the share it is stored, before it the partner is brought together with somebody else."""
        self._reclaim(now)
        with self._database.writing() as connection:
            row = rooms.own_seat(connection, token, worker)
            returning.free(connection, row, "returned", "left", micros(now), self._rules)

    def here(self, token: str, worker: str, now: datetime) -> Room:
        """A sign of life, to be given each minute or so: who gives none for `Rules.patience` has left."""
        self._reclaim(now)
        with self._database.writing() as connection:
            return rooms.here(connection, token, worker, micros(now), self._rules)

    def progress(self) -> dict[str, Progress]:
        """By task: units, answers, units that want more, live leases; checks of workers are left out."""
        with self._database.reading() as connection:
            return reading.progress(connection)

    def done_by(self, worker: str) -> int:
        """Answers of a worker; 0 for one who never enrolled."""
        with self._database.reading() as connection:
            row = standing.find(connection, worker)
            return 0 if row is None else int(row["answers"])

    def units(self) -> list[Unit]:
        """Every unit, given or followed from an answer, in the order in which they came."""
        with self._database.reading() as connection:
            return reading.units(connection)

    def answers(self) -> list[Answer]:
        """Every answer, in the order in which they came."""
        with self._database.reading() as connection:
            return reading.answers(connection)

    def decisions(self) -> list[Decision]:
        """Why each unit that stopped did so, in the order in which they stopped."""
        with self._database.reading() as connection:
            return reading.decisions(connection)

    def waited(self) -> list[Waited]:
        """Who gave time to talks that could not be, oldest first."""
        with self._database.reading() as connection:
            return reading.waited(connection)

    def standing(self, worker: str) -> Standing:
        """Raises Refused for one who never enrolled."""
        with self._database.reading() as connection:
            return standing.told(standing.known(connection, worker))

    def standings(self) -> list[Standing]:
        """Everybody who enrolled, in the order in which they did."""
        with self._database.reading() as connection:
            return standing.everybody(connection)

    def changes(self, worker: str) -> list[Change]:
        """Every change of the worker's standing with its reason, oldest first."""
        with self._database.reading() as connection:
            return standing.changes(connection, worker)

    def block(self, worker: str, reason: str, by: str, now: datetime) -> Standing:
        """Give the worker no more work. What they hold goes back; what they did stays, but counts no more and is not served."""
        with self._database.writing() as connection:
            standing.change(connection, standing.known(connection, worker), "blocked", reason, by, micros(now))
            return self._take_back(connection, worker, now)

    def allow(self, worker: str, reason: str, by: str, now: datetime) -> Standing:
        """Vouch for the worker: work without a qualification round, and no rule stops them."""
        with self._database.writing() as connection:
            standing.change(connection, standing.known(connection, worker), "allowed", reason, by, micros(now))
            return standing.told(standing.known(connection, worker))

    def undo(self, worker: str, reason: str, by: str, now: datetime) -> Standing:
        """Take back the last change of the standing, a rule's or a person's. Raises Refused where there is none."""
        with self._database.writing() as connection:
            standing.undo(connection, standing.known(connection, worker), reason, by, micros(now))
            return self._take_back(connection, worker, now)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _take_back(self, connection: Connection, worker: str, now: datetime) -> Standing:
        """The standing as it is now; who is blocked holds nothing."""
        row, held = standing.known(connection, worker), leasing.held_by(connection, worker)
        if row["state"] == "blocked" and held is not None:
            returning.free(connection, held, "returned", "blocked", micros(now), self._rules)
            counting.recount(connection, worker, micros(now))  # the end of a talk may have made a vote of it
        return standing.told(row)

    def _reclaim(self, now: datetime) -> None:
        # on its own: that a partner has left must stand even where what comes next is refused
        with self._database.writing() as connection:
            returning.reclaim(connection, micros(now), self._rules)
