"""The sources of an artifact, found again: where they were, or in another folder, by content."""

import threading
from pathlib import Path

from ctxr.data.hashing import sha256_file
from ctxr.data.sources import Found, find_sources
from ctxr.data.units import Unit, album_files
from ctxr.data.video import VideoError, check_file
from ctxr.data.whereabouts import place_of
from ctxr.errors import DataError

MOVED = "restore the files, or name the folder that they moved to: --videos DIR"
"""What to do when a source is not there any more."""


class Whereabouts:
    """Finds the sources of an artifact again: where they were, or among the files of another folder, by content."""

    def __init__(self, artifact: Path, moved_to: Path | None) -> None:
        self._artifact, self._moved_to = artifact, moved_to
        self._lock = threading.Lock()
        self._moved: tuple[Found, ...] | None = None

    def known(self, unit: Unit) -> Path:
        """Where a source was when it was last seen."""
        return place_of(self._artifact, unit.source.sha256) or Path(unit.source.file)

    def of(self, unit: Unit) -> Path:
        """The video of a unit, asked for when a frame has to be decoded. Raises DataError if it cannot be found or has changed."""
        if self._moved_to is not None:
            return self._by_content(unit).path
        place = self.known(unit)
        check_file(place)
        if sha256_file(place) != unit.source.sha256:
            hint = "restore the file, or run ctxr build-sets again"
            raise VideoError("changed", f"{place} has changed since the sets were built", hint)
        return place

    def album(self, unit: Unit) -> Found:
        """The album of a unit. Raises DataError when a photo of it is gone or was changed."""
        source = unit.source
        if self._moved_to is not None:
            folder = self._by_content(unit).path
        else:
            folder = self.known(unit)
        files, hashes, wrong = album_files(unit, folder)
        if wrong:
            raise DataError(f"the album {source.name} cannot be filtered: {wrong[0]}", hint=MOVED)
        return Found(source.name, "photos", folder, source.sha256, source.bytes, tuple(files), tuple(hashes))

    def _by_content(self, unit: Unit) -> Found:
        with self._lock:
            if self._moved is None:
                self._moved = find_sources([str(self._moved_to)]).found
        for found in self._moved:
            if found.sha256 == unit.source.sha256 and found.kind == unit.source.kind:
                return found
        raise DataError(
            f"{self._moved_to} does not hold {unit.source.name} (sha256 {unit.source.sha256[:12]}…)",
            hint=f"--videos names the folder where {unit.source.file} lies now, unchanged",
        )
