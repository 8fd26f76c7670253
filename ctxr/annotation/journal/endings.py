"""When the work of somebody who is paid for it is over: all of it is on the disk, or there is no more for them."""

from collections.abc import Collection
from datetime import timedelta
from typing import Literal

from sqlalchemy import Connection, exists, select

from ctxr.annotation.journal import choosing, leasing, standing, tables
from ctxr.annotation.journal.rules import Rules

Ending = Literal["complete", "stopped"]
"""`complete`: everything was given that could be. `stopped`: by a rule or a person."""

_MICROSECOND = timedelta(microseconds=1)


def ending(
    connection: Connection,
    worker: str,
    bundle: int,
    now: int,
    tasks: Collection[str] | None,
    before: int,
    began: int,
    rules: Rules,
) -> Ending | None:
    """How it ended; None while there is work to do.

    Who gets no more work, because there is none or a rule stopped them, has an ending too: it is for people to decide on pay,
    and for everybody to be paid for time they gave.
    """
    row = standing.find(connection, worker)
    if row is None:
        return None
    given = row["answers"] - before
    if given >= bundle:
        return "complete"
    if leasing.held_by(connection, worker) is not None:
        return None
    if row["state"] != "active":
        return "stopped"
    if not choosing.examined(row, rules):
        return None
    waits = tables.waited.c
    waited = bool(connection.scalar(select(exists().where(waits.worker == worker, waits.at >= began))))
    found = choosing.next_unit(connection, row, tasks, rules)
    if found is not None:
        # who has waited in vain once need not do so again for their pay
        return "complete" if waited and found["seats"] > 1 else None
    patient = now - began < rules.longest_wait // _MICROSECOND
    if given or waited or not patient or choosing.nothing(connection, row, tasks).reason == "nothing_left":
        return "complete"
    return None
