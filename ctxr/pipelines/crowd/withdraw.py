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
from ctxr.annotation.owed import owed_by
from ctxr.annotation.pseudonyms import read_key
from ctxr.engine.project import command_in
from ctxr.engine.report import Table
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

    Somebody who never agreed to the consent is in the private folder alone.
    Raises CtxrError where somebody reads the files for too long.
    """
    told: list[str] = []
    owed = owed_by(workdir, journal.answered(), journal) if DRY_RUN.get() or paid else None

    def announce(done: Withdrawal) -> None:
        told.extend(_sentences(done, worker, list(built_with(workdir, (worker, *done.texts)))))
        if owed and paid:
            told.extend(f"{row[4]:.2f} {row[5]} count as paid" for row in owed.rows if row[0] == worker and row[4])
        if owed and DRY_RUN.get():
            then = "\n".join([*told[1:], *([] if paid else owed_notes(workdir, owed, worker))])
            raise DryRun(f"would delete the data of {worker}", {"answers": done.answers, "then": then})

    private = private_folder(workdir)
    if worker in {state.worker for state in journal.workers()}:
        journal.withdraw(worker, by, datetime.now(UTC), announce, paid=paid)
    elif DRY_RUN.get():
        raise DryRun(f"would delete who is behind {worker}, who never took part", {})
    else:
        told.append(f"{worker} never took part: who they are is deleted, and the journal has nothing about them")
        paid = True  # nothing is owed
    _forget_submissions(private, {one.participant for one in read_visits(private) if one.worker == worker})
    with closing(Identities(private, read_key(private))) as identities:
        identities.forget(worker, paid=paid)
    return told


def owed_notes(workdir: Path, owed: Table, worker: str) -> list[str]:
    """What is said of a worker who withdraws and is to be paid."""
    pay = f"pay them, then {command_in(workdir, 'workers', '--withdraw', worker, '--paid')}"
    return [f"{worker} is still owed {row[4]:.2f} {row[5]}: {pay}" for row in owed.rows if row[0] == worker and row[4]]


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
    """A sentence for each copy but the judgments, which are made again at once."""
    for path, made_by in copies(workdir, words, JUDGMENTS).items():
        yield f"{path} was made with these answers: {made_by}   makes it again without them"


def copies(workdir: Path, words: Collection[str], but: str = "") -> dict[Path, str]:
    """The artifacts that hold one of `words` or were made of one that does, but image sets and those of the kind `but`, parents first,
    then the page of `ctxr report`; each with the command that makes it again."""
    pattern, found = _pattern(words), dict[Path, str]()
    finished = {name: one for name, one in read_state(workdir).finished.items() if one.kind not in (IMAGE_SETS, but)}
    for one in finished.values():
        files = (file for file in one.path.rglob("*") if file.suffix in _TEXT and file.is_file())
        is_made = any(name in finished and finished[name].path in found for name in one.parents)
        if is_made or any(pattern.search(file.read_bytes()) for file in files):
            found[one.path] = shlex.join(("ctxr", *(one.words or (one.verb, "-w", str(workdir)))))
    page = workdir / "report.html"
    if page.is_file() and (found or pattern.search(page.read_bytes())):
        found[page] = "ctxr report"
    return found


def _pattern(words: Collection[str]) -> re.Pattern[bytes]:
    """What finds one of the words, as it is or as in JSON."""
    forms = {form for word in words if word for form in (word.encode(), msgspec.json.encode(word)[1:-1])}
    return re.compile(rb"(?<!\w)(?:" + (b"|".join(map(re.escape, forms)) or b"(?!)") + rb")(?!\w)")


def _forget_submissions(private: Path, participants: set[str]) -> None:
    """Take a person out of the list that Prolific gave last."""
    if participants and (file := private / SUBMISSIONS).is_file():
        rows = msgspec.json.decode(file.read_bytes())
        theirs = ("participant_id", "participant")
        write_bytes(
            file, pretty_json([row for row in rows if participants.isdisjoint(row.get(name) for name in theirs)])
        )
