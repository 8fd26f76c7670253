"""What was ever measured on a source, kept beside the artifacts: a changed threshold then needs no decode and no model.

An artifact holds only what its own configuration asked about, so that equal runs are byte-equal; this folder remembers the
rest: a table per instrument, one picture per frame. It may be deleted at any time.
"""

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ctxr.data.atomic import link_or_copy
from ctxr.data.hashing import sha256_file
from ctxr.data.records import Facts
from ctxr.data.tables import read_table, write_table
from ctxr.data.units import SourceUnit
from ctxr.data.whereabouts import CACHE
from ctxr.errors import DataError

_COLUMNS = {"brisque": ("brisque",), "text": ("text_share", "text_words", "text_confidence")}
"""Columns of `Facts` that an instrument fills, the first of which is never None once it was used."""


@dataclass(frozen=True)
class FactCache:
    """The memory of one source.

    Attributes:
        folder: its place; made when something is stored.
    """

    folder: Path

    @classmethod
    def beside(cls, artifact: Path, source: str, sha256: str) -> "FactCache":
        """The memory of a source for all artifacts that stand next to `artifact`."""
        return cls(artifact.resolve().parent / CACHE / f"{source}-{sha256[:12]}")

    def load(self, measures: dict[str, str], but: Container[int] = ()) -> dict[int, tuple[Facts, Path]]:
        """Facts by frame, with the file they were measured on, as far as they come from the instruments in `measures`.

        Frames in `but` are left out; nothing of them is read.

        A row may know only some of the measures. What is damaged, or was measured on another picture than lies here, is forgotten.
        """
        found: dict[int, tuple[Facts, Path]] = {}
        hashes: dict[Path, str | None] = {}
        for name, key in measures.items():
            for row in self._read(name, key):
                if row.index in but:
                    continue
                file = self.folder / _picture(row)
                if file not in hashes:
                    hashes[file] = _hash(file)
                if hashes[file] == row.sha256:
                    merged = found[row.index][0] if row.index in found else row
                    found[row.index] = (msgspec.structs.replace(merged, **_measured(row, name)), file)
                else:
                    file.unlink(missing_ok=True)
        return found

    def store(self, unit: SourceUnit, artifact: Path) -> None:
        """Remember the facts of a unit of `artifact`, and their files."""
        linked: set[int] = set()
        there = {file.name for file in self.folder.iterdir()} if self.folder.is_dir() else set()
        for name, key in unit.stamp.measures.items():
            own = [row for row in unit.facts if getattr(row, _COLUMNS[name][0]) is not None]
            if not own:
                continue
            rows, changed = {row.index: row for row in self._read(name, key)}, dict[int, Facts]()
            for row in own:
                picture = _picture(row)
                bare = Facts(row.source, row.index, picture, row.sha256, row.width, row.height)
                new = msgspec.structs.replace(bare, **_measured(row, name))
                if rows.get(row.index) == new and picture in there:
                    continue
                file = self.folder / picture
                if row.index not in linked and _hash(file) != row.sha256:
                    link_or_copy(artifact / row.path, file)
                linked.add(row.index)
                changed[row.index] = new
            if changed:
                write_table(self._table(name, key), (rows | changed).values())

    def _read(self, name: str, key: str) -> list[Facts]:
        try:
            return read_table(self._table(name, key), Facts)
        except (DataError, OSError):  # not there, or damaged: it is only a memory
            return []

    def _table(self, name: str, key: str) -> Path:
        return self.folder / f"{name}-{key[:16]}.jsonl"


def _picture(row: Facts) -> str:
    """Name of a frame's picture in the memory."""
    return f"img{row.index}{Path(row.path).suffix}"


def _hash(file: Path) -> str | None:
    try:
        return sha256_file(file)
    except OSError:
        return None


def _measured(row: Facts, name: str) -> dict[str, Any]:
    return {column: getattr(row, column) for column in _COLUMNS[name]}
