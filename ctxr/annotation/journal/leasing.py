"""The query for the unit that suits a worker best, leases, and the vote counts of a unit.

What judges an answer comes before what asks for one: sets are finished, not begun. Of each, the unit with the fewest answers and
leases comes first, ties in seeded random order; an index finds it, without loading all.
Votes of blocked workers do not count, and other workers may replace them. If the block is undone later, the unit has more
votes than it asks for, and all of them count.
"""

import secrets
from collections.abc import Collection

import msgspec
from sqlalchemy import RowMapping, and_, bindparam, cast, exists, insert, literal_column, not_, or_, select, update
from sqlalchemy import func as sql

from ctxr.annotation.journal import tables
from ctxr.annotation.journal.database import Transaction
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.protocol import shown_order, verdict, wanted
from ctxr.annotation.records import GIVEN_UP, Answer, Purpose, Unit
from ctxr.annotation.tasks import NAMES, counts, task_of

unit, lease, exposure, answer = tables.unit.c, tables.lease.c, tables.exposure.c, tables.answer.c
shown = tables.shown.c

# written out: SQLite takes an index of some states only for a query in which it reads them
LIVE = lease.state == literal_column("'live'")
HOLDS = lease.state.in_([literal_column("'live'"), literal_column("'answered'")])
"""The lease has a place in its unit."""

SERVED = unit.live + unit.answers
FREE = and_(unit.decided.is_(None), unit.live + unit.answers < unit.wanted)

WELL_MADE = or_(
    unit.task == "repeat",  # its authors are those who judged before
    not_(
        exists().where(
            tables.author.c.unit == unit.id,
            tables.author.c.worker == tables.worker.c.id,
            tables.worker.c.state == "blocked",
        )
    ),
)
"""The unit is not based on the work of a blocked worker."""

UNSEEN = not_(
    exists().where(shown.unit == unit.id, exposure.worker == bindparam("asker"), exposure.picture == shown.picture)
)
"""The worker has seen none of its pictures, in this unit or elsewhere."""

# statements are built once: building one takes longer than running it
SUITS = and_(
    unit.purpose == bindparam("purpose"),
    unit.side.in_(bindparam("sides", expanding=True)),
    unit.task.in_(bindparam("tasks", expanding=True)),
    not_(
        exists().where(
            lease.unit == unit.id,
            lease.worker == bindparam("asker"),
            HOLDS,
            lease.token != bindparam("but"),
        )
    ),
    not_(exists().where(tables.author.c.unit == unit.id, tables.author.c.worker == bindparam("asker"))),
    WELL_MADE,
    or_(
        unit.fresh == 0,
        not_(
            exists().where(
                shown.unit == unit.id,
                exposure.worker == bindparam("asker"),
                exposure.picture == shown.picture,
                exposure.unit != unit.id,
            )
        ),
    ),
)
"""The unit belongs to the worker's part of the benchmark, they have not worked on it nor written what it shows, and, where the
task requires it, have seen none of its pictures elsewhere. Its parameters: `suit_parameters`."""

_CANDIDATE = (
    select(tables.unit).where(FREE, SUITS).order_by(literal_column(tables.BEGINS), SERVED, unit.shuffle).limit(1)
)
_TAKEN = and_(lease.unit == bindparam("name"), HOLDS)
_COUNT_SLOTS = select(sql.count(lease.slot.distinct()), sql.max(lease.slot)).where(_TAKEN)
_SLOTS = select(lease.slot).where(_TAKEN)
_TAKE = update(tables.unit).where(unit.id == bindparam("name")).values(live=unit.live + bindparam("change"))
_SHOW = insert(tables.exposure).from_select(
    ["worker", "picture", "unit"],
    select(cast(bindparam("asker"), exposure.worker.type), shown.picture, shown.unit).where(
        shown.unit == bindparam("name")
    ),
)
_HELD = select(tables.lease).where(lease.worker == bindparam("asker"), LIVE)
UNREAD = tables.message.c.read.is_(None)
_LEASE = (  # in one query: each page asks for all of it
    select(tables.lease, unit.payload, tables.worker.c.answers, tables.message.c.number, tables.message.c.text)
    .join_from(tables.lease, tables.unit, unit.id == lease.unit)
    .join(tables.worker, tables.worker.c.id == lease.worker)
    .outerjoin(tables.message, and_(tables.message.c.worker == lease.worker, UNREAD))
    .where(lease.token == bindparam("token"))
    .order_by(tables.message.c.number)
    .limit(1)
)
_OF_WORKER = select(answer.unit).where(answer.worker == bindparam("name")).order_by(answer.unit)
_OF_UNIT = (
    select(answer.payload, tables.worker.c.state)
    .join_from(tables.answer, tables.worker, tables.worker.c.id == answer.worker)
    .where(answer.unit == bindparam("name"))
    .order_by(answer.number)
)


def suit_parameters(
    worker: RowMapping, purpose: Purpose, tasks: Collection[str] | None, but: str = ""
) -> dict[str, str | list[str]]:
    """The parameters of `SUITS`: who asks, for what; the lease of token `but` is no hindrance."""
    pools = ["train", "eval", "any"] if worker["pool"] == "both" else [worker["pool"], "any"]
    names = list(NAMES) if tasks is None else sorted(tasks)
    return {"asker": worker["id"], "purpose": purpose, "sides": pools, "tasks": names, "but": but}


def candidate(
    tx: Transaction, worker: RowMapping, purpose: Purpose, tasks: Collection[str] | None
) -> RowMapping | None:
    """The unit that this worker should do next; None where there is none."""
    return tx.row(_CANDIDATE, **suit_parameters(worker, purpose, tasks))


def add_lease(
    tx: Transaction, row: RowMapping, worker: str, slot: int, seat: int, *, expires: int, room: str | None = None
) -> str:
    """The token of a new lease of the unit in `row`."""
    token, shown = secrets.token_urlsafe(24), shown_images(tx, row, slot)
    times = {"began": tx.now, "expires": expires}
    place = {"unit": row["id"], "slot": slot, "seat": seat, "room": room}
    tx.insert(tables.lease, token=token, worker=worker, shown=shown, state="live", **times, **place)
    return token


def shown_images(tx: Transaction, row: RowMapping, slot: int) -> str:
    """The images of a unit in the order of a slot, as JSON."""
    work = unit_of(row)
    return msgspec.json.encode(shown_order(work.images, work.ordered, work.id, slot, tx.rules.protocol.seed)).decode()


def free_slot(tx: Transaction, name: str) -> int:
    """The smallest vote number that is neither answered nor leased."""
    count, last = tx.connection.execute(_COUNT_SLOTS, {"name": name}).one()
    if last is None or count == last + 1:
        return int(count)
    slots = set(tx.column(_SLOTS, name=name))
    return min(set(range(len(slots) + 1)) - slots)


def count_live(tx: Transaction, name: str, change: int = 1) -> None:
    """Count a place of a unit as leased; with -1, as free again."""
    tx.connection.execute(_TAKE, {"name": name, "change": change})


def expose(tx: Transaction, worker: str, row: RowMapping) -> None:
    """Remember that a worker has seen the pictures of a unit."""
    tx.connection.execute(_SHOW, {"asker": worker, "name": row["id"]})


def held(tx: Transaction, worker: str) -> RowMapping | None:
    """The live lease of a worker; None without one."""
    return tx.row(_HELD, asker=worker)


def by_token(tx: Transaction, token: str) -> RowMapping | None:
    """The lease of a token, in whatever state, with its unit and its worker; None for a token that never was."""
    # no database can be asked for surrogates or zeros
    return tx.row(_LEASE, token=token) if token.isascii() and token.isprintable() else None


def read(tx: Transaction, token: str) -> Lease | None:
    """The lease of a token with its unit; None for a token that never was."""
    row = by_token(tx, token)
    if row is None:
        return None
    same = {name: row[name] for name in ("worker", "slot", "seat", "token", "state")}
    order = msgspec.json.decode(row["shown"], type=tuple[str, ...])
    draft = msgspec.json.decode(row["draft"] or "{}", type=dict[str, tuple[str, ...]])
    message = None if row["number"] is None else (int(row["number"]), str(row["text"]))
    return Lease(unit=unit_of(row), order=order, draft=draft, done=row["answers"], message=message, **same)


def unit_of(row: RowMapping) -> Unit:
    """The unit in a row."""
    return msgspec.json.decode(row["payload"], type=Unit)


def recount(tx: Transaction, worker: str) -> None:
    """Recount votes of all units that a worker voted on, once blocked or unblocked."""
    for name in tx.column(_OF_WORKER, name=worker):
        row = tx.get(tables.unit, id=name)
        recount_unit(tx, unit_of(row), row["live"])


def recount_unit(tx: Transaction, work: Unit, live: int, decided: str | None = None) -> None:
    """Count the votes of a unit again; `stuck` is one without a verdict that `GIVEN_UP` workers could do nothing with."""
    slots: dict[int, Answer] = {}
    blocked: set[str] = set()
    for payload, state in tx.connection.execute(_OF_UNIT, {"name": work.id}):
        vote = msgspec.json.decode(payload, type=Answer)
        slots.setdefault(vote.slot, vote)  # a talk of two is one vote, and counts if neither is blocked
        if state == "blocked":
            blocked.add(vote.worker)
    marks = [task_of(work).score(work, vote).right for vote in slots.values() if counts(work, vote, blocked)]
    votes = {"right": marks.count(True), "wrong": marks.count(False), "unknown": marks.count(None)}
    lost = sum(vote.worker not in blocked and not task_of(work).is_vote(vote.values) for vote in slots.values())
    is_open = not work.truth or verdict(votes["right"], votes["wrong"], work.needed, work.most) == "open"
    if decided is None and work.purpose == "work" and lost >= GIVEN_UP and is_open and len(marks) < work.most:
        decided = "stuck"
    set_counts(tx, work, live, **votes, decided=decided)


def set_counts(
    tx: Transaction, work: Unit, live: int, *, right: int, wrong: int, unknown: int, decided: str | None = None
) -> None:
    """Store the votes of a unit and, unless `decided`, what they decide: `complete` where no truth is known."""
    votes = right + wrong + unknown
    missing = votes < work.most
    if decided is None and not (missing and (work.full or not work.truth)):
        outcome = verdict(right, wrong, work.needed, work.most) if work.truth else "complete"
        decided = outcome if outcome != "open" else None if missing else "dropped"
    tx.update(
        tables.unit,
        {"id": work.id},
        live=live,
        answers=votes,
        wanted=wanted(work, right, wrong, unknown),
        most=max(work.most, live + votes),
        decided=decided,
        right_votes=right,
        wrong_votes=wrong,
        unknown_votes=unknown,
    )
