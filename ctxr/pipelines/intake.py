"""Answers are taken one by one: each is checked again, whoever checked it before, and the same one twice is one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from ctxr.annotation.backends.arrivals import Arrival, Arrivals, Refusal
from ctxr.annotation.making import follow
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Dialogue, Outcome, Unit
from ctxr.annotation.shuffling import shown_order
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.values import Exposure
from ctxr.data.records import ImageSet, Judgment, Query, Record, Text
from ctxr.errors import CtxrError, DataError

REJECTED_SINCE = "rejected_since"
"""Code of a refusal whose answer was taken before, and counts."""

_Moment = tuple[str, str, str]


@dataclass(frozen=True)
class UnitContext:
    """A unit that somebody may have answered, with its set and the protocol under which it was asked; None where its tasks
    are gone: then earlier answers stay, and no new ones are taken.
    """

    unit: Unit
    image_set: ImageSet
    protocol: Protocol | None


@dataclass
class Taken:
    """What is known after an import.

    Attributes:
        answers: all, by unit and worker; votes: how many by unit. questions: all that may be answered, follow-ups included.
        new: taken now. again: there already, with the same values. refused: in the order of the rows.
        accepted: where the rows stand that were taken or were there already.
    """

    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    votes: Counter[str] = field(default_factory=Counter)
    questions: dict[str, UnitContext] = field(default_factory=dict)
    new: int = 0
    again: int = 0
    refused: list[Refusal] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)

    def answered(self) -> dict[str, Unit]:
        """Units with an answer, by id."""
        return {name: self.questions[name].unit for name in sorted({unit for unit, _ in self.answers})}


def take(
    before: Iterable[Answer], arrivals: Arrivals, questions: Mapping[str, UnitContext], past: Mapping[str, UnitContext]
) -> Taken:
    """The answers that were there and those that arrived and fit, in the order of their times.

    An answer may be to a follow-up of another that arrives with it. `past` are questions of earlier imports, for those whose
    tasks are gone.
    """
    taken, written = Taken(questions=dict(questions)), _Written()
    waiting = sorted(before, key=_moment)
    while waiting:
        left = []
        for answer in waiting:
            if answer.unit in taken.questions:
                _store(taken, written, answer)
            else:
                left.append(answer)
        if len(left) == len(waiting):
            taken.questions |= {answer.unit: past[answer.unit] for answer in left}
        waiting = left
    taken.refused += [_told(taken, refusal) for refusal in arrivals.refused]
    rows = sorted(arrivals.rows, key=lambda row: _moment(row.answer))
    while rows:
        later = []
        for row in rows:
            if row.answer.unit in taken.questions:
                _consider(taken, written, row)
            else:
                later.append(row)
        if len(later) == len(rows):
            for row in later:
                _refuse(taken, row, "no_question", "It answers a question that comes from an answer that is not there.")
            break
        rows = later
    return taken


def _told(taken: Taken, refusal: Refusal) -> Refusal:
    """What a backend refused; of an answer that was taken before, that it counts all the same."""
    if refusal.code not in ("rejected", "submission") or (refusal.unit, refusal.worker) not in taken.answers:
        return refusal
    advice = f"It was answered before and counts; rejected since: ctxr workers --block {refusal.worker}, or keep it."
    return replace(refusal, code=REJECTED_SINCE, sentence=f"{refusal.sentence} {advice}")


def _consider(taken: Taken, written: "_Written", row: Arrival) -> None:
    answer, question = row.answer, taken.questions[row.answer.unit]
    unit = question.unit
    if not answer.worker:
        _refuse(taken, row, "nobody", "It does not say who answered.")
        return
    known = taken.answers.get((answer.unit, answer.worker))
    if known is not None:
        if _same(known, answer):
            taken.again += 1
            taken.accepted.add(row.where)
        else:
            _refuse(taken, row, "answered_before", "The same worker has answered the same unit otherwise before.")
        return
    if question.protocol is None:
        _refuse(taken, row, "no_question", "It answers a question of tasks that are gone.")
        return
    if answer.worker in unit.authors:
        _refuse(taken, row, "own_work", "Nobody judges what they made.")
        return
    if answer.order != shown_order(unit.images, unit.ordered, unit.id, answer.slot, question.protocol.seed):
        _refuse(taken, row, "other_order", "The pictures were shown in another order than that of its slot.")
        return
    problems = task_of(unit).validate(unit, answer.values, written.met(unit, answer))
    if problems:
        _refuse(taken, row, problems[0].code, " ".join(problem.sentence for problem in problems))
        return
    if taken.votes[unit.id] >= unit.most * task_of(unit).SEATS:
        _refuse(taken, row, "enough", "The question has every answer that was asked for.")
        return
    _store(taken, written, answer)
    taken.new += 1
    taken.accepted.add(row.where)


def _same(one: Answer, other: Answer) -> bool:
    return {name: tuple(given) for name, given in one.values.items() if given} == {
        name: tuple(given) for name, given in other.values.items() if given
    }


def _refuse(taken: Taken, row: Arrival, code: str, sentence: str) -> None:
    taken.refused.append(Refusal(row.where, row.answer.unit, row.answer.worker, code, sentence))


def _store(taken: Taken, written: "_Written", answer: Answer) -> None:
    question = taken.questions[answer.unit]
    taken.answers[answer.unit, answer.worker] = answer
    taken.votes[answer.unit] += 1
    outcome = score(question.unit, answer)
    written.add(question.unit, answer, outcome)
    if question.protocol is None:
        return
    for unit in follow(question.unit, answer, question.image_set, question.protocol):
        known = taken.questions.setdefault(unit.id, UnitContext(unit, question.image_set, question.protocol))
        if known.unit != unit:
            raise DataError(
                f"the unit {unit.id!r} was exported with other votes or another seed than its description",
                hint="export both tasks with the same options, or one of them into another --workdir",
            )


def score(unit: Unit, answer: Answer) -> Outcome:
    """What an answer is worth. Raises DataError where it cannot be scored, which a valid one always can."""
    try:
        return task_of(unit).score(unit, answer)
    except CtxrError:
        raise
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(
            f"the answer of {answer.worker} to {unit.id} cannot be scored: {error}",
            hint="restore the judgments from a backup, and import the answers again",
        ) from error


@dataclass(frozen=True)
class Tables:
    """What answers are worth, merged."""

    texts: tuple[Text, ...]
    queries: tuple[Query, ...]
    judgments: tuple[Judgment, ...]
    dialogues: tuple[Dialogue, ...]


def merged(taken: Taken) -> Tables:
    """The rows that all answers are worth together. Raises DataError where two answers make different rows of one key."""
    found: dict[str, dict[tuple[str | int, ...], Record]] = defaultdict(dict)
    for answer in taken.answers.values():
        outcome = score(taken.questions[answer.unit].unit, answer)
        for table in ("texts", "queries", "judgments", "dialogues"):
            for row in getattr(outcome, table):
                if found[table].setdefault(row.key(), row) != row:
                    raise DataError(f"two answers make different {table} {row.key()}, one of them to {answer.unit}")
    ordered = {table: tuple(rows[key] for key in sorted(rows)) for table, rows in found.items()}
    return Tables(*(ordered.get(table, ()) for table in ("texts", "queries", "judgments", "dialogues")))  # type: ignore[arg-type]


class _Written:
    """What was written when, by whom, about which set: against texts sent twice or copied."""

    def __init__(self) -> None:
        self._of_worker: dict[str, list[tuple[_Moment, str]]] = defaultdict(list)
        self._of_set: dict[str, list[tuple[_Moment, str, str]]] = defaultdict(list)

    def add(self, unit: Unit, answer: Answer, outcome: Outcome) -> None:
        if unit.task != "describe":
            return
        for text in outcome.texts:
            self._of_worker[answer.worker].append((_moment(answer), text.text))
            self._of_set[unit.image_set].append((_moment(answer), answer.worker, text.text))

    def met(self, unit: Unit, answer: Answer) -> Exposure:
        """What was there before this answer; later texts are measured against it, not it against them."""
        now = _moment(answer)
        return Exposure(
            own=tuple(text for then, text in self._of_worker[answer.worker] if then < now),
            others=tuple(
                text for then, worker, text in self._of_set[unit.image_set] if worker != answer.worker and then < now
            ),
        )


def _moment(answer: Answer) -> _Moment:
    return answer.at, answer.unit, answer.worker
