"""Where the crowd's work is kept: units, leases, answers, talks, in SQLite or PostgreSQL.

One transaction a submission, on the disk before it is acknowledged. Times are aware UTC datetimes given by the caller.
"""

from ctxr.annotation.dialogues import Event
from ctxr.annotation.journal.identities import Identities, Visit
from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.results import (
    Change,
    ChatRoom,
    Lease,
    NoWork,
    Receipt,
    Refused,
    TaskProgress,
    UnitDecision,
    Waited,
    WorkerState,
)

__all__ = [
    "Change",
    "ChatRoom",
    "Event",
    "Identities",
    "Journal",
    "Lease",
    "NoWork",
    "Receipt",
    "Refused",
    "TaskProgress",
    "UnitDecision",
    "Visit",
    "Waited",
    "WorkerState",
    "open_journal",
]
