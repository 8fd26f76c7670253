"""People from Prolific at the journal of a project, and the lists in which Prolific says what became of them."""

import json
import os
import random
from datetime import timedelta
from pathlib import Path

from ctxr.annotation.artifacts import open_tasks, read_tasks
from ctxr.annotation.config import ImportAnswers
from ctxr.annotation.journal.identities import Identities, Visit
from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.project_journal import journal_of
from ctxr.annotation.pseudonyms import read_key
from tests.annotation.journal.study import START, after, values


def came(submission: str, participant: str, minute: int = 0, worker: str = "") -> Visit:
    return Visit(submission, participant, "study-1", worker or f"w-{participant}", "describe", 0, after(minute))


def served(work: Path) -> Journal:
    tasks = read_tasks(open_tasks(work)[0].path)
    return open_journal(journal_of(work), tasks.units, tasks.sets.values(), tasks.protocol)


def give(journal: Journal, worker: str, task: str, count: int = 99, minute: int = 0) -> list[str]:
    """The units to which a worker gives up to so many answers."""
    done: list[str] = []
    while len(done) < count and isinstance(lease := journal.lease(worker, after(minute), [task]), Lease):
        filled = values(lease.unit, random.Random(f"{worker}{lease.unit.id}"))
        journal.submit(lease.token, worker, filled, after(minute), "prolific")
        done.append(lease.unit.id)
    return done


def participant(work: Path, journal: Journal, name: str) -> str:
    """Somebody who comes with the submission `sub-NAME`."""
    private = work / "crowd" / "private"
    people = Identities(private, read_key(private))
    worker = people.worker("prolific", name)
    people.come(came(f"sub-{name}", name, 0, worker), timedelta(hours=1))
    people.close()
    journal.enrol(worker, "prolific", START)
    return worker


def listing(work: Path, **states: str) -> ImportAnswers:
    """The import of a list in which these participants have these states."""
    file = work.parent / "submissions.json"
    rows = [{"id": f"sub-{name}", "participant_id": name, "status": state} for name, state in states.items()]
    file.write_text(json.dumps(rows))
    os.utime(file, (after(60).timestamp(),) * 2)
    return ImportAnswers(file, "prolific", workdir=work)
