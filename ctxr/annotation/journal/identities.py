"""Who is behind a pseudonym, and who came with which submission: a file in the private folder, never in the journal."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    RowMapping,
    Table,
    Text,
    UniqueConstraint,
    delete,
    insert,
    select,
    update,
)

from ctxr.annotation.journal.database import Database, micros, moment
from ctxr.annotation.journal.kept import KeptTable, kept_tables
from ctxr.annotation.journal.results import DECLINED, NotAllowed
from ctxr.annotation.pseudonyms import pseudonym
from ctxr.store.atomic import disk_errors
from ctxr.web.language import _

_metadata = sql.MetaData()

_identity = Table(
    "identity",
    _metadata,
    Column("worker", Text, primary_key=True),
    Column("platform", Text, nullable=False),
    Column("identity", Text, nullable=False),
    UniqueConstraint("platform", "identity"),
    sqlite_strict=True,
)

_visit = Table(
    "visit",
    _metadata,
    Column("submission", Text, primary_key=True),
    Column("participant", Text, nullable=False),
    Column("study", Text, nullable=False),
    Column("worker", Text, nullable=False, index=True),
    Column("door", Text, nullable=False),
    Column("answers", Integer, nullable=False),
    Column("began", Integer, nullable=False),
    Column("ending", Text, nullable=False),
    sqlite_strict=True,
)

LEFT = "left"
"""Ending of a visit whose person came again with another submission."""


@dataclass(frozen=True)
class Visit:
    """The visit of a Prolific participant with a paid submission.

    Attributes:
        submission, participant, study: Prolific's SESSION_ID, PROLIFIC_PID and STUDY_ID.
        worker: their pseudonym. door: name of the study in our own address.
        answers: what they had given before. began: when they came. ending: how it ended; empty before that.
    """

    submission: str
    participant: str
    study: str
    worker: str
    door: str
    answers: int
    began: datetime
    ending: str = ""


FILE = "identities.sqlite"


class Identities:
    """Platform and platform id of each pseudonym, in a file of the crowd's private folder, readable to its owner alone."""

    def __init__(self, folder: Path, key: bytes) -> None:
        path = folder / FILE
        with disk_errors(path):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._key = key
        self._database = Database(path)
        with self._database.writing() as connection:
            _metadata.create_all(connection)

    def worker(self, platform: str, identity: str) -> str:
        """The pseudonym of a person on a platform, remembered from now on."""
        name = pseudonym(self._key, platform, identity)
        if not self.knows(name):
            with self._database.writing() as connection:
                if connection.execute(select(_identity).where(_identity.c.worker == name)).first() is None:
                    connection.execute(insert(_identity).values(worker=name, platform=platform, identity=identity))
        return name

    def knows(self, worker: str) -> bool:
        """Whether the person behind a pseudonym is recorded."""
        with self._database.reading() as connection:
            return connection.execute(select(_identity).where(_identity.c.worker == worker)).first() is not None

    def names(self) -> dict[str, str]:
        """The names by which members of a local team were invited or came in, by pseudonym."""
        with self._database.reading() as connection:
            return _names(connection)

    def come(self, visit: Visit, lasts: timedelta, instead_of: str = "") -> Visit:
        """The visit as it was recorded first, on the disk from now on; it replaces the submission `instead_of` of the same person.

        Raises NotAllowed: `not_yours` for somebody else's submission, `second` where the worker has another one that began within
        `lasts` and has not ended.
        """
        since, columns = micros(visit.began - lasts), _visit.c
        with self._database.writing() as connection:
            same = connection.execute(select(_visit).where(columns.submission == visit.submission)).mappings().first()
            if same is not None and same["participant"] != visit.participant:
                raise NotAllowed("not_yours", _("This submission belongs to another participant."))
            if same is not None and same["ending"] != DECLINED:
                return _visit_of(same)
            unended = (columns.worker == visit.worker, columns.ending == "")
            live = select(columns.submission).where(*unended, columns.began > since, columns.submission != instead_of)
            if connection.execute(live).first() is not None:
                begun = _("You have begun another submission. Please finish that one first.")
                raise NotAllowed("second", begun)
            connection.execute(update(_visit).where(*unended).values(ending=LEFT))
            connection.execute(delete(_visit).where(columns.submission == visit.submission))
            connection.execute(insert(_visit).values(asdict(visit) | {"began": micros(visit.began)}))
        return visit

    def end(self, submission: str, ending: str) -> None:
        """Record how a visit ended; only the first ending is kept."""
        with self._database.writing() as connection:
            connection.execute(
                update(_visit).where(_visit.c.submission == submission, _visit.c.ending == "").values(ending=ending)
            )

    def forget(self, worker: str, *, paid: bool) -> None:
        """Delete who is behind a pseudonym; with `paid` also the submissions, needed for pay."""
        with self._database.writing() as connection:
            for table in (_identity, *[_visit] * paid):
                connection.execute(delete(table).where(table.c.worker == worker))
        self._database.compact(_metadata)

    def visit(self, submission: str) -> Visit | None:
        """The visit of a submission; None for one that never came."""
        with self._database.reading() as connection:
            row = connection.execute(select(_visit).where(_visit.c.submission == submission)).mappings().one_or_none()
        return None if row is None else _visit_of(row)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


@contextmanager
def _found(folder: Path) -> Iterator[Connection | None]:
    """The file in `folder`, which stays as it is; None without one."""
    if not (folder / FILE).is_file():
        yield None
    else:
        with closing(Database(folder / FILE, read_only=True)) as database, database.reading() as connection:
            yield connection


def _names(connection: Connection) -> dict[str, str]:
    local = select(_identity.c.worker, _identity.c.identity).where(_identity.c.platform == "local")
    return {worker: identity.split("/", 1)[-1] for worker, identity in connection.execute(local)}


def read_names(folder: Path) -> dict[str, str]:
    """`Identities.names` of the file in `folder`; nothing without one."""
    with _found(folder) as connection:
        return _names(connection) if connection else {}


def read_visits(folder: Path) -> list[Visit]:
    """Everybody who came from Prolific, once for each submission, in the order of its id."""
    with _found(folder) as connection:
        rows = connection.execute(select(_visit).order_by(_visit.c.submission)).mappings() if connection else ()
        return list(map(_visit_of, rows))


def known_workers(folder: Path) -> set[str]:
    """The pseudonyms of all whom the file in `folder` knows, also of those who never agreed to the consent."""
    with _found(folder) as connection:
        query = select(_identity.c.worker).union(select(_visit.c.worker))
        return set(connection.scalars(query)) if connection else set()


def kept_identities(folder: Path) -> list[KeptTable]:
    """What the file in `folder` says about people; nothing without one."""
    with _found(folder) as connection:
        return kept_tables(connection, _metadata) if connection else []


def _visit_of(row: RowMapping) -> Visit:
    return Visit(**{**row, "began": moment(row["began"])})
