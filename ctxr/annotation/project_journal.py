"""The project's journal of answers: where it is, who may work, who is blocked."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ctxr.annotation.artifacts import CROWD
from ctxr.annotation.journal.journal import Journal, open_journal, read_journal
from ctxr.annotation.waiting import JOURNAL
from ctxr.errors import UsageError
from ctxr.store.atomic import write_bytes

_ADDRESS = "database"
"""File in the crowd's folder that names another database of the journal, without the password."""


def remember(workdir: Path, database: str) -> None:
    """Note for other verbs that the journal is in a database other than the project's own file."""
    from sqlalchemy import make_url

    if database:
        shown = make_url(database).render_as_string(hide_password=True)
        write_bytes(workdir / CROWD / _ADDRESS, f"{shown}\n".encode())


def journal_of(workdir: Path, database: str = "") -> str | Path:
    """Address of the journal: `database`, the last one served, or the file. Raises UsageError where a password is needed."""
    if database and "://" not in database:
        raise UsageError(f"--database {database!r} is not an address", hint="--database postgresql://user@host/name")
    note = workdir / CROWD / _ADDRESS
    if database or not note.is_file():
        return database or workdir / CROWD / JOURNAL
    address = note.read_text(encoding="utf-8").strip()
    if ":***@" in address:
        raise UsageError(
            f"the answers of {workdir} are in {address}", hint=f"--database {address.replace('***', 'PASSWORD')}"
        )
    return address


@contextmanager
def project_journal(workdir: Path, database: str = "", *, read_only: bool = True) -> Iterator[Journal | None]:
    """The project's journal, by default to be read alone; None where nothing was served yet."""
    address = journal_of(workdir, database)
    if isinstance(address, Path) and not address.is_file():
        yield None
    else:
        with closing(read_journal(address) if read_only else open_journal(address)) as journal:
            yield journal


def blocked_workers(workdir: Path, database: str = "", *, ever: bool = False) -> tuple[str, ...]:
    """`Journal.blocked` of the project; empty without a journal."""
    with project_journal(workdir, database) as journal:
        return journal.blocked(ever=ever) if journal else ()
