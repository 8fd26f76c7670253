"""Delete what a worker gave and what the journal says about them; what was built on it ends, and all that was earned stays owed."""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain

import msgspec
from sqlalchemy import RowMapping, delete, or_, select

from ctxr.annotation.journal import dealing, leasing, storing, tables, worker_state
from ctxr.annotation.journal.database import Transaction
from ctxr.annotation.journal.results import Withdrawal
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.dialogue import PAIR, SENDER
from ctxr.store.records import Text

_ABOUT = (tables.lease, tables.exposure, tables.consent, tables.message, tables.author, tables.exit_answer)
"""Tables from which all rows of a worker are deleted."""

_answer, _unit = tables.answer.c, tables.unit.c


def built_on(units: Iterable[Unit], workers: Collection[str], texts: Iterable[Text]) -> set[str]:
    """Ids of units that show `texts` or other work of `workers`, and of second looks at them."""
    known, texts = list(units), list(texts)
    ids, words = {text.id for text in texts}, {text.text for text in texts}
    found = {
        unit.id
        for unit in known
        if unit.task != "repeat"  # its authors are also those who judged before
        and not (
            ids.isdisjoint(unit.text_ids)
            and set(workers).isdisjoint(unit.authors)
            and (unit.task != "entail" or words.isdisjoint(unit.texts))
        )
    }
    return found | {unit.id for unit in known if unit.of in found}


def erase(tx: Transaction, worker: str, by: str, *, paid: bool) -> Withdrawal:
    """Delete the data of a worker. Their pseudonym stays, as withdrawn: no import brings them back.

    What is owed to them stays until they were `paid`. Talks are deleted as a whole, and votes on their texts;
    the answers of others that are deleted stay owed, too.
    """
    dealing.free_held(tx, worker)
    row, number = worker_state.require(tx, worker), tx.last(tables.change.c.number) + 1
    own = tx.rows(select(tables.answer).where(_answer.worker == worker).order_by(_answer.number))
    given = [(msgspec.json.decode(one["payload"], type=Answer), _work(tx, one["unit"])) for one in own]
    texts = list(chain.from_iterable(_texts(work, answer) for answer, work in given))
    payloads = tx.column(select(_unit.payload).where(_unit.payload != ""))
    lost = built_on((msgspec.json.decode(one, type=Unit) for one in payloads), (worker,), texts)
    pairs = {(one.unit, name) for one, _ in given for name in one.values.get(PAIR, ()) if name != worker}
    others = [vote for name in sorted(lost) for vote in tx.rows(select(tables.answer).where(_answer.unit == name))]
    others += [tx.get(tables.answer, unit=name, worker=partner) for name, partner in sorted(pairs)]
    for vote in (*own, *others):
        _keep_pay(tx, vote)
        here = _answer.unit == vote["unit"], _answer.worker == vote["worker"]
        tx.connection.execute(delete(tables.answer).where(*here))
    for name in lost:
        storing.clear(tx, name)
        none = dict.fromkeys(("live", "answers", "wanted", "right_votes", "wrong_votes", "unknown_votes"), 0)
        tx.update(tables.unit, {"id": name}, payload="", purpose=storing.WITHDRAWN, decided=None, **none)
    for name, partner in pairs:
        tx.update(tables.lease, {"unit": name, "worker": partner, "state": "answered"}, state="returned")
    room, lease, event = tables.room.c, tables.lease.c, tables.event.c
    # who spoke in a talk that came to nothing is no longer known: all of these go
    rooms = select(room.id).where(
        or_(room.state == "closed", room.id.in_(select(lease.room).where(lease.worker == worker)))
    )
    tx.connection.execute(delete(tables.event).where(event.room.in_(rooms)))
    for table in (*_ABOUT, *(tables.earned, tables.waited) * paid):
        tx.connection.execute(delete(table).where(table.c.worker == worker))
    if row["state"] != "withdrawn":
        _mark(tx, worker, by, number)
    again = Counter[str]()
    for name in {one["unit"] for one in own} - lost:
        work = _work(tx, name)
        leasing.recount_unit(tx, work, tx.get(tables.unit, id=name)["live"])
        again[work.task] += tx.get(tables.unit, id=name)["decided"] is None and work.purpose == "work"
    counts = Counter[str](vote["task"] for vote in others)
    wrote = tuple(sorted({text.text for text in texts}))
    return Withdrawal(len(own), dict(sorted(counts.items())), dict(sorted((+again).items())), wrote)


def _mark(tx: Transaction, worker: str, by: str, number: int) -> None:
    """Call a worker withdrawn, and forget what was decided about them but for who had blocked them."""
    block = worker_state.block_of(tx, worker)  # it still decides over their pay
    tx.connection.execute(delete(tables.change).where(tables.change.c.worker == worker))
    before, blocker = ("blocked", block.by) if block else ("active", "")
    columns = {"before": before, "after": "withdrawn", "reason": blocker, "by": by, "at": tx.now, "undone": 0}
    tx.insert(tables.change, number=number, worker=worker, **columns)
    none = dict.fromkeys(("qualified", "allowed", "known_right", "known_wrong", "answers"), 0)
    tx.update(tables.worker, {"id": worker}, state="withdrawn", enrolled=tx.now, **none)


def _work(tx: Transaction, name: str) -> Unit:
    return leasing.unit_of(tx.get(tables.unit, id=name))


def _texts(work: Unit, answer: Answer) -> tuple[Text, ...]:
    """The texts that an answer made; those of a talk are in the answer of who saw the photo."""
    pair = answer.values.get(PAIR)
    return task_of(work).score(work, msgspec.structs.replace(answer, worker=pair[SENDER]) if pair else answer).texts


def _keep_pay(tx: Transaction, vote: RowMapping) -> None:
    """Note that an answer which is deleted is owed."""
    answer, number = msgspec.json.decode(vote["payload"], type=Answer), tx.last(tables.earned.c.number) + 1
    took = None if answer.seconds is None else round(answer.seconds * 1e6)
    columns = {"task": vote["task"], "backend": answer.backend, "microseconds": took}
    tx.insert(tables.earned, number=number, worker=answer.worker, **columns)
