"""Who is behind a pseudonym: a small file of its own in the private folder, never in the journal."""

import os
from pathlib import Path

from sqlalchemy import Column, MetaData, Table, Text, UniqueConstraint, insert, select

from ctxr.annotation.journal.database import Database
from ctxr.annotation.pseudonyms import pseudonym
from ctxr.data.atomic import disk_errors

_metadata = MetaData()

_identity = Table(
    "identity",
    _metadata,
    Column("worker", Text, primary_key=True),
    Column("platform", Text, nullable=False),
    Column("identity", Text, nullable=False),
    UniqueConstraint("platform", "identity"),
    sqlite_strict=True,
)


class Identities:
    """Platform and platform id of each pseudonym, in `folder/identities.sqlite`, readable to its owner alone.

    Args:
        folder: the crowd's private folder; made where it is not. key: see `pseudonyms.read_key`.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        path = folder / "identities.sqlite"
        with disk_errors(path):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # before SQLite opens it: the files beside it get the mode of this one
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            path.chmod(0o600)
        self._key = key
        self._database = Database(path)
        with self._database.writing() as connection:
            _metadata.create_all(connection)

    def worker(self, platform: str, identity: str) -> str:
        """The pseudonym of a person on a platform, remembered from now on."""
        name = pseudonym(self._key, platform, identity)
        if self.who(name) is None:
            with self._database.writing() as connection:
                if connection.execute(select(_identity).where(_identity.c.worker == name)).first() is None:
                    connection.execute(insert(_identity).values(worker=name, platform=platform, identity=identity))
        return name

    def who(self, worker: str) -> tuple[str, str] | None:
        """Platform and platform id behind a pseudonym; None for one that is not known here."""
        wanted = select(_identity.c.platform, _identity.c.identity).where(_identity.c.worker == worker)
        with self._database.reading() as connection:
            found = connection.execute(wanted).first()
        return None if found is None else (str(found[0]), str(found[1]))

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
