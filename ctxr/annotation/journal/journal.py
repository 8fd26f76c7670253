"""The interface of the journal to the server and the commands; each method is one transaction."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
from sqlalchemy import Connection, delete, exists, func, insert, inspect, select

from ctxr.annotation.dialogues import Event
from ctxr.annotation.forms import PROBLEM
from ctxr.annotation.journal import (
    correcting,
    dealing,
    leasing,
    rooms,
    storing,
    tables,
    withdrawing,
    worker_state,
)
from ctxr.annotation.journal.database import Database, Rules, Transaction, micros, moment
from ctxr.annotation.journal.leasing import unit
from ctxr.annotation.journal.reading import JournalReader
from ctxr.annotation.journal.results import (
    DECLINED,
    ChatRoom,
    GivenAnswer,
    Lease,
    NotAllowed,
    NoWork,
    Withdrawal,
    WorkerState,
)
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import problems_of
from ctxr.annotation.tasks.values import Exposure, Values
from ctxr.errors import DataError, UsageError, plural
from ctxr.store.records import ImageSet
from ctxr.web.language import _

Ending = Literal["complete", "stopped"]
"""How paid work ended: `complete`, or `stopped` by a rule or a person."""

StateChange = Literal["blocked", "allowed", "undone"]

Step = Literal["say", "share", "finish", "leave"]
"""What somebody in a talk may do."""


def open_journal(
    url: str | Path,
    units: Iterable[Unit] = (),
    image_sets: Iterable[ImageSet] = (),
    protocol: Protocol | None = None,
    lease_for: timedelta = timedelta(minutes=30),
    *,
    pictures: Mapping[str, str] = {},
    exported: Collection[str] | None = None,
) -> "Journal":
    """The journal at a path (SQLite) or SQLAlchemy URL, created if missing, with `units` added.

    Args:
        image_sets: the sets of the units; needed by describe and dialogue units.
        protocol: the published one where None.
        lease_for: time to answer.
        pictures: hashes of contents by image id, by which copies are one picture; else each id is a picture.
        exported: ids of all exported units; others that follow from no answer are withdrawn.

    Raises CtxrError for a database that cannot be opened; DataError for a unit whose content differs from the stored one, for an
    answered unit that is not in `exported`, and for another schema; UsageError for an invalid address or too few qualification
    questions.
    """
    rules = Rules((protocol or Protocol()).check(), lease_for, exported=frozenset(exported or ()))
    database = Database(url)
    try:
        with database.writing() as connection:
            _require_schema(database, connection, create=True)
        with database.writing() as connection:
            tx = Transaction(connection, rules)
            storing.add_units(tx, units, image_sets, pictures)
            if exported is not None:
                storing.serve_only(tx, exported)
            needed = rules.protocol.qualification
            questions = connection.scalar(select(func.count()).where(unit.purpose == "qualification")) or 0
            if questions < needed:
                raise UsageError(
                    f"qualification needs {plural(needed, 'question')}, and the tasks contain {questions}",
                    hint="export more qualification units, or lower qualification",
                )
    except BaseException:
        database.close()
        raise
    return Journal(database, rules)


def read_journal(url: str | Path) -> "Journal":
    """The journal at a path or URL, to be read alone: nothing is written. Raises DataError for another schema."""
    database = Database(url, read_only=True)
    try:
        with database.reading() as connection:
            _require_schema(database, connection)
    except BaseException:
        database.close()
        raise
    return Journal(database, Rules(Protocol()))


def _require_schema(database: Database, connection: Connection, *, create: bool = False) -> None:
    about, schema = tables.about.c, None
    if inspect(connection).has_table(tables.about.name):
        schema = connection.scalar(select(about.value).where(about.name == "schema"))
    if schema is None and create:
        tables.metadata.create_all(connection)
        connection.execute(insert(tables.about).values(name="schema", value=str(tables.SCHEMA)))
    elif schema != str(tables.SCHEMA):
        raise DataError(
            f"the journal in {database.name} has schema {schema}, this ctxr knows {tables.SCHEMA}",
            hint="use the version of ctxr that made it",
        )


@dataclass(eq=False)
class Journal(JournalReader):
    """Units, leases, answers and talks of a study; threads share it, each process opens its own.

    Workers are pseudonyms, times aware datetimes. Raises NotAllowed for what a worker may not do, CtxrError for what the database
    cannot do.
    """

    @contextmanager
    def _writing(self, now: datetime) -> Iterator[Transaction]:
        with self._database.writing() as connection:
            yield Transaction(connection, self._rules, micros(now))

    def enrol(self, worker: str, platform: str, now: datetime) -> WorkerState:
        """The worker's state; a new worker is dealt a pool. Repeating it changes nothing."""
        with self._writing(now) as tx:
            if tx.find(tables.worker, id=worker) is None:
                pool, protocol = tables.worker.c.pool, self._rules.protocol
                # by missing votes: nobody is dealt a pool that has all of them
                missing = func.sum(unit.most - unit.answers - unit.live)
                free = leasing.FREE, unit.purpose == "work", leasing.WELL_MADE
                units = select(unit.side, missing).where(*free).group_by(unit.side)
                work: dict[str, int] = dict(tx.connection.execute(units).all())
                sizes: dict[str, int] = dict(tx.connection.execute(select(pool, func.count()).group_by(pool)).all())
                dealt = worker_state.next_pool(worker_state.pool_shares(protocol, work), sizes)
                columns = {"platform": platform, "pool": dealt, "state": "active", "enrolled": tx.now}
                tx.insert(tables.worker, id=worker, qualified=int(protocol.qualification == 0), **columns)
            return worker_state.state_of(worker_state.require(tx, worker))

    def agree(self, worker: str, version: str, language: str, now: datetime) -> None:
        """Record that an enrolled worker agreed to a version of the consent, once; that they declined one is over then."""
        with self._writing(now) as tx:
            tx.update(tables.change, {"worker": worker, "after": DECLINED, "undone": 0}, undone=1)
            if tx.find(tables.consent, worker=worker, version=version) is None:
                tx.insert(tables.consent, worker=worker, version=version, language=language, at=tx.now)

    def decline(self, worker: str, now: datetime) -> None:
        """Record that an active worker declined a changed consent; nothing for anybody else."""
        with self._writing(now) as tx:
            row = tx.find(tables.worker, id=worker, state="active")
            if row is not None and worker not in worker_state.declined(tx):
                columns = {"before": "allowed" if row["allowed"] else "active", "after": DECLINED, "at": tx.now}
                columns |= {"reason": "They declined the changed consent.", "by": worker_state.LEAVER}
                tx.insert(tables.change, worker=worker, **columns)

    def has_begun(self, worker: str) -> bool:
        """Whether a worker enrolled, under whatever consent."""
        with self._reading() as tx:
            return tx.find(tables.worker, id=worker) is not None

    def agreed(self, worker: str, version: str) -> bool:
        """Whether a worker agreed to a version of the consent."""
        with self._reading() as tx:
            return tx.find(tables.consent, worker=worker, version=version) is not None

    def answer_exit(self, worker: str, version: str, answers: Iterable[tuple[str, str]], now: datetime) -> None:
        """Keep question and answer of each question at the end; only the first time counts."""
        with self._writing(now) as tx:
            if tx.column(select(tables.exit_answer.c.number).where(tables.exit_answer.c.worker == worker)):
                return
            for number, (question, answer) in enumerate(answers):
                columns = {"version": version, "question": question, "answer": answer, "at": tx.now}
                tx.insert(tables.exit_answer, worker=worker, number=number, **columns)

    def lease(self, worker: str, now: datetime, tasks: Collection[str] | None = None) -> Lease | NoWork:
        """The lease that the worker holds, else a new one of `tasks` (any where None), else why there is none."""
        with self._writing(now) as tx:
            choice = dealing.lease_next(tx, worker, tasks)
            lease = choice if isinstance(choice, NoWork) else leasing.read(tx, choice)
        if lease is None:
            raise LookupError(choice)
        return lease

    def find(self, token: str) -> Lease | None:
        """The lease of a token, in whatever state it is; None for a token that never was."""
        with self._reading() as tx:
            return leasing.read(tx, token)

    def give_back(self, token: str, now: datetime) -> None:
        """Free the place of a live lease; anything else is left as it is."""
        with self._writing(now) as tx:
            row = leasing.by_token(tx, token)
            if row is not None and row["state"] == "live":
                dealing.free(tx, row, "returned")

    def submit(self, token: str, worker: str, values: Values, now: datetime, backend: str = "local") -> Answer:
        """Store an answer with the units that follow from it, and return it; of the same answer twice, the first.

        An answer after the lease expired is accepted until its place is given to another worker. Raises NotAllowed: `unknown`, `not_yours`,
        `expired`, `already_answered` (with other values), `invalid` (see `problems`), `talk`.
        """
        filled = {name: tuple(value) for name, value in values.items()}
        counted = filled.pop(storing.COUNTED, ())
        with self._writing(now) as tx:
            row = storing.own_lease(tx, token, worker)
            if row["state"] != "live":
                earlier = tx.find(tables.answer, unit=row["unit"], worker=worker)
                if earlier is None:
                    late = _("This task was open for too long and went to somebody else. Please take a new one.")
                    raise NotAllowed("expired", late)
                answer = msgspec.json.decode(earlier["payload"], type=Answer)
                if not answer.has_values(filled):
                    kept = _("You have answered this one already, and your first answer is kept.")
                    raise NotAllowed("already_answered", kept)
                return answer
            unit_row = tx.get(tables.unit, id=row["unit"])
            work = leasing.unit_of(unit_row)
            is_talk = unit_row["seats"] > 1
            if is_talk and not filled.get(PROBLEM):
                raise NotAllowed("talk", _("Please finish the conversation itself."))
            storing.encoded(filled)
            answer = storing.answer_of(tx, row, filled, backend)
            if wrong := problems_of(work, answer, storing.exposure(tx, work, worker)):
                raise NotAllowed("invalid", wrong[0].sentence, tuple(wrong))
            storing.add_counted(tx, row, counted)
            if is_talk:
                return rooms.report(tx, row, answer)
            storing.record(tx, unit_row, work, [(row, answer)])
            return answer

    def last_answers(self, worker: str) -> list[GivenAnswer]:
        """The worker's last `correcting.LAST` answers, the latest first."""
        with self._reading() as tx:
            return correcting.last_answers(tx, worker)

    def correct(self, token: str, worker: str, values: Values, now: datetime) -> Answer:
        """Correct the answer to a lease while nothing is built on it; see `correcting.correct` for what is refused."""
        filled = {name: tuple(value) for name, value in values.items()}
        counted = filled.pop(storing.COUNTED, ())
        with self._writing(now) as tx:
            row = storing.own_lease(tx, token, worker)
            storing.add_counted(tx, row, counted)
            return correcting.correct(tx, row, filled)

    def exposure(self, lease: Lease) -> Exposure:
        """What the worker described before, and what others wrote about the set of the lease."""
        with self._reading() as tx:
            return storing.exposure(tx, lease.unit, lease.worker)

    def save_draft(self, token: str, worker: str, values: Values, now: datetime) -> None:
        """Keep values that are not submitted yet. Raises NotAllowed for a lease that is not live, or not theirs."""
        with self._writing(now) as tx:
            if storing.own_lease(tx, token, worker)["state"] != "live":
                raise NotAllowed("expired", _("This task is no longer open. Please take a new one."))
            draft = storing.encoded({name: tuple(value) for name, value in values.items()})
            tx.update(tables.lease, {"token": token}, draft=draft)

    def ending(
        self,
        worker: str,
        began: datetime,
        now: datetime,
        bundle: int,
        before: int = 0,
        *,
        tasks: Collection[str] | None = None,
    ) -> Ending | None:
        """How the paid work that the worker `began` has ended; None while it has not.

        It ends with a bundle of answers beyond those given `before`, and also where there is no more work of `tasks` for the
        worker, or a rule stopped them: everybody is paid for the time they gave.
        """
        with self._reading() as tx:
            row = tx.row(dealing.ASKING, asker=worker)
            if row is None:
                return None
            count = row["answers"] - before
            if count >= bundle:
                return "complete"
            if leasing.held(tx, worker) is not None:
                return None
            if row["state"] != "active":
                return "stopped"
            if row["paused"]:  # nobody waits longer for the end of a pause than for other people
                since = max(began, moment(int(row["paused"])))
                return "complete" if now - since >= self._rules.longest_wait else None
            if not dealing.examined(row):
                return None
            waits = tables.waited.c
            wait = exists().where(waits.worker == worker, waits.at >= micros(began))
            waited = bool(tx.connection.scalar(select(wait)))
            work = dealing.next_unit(tx, row, tasks)
            if work is not None:
                # who has waited in vain once need not do so again for their pay
                return "complete" if waited and work["seats"] > 1 else None
            impatient = now - began >= self._rules.longest_wait
            if count or waited or impatient or dealing.nothing(tx, row, tasks).reason == "nothing_left":
                return "complete"
            return None

    def room(self, token: str) -> ChatRoom:
        """The talk as this lease sees it. Raises NotAllowed for a lease without a talk."""
        with self._reading() as tx:
            return rooms.view(tx, rooms.room_lease(tx, token))

    def events(self, token: str, after: int = 0) -> list[Event]:
        """What happened in the talk after event number `after`, oldest first; no number is too large to ask for."""
        after = min(max(after, 0), rooms.LAST_EVENT)
        with self._reading() as tx:
            return rooms.log_of(tx, rooms.room_lease(tx, token)["room"], after)

    @contextmanager
    def _in_room(self, now: datetime) -> Iterator[Transaction]:
        # on its own: that a partner has left must stand even where what comes next is refused
        with self._writing(now) as tx:
            dealing.reclaim(tx)
        with self._writing(now) as tx:
            yield tx

    def act(
        self, step: Step, token: str, worker: str, now: datetime, text: str = "", *, counted: Sequence[str] = ()
    ) -> ChatRoom:
        """Say a text, share the photo, finish, or leave; the room afterwards.

        A talk that both have finished is stored; so is one that somebody leaves after the share. Before it, the partner is
        brought together with somebody else. `counted`: see `storing.COUNTED`. Raises NotAllowed: `alone`, `empty`, `too_long`,
        `closed`, `expired`, `not_yours`; sharing and finishing also `too_early`, and sharing `already_shared`.
        """
        with self._in_room(now) as tx:
            row = rooms.active_lease(tx, token, worker)
            storing.add_counted(tx, row, counted)
            if step == "leave":
                dealing.free(tx, row, "returned")
            else:
                rooms.act(tx, row, step, text)
            return rooms.view(tx, row)

    def here(self, token: str, worker: str, now: datetime) -> ChatRoom:
        """A sign of life: who gives none for `Rules.patience` has left."""
        with self._in_room(now) as tx:
            return rooms.here(tx, token, worker)

    def pause(self, paused: bool, now: datetime) -> None:
        """Stop giving out units, or go on; people may finish the unit that they hold."""
        with self._writing(now) as tx:
            if not paused:
                tx.connection.execute(delete(tables.about).where(tables.about.c.name == "paused"))
            elif not tx.column(dealing.PAUSED):
                tx.insert(tables.about, name="paused", value=str(tx.now))

    def done_by(self, worker: str) -> int:
        """Answers of a worker; 0 for one who never enrolled."""
        with self._reading() as tx:
            row = tx.find(tables.worker, id=worker)
            return 0 if row is None else int(row["answers"])

    def stopped(self, worker: str) -> NoWork | None:
        """Why a worker gets no more work at all; None for one who may, and who never enrolled."""
        with self._reading() as tx:
            row = tx.find(tables.worker, id=worker)
            return None if row is None else dealing.STOPPED.get(worker_state.standing(tx, row))

    def answer(self, unit: str, worker: str) -> Answer | None:
        """What a worker answered to a unit; None before that."""
        with self._reading() as tx:
            row = tx.find(tables.answer, unit=unit, worker=worker)
            return None if row is None else msgspec.json.decode(row["payload"], type=Answer)

    def tell(self, worker: str, text: str, by: str, now: datetime) -> None:
        """Show the worker a text from the next page on, until they put it away."""
        with self._writing(now) as tx:
            number = tx.last(tables.message.c.number) + 1
            tx.insert(tables.message, number=number, worker=worker, text=text, by=by, at=tx.now)

    def unread(self, worker: str) -> list[tuple[int, str]]:
        """Number and text of each message that the worker has not put away, oldest first."""
        message = tables.message.c
        query = select(message.number, message.text).where(message.worker == worker, leasing.UNREAD)
        with self._reading() as tx:
            return [(number, text) for number, text in tx.connection.execute(query.order_by(message.number))]

    def put_away(self, worker: str, number: int, now: datetime) -> None:
        """Show a message no more; those of others stay."""
        with self._writing(now) as tx:
            key = {"worker": worker, "number": min(number, rooms.LAST_EVENT)}
            tx.update(tables.message, key, read=tx.now)

    def change(self, worker: str, change: StateChange, reason: str, by: str, now: datetime) -> WorkerState:
        """Block or allow the worker, or undo the last change of their state, a rule's or a person's; the state then.

        Who is `blocked` gets no more work. What they hold goes back; what they did stays, but counts no more and is not served.
        Who is `allowed` works without a qualification round, and no rule stops them. Raises NotAllowed where nothing can be undone.
        """
        with self._writing(now) as tx:
            row, changes = worker_state.require(tx, worker), tables.change.c
            if row["state"] == "withdrawn":
                raise NotAllowed("withdrawn", f"{worker} has withdrawn, and their data was deleted.")
            after, undone = change, int(change == "undone")
            if undone:
                theirs = changes.worker == worker, changes.after != DECLINED
                undoable = select(tables.change).where(*theirs, changes.undone == 0)
                last = tx.row(undoable.order_by(changes.number.desc()).limit(1))
                if last is None:
                    raise NotAllowed("nothing_to_undo", f"The standing of {worker} was never changed.")
                tx.update(tables.change, {"number": last["number"]}, undone=1)
                after = last["before"]
            worker_state.change(tx, row, after, reason, by, undone=undone)
            row = worker_state.require(tx, worker)
            if row["state"] == "blocked":
                dealing.free_held(tx, worker)
            return worker_state.state_of(row)

    def withdraw(
        self, worker: str, by: str, now: datetime, announce: Callable[[Withdrawal], None], *, paid: bool = False
    ) -> Withdrawal:
        """Delete the data of a worker, see `withdrawing.erase`; nothing where `announce`, which is told what is deleted, raises."""
        with self._writing(now) as tx:
            done = withdrawing.erase(tx, worker, by, paid=paid)
            announce(done)
        self._database.compact(tables.metadata)
        return done
