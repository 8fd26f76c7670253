"""Whose answers do not count: people whom Prolific does not confirm, and people who asked to withdraw. Others are given their units.

They are blocked, with Prolific or themselves as the author of the change, so their votes do not count, and what they wrote is asked no
more. Prolific's block ends where a later list confirms them, or when they come with another submission.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from ctxr.annotation.journal.dealing import WITHDRAWN
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import WorkerState
from ctxr.annotation.journal.worker_state import LEAVER
from ctxr.engine.project import command_in
from ctxr.errors import plural

AUTHOR = "prolific"
"""The author of these blocks."""


def unconfirmed(journal: Journal) -> list[WorkerState]:
    """The workers whom Prolific does not confirm now, those included who have withdrawn since."""
    blocks = ((state, journal.block_of(state.worker)) for state in journal.workers() if state.state != "active")
    return [state for state, block in blocks if block and block.by == AUTHOR]


def _may_return(journal: Journal) -> set[str]:
    """Whose block by Prolific can end: they have not asked to withdraw."""
    left = {state.worker for state in leaving(journal)}
    return {state.worker for state in unconfirmed(journal) if state.state == "blocked"} - left


def leaving(journal: Journal) -> list[WorkerState]:
    """The workers who asked to withdraw, whose data is still there."""
    asked = {one.worker for one in journal.changes() if one.by == LEAVER and one.after == "blocked" and not one.undone}
    return [state for state in journal.workers() if state.state == "blocked" and state.worker in asked]


def ask_to_withdraw(journal: Journal, worker: str, now: datetime) -> None:
    """Give the worker no more work, and count none of theirs, until the researcher deletes them."""
    if journal.stopped(worker) != WITHDRAWN:
        journal.change(worker, "blocked", "They asked to withdraw.", LEAVER, now)


def leaving_notes(journal: Journal, workdir: Path, names: Mapping[str, str] = {}) -> list[str]:
    """What is said of each worker who asked to withdraw, with the dry run that comes before deletion; `names` by pseudonym."""
    people = [state.worker for state in leaving(journal)]
    return [
        f"{names.get(one, one)} asked to withdraw: {command_in(workdir, 'workers', '--withdraw', one, '--dry-run')}"
        for one in people
    ]


def apply_standings(journal: Journal, standings: Mapping[str, str], now: datetime) -> None:
    """Block active workers whose submissions do not count, with the reason in `standings`; where it is empty, end such a block."""
    ended = _may_return(journal)
    for state in journal.workers():
        reason = standings.get(state.worker)
        if reason and state.state == "active" and not state.allowed:
            journal.change(state.worker, "blocked", reason, AUTHOR, now)
        elif reason == "" and state.worker in ended:
            journal.change(state.worker, "undone", "The submission is confirmed.", AUTHOR, now)


def readmit(journal: Journal, worker: str, now: datetime) -> None:
    """End such a block of a worker who comes with another submission."""
    if worker in _may_return(journal):
        journal.change(worker, "undone", "They came with another submission.", AUTHOR, now)


def unconfirmed_note(journal: Journal | None) -> str:
    """What is said of unconfirmed answers, with the units that wait; empty where there are none."""
    people = [state for state in unconfirmed(journal) if state.state == "blocked"] if journal else []
    if journal is None or not people:
        return ""
    answers = plural(sum(state.answers for state in people), "answer")
    waiting = ", ".join(f"{state.open} {task}" for task, state in journal.progress().items() if state.open)
    return (
        f"{answers} of {plural(len(people), 'worker')} whom Prolific does not confirm do not count, and retrieval of their "
        f"descriptions has ended; units that wait for others: {waiting or 'none'}"
    )
