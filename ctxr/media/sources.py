"""Sources, videos and albums of photos, among the files, folders and globs that a user typed."""

import errno
import glob
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ctxr.engine.progress import SILENT, Progress, ProgressTask
from ctxr.errors import UsageError, some
from ctxr.store.artifacts import MARKER
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.memory import Watch, remembered
from ctxr.store.paths import CACHE, safe_name
from ctxr.store.records import PHOTO_SUFFIXES, Kind
from ctxr.store.tables import grouped

MIB = 1 << 20

VIDEO_SUFFIXES = frozenset({
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts", ".wmv", ".flv", ".3gp", ".ogv"
})  # fmt: skip

LARGE = 4 * MIB  # bytes from which on the hash of a file is kept

ARTIFACT = "it is an artifact of ctxr"
LINK = "a link to a folder is not followed: name that folder as a source"
NOT_TEXT = "its name is not UTF-8"
OTHER_KIND = "neither a video nor a photo by its suffix; a file that is named itself is taken as a video"
COPY = "the same content as"
STRANGE = {
    ".gif": "a GIF, drawn or animated: save it as PNG, or as a video",
    ".avif": "an AVIF picture: save it as JPEG or PNG",
}
"""Pictures that are no photos here, by suffix."""


@dataclass(frozen=True)
class InputSource:
    """A source before it is decoded.

    Attributes:
        name: unique and safe as a folder name, from the file's name, and its hash where several sources would have one name.
        path: the video, or the album's folder. sha256: see `records.Source`.
        photos, photo_sha256: the album's files, sorted by name, and their hashes.
    """

    name: str
    kind: Kind
    path: Path
    sha256: str
    bytes: int
    photos: tuple[Path, ...] = ()
    photo_sha256: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceSearch:
    """Sources that were found, and pairs of a file that was left out and the reason."""

    found: tuple[InputSource, ...]
    left_out: tuple[tuple[Path, str], ...]

    def remarks(self) -> Iterator[str]:
        """One sentence for each reason to leave files out."""
        reasons = grouped(
            (f"{COPY} another" if why.startswith(COPY) else why, (path, why)) for path, why in self.left_out
        )
        for why, ((path, reason), *others) in reasons.items():
            names = some((str(path), *(str(path) for path, _ in others)))
            yield f"{len(others) + 1} are left out: {why}: {names}" if others else f"{path} is left out: {reason}"


def find_sources(typed: Sequence[str], progress: Progress = SILENT, project: Path | None = None) -> SourceSearch:
    """Videos and albums among files, folders (searched at any depth, hidden ones left out) and globs.

    Files that are typed are taken as videos unless they look like photos. Files of one content count once. Artifacts of ctxr,
    folders that cannot be read, names that are not UTF-8 and, in folders, files of other kinds are left out, with reasons.
    All files are read for their hashes, with progress in MiB; a `project` keeps those of large files.
    Raises UsageError for a path that does not exist or is an artifact, and when nothing is found.
    """
    walk = _SourceWalk(typed)
    files = [*walk.videos, *chain.from_iterable(walk.albums.values())]
    with progress.task("reading sources, MiB", round(sum(map(_bytes, files)) / MIB)) as task:
        sources = [_video(file, task, project) for file in walk.videos]
        for folder, album in walk.albums.items():
            photos: dict[Path, str] = {}
            for file in sorted(album):
                try:
                    photos[file] = _hash(file, task, project)
                except OSError as error:
                    walk.left_out.append((file, f"cannot be read: {error.strerror}"))
            if photos:
                name, size = safe_name(folder.resolve().name or "photos"), sum(map(_bytes, photos))
                digest = sha256_bytes("\n".join(f"{file.name}\t{digest}" for file, digest in photos.items()).encode())
                sources.append(InputSource(name, "photos", folder, digest, size, (*photos,), (*photos.values(),)))
    if not sources:
        raise walk.error(typed)
    kept: dict[tuple[Kind, str], InputSource] = {}
    for source in sorted(sources, key=lambda source: (source.name, os.fspath(source.path))):
        first = kept.setdefault((source.kind, source.sha256), source)
        if first is not source:
            walk.left_out.append((source.path, f"{COPY} {first.path}"))
    counts = Counter(source.name.lower() for source in kept.values())  # some file systems ignore case
    named = [
        source if counts[source.name.lower()] == 1 else replace(source, name=f"{source.name}-{source.sha256[:8]}")
        for source in kept.values()
    ]
    return SourceSearch(tuple(sorted(named, key=lambda source: source.name)), tuple(dict.fromkeys(walk.left_out)))


def require_sources(folder: Path | None) -> None:
    """Raise UsageError for a folder without a video or photo, if one is named; no file is read."""
    if folder is not None:
        _SourceWalk([str(folder)])


class _SourceWalk:
    """The videos, photos by album, and files that are left out, with reasons, among what was typed.

    Raises UsageError as `find_sources`.
    """

    def __init__(self, typed: Sequence[str]) -> None:
        self.videos: dict[Path, None] = {}
        self.albums: dict[Path, dict[Path, None]] = defaultdict(dict)
        self.left_out: list[tuple[Path, str]] = []
        seen: set[str] = set()
        for path in filter(self._is_usable, chain.from_iterable(map(_expand, typed))):
            whole = os.path.isdir(path)  # noqa: PTH112 - no error where permission lacks
            for file in self._files_below(path) if whole else [path]:
                suffix, absolute = file.suffix.lower(), os.path.abspath(file)  # noqa: PTH100 - links are files of their own
                if absolute in seen:  # typed twice
                    continue
                seen.add(absolute)
                if suffix in PHOTO_SUFFIXES:
                    self.albums[file.parent][file] = None
                elif suffix in VIDEO_SUFFIXES or not whole:
                    self.videos[file] = None
        for folder in [folder for folder in self.albums if not is_utf8(folder.resolve().name)]:
            self.left_out.append((folder, NOT_TEXT))
            del self.albums[folder]
        if not self.videos and not self.albums:
            raise self.error(typed)

    def error(self, typed: Sequence[str]) -> UsageError:
        """The error where nothing was found."""
        message = f"no video or photo in {', '.join(typed)}"
        if not (left_out := [row for row in self.left_out if row[1] not in (OTHER_KIND, *STRANGE.values())]):
            suffixes = f"videos end in {' '.join(sorted(VIDEO_SUFFIXES))}, photos in {' '.join(sorted(PHOTO_SUFFIXES))}"
            return UsageError(message, hint=suffixes)
        path, why = left_out[0]
        more = f", and {len(left_out) - 1} more are left out" if len(left_out) > 1 else ""
        hints = {ARTIFACT: "name the videos, not the artifact", NOT_TEXT: "rename it"}
        return UsageError(f"{message}: {path} is left out: {why}{more}", hint=hints.get(why, f"chmod -R u+rX {path}"))

    def _is_usable(self, path: Path) -> bool:
        why = NOT_TEXT if not is_utf8(os.fspath(path)) else ARTIFACT if _is_ours(path) else ""
        if why:
            self.left_out.append((path, why))
        return not why

    def _files_below(self, folder: Path) -> list[Path]:
        def leave_out(error: OSError) -> None:
            self.left_out.append((Path(error.filename or folder), f"cannot be read: {error.strerror}"))

        paths = []
        for root, folders, files in os.walk(folder, onerror=leave_out):
            visible = [Path(root, name) for name in sorted(folders) if not name.startswith(".")]
            self.left_out += [(path, LINK) for path in visible if path.is_symlink()]
            folders[:] = [path.name for path in visible if not path.is_symlink() and self._is_usable(path)]
            for file in (Path(root, name) for name in sorted(files) if not name.startswith(".")):
                if file.suffix.lower() not in VIDEO_SUFFIXES | PHOTO_SUFFIXES:
                    self.left_out.append((file, STRANGE.get(file.suffix.lower(), OTHER_KIND)))
                elif not is_utf8(file.name):
                    self.left_out.append((file, NOT_TEXT))
                else:
                    paths.append(file)
        return paths


def _expand(text: str) -> list[Path]:
    """The paths that a word stands for."""
    if not text:
        raise UsageError("one of the sources is an empty name", hint="the current folder is called .")
    try:
        path = Path(text).expanduser()
        exists = path.exists()
    except RuntimeError as error:  # ~somebody
        user = Path(text).parts[0].removeprefix("~")
        hint = f"write ./{text} for a folder of that name"
        raise UsageError(f"{text}: there is no user {user!r}", hint=hint) from error
    except OSError as error:
        hint = "check the path and its permissions"
        raise UsageError(f"{text} cannot be read: {error.strerror}", hint=hint) from error
    if exists and _is_ours(path):
        raise UsageError(f"{text} is an artifact of ctxr, not footage", hint="name the videos, not the artifact")
    matches = [os.fspath(path)] if exists else sorted(glob.glob(os.fspath(path), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not matches:
        raise UsageError(f"no such file or folder: {text}", hint="check the path; quote a glob: 'videos/*.mp4'")
    return [Path(match) for match in matches]


def is_utf8(name: str) -> bool:
    """Whether a table can hold a name: file systems allow bytes that are not text."""
    return name.encode(errors="ignore").decode() == name


def _is_ours(folder: Path) -> bool:
    return folder.name == CACHE or os.path.isfile(folder / MARKER)  # noqa: PTH113 - no error where permission lacks


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _hash(file: Path, task: ProgressTask, project: Path | None = None) -> str:
    """SHA-256 of a file. Raises OSError, also for a file that is not regular: reading a pipe would wait for ever."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")

    def find(watch: Watch) -> str:
        watch([file])
        return sha256_file(file, lambda count: task.advance(count / MIB))

    if project is None or status.st_size < LARGE:
        return find(lambda _: None)
    return remembered(project, ["sha256", str(file.resolve())], find)


def _video(file: Path, task: ProgressTask, project: Path | None) -> InputSource:
    try:
        digest, size = _hash(file, task, project), file.stat().st_size
    except OSError:
        # an unreadable file is a source that fails, with a reason, when it is decoded; wherever it lies, it is the same
        digest, size = sha256_bytes(f"{file.name} of {_bytes(file)} bytes".encode()), 0
    return InputSource(safe_name(file.stem), "video", file, digest, size)
