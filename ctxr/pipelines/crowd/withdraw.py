"""`ctxr workers --withdraw`: delete the data of one person, and say what was built on it and what is still owed."""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ctxr.annotation.journal.identities import Identities, read_visits
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import Withdrawal
from ctxr.annotation.launch import private_folder
from ctxr.annotation.pseudonyms import read_key
from ctxr.engine.state import read_state
from ctxr.errors import DryRun, plural
from ctxr.store.atomic import DRY_RUN, write_bytes
from ctxr.store.kinds import IMAGE_SETS, JUDGMENTS
from ctxr.store.tables import pretty_json

_TEXT = (".jsonl", ".json", ".csv", ".tsv", ".md", ".tex", ".txt", ".html")
"""Files that can be searched; what was made of an artifact that holds the person's data is named without a search."""

SUBMISSIONS = "prolific-submissions.json"


def withdraw(journal: Journal, workdir: Path, worker: str, by: str, *, paid: bool) -> list[str]:
    """Delete the data of a worker, and say in sentences what that came to. A dry run counts; a second run ends one that was killed.

    Raises CtxrError where somebody reads the files for too long.
    """
    told: list[str] = []

    def announce(done: Withdrawal) -> None:
        told.extend(_sentences(done, worker, list(built_with(workdir, (worker, *done.texts)))))
        if DRY_RUN.get():
            plan = {"answers": done.answers, "answers of others": done.others, "asked of others again": done.again}
            raise DryRun(f"would delete the data of {worker}", {**plan, "then": told[1:]})

    private = private_folder(workdir)
    journal.withdraw(worker, by, datetime.now(UTC), announce, paid=paid)
    _forget_submissions(private, {one.participant for one in read_visits(private) if one.worker == worker})
    with closing(Identities(private, read_key(private))) as identities:
        identities.forget(worker, paid=paid)
    return told


def _sentences(done: Withdrawal, worker: str, built: Sequence[str]) -> Iterator[str]:
    yield f"{worker}: {plural(done.answers, 'answer')} deleted, and everything else about this person; the pseudonym stays, as withdrawn"
    for what, counts in (
        ("deleted answers of others to these, still owed", done.others),
        ("asked of others again", done.again),
    ):
        if counts:
            yield f"{what}: {', '.join(f'{number} {task}' for task, number in counts.items())}"
    yield from built


def built_with(workdir: Path, words: Collection[str]) -> Iterator[str]:
    """A sentence for each artifact, but the judgments, that holds one of `words` or was made of one that does."""
    needles = [msgspec.json.encode(word)[1:-1] for word in words] + [word.encode() for word in words]
    found, state = set[str](), read_state(workdir)
    for name, one in state.finished.items():
        if one.kind in (IMAGE_SETS, JUDGMENTS):
            continue
        files = (file for file in one.path.rglob("*") if file.suffix in _TEXT and file.is_file())
        if not found.isdisjoint(one.parents) or any(_holds(file, needles) for file in files):
            found.add(name)
            command = shlex.join(("ctxr", *(one.words or (one.verb, "-w", str(workdir)))))
            yield f"{one.path} was made with these answers: {command}   makes it again without them"
    if (page := workdir / "report.html").is_file() and (found or _holds(page, needles)):
        yield f"{page} was made with these answers: ctxr report makes it again"


def holders(workdir: Path, words: Collection[str]) -> list[str]:
    """The artifacts of a project in which one of `words` stands."""
    needles, found = [word.encode() for word in words], []
    for name, one in read_state(workdir).finished.items():
        files = (file for file in one.path.rglob("*") if file.suffix in _TEXT and file.is_file())
        if one.kind != IMAGE_SETS and any(_holds(file, needles) for file in files):
            found.append(name)
    return sorted(found)


def _holds(file: Path, needles: Sequence[bytes]) -> bool:
    content = file.read_bytes()
    return any(re.search(rb"(?<!\w)" + re.escape(needle) + rb"(?!\w)", content) for needle in needles if needle)


def _forget_submissions(private: Path, participants: set[str]) -> None:
    """Take a person out of the list that Prolific gave last."""
    if participants and (file := private / SUBMISSIONS).is_file():
        rows = msgspec.json.decode(file.read_bytes())
        theirs = ("participant_id", "participant")
        write_bytes(
            file, pretty_json([row for row in rows if participants.isdisjoint(row.get(name) for name in theirs)])
        )
