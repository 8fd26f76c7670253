"""How many units of a project's own journal want answers, read without the libraries that the journal is written with."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from ctxr.annotation.artifacts import CROWD

JOURNAL = "answers.sqlite"
"""File in the crowd's folder that holds the journal, unless it is in another database."""

_OPEN = """
SELECT task, SUM(decided IS NULL AND (task = 'repeat' OR NOT EXISTS (
    SELECT 1 FROM crowd_author, crowd_worker
    WHERE crowd_author.unit = crowd_unit.id AND crowd_author.worker = crowd_worker.id AND crowd_worker.state = 'blocked')))
FROM crowd_unit WHERE purpose = 'work' GROUP BY task ORDER BY task
"""
"""As `Journal.progress` counts them."""


def address_to_read(file: Path) -> str:
    """The address under which SQLite only reads a file: without locks where no write-ahead log shows a writer."""
    mode = "mode=ro" if Path(f"{file}-wal").exists() else "immutable=1"
    return f"{file.absolute().as_uri()}?{mode}"


def waiting(workdir: Path) -> tuple[dict[str, int] | None, int]:
    """Units of each task that want answers, and all answers so far; None and 0 without a journal that this ctxr can read."""
    file = workdir / CROWD / JOURNAL
    if not file.is_file():
        return None, 0
    with suppress(sqlite3.Error), closing(sqlite3.connect(address_to_read(file), uri=True)) as journal:
        (answers,) = journal.execute("SELECT COUNT(*) FROM crowd_answer").fetchone()
        return dict(journal.execute(_OPEN).fetchall()), answers
    return None, 0
