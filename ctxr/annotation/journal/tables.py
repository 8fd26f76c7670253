"""The tables of the journal, the same in SQLite and PostgreSQL; `kept.toml` says in plain words what their columns hold.

Times are whole microseconds since 1970, UTC; records are JSON in text. A unit's counters (`live`, `answers`, `wanted`) summarise
its leases and answers for the index that finds the next unit; both change in one transaction.
"""

import sqlalchemy as sql
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, MetaData, Table, Text, text
from sqlalchemy.schema import SchemaItem

SCHEMA = 7
"""Grows with every change of the tables."""

metadata = MetaData()

_LONG = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *parts: SchemaItem) -> Table:
    return Table(f"crowd_{name}", metadata, *parts, sqlite_strict=True)


def _partial(name: str, *columns: str | sql.TextClause, where: str, unique: bool = False) -> Index:
    return Index(f"crowd_{name}", *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


def _flag(name: str) -> Column[int]:
    return Column(name, Integer, CheckConstraint(f"{name} IN (0, 1)"), nullable=False, default=0)


def _count(name: str) -> Column[int]:
    return Column(name, Integer, CheckConstraint(f"{name} >= 0"), nullable=False, default=0)


def _text(name: str, *parts: object, **options: object) -> Column[str]:
    options.setdefault("nullable", False)
    return Column(name, Text, *parts, **options)  # type: ignore[arg-type]


about = _table("about", _text("name", primary_key=True), _text("value"))
"""`schema`; and while the study is paused, `paused` with the time since when."""

image_set = _table("image_set", _text("id", primary_key=True), _text("payload"))

_FREE = "decided IS NULL AND live + answers < wanted"
JUDGES = ("retrieve", "review")
"""Tasks in which people judge what others wrote."""
BEGINS = f"task NOT IN {JUDGES}"

unit = _table(
    "unit",
    _text("id", primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    *map(_text, ("payload", "task", "purpose", "image_set", "side")),
    _flag("fresh"),
    Column("seats", Integer, nullable=False),
    Column("most", Integer, nullable=False),
    Column("wanted", Integer, nullable=False),
    *map(_count, ("live", "answers", "right_votes", "wrong_votes", "unknown_votes")),
    _text("decided", nullable=True),
    Column("shuffle", _LONG, nullable=False),
    CheckConstraint("live + answers <= most", name="crowd_redundancy"),
    # the last two columns let a search pass over what is for others without looking at the rows
    _partial(
        "unit_free", "purpose", text(f"({BEGINS})"), text("(live + answers)"), "shuffle", "side", "task", where=_FREE
    ),
    _partial("unit_in_hands", "purpose", where="decided IS NULL AND live > 0"),
    Index("crowd_unit_set", "image_set"),
)
"""`side`: `train`, `eval`, or `any` for all workers. `seats`: workers who do it together. `shuffle`: seeded random order.
`purpose`: the unit's own, or `withdrawn`. `payload`: empty where it showed what was deleted with somebody's data.
`most`: places; more than the unit asks for where a vote that was replaced counts again. The votes of blocked workers are in
none of the counters.
"""

shown = _table(
    "shown",
    _text("unit", ForeignKey(unit.c.id), primary_key=True),
    _text("image", primary_key=True),
    _text("picture"),
)
"""Images that a unit shows. `picture`: the hash of its content, which copies share; its id where that is not known."""

author = _table("author", _text("unit", ForeignKey(unit.c.id), primary_key=True), _text("worker", primary_key=True))

worker = _table(
    "worker",
    _text("id", primary_key=True),
    *map(_text, ("platform", "pool", "state")),
    *map(_flag, ("qualified", "allowed")),
    *map(_count, ("known_right", "known_wrong", "answers")),
    Column("enrolled", _LONG, nullable=False),
)

change = _table(
    "change",
    Column("number", _LONG, primary_key=True),
    _text("worker", ForeignKey(worker.c.id), index=True),
    *map(_text, ("before", "after", "reason", "by")),
    Column("at", _LONG, nullable=False),
    _flag("undone"),
)

consent = _table(
    "consent",
    _text("worker", ForeignKey(worker.c.id), primary_key=True),
    _text("version", primary_key=True),
    _text("language"),
    Column("at", _LONG, nullable=False),
)

exit_answer = _table(
    "exit_answer",
    _text("worker", ForeignKey(worker.c.id), primary_key=True),
    Column("number", Integer, primary_key=True),
    *map(_text, ("version", "question", "answer")),
    Column("at", _LONG, nullable=False),
)

room = _table(
    "room",
    _text("id", primary_key=True),
    _text("unit", ForeignKey(unit.c.id)),
    Column("slot", Integer, nullable=False),
    _text("state"),
    Column("opened", _LONG, nullable=False),
    _partial("room_waiting", "opened", where="state = 'waiting'"),
)
"""`state`: `waiting` for the second, `talking`, `finished` and stored, `closed` for nothing."""

lease = _table(
    "lease",
    _text("token", primary_key=True),
    _text("unit", ForeignKey(unit.c.id)),
    _text("worker", ForeignKey(worker.c.id)),
    Column("slot", Integer, nullable=False),
    Column("seat", Integer, nullable=False),
    _text("shown"),
    Column("began", _LONG, nullable=False),
    Column("expires", _LONG, nullable=False),
    _text("state"),
    _text("room", ForeignKey(room.c.id), nullable=True),
    _text("draft", nullable=True),
    *(Column(name, Integer, CheckConstraint(f"{name} >= 0"), nullable=True) for name in ("pastes", "absences", "away")),
    CheckConstraint("state IN ('live', 'answered', 'expired', 'returned')"),
    # what happened stays; only what holds a place must be alone in it
    _partial("lease_place", "unit", "slot", "seat", where="state IN ('live', 'answered')", unique=True),
    _partial("lease_once", "unit", "worker", where="state IN ('live', 'answered')", unique=True),
    _partial("lease_one", "worker", where="state = 'live'", unique=True),
    _partial("lease_expiry", "expires", where="state = 'live'"),
    _partial("lease_room", "room", where="room IS NOT NULL"),
)

answer = _table(
    "answer",
    _text("unit", ForeignKey(unit.c.id), primary_key=True),
    _text("worker", ForeignKey(worker.c.id), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    _text("task"),
    _text("payload"),
    _count("corrected"),
    Index("crowd_answer_worker", "worker", "task"),
)
"""`corrected`: which of the journal's corrections it was last changed by, from 1; 0 where it is as it was sent."""

earned = _table(
    "earned",
    Column("number", _LONG, primary_key=True),
    _text("worker", ForeignKey(worker.c.id)),
    *map(_text, ("task", "backend")),
    Column("microseconds", _LONG, nullable=True),
)
"""Answers that were deleted with the data of somebody who withdrew, and are owed to who gave them. `microseconds`: that they took."""

exposure = _table(
    "exposure",
    _text("worker", ForeignKey(worker.c.id)),
    _text("picture"),
    _text("unit"),
    Index("crowd_exposure_seen", "worker", "picture", "unit"),
)
"""Pictures that a worker has seen, and the unit; a row for each lease."""

event = _table(
    "event",
    Column("number", _LONG, primary_key=True),
    _text("kind"),
    _text("room", ForeignKey(room.c.id)),
    Column("seat", Integer, nullable=False),
    _text("text"),
    Column("at", _LONG, nullable=False),
    Index("crowd_event_room", "room", "number"),
)
message = _table(
    "message",
    Column("number", _LONG, primary_key=True),
    _text("worker", ForeignKey(worker.c.id)),
    *map(_text, ("text", "by")),
    Column("at", _LONG, nullable=False),
    Column("read", _LONG, nullable=True),
    Index("crowd_message_worker", "worker", "number"),
)

waited = _table(
    "waited",
    Column("number", _LONG, primary_key=True),
    _text("worker", ForeignKey(worker.c.id)),
    _text("unit"),
    _text("reason"),
    Column("microseconds", _LONG, nullable=False),
    Column("at", _LONG, nullable=False),
)
