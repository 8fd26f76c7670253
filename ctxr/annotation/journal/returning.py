"""Places that come back: given back, or abandoned and reclaimed when somebody asks for work."""

from sqlalchemy import Connection, RowMapping, bindparam, select

from ctxr.annotation.journal import leasing, rooms, tables
from ctxr.annotation.journal.rules import Rules

_LEASE = tables.lease.c
_EXPIRED = (
    select(tables.lease)
    .where(_LEASE.state == "live", _LEASE.expires <= bindparam("now"))
    .order_by(_LEASE.expires, _LEASE.token)
    .limit(1)
)


def reclaim(connection: Connection, now: int, rules: Rules) -> int:
    """Free the places of leases that have expired; how many."""
    count = 0
    # one at a time: the end of one seat of a talk may end the other, or keep it
    while True:
        row = connection.execute(_EXPIRED, {"now": now}).mappings().one_or_none()
        if row is None:
            return count
        free(connection, row, "expired", "abandoned", now, rules)
        count += 1


def free(connection: Connection, row: RowMapping, state: str, reason: str, now: int, rules: Rules) -> None:
    """End a live lease without an answer, and with it its part in a talk."""
    if row["room"] is not None:
        rooms.end_seat(connection, row, state, reason, now, rules)
        return
    leasing.end(connection, row, state, reason, now)
    leasing.take_place(connection, row["unit"], -1)
