"""From what a user typed (files, folders, globs) to named sources: videos, and albums of photos."""

import errno
import glob
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import UsageError, some
from ctxr.store.artifacts import MARKER
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.memory import Watch, remembered
from ctxr.store.paths import CACHE, safe_name
from ctxr.store.records import PHOTO_SUFFIXES, Kind

MIB = 1 << 20

VIDEO_SUFFIXES = frozenset({
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts", ".wmv", ".flv", ".3gp", ".ogv"
})  # fmt: skip

SUFFIXES = VIDEO_SUFFIXES | PHOTO_SUFFIXES

ARTIFACT = "it is an artifact of ctxr"
LINK = "a link to a folder is not followed: name that folder as a source"
NOT_TEXT = "its name is not UTF-8"
OTHER_KIND = "neither a video nor a photo by its suffix; a file that is named itself is taken as a video"
COPY = "the same content as"


@dataclass(frozen=True)
class InputSource:
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

    found: tuple[InputSource, ...]
    left_out: tuple[tuple[Path, str], ...]

    def remarks(self) -> Iterator[str]:
        """One sentence for each reason to leave files out."""
        reasons: dict[str, list[tuple[Path, str]]] = defaultdict(list)
        for path, why in self.left_out:
            reasons[f"{COPY} another" if why.startswith(COPY) else why].append((path, why))
        for why, ((path, one), *others) in reasons.items():
            names = some((str(path), *(str(path) for path, _ in others)))
            yield f"{len(others) + 1} are left out: {why}: {names}" if others else f"{path} is left out: {one}"


def find_sources(typed: Sequence[str], progress: Progress = SILENT, project: Path | None = None) -> Search:
    """Videos and albums among files, folders (searched at any depth, hidden ones left out) and globs.

    Files named directly are taken as videos unless they look like photos. Files of one content count once. Artifacts of ctxr,
    folders that cannot be read, names that are not UTF-8 and, in folders, files of other kinds are left out, each with its reason.
    All files are read for their hashes, with progress in MiB; with a `project`, which keeps them, large files only once.
    Raises UsageError for a path that does not exist or is itself an artifact, and when nothing at all is found.
    """
    videos, albums, left_out = _files(typed)
    files = [*videos, *chain.from_iterable(albums.values())]
    with progress.task("read sources, MiB", round(sum(map(_bytes, files)) / MIB)) as task:

        def advance(count: int) -> None:
            task.advance(count / MIB)

        sources = [_video(file, advance, project) for file in videos]
        photos = [_album(folder, tuple(sorted(album)), left_out, advance) for folder, album in albums.items()]
        sources += [album for album in photos if album.photos]
    if not sources:
        raise _nothing(typed, left_out)
    kept: dict[tuple[Kind, str], InputSource] = {}
    for source in sorted(sources, key=lambda source: (source.name, os.fspath(source.path))):
        first = kept.setdefault((source.kind, source.sha256), source)
        if first is not source:
            left_out.append((source.path, f"{COPY} {first.path}"))
    return Search(tuple(_with_unique_names(list(kept.values()))), tuple(dict.fromkeys(left_out)))


def require_sources(folder: Path) -> None:
    """Raise UsageError for a folder without a video or photo; no file is read."""
    _files([str(folder)])


def _files(typed: Sequence[str]) -> tuple[dict[Path, None], dict[Path, dict[Path, None]], list[tuple[Path, str]]]:
    """Videos, photos by album, and files that are left out, with the reason."""
    videos: dict[Path, None] = {}
    albums: dict[Path, dict[Path, None]] = defaultdict(dict)
    left_out: list[tuple[Path, str]] = []
    places: set[str] = set()
    for text in typed:
        for path in _expand(text, left_out):
            whole = os.path.isdir(path)  # noqa: PTH112 - no error where it may not be looked at
            for file in _files_below(path, left_out) if whole else [path]:
                suffix, place = file.suffix.lower(), os.path.abspath(file)  # noqa: PTH100 - links are files of their own
                if place in places:  # typed twice
                    continue
                places.add(place)
                if suffix in PHOTO_SUFFIXES:
                    albums[file.parent][file] = None
                elif suffix in VIDEO_SUFFIXES or not whole:
                    videos[file] = None
    for folder in [folder for folder in albums if not _is_text(folder.resolve().name)]:
        left_out.append((folder, NOT_TEXT))
        del albums[folder]
    if not videos and not albums:
        raise _nothing(typed, left_out)
    return videos, albums, left_out


def _nothing(typed: Sequence[str], left_out: Sequence[tuple[Path, str]]) -> UsageError:
    message = f"no video or photo in {', '.join(typed)}"
    if not (left_out := [row for row in left_out if row[1] != OTHER_KIND]):
        suffixes = f"videos end in {' '.join(sorted(VIDEO_SUFFIXES))}, photos in {' '.join(sorted(PHOTO_SUFFIXES))}"
        return UsageError(message, hint=suffixes)
    path, why = left_out[0]
    more = f", and {len(left_out) - 1} more are left out" if len(left_out) > 1 else ""
    hints = {ARTIFACT: "name the videos, not the artifact", NOT_TEXT: "rename it"}
    return UsageError(f"{message}: {path} is left out: {why}{more}", hint=hints.get(why, f"chmod -R u+rX {path}"))


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _expand(text: str, left_out: list[tuple[Path, str]]) -> list[Path]:
    """The paths that `text` stands for, but for those that cannot be used."""
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
    return [Path(match) for match in matches if _is_usable(Path(match), left_out)]


def _is_usable(path: Path, left_out: list[tuple[Path, str]]) -> bool:
    why = NOT_TEXT if not _is_text(os.fspath(path)) else ARTIFACT if _is_ours(path) else ""
    if why:
        left_out.append((path, why))
    return not why


def _is_text(name: str) -> bool:
    """Whether a name can be written into a table: file systems allow bytes that are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_ours(folder: Path) -> bool:
    """Whether a folder is an artifact, or what ctxr keeps beside them."""
    return folder.name == CACHE or os.path.isfile(folder / MARKER)  # noqa: PTH113 - no error where it may not be looked at


def _files_below(folder: Path, left_out: list[tuple[Path, str]]) -> list[Path]:
    def unreadable(error: OSError) -> None:
        left_out.append((Path(error.filename or folder), f"cannot be read: {error.strerror}"))

    paths = []
    for root, folders, files in os.walk(folder, onerror=unreadable):
        visible = [Path(root, name) for name in sorted(folders) if not name.startswith(".")]
        left_out += [(path, LINK) for path in visible if path.is_symlink()]
        folders[:] = [path.name for path in visible if not path.is_symlink() and _is_usable(path, left_out)]
        for name in sorted(files):
            file = Path(root, name)
            if name.startswith("."):
                continue
            if file.suffix.lower() in SUFFIXES and _is_text(name):
                paths.append(file)
            else:
                left_out.append((file, NOT_TEXT if file.suffix.lower() in SUFFIXES else OTHER_KIND))
    return paths


LARGE = 4 * MIB
"""Bytes from which on the hash of a video is kept."""


def _hashed(file: Path, advance: Callable[[int], None], project: Path | None = None) -> tuple[str, int]:
    """SHA-256 and bytes of a file. Raises OSError, also for what is no regular file: reading a pipe would wait for ever."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if project is None or status.st_size < LARGE:
        return sha256_file(file, advance), status.st_size

    def find(watch: Watch) -> str:
        watch([file])
        return sha256_file(file, advance)

    return remembered(project, ["sha256", str(file.resolve())], find), status.st_size


def _video(file: Path, advance: Callable[[int], None], project: Path | None) -> InputSource:
    try:
        digest, size = _hashed(file, advance, project)
    except OSError:
        # an unreadable file is still a source: it fails by itself, with its reason, when it is decoded
        digest, size = sha256_bytes(str(file).encode()), 0
    return InputSource(safe_name(file.stem), "video", file, digest, size)


def _album(
    folder: Path, files: tuple[Path, ...], left_out: list[tuple[Path, str]], advance: Callable[[int], None]
) -> InputSource:
    photos: dict[Path, tuple[str, int]] = {}
    for file in files:
        try:
            photos[file] = _hashed(file, advance)
        except OSError as error:
            left_out.append((file, f"cannot be read: {error.strerror}"))
    lines = "\n".join([f"{file.name}\t{digest}" for file, (digest, _) in photos.items()])
    hashes, sizes = zip(*photos.values(), strict=True) if photos else ((), ())
    name = safe_name(folder.resolve().name or "photos")
    return InputSource(name, "photos", folder, sha256_bytes(lines.encode()), sum(sizes), tuple(photos), hashes)


def _with_unique_names(sources: list[InputSource]) -> list[InputSource]:
    counts = Counter(source.name.lower() for source in sources)  # some file systems do not tell A from a
    marks = ("" if counts[source.name.lower()] == 1 else f"-{source.sha256[:8]}" for source in sources)
    unique = [replace(source, name=source.name + mark) for source, mark in zip(sources, marks, strict=True)]
    return sorted(unique, key=lambda source: source.name)
