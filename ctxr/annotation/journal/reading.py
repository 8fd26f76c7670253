"""What the researcher reads of a journal: who works, what they answered, how far a study is, and what is owed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from sqlalchemy import Executable, RowMapping, and_, case, func, select

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.journal import dealing, leasing, tables, worker_state
from ctxr.annotation.journal.database import Database, Rules, Transaction, micros, stamp
from ctxr.annotation.journal.kept import KeptTable, kept_tables
from ctxr.annotation.journal.leasing import unit
from ctxr.annotation.journal.results import Change, Earned, Gone, PageUse, TaskProgress, UnpaidWait, WorkerState
from ctxr.annotation.records import Answer, ExitAnswer
from ctxr.store.hashing import sha256_of
from ctxr.store.records import ImageSet


def _answers(tx: Transaction) -> list[Answer]:
    payloads = tx.column(select(tables.answer.c.payload).order_by(tables.answer.c.number))
    return [msgspec.json.decode(payload, type=Answer) for payload in payloads]


@dataclass(eq=False)
class JournalReader:
    """Reads a journal in transactions that wait for no writer. Workers are pseudonyms."""

    _database: Database
    _rules: Rules

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._database.reading() as connection:
            yield Transaction(connection, self._rules)

    def _rows(self, query: Executable) -> list[RowMapping]:
        with self._reading() as tx:
            return tx.rows(query)

    def workers(self) -> list[WorkerState]:
        """All workers, in the order in which they enrolled."""
        row = tables.worker.c
        return list(map(worker_state.state_of, self._rows(select(tables.worker).order_by(row.enrolled, row.id))))

    def blocked(self, *, ever: bool = False) -> tuple[str, ...]:
        """All blocked workers, sorted; `ever`: also those who were blocked once, whose units the server gave to others."""
        worker, change = tables.worker.c, tables.change.c
        query = select(worker.id).where(worker.state == "blocked")
        once = query.union(select(change.worker).where(change.after == "blocked"))
        return tuple(sorted(row["id"] for row in self._rows(once if ever else query)))

    def changes(self, worker: str = "") -> list[Change]:
        """Every change of the state of a worker, or of all, with its reason, oldest first."""
        change = tables.change.c
        query = select(tables.change).order_by(change.number)
        rows = self._rows(query.where(change.worker == worker) if worker else query)
        return list(map(worker_state.change_of, rows))

    def block_of(self, worker: str) -> Change | None:
        """The block of a worker by somebody else than themselves; of who was deleted since, without its reason."""
        with self._reading() as tx:
            return worker_state.block_of(tx, worker)

    def declined(self) -> set[str]:
        """The workers who declined a changed consent, and have neither agreed to it nor worked under another since."""
        with self._reading() as tx:
            return worker_state.declined(tx)

    def given_by(self, worker: str) -> int:
        """Answers of a worker, those included that were deleted and are owed."""
        earned, row = tables.earned.c, tables.worker.c
        deleted = select(func.count()).where(earned.worker == worker).scalar_subquery()
        return sum(
            one["given"] for one in self._rows(select((row.answers + deleted).label("given")).where(row.id == worker))
        )

    def consents(self) -> list[tuple[str, str, int]]:
        """Versions of the consent, first to last, the languages in which they were read, and how many workers agreed."""
        row = tables.consent.c
        query = select(row.version, row.language, func.count()).group_by(row.version, row.language)
        with self._reading() as tx:
            rows = tx.connection.execute(query.order_by(func.min(row.at), row.version, row.language))
            return [(version, language, int(count)) for version, language, count in rows]

    def exit_answers(self, worker: str = "") -> list[ExitAnswer]:
        """Answers to the questions at the end, by worker and question; of one worker, or of all."""
        row = tables.exit_answer.c
        query = select(row.worker, row.number, row.version, row.question, row.answer).order_by(row.worker, row.number)
        return [ExitAnswer(**one) for one in self._rows(query.where(row.worker == worker) if worker else query)]

    def activity(self) -> dict[str, tuple[str, bool]]:
        """By worker, when they were last given a unit (UTC, ISO 8601), and whether they hold one; of those who were ever given one."""
        lease = leasing.lease
        holds = func.max(case((leasing.LIVE, 1), else_=0))
        given = select(lease.worker, func.max(lease.began), holds).group_by(lease.worker)
        with self._reading() as tx:
            return {worker: (stamp(last), bool(held)) for worker, last, held in tx.connection.execute(given)}

    def page_use(self) -> dict[str, PageUse]:
        """By worker, what their pages counted over the answers that were sent with a script."""
        lease = tables.lease.c
        sums = [func.sum(one) for one in (case((lease.pastes > 0, 1), else_=0), lease.absences, lease.away)]
        counted = lease.state == "answered", lease.pastes.is_not(None)
        query = select(lease.worker, func.count(), *sums).where(*counted).group_by(lease.worker)
        with self._reading() as tx:
            rows = tx.connection.execute(query.order_by(lease.worker))
            return {worker: PageUse(int(n), int(some), int(left), int(ms) / 1e3) for worker, n, some, left, ms in rows}

    def progress(self) -> dict[str, TaskProgress]:
        """By task, without checks of workers; of units that show what a blocked worker wrote, only answers and leases are counted."""
        total: dict[str, TaskProgress] = {}
        for (task, _side), part in self.parts().items():
            both = zip(astuple(total.get(task, TaskProgress())), astuple(part), strict=True)
            total[task] = TaskProgress(*map(sum, both))
        return total

    def parts(self) -> dict[tuple[str, str], TaskProgress]:
        """`progress` by task and side: `train`, `eval`, or `any` for all workers."""
        key = unit.task, unit.side
        open_or_decided = [unit.decided.is_(None), unit.decided.is_not(None)]
        still, decided = (func.sum(case((and_(one, leasing.WELL_MADE), 1), else_=0)) for one in open_or_decided)
        answers = select(*key, func.count() / func.max(unit.seats))
        answers = answers.join_from(tables.answer, tables.unit, unit.id == tables.answer.c.unit)
        units = select(*key, still, func.sum(unit.live), decided).order_by(*key)
        answers, units = (query.where(unit.purpose == "work").group_by(*key) for query in (answers, units))
        with self._reading() as tx:
            answered = {(task, side): int(count) for task, side, count in tx.connection.execute(answers)}
            return {
                (task, side): TaskProgress(
                    units=int(wanting + done),
                    answered=answered.get((task, side), 0),
                    open=int(wanting),
                    leases=int(live),
                    decided=int(done),
                )
                for task, side, wanting, live, done in tx.connection.execute(units)
            }

    def paused(self) -> str:
        """Since when the study is paused (UTC, ISO 8601); empty while it runs."""
        with self._reading() as tx:
            return "".join(stamp(int(since)) for since in tx.column(dealing.PAUSED))

    def overdue(self, now: datetime) -> int:
        """How many live leases have expired; they end when the next worker asks for a unit."""
        with self._reading() as tx:
            query = select(func.count()).select_from(tables.lease).where(dealing.OVERDUE)
            return int(tx.connection.scalar(query, {"now": micros(now)}) or 0)

    def given_up(self) -> int:
        """How many units were given up: people found a picture broken, or could not tell."""
        with self._reading() as tx:
            return int(tx.connection.scalar(select(func.count()).where(unit.decided == "stuck")) or 0)

    def unreachable(self) -> dict[str, tuple[str, ...]]:
        """By pool, ids of units that want another answer and that no active worker may take."""
        with self._reading() as tx:
            return dealing.unreachable(tx)

    def answers(self) -> list[Answer]:
        """Every answer, in the order in which they came."""
        with self._reading() as tx:
            return _answers(tx)

    def answered(self) -> AggregatedAnswers:
        """Every answer with its unit and its set, without pictures and scores."""
        of = select(tables.answer.c.unit)
        with self._reading() as tx:
            rows = tx.rows(select(unit.payload).where(unit.id.in_(of)))
            answers = _answers(tx)
            sets = [msgspec.json.decode(one, type=ImageSet) for one in tx.column(select(tables.image_set.c.payload))]
        units = {one.id: one for one in map(leasing.unit_of, rows)}
        # PostgreSQL lets others write between two queries of a transaction
        known = tuple(one for one in answers if one.unit in units)
        return AggregatedAnswers(Path(), units, {one.id: one for one in sets}, answers=known)

    def identity(self) -> str:
        """A hash of the last answer, correction and change of a worker's state: it changes with every new one, and with nothing else."""
        columns = (tables.answer.c.number, tables.answer.c.corrected, tables.change.c.number)
        last = [select(one.table).order_by(one.desc(), one.table.c.number.desc()).limit(1) for one in columns]
        with self._reading() as tx:
            return sha256_of([dict(row) if (row := tx.row(query)) else None for query in last])

    def waited(self) -> list[UnpaidWait]:
        """The time that workers gave to talks that did not take place, oldest first."""
        rows = self._rows(select(tables.waited).order_by(tables.waited.c.number))
        return [
            UnpaidWait(row["worker"], row["unit"], row["reason"], row["microseconds"] / 1e6, stamp(row["at"]))
            for row in rows
        ]

    def earned(self) -> list[Earned]:
        """Answers that were deleted with the data of those who withdrew, and are owed."""
        rows = self._rows(select(tables.earned).order_by(tables.earned.c.number))
        seconds = [None if row["microseconds"] is None else row["microseconds"] / 1e6 for row in rows]
        return [
            Earned(row["worker"], row["task"], row["backend"], took) for row, took in zip(rows, seconds, strict=True)
        ]

    def withdrawn(self) -> Gone:
        """Whose data was deleted, and what was built on it."""
        workers = select(tables.worker.c.id).where(tables.worker.c.state == "withdrawn")
        with self._reading() as tx:
            units = tx.column(select(unit.id).where(unit.payload == ""))
            return Gone(frozenset(tx.column(workers)), frozenset(units))

    def kept(self) -> list[KeptTable]:
        """What the journal says about people."""
        with self._reading() as tx:
            return kept_tables(tx.connection, tables.metadata)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()
