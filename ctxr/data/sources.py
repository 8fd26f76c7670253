"""From what a user typed (files, folders, globs) to named sources: videos, and albums of photos."""

import errno
import glob
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ctxr.data.hashing import sha256_bytes, sha256_file
from ctxr.data.images import PHOTO_SUFFIXES
from ctxr.data.records import Kind
from ctxr.errors import UsageError

MIB = 1 << 20

VIDEO_SUFFIXES = frozenset(
    {
        ".mp4",
        ".m4v",
        ".mov",
        ".mkv",
        ".webm",
        ".avi",
        ".mpg",
        ".mpeg",
        ".ts",
        ".mts",
        ".m2ts",
        ".wmv",
        ".flv",
        ".3gp",
        ".ogv",
    }
)


@dataclass(frozen=True)
class Found:
    """One source before it is read.

    Attributes:
        name: unique, safe as a folder name, the same for the same file whatever it is found with (unless two files
            share a stem: then a piece of the content hash is added to each).
        path: the video file, or the album's folder.
        photos: the album's files, sorted by name; empty for a video.
        sha256: see `records.Source`.
    """

    name: str
    kind: Kind
    path: Path
    sha256: str
    bytes: int
    photos: tuple[Path, ...] = ()
    photo_sha256: tuple[str, ...] = ()


@dataclass(frozen=True)
class Search:
    """What was found, and files left out: (path, why)."""

    found: tuple[Found, ...]
    left_out: tuple[tuple[Path, str], ...]


class Advance(Protocol):
    """Hears how far the reading of sources is."""

    def advance(self, steps: float = 1) -> None:
        """`steps` more MiB are read."""


def find_sources(
    typed: Sequence[str], progress: Callable[[float], AbstractContextManager[Advance]] | None = None
) -> Search:
    """Videos and albums among files, folders (searched at any depth, hidden ones left out) and globs.

    Files named directly are taken as videos unless they look like photos. Files of one content count once.
    All are read once, for their hashes: `progress` is told how many MiB they have.
    Raises UsageError for a path that is not there, and when nothing at all is found.
    """
    videos: dict[Path, None] = {}
    albums: dict[Path, dict[Path, None]] = defaultdict(dict)
    for text in typed:
        for path in _expand(text):
            for file in _files_below(path) if path.is_dir() else [path]:
                suffix = file.suffix.lower()
                if suffix in PHOTO_SUFFIXES:
                    albums[file.parent][file] = None
                elif suffix in VIDEO_SUFFIXES or not path.is_dir():
                    videos[file] = None
    if not videos and not albums:
        raise UsageError(
            f"no video or photo in {', '.join(typed)}",
            hint=f"videos end in {' '.join(sorted(VIDEO_SUFFIXES))}, photos in {' '.join(sorted(PHOTO_SUFFIXES))}",
        )
    left_out: list[tuple[Path, str]] = []
    files = [*videos, *(file for album in albums.values() for file in album)]
    with (progress or _unwatched)(sum(map(_bytes, files)) / MIB) as task:

        def passed(count: int) -> None:
            task.advance(count / MIB)

        made = [_video(file, passed) for file in videos]
        made += [_album(folder, tuple(sorted(album)), left_out, passed) for folder, album in albums.items()]
    return Search(tuple(_name_apart(_once(made, left_out))), tuple(left_out))


class _Nobody:
    def advance(self, steps: float = 1) -> None:
        """Nothing."""


@contextmanager
def _unwatched(total: float) -> Iterator[Advance]:
    yield _Nobody()


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _expand(text: str) -> list[Path]:
    path = Path(text).expanduser()
    if path.exists():
        return [path]
    matches = sorted(glob.glob(os.fspath(path), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not matches:
        raise UsageError(f"no such file or folder: {text}", hint="check the path; quote a glob: 'videos/*.mp4'")
    return [Path(match) for match in matches]


def _files_below(folder: Path) -> list[Path]:
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(root) / name for name in sorted(files) if not name.startswith(".")]
    return found


def _video(file: Path, passed: Callable[[int], None]) -> Found:
    try:
        if not file.is_file():  # reading a pipe would wait for ever
            raise OSError(errno.EINVAL, "not a regular file")
        return Found(safe_name(file.stem), "video", file, sha256_file(file, passed), file.stat().st_size)
    except OSError:
        # an unreadable file is still a source: it fails by itself, with its reason, when it is decoded
        return Found(safe_name(file.stem), "video", file, sha256_bytes(str(file).encode()), 0)


def _album(
    folder: Path, files: tuple[Path, ...], left_out: list[tuple[Path, str]], passed: Callable[[int], None]
) -> Found:
    hashes, readable, total = [], [], 0
    for file in files:
        try:
            if not file.is_file():
                raise OSError(errno.EINVAL, "not a regular file")
            hashes.append(sha256_file(file, passed))
            total += file.stat().st_size
            readable.append(file)
        except OSError as error:
            left_out.append((file, f"cannot be read: {error.strerror}"))
    lines = "\n".join(f"{file.name}\t{digest}" for file, digest in zip(readable, hashes, strict=True))
    name = safe_name(folder.resolve().name or "photos")
    return Found(name, "photos", folder, sha256_bytes(lines.encode()), total, tuple(readable), tuple(hashes))


def _once(sources: list[Found], left_out: list[tuple[Path, str]]) -> list[Found]:
    kept: dict[tuple[Kind, str], Found] = {}
    for source in sorted(sources, key=lambda source: (source.name, os.fspath(source.path))):
        first = kept.setdefault((source.kind, source.sha256), source)
        if first is not source:
            left_out.append((source.path, f"the same content as {first.path}"))
    return list(kept.values())


def _name_apart(sources: list[Found]) -> list[Found]:
    by_name: dict[str, list[Found]] = defaultdict(list)
    for source in sources:
        by_name[source.name.lower()].append(source)  # some file systems do not tell A from a
    apart = []
    for same in by_name.values():
        for source in same:
            name = source.name if len(same) == 1 else f"{source.name}-{source.sha256[:8]}"
            apart.append(Found(**{**source.__dict__, "name": name}))
    return sorted(apart, key=lambda source: source.name)


def safe_name(text: str) -> str:
    """`text` as a name that is safe in every file system: letters, digits, `._-`; never hidden, never empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._")[:100] or "source"
