"""Results of the journal: leases, refusals, chat rooms, and the state of workers and units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.wording import Problem
from ctxr.engine.report import Table
from ctxr.errors import CtxrError
from ctxr.store.records import Turn

LeaseState = Literal["live", "answered", "expired", "returned"]
Pool = Literal["train", "eval", "both"]
WorkerStatus = Literal["active", "blocked", "screened_out", "withdrawn"]

DECLINED = "declined"
"""Who did not agree to a consent: ending of a visit, and a change that leaves the state of who had begun."""


@dataclass(frozen=True)
class Lease:
    """A vote (`slot`) of a unit in the hands of a worker; `seat`: which of two in a talk. `token`: its name in links.

    `draft`: values that were saved before they are submitted. `done`: answers of the worker. `message`: number and text of the oldest
    one that they have not put away.
    """

    unit: Unit
    worker: str
    slot: int
    seat: int
    order: tuple[str, ...]
    token: str
    state: LeaseState = "live"
    draft: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    done: int = 0
    message: tuple[int, str] | None = None


@dataclass(frozen=True)
class GivenAnswer:
    """An answer with its lease; `may_be_corrected`: nothing is built on it yet."""

    lease: Lease
    answer: Answer
    may_be_corrected: bool


@dataclass(frozen=True)
class NoWork:
    """The reason why a worker gets no unit, as a code and a sentence to be translated; `wait`: others hold the remaining units."""

    reason: Literal["nothing_left", "blocked", "screened_out", "withdrawn", "wait", "paused"]
    sentence: str


class NotAllowed(CtxrError):
    """An action that a worker may not take; the message is shown to them.

    Attributes:
        reason: `unknown`, `not_yours`, `expired`, `already_answered`, `invalid`, `talk`, `too_early`, `alone`, `empty`,
            `too_long`, `odd_characters`, `already_shared`, `closed`, `nothing_to_undo`, `built_on`, `withdrawn`.
        problems: what is wrong with the values of an `invalid` answer.
    """

    def __init__(self, reason: str, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.problems = problems


@dataclass(frozen=True)
class WorkerState:
    """A worker in the journal.

    Attributes:
        platform: where they came from; their id there is nowhere in the journal.
        pool: side of the benchmark that they work on.
        state: whether they get work.
        qualified: whether the qualification round is behind them, or there is none.
        right: answers to questions with a known answer that were right. wrong: those that were not.
        answers: all they gave. allowed: a person vouched for them, so no rule stops them.
    """

    worker: str
    platform: str
    pool: Pool
    state: WorkerStatus
    qualified: bool
    right: int
    wrong: int
    answers: int
    allowed: bool


@dataclass(frozen=True)
class Change:
    """A change of a worker's state: who, why, when (UTC, ISO 8601), and whether it was undone."""

    number: int
    worker: str
    before: str
    after: str
    reason: str
    by: str
    at: str
    undone: bool


@dataclass(frozen=True)
class Withdrawal:
    """What was deleted with the data of a worker: their answers, and by task those of `others` that were about their texts or of the same
    talk; `again`: by task, units that want others' answers now; `texts`: what they wrote."""

    answers: int
    others: Mapping[str, int]
    again: Mapping[str, int]
    texts: tuple[str, ...]


class Gone(NamedTuple):
    """Workers whose data was deleted, and units that showed what they wrote."""

    workers: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PageUse:
    """Over `answers` of a worker: in how many text was `pasted`, times the page was `left`, `seconds` away."""

    answers: int
    pasted: int
    left: int
    seconds: float


@dataclass(frozen=True)
class Earned:
    """An answer that is owed: its worker, task and backend, and how long it took."""

    worker: str
    task: str
    backend: str
    seconds: float | None


@dataclass(frozen=True)
class TaskProgress:
    """Of one task: units, answers, units that want answers, live leases, decided units."""

    units: int = 0
    answered: int = 0
    open: int = 0
    leases: int = 0
    decided: int = 0


class SeenWorker(NamedTuple):
    """Somebody who enrolled, as the researcher sees them.

    Attributes:
        name: of their link, or their pseudonym. reports: problems that they reported. holds: they hold a unit.
        last: when they took or sent something (ISO 8601), or empty. standing: their state in words, `active` for who may work.
    """

    state: WorkerState
    name: str
    reports: int
    holds: bool
    last: str
    standing: str


@dataclass(frozen=True)
class Overview:
    """What a study has come to.

    Attributes:
        progress, agreement, money: as tables. people: who was here last. seen: everybody. latest: the last answers.
        paused: since when (UTC, ISO 8601); empty where it runs.
        stuck: what cannot go on and why, a sentence each.
    """

    progress: Table
    agreement: Table
    money: Table
    people: Table
    seen: Sequence[SeenWorker]
    latest: Table
    paused: str
    stuck: tuple[str, ...]


@dataclass(frozen=True)
class UnpaidWait:
    """Time that a worker waited for a dialogue without a partner, or lost when the partner left. It must be paid."""

    worker: str
    unit: str
    reason: Literal["nobody_came", "partner_left"]
    seconds: float
    at: str


@dataclass(frozen=True)
class ChatRoom:
    """A talk as one of the two sees it.

    Attributes:
        seat: which of the two; 0 sees the photo from the beginning.
        turns: messages so far, oldest first.
        present: whether the partner is there.
        may_share: whether this seat can share the photo now. shared: whether it has been.
        partner_left: the partner left before the share; False once another came.
        done: whether this seat has finished. closed: nothing more can happen here.
        apart: somebody else waits who may not be paired with this seat.
    """

    seat: int
    turns: tuple[Turn, ...]
    present: bool
    may_share: bool
    shared: bool
    partner_left: bool
    done: bool
    closed: bool
    apart: bool
