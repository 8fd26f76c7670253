"""The last answers of a worker, which can be corrected until something is built on them."""

import msgspec
from sqlalchemy import RowMapping, and_, bindparam, select

from ctxr.annotation.journal import leasing, storing, tables, worker_state
from ctxr.annotation.journal.database import Transaction
from ctxr.annotation.journal.results import GivenAnswer, NotAllowed
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import problems_of, task_of
from ctxr.web.language import _

LAST = 10
"""So many answers a worker sees again."""

_answer, _lease = tables.answer.c, tables.lease.c

_LAST = (
    select(_answer.payload, _lease.token)
    .join_from(tables.answer, tables.lease, and_(_lease.unit == _answer.unit, _lease.worker == _answer.worker))
    .where(_answer.worker == bindparam("name"), _lease.state == "answered")
    .order_by(_answer.number.desc())
    .limit(LAST)
)
_HANDED_OUT = select(_lease.token).where(_lease.unit.in_(bindparam("units", expanding=True))).limit(1)
_REPEATS = (
    select(leasing.unit.payload)
    .join_from(tables.unit, tables.author, tables.author.c.unit == leasing.unit.id)
    .where(tables.author.c.worker == bindparam("name"), leasing.unit.task == "repeat")
)


def last_answers(tx: Transaction, worker: str) -> list[GivenAnswer]:
    """The worker's last answers, the latest first."""
    given = []
    for payload, token in tx.connection.execute(_LAST, {"name": worker}).all():
        answer, lease = msgspec.json.decode(payload, type=Answer), leasing.read(tx, token)
        if lease is not None:
            row = tx.get(tables.unit, id=answer.unit)
            given.append(GivenAnswer(lease, answer, not _is_built_on(tx, row, answer)))
    return given


def correct(tx: Transaction, row: RowMapping, filled: dict[str, tuple[str, ...]]) -> Answer:
    """Replace the values of an answer; its time and place stay, and the units that followed from it are made again.

    Raises NotAllowed: `unknown`, `built_on`, `invalid`.
    """
    stored = tx.find(tables.answer, unit=row["unit"], worker=row["worker"])
    if stored is None or row["state"] != "answered":
        raise NotAllowed("unknown", _("There is no answer to correct here."))
    storing.encoded(filled)
    earlier, unit_row = msgspec.json.decode(stored["payload"], type=Answer), tx.get(tables.unit, id=row["unit"])
    work, answer = leasing.unit_of(unit_row), msgspec.structs.replace(earlier, values=filled)
    is_vote = task_of(work).is_vote
    no_place = is_vote(filled) > is_vote(earlier.values) and unit_row["live"] + unit_row["answers"] >= work.most
    stopped = worker_state.require(tx, row["worker"])["state"] != "active"
    if stopped or no_place or _is_built_on(tx, unit_row, earlier):
        raise NotAllowed("built_on", _("This answer can no longer be changed."))
    if wrong := problems_of(work, answer, storing.exposure(tx, work, row["worker"])):
        raise NotAllowed("invalid", wrong[0].sentence, tuple(wrong))
    for unit in storing.follow_ups(tx, work, earlier):
        storing.remove(tx, tables.unit, unit.id)
    columns = {"payload": msgspec.json.encode(answer).decode(), "corrected": tx.last(_answer.corrected) + 1}
    tx.update(tables.answer, {"unit": work.id, "worker": answer.worker}, **columns)
    leasing.recount_unit(tx, work, unit_row["live"])
    storing.add_follow_ups(tx, work, answer)
    return answer


def _is_built_on(tx: Transaction, unit_row: RowMapping, answer: Answer) -> bool:
    """Whether an answer is a check or part of a talk, has led to a verdict, or was given to others to go on from."""
    work = leasing.unit_of(unit_row)
    protocol = tx.rules.protocol
    # beside answers that can be corrected, checks would stand out
    is_hidden = work.task == "retrieve" and bool(protocol.gold_every or protocol.attention_every)
    if is_hidden or work.purpose != "work" or unit_row["seats"] > 1 or unit_row["decided"] not in (None, "complete"):
        return True
    followed = [unit.id for unit in storing.follow_ups(tx, work, answer)]
    repeats = (msgspec.json.decode(one, type=Unit).of for one in tx.column(_REPEATS, name=answer.worker))
    is_exported = not tx.rules.exported.isdisjoint(followed)
    return is_exported or work.id in repeats or bool(tx.column(_HANDED_OUT, units=followed))
