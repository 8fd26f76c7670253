"""What was ever measured on a source, kept beside the artifacts: a changed threshold then needs no decode and no model.

An artifact holds only what its own configuration asked about, so that equal runs are byte-equal; this folder remembers the
rest. It may be deleted at any time.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ctxr.data.atomic import link_or_copy
from ctxr.data.records import Facts
from ctxr.data.tables import read_table, write_table
from ctxr.data.units import Unit
from ctxr.data.whereabouts import CACHE
from ctxr.errors import DataError


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

    def load(self, measures: dict[str, str]) -> dict[int, tuple[Facts, Path]]:
        """Facts by frame, with the file they were measured on, as far as they come from the instruments in `measures`.

        A damaged memory is forgotten.
        """
        found: dict[int, tuple[Facts, Path]] = {}
        try:
            for row in read_table(self._table(measures), Facts):
                file = self.folder / row.path
                if file.is_file():
                    found[row.index] = (row, file)
        except DataError:
            return {}
        return found

    def store(self, unit: Unit, artifact: Path) -> None:
        """Remember the facts of a unit of `artifact`, and their files."""
        measured = [row for row in unit.facts if row.brisque is not None or row.text_share is not None]
        if not measured:
            return
        rows = {index: row for index, (row, _) in self.load(unit.stamp.measures).items()}
        for row in measured:
            name = f"img{row.index}{Path(row.path).suffix}"
            if row.index not in rows:
                link_or_copy(artifact / row.path, self.folder / name)
            rows[row.index] = msgspec.structs.replace(row, path=name)
        write_table(self._table(unit.stamp.measures), rows.values())

    def _table(self, measures: dict[str, str]) -> Path:
        key = "-".join(f"{name}={key[:12]}" for name, key in sorted(measures.items()))
        return self.folder / f"facts-{key}.jsonl"
