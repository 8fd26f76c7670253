"""Who may work, as the project's journal knows it; empty where nobody has worked on the local server yet."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UnfinishedError
from ctxr.pipelines.tasks_artifact import CROWD

if TYPE_CHECKING:
    from ctxr.annotation.journal import Journal

JOURNAL = "answers.sqlite"
"""File in the crowd's folder that holds the journal, unless it is in another database."""


def journal_of(workdir: Path, database: str = "") -> str | Path:
    """Address of the project's journal: `database`, or the file in its folder."""
    return database or workdir / CROWD / JOURNAL


def is_there(workdir: Path, database: str = "") -> bool:
    """Whether the project has a journal."""
    return bool(database) or (workdir / CROWD / JOURNAL).is_file()


@contextmanager
def opened(workdir: Path, database: str = "") -> "Iterator[Journal]":
    """The project's journal as it is, for reading and for changing who may work.

    Raises UnfinishedError when there is none.
    """
    from ctxr.annotation.journal import open_journal

    if not is_there(workdir, database):
        raise UnfinishedError(
            f"{workdir} has no journal of answers", hint="ctxr serve   (it keeps the list of workers)"
        )
    journal = open_journal(journal_of(workdir, database))
    try:
        yield journal
    finally:
        journal.close()


def blocked_workers(workdir: Path, database: str = "") -> tuple[str, ...]:
    """Pseudonyms of everybody on the block list, sorted; empty without a journal."""
    if not is_there(workdir, database):
        return ()
    with opened(workdir, database) as journal:
        return tuple(sorted(one.worker for one in journal.standings() if one.state == "blocked"))
