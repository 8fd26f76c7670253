"""Where sources lie on this machine, by content. Kept beside the artifacts, not in them: an artifact is the same wherever it was made."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ctxr.data.records import Record
from ctxr.data.tables import read_table, write_table
from ctxr.errors import DataError

CACHE = ".ctxr-cache"
"""Folder beside the artifacts for what may be deleted at any time."""


class Place(Record, frozen=True):
    """The last place at which a content was seen."""

    KEY: ClassVar[tuple[str, ...]] = ("sha256",)

    sha256: str
    path: str


def remember_places(artifact: Path, places: Mapping[str, Path]) -> None:
    """Note where the sources of an artifact lie: path by sha256 of the content."""
    known = _read(artifact)
    fresh = known | {digest: str(path.resolve()) for digest, path in places.items()}
    if fresh != known:
        write_table(_table(artifact), [Place(digest, path) for digest, path in fresh.items()])


def place_of(artifact: Path, sha256: str) -> Path | None:
    """Where the content was last seen; None if that is not known. It may have gone since."""
    path = _read(artifact).get(sha256)
    return None if path is None else Path(path)


def _table(artifact: Path) -> Path:
    return artifact.resolve().parent / CACHE / "places.jsonl"


def _read(artifact: Path) -> dict[str, str]:
    if not _table(artifact).is_file():
        return {}
    try:
        return {row.sha256: row.path for row in read_table(_table(artifact), Place)}
    except DataError:  # damaged: it is only a memory
        return {}
