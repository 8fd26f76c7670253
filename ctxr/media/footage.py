"""The sources of an artifact, found again: where they were last seen, or in another folder, by content."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from ctxr.engine.progress import Progress
from ctxr.media.sources import find_sources
from ctxr.media.video import VideoError, check_file
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import last_path
from ctxr.store.records import PHOTO_SUFFIXES, Source

WHERE = "--videos DIR names the folder where the videos and photos lie now; they are known by content, not by name"

RESTORE = "restore the files, or name the folder that they moved to: --videos DIR"
"""What to do when a source does not exist any more."""


class SourceLocator:
    """Finds sources by their sha256: in the folder `videos`, or where an artifact beside `artifact` last saw them.

    Thread-safe. The folder `videos` is searched on first use, with progress.

    Attributes:
        places: videos that were found and compared, by sha256; callers may add folders of albums.
    """

    def __init__(self, artifact: Path, videos: Path | None, progress: Progress) -> None:
        self._artifact, self._videos, self._progress = artifact, videos, progress
        self._lock = threading.Lock()
        self._by_content: dict[str, Path] | None = None
        self.places: dict[str, Path] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceLocator, (self._artifact, self._videos, self._progress)

    @property
    def by_content(self) -> dict[str, Path]:
        """Every video, photo and album's folder below `videos` by sha256; nothing without such a folder."""
        with self._lock:
            if self._by_content is None:
                self._by_content = {} if self._videos is None else self._search(self._videos)
            return self._by_content

    def _search(self, folder: Path) -> dict[str, Path]:
        paths: dict[str, Path] = {}
        for source in find_sources([str(folder)], self._progress).found:
            paths.setdefault(source.sha256, source.path)
            for file, digest in zip(source.photos, source.photo_sha256, strict=True):
                paths.setdefault(digest, file)
        return paths

    def video(self, source: Source) -> Path:
        """The file of a video. Raises VideoError when it does not exist or is another."""
        if self._videos is not None:
            return self.places.setdefault(source.sha256, self._moved(source))
        path = self._last_seen(source)
        check_file(path)
        if sha256_file(path) != source.sha256:
            raise VideoError("changed", f"{path} has changed since the sets were built", RESTORE)
        return self.places.setdefault(source.sha256, path)

    def album(self, source: Source) -> Path:
        """The folder of an album; its content is compared only in `videos`. Raises VideoError when it is not known."""
        return self._moved(source) if self._videos is not None else self._last_seen(source)

    def photos(self, albums: Mapping[str, str]) -> dict[str, Path]:
        """Photos by sha256: all below `videos`, or those in the places of `albums` (names and hashes)."""
        if self._videos is not None:
            return dict(self.by_content)
        paths: dict[str, Path] = {}
        for digest in albums.values():
            folder = last_path(self._artifact, digest)
            for file in sorted(folder.iterdir()) if folder is not None and folder.is_dir() else []:
                if file.suffix.lower() in PHOTO_SUFFIXES and file.is_file():
                    with suppress(OSError):  # one that cannot be read is as good as lost
                        paths.setdefault(sha256_file(file), file)
        return paths

    def _last_seen(self, source: Source) -> Path:
        path = last_path(self._artifact, source.sha256)
        if path is None:
            raise VideoError("no_such_file", f"the location of {source.name} ({source.file}) is unknown", WHERE)
        return path

    def _moved(self, source: Source) -> Path:
        if file := self.by_content.get(source.sha256):
            return file
        name = PurePosixPath(source.file).name
        if other := next((path for path in sorted(self.by_content.values()) if path.name == name), None):
            message = f"{other} has this name but other content (sha256 {source.sha256[:12]}… is wanted)"
            raise VideoError("changed", message, WHERE)
        message = f"{self._videos} does not hold {source.name} ({source.file}, sha256 {source.sha256[:12]}…)"
        raise VideoError("no_such_file", message, WHERE)
