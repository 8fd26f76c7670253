"""What storing an answer takes: whose lease it is, what was written before, and the units that follow from it."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import RowMapping, bindparam, or_, select, update

from ctxr.annotation.journal import filling, leasing, tables, worker_state
from ctxr.annotation.journal.database import Transaction, stamp
from ctxr.annotation.journal.results import Refused
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import describe, task_of
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.unit_factory import derive_units
from ctxr.store.records import ImageSet

Filled = dict[str, tuple[str, ...]]
"""Values by the name of their field, as they are stored."""

_COUNT_ANSWER = (
    update(tables.worker).where(tables.worker.c.id == bindparam("name")).values(answers=tables.worker.c.answers + 1)
)


def own_lease(tx: Transaction, token: str, worker: str) -> RowMapping:
    """The lease of a token. Raises Refused for no lease and for somebody else's."""
    row = leasing.by_token(tx, token)
    if row is None:
        raise Refused("unknown", "This link is not one of ours. Please start from the first page.")
    if row["worker"] != worker:
        raise Refused("not_yours", "This task is in somebody else's hands. Please take one of your own.")
    return row


def answer_of(tx: Transaction, row: RowMapping, filled: Filled, backend: str) -> Answer:
    """The answer to a lease."""
    order = msgspec.json.decode(row["shown"], type=tuple[str, ...])
    seconds = round(max(0, tx.now - row["began"]) / 1e6, 3)
    return Answer(row["unit"], row["worker"], filled, order, row["slot"], stamp(tx.now), seconds, backend)


def encoded(values: Mapping[str, Sequence[str]]) -> str:
    """Values as JSON. Raises Refused for text that no file can hold."""
    try:
        return msgspec.json.encode(values).decode()
    except UnicodeEncodeError as error:
        raise Refused("invalid", "The text contains characters that cannot be stored. Please type it again.") from error


def exposure(tx: Transaction, unit: Unit, worker: str) -> Exposure:
    """What the worker described before, and what others wrote about the same set; only describing asks for it."""
    if unit.task != "describe":
        return Exposure()
    answer = tables.answer.c
    about = leasing.unit.image_set == unit.image_set
    rows = tx.connection.execute(
        select(answer.worker, answer.payload)
        .select_from(tables.answer.join(tables.unit, leasing.unit.id == answer.unit))
        .where(answer.task == "describe", or_(answer.worker == worker, about))
        .order_by(answer.number)
    )
    texts = [(name, stored_answer(payload).values[describe.FIELD][0]) for name, payload in rows]
    return Exposure(
        own=tuple(text for name, text in texts if name == worker),
        others=tuple(text for name, text in texts if name != worker),
    )


def stored_answer(payload: str) -> Answer:
    """A stored answer."""
    return msgspec.json.decode(payload, type=Answer)


def record(tx: Transaction, unit_row: RowMapping, unit: Unit, votes: Sequence[tuple[RowMapping, Answer]]) -> None:
    """Store one vote of a unit: the answer of one worker, or of both of a talk, whose first one counts."""
    for number, (row, answer) in enumerate(votes, tx.last(tables.answer.c.number) + 1):
        payload = msgspec.json.encode(answer).decode()
        tx.insert(tables.answer, unit=unit.id, worker=answer.worker, number=number, task=unit.task, payload=payload)
        tx.update(tables.lease, {"token": row["token"]}, state="answered", draft=None)
        tx.run(_COUNT_ANSWER, name=answer.worker)
    first = votes[0][1]
    correct = task_of(unit).score(unit, first).right
    leasing.count_vote(tx, unit_row, unit, correct)
    if unit.purpose == "work" and unit.task in filling.MAKES_WORK:
        image_set = msgspec.json.decode(tx.get(tables.image_set, id=unit.image_set)["payload"], type=ImageSet)
        filling.add_units(tx, derive_units(unit, first, image_set, tx.rules.protocol))
    elif unit.purpose != "work" and correct is not None:
        worker_state.count_known(tx, worker_state.require(tx, first.worker), correct)
