"""An answer on its way in: checked, stored, counted, followed up and, where it is enough, the unit stopped."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import RowMapping, bindparam, func, insert, or_, select, update

from ctxr.annotation.journal import counting, filling, leasing, tables, worker_state
from ctxr.annotation.journal.results import Receipt, Refused
from ctxr.annotation.journal.transaction import Transaction, stamp
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import describe, task_of
from ctxr.annotation.tasks.values import Exposure, Values
from ctxr.annotation.unit_factory import derive_units
from ctxr.store.records import ImageSet

Given = dict[str, tuple[str, ...]]

_FIND_ANSWER = select(tables.answer.c.payload).where(
    tables.answer.c.unit == bindparam("name"), tables.answer.c.worker == bindparam("asker")
)
_LAST_ANSWER = select(func.coalesce(func.max(tables.answer.c.number), -1))
_ANSWER = insert(tables.answer)
_END_LEASE = update(tables.lease).where(leasing.lease.token == bindparam("name"))
_COUNT_ANSWER = (
    update(tables.worker).where(tables.worker.c.id == bindparam("name")).values(answers=tables.worker.c.answers + 1)
)


def submit(tx: Transaction, token: str, worker: str, values: Values, backend: str) -> Receipt:
    """The receipt of a stored answer. Raises Refused where it cannot be taken; see there for the reasons."""
    row = own_lease(tx, token, worker)
    given: Given = {name: tuple(value) for name, value in values.items()}
    if row["state"] != "live":
        return again(tx, row, given)
    found = leasing.unit_row(tx, row["unit"])
    unit = leasing.unit_of(found)
    if found["seats"] > 1:
        raise Refused("talk", "Please finish the conversation itself.")
    check(tx, unit, worker, given)
    answer = answer_of(tx, row, given, backend)
    record(tx, found, unit, [(row, answer)])
    return Receipt(answer, again=False)


def again(tx: Transaction, row: RowMapping, given: Given) -> Receipt:
    """The receipt of the same answer stored before. Raises Refused for another answer, and for a lease that has ended."""
    stored = find_answer(tx, row["unit"], row["worker"])
    if stored is None:
        raise Refused("expired", "This task was open for too long and went to somebody else. Please take a new one.")
    if dict(stored.values) != given:
        raise Refused("already_answered", "You have answered this one already, and your first answer is kept.")
    return Receipt(stored, again=True)


def own_lease(tx: Transaction, token: str, worker: str) -> RowMapping:
    """The lease of a token. Raises Refused for no lease and for somebody else's."""
    row = leasing.by_token(tx, token)
    if row is None:
        raise Refused("unknown", "This link is not one of ours. Please start from the first page.")
    if row["worker"] != worker:
        raise Refused("not_yours", "This task is in somebody else's hands. Please take one of your own.")
    return row


def answer_of(tx: Transaction, row: RowMapping, given: Given, backend: str) -> Answer:
    """The answer to a lease."""
    return Answer(
        unit=row["unit"],
        worker=row["worker"],
        values=given,
        order=msgspec.json.decode(row["shown"], type=tuple[str, ...]),
        slot=row["slot"],
        at=stamp(tx.now),
        seconds=round(max(0, tx.now - row["began"]) / 1e6, 3),
        backend=backend,
    )


def check(tx: Transaction, unit: Unit, worker: str, given: Mapping[str, Sequence[str]]) -> None:
    """Raises Refused, with every problem, for values that are no answer."""
    encoded(given)
    wrong = task_of(unit).validate(unit, given, met(tx, unit, worker))
    if wrong:
        raise Refused("invalid", wrong[0].sentence, tuple(wrong))


def encoded(given: Mapping[str, Sequence[str]]) -> str:
    """Values as JSON. Raises Refused for text that no file can hold."""
    try:
        return msgspec.json.encode(given).decode()
    except UnicodeEncodeError as error:
        raise Refused("invalid", "The text contains characters that cannot be stored. Please type it again.") from error


def met(tx: Transaction, unit: Unit, worker: str) -> Exposure:
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
    texts = [(name, decoded(payload).values[describe.FIELD][0]) for name, payload in rows]
    return Exposure(
        own=tuple(text for name, text in texts if name == worker),
        others=tuple(text for name, text in texts if name != worker),
    )


def find_answer(tx: Transaction, unit: str, worker: str) -> Answer | None:
    """What a worker answered to a unit; None where they did not."""
    payload = tx.connection.scalar(_FIND_ANSWER, {"name": unit, "asker": worker})
    return None if payload is None else decoded(payload)


def decoded(payload: str) -> Answer:
    """A stored answer."""
    return msgspec.json.decode(payload, type=Answer)


def record(
    tx: Transaction,
    found: RowMapping,
    unit: Unit,
    given: Sequence[tuple[RowMapping, Answer]],
) -> None:
    """Store one vote of a unit: the answer of one worker, or of both of a talk, whose first one counts."""
    number = int(tx.connection.scalar(_LAST_ANSWER) or 0)
    for place, (row, answer) in enumerate(given, 1):
        payload = msgspec.json.encode(answer).decode()
        stored = {"unit": unit.id, "worker": answer.worker, "number": number + place, "task": unit.task}
        tx.connection.execute(_ANSWER, stored | {"payload": payload})
        tx.connection.execute(_END_LEASE, {"name": row["token"], "state": "answered", "draft": None})
        tx.connection.execute(_COUNT_ANSWER, {"name": answer.worker})
        leasing.log(tx, "answered", unit=unit.id, worker=answer.worker)
    right = task_of(unit).score(unit, given[0][1]).right
    counting.count(tx, found, unit, right)
    if unit.purpose == "work":
        _follow(tx, unit, given[0][1])
    elif right is not None:
        worker_state.learn(tx, worker_state.known(tx, given[0][1].worker), right)


def _follow(tx: Transaction, unit: Unit, answer: Answer) -> None:
    if unit.task not in filling.MAKES_WORK:
        return
    images = tables.image_set.c
    payload = tx.connection.scalar(select(images.payload).where(images.id == unit.image_set))
    image_set = msgspec.json.decode(payload or "", type=ImageSet)
    filling.add_units(tx, derive_units(unit, answer, image_set, tx.rules.protocol))
