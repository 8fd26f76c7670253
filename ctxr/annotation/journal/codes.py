"""The code by which a platform pays: random, stored, and given out only when the work it stands for is on the disk."""

import secrets
from collections.abc import Collection

from sqlalchemy import Connection, RowMapping, exists, select, update

from ctxr.annotation.journal import choosing, leasing, standing, tables
from ctxr.annotation.journal.rules import Rules


def completion(
    connection: Connection, worker: str, now: int, tasks: Collection[str] | None, rules: Rules
) -> str | None:
    """The worker's code; None while there is work to do before it.

    Who gave something and gets no more work, because there is none or a rule stopped them, has a code too: it is for people
    to decide on pay, and for everybody to be paid for time they gave.
    """
    row = standing.find(connection, worker)
    if row is None:
        return None
    if row["code"] is not None:
        return str(row["code"])
    if row["answers"] < rules.bundle and not _nothing_more(connection, row, now, tasks, rules):
        return None
    code = secrets.token_hex(8).upper()
    connection.execute(update(tables.worker).where(tables.worker.c.id == worker).values(code=code))
    return code


def _nothing_more(
    connection: Connection, row: RowMapping, now: int, tasks: Collection[str] | None, rules: Rules
) -> bool:
    waited = bool(connection.scalar(select(exists().where(tables.waited.c.worker == row["id"]))))
    if not row["answers"] and not waited:
        return False
    if leasing.held_by(connection, row["id"]) is not None:
        return False
    if row["state"] != "active":
        return True
    found = choosing.next_unit(connection, row, tasks, rules)
    # who has waited in vain once need not do so again for their pay
    return found is None or (waited and found["seats"] > 1)
