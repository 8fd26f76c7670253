"""Sources, videos and albums of photos, among the files, folders, globs and URLs that a user typed.

What a URL names is copied into the cache of the project and read from there; `fetch` copies it again where it is no longer there.
"""

import errno
import glob
import math
import os
import shutil
import stat
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from threading import Event, Lock
from typing import IO
from urllib.parse import unquote, urlsplit

import msgspec

from ctxr.engine.progress import SILENT, Progress, ProgressTask
from ctxr.engine.units import parallel
from ctxr.errors import CtxrError, DataError, UsageError, plural, some
from ctxr.store.artifacts import MARKER
from ctxr.store.atomic import DRY_RUN, disk_errors, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.memory import Watch, remembered
from ctxr.store.paths import CACHE, is_url, safe_name
from ctxr.store.records import PHOTO_SUFFIXES, Kind
from ctxr.store.remote import AT_ONCE, WEB, NotThereError, RemoteFile, Store, shown
from ctxr.store.tables import UNREADABLE, grouped

MIB = 1 << 20

ELSEWHERE = (
    "elsewhere"  # folder of the cache: ID/FOLDER/NAME is a file that a URL names, ID/FOLDER/.notes/NAME says which
)
NOTES, LOCKS = ".notes", ".locks"
LIMIT = "CTXR_CACHE_GB"  # environment variable: the most that these files may take, or 50
FILLED = 0.95  # share of the cache that stays filled where files are removed
WAIT = 0.1  # seconds between looks whether another process has copied a file
GRACE = 10 * 10**9  # nanoseconds in which what was fetched is opened, and therefore kept
OLD = 86_400 * 10**9  # nanoseconds after which a copy under way has ended

VIDEO_SUFFIXES = frozenset({
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts", ".wmv", ".flv", ".3gp", ".ogv"
})  # fmt: skip

LARGE = 4 * MIB  # bytes from which on the hash of a file is kept

ARTIFACT = "it is an artifact of ctxr"
LONG = "its name cannot be that of a file"
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
    left_out: tuple[tuple[Path | str, str], ...]

    def remarks(self) -> Iterator[str]:
        """One sentence for each reason to leave files out."""
        reasons = grouped(
            (f"{COPY} another" if why.startswith(COPY) else why, (path, why)) for path, why in self.left_out
        )
        for why, ((path, reason), *others) in reasons.items():
            names = some((str(path), *(str(path) for path, _ in others)))
            yield f"{len(others) + 1} are left out: {why}: {names}" if others else f"{path} is left out: {reason}"


def find_sources(typed: Sequence[str], progress: Progress = SILENT, project: Path | None = None) -> SourceSearch:
    """Videos and albums among files, folders and URLs (searched at any depth, hidden ones left out) and globs.

    Files that are typed are taken as videos unless they look like photos. Files of one content count once. Artifacts of ctxr,
    folders that cannot be read, names that are not UTF-8 and, in folders, files of other kinds are left out, with reasons.
    All files are read for their hashes, with progress in MiB; a `project` keeps those of large files. What a URL names is copied into
    the cache of the project, unless it was copied before and its store says that it is the same; by a dry run only listed, as new.
    Raises UsageError for a path that does not exist or is an artifact, and when nothing is found.
    """
    walk = _SourceWalk(typed, (project or Path()) / CACHE / ELSEWHERE)
    files = [*walk.videos, *chain.from_iterable(walk.albums.values())]
    with progress.task("reading sources, MiB", round(sum(map(walk.bytes, files)) / MIB)) as task:
        walk.copy(task, progress)
        sources = [_video(file, task, project, walk) for file in walk.videos]
        for folder, album in walk.albums.items():
            photos: dict[Path, str] = {}
            for file in sorted(album):
                try:
                    photos[file] = _hash(file, task, project, walk)
                except OSError as error:
                    walk.left_out.append((place_of(file), f"cannot be read: {error.strerror}"))
            if photos:
                name, size = safe_name(folder.resolve().name or "photos"), sum(map(walk.bytes, photos))
                digest = sha256_bytes("\n".join(f"{file.name}\t{digest}" for file, digest in photos.items()).encode())
                sources.append(InputSource(name, "photos", folder, digest, size, (*photos,), (*photos.values(),)))
    if not sources:
        raise walk.error(typed)
    kept: dict[tuple[Kind, str], InputSource] = {}
    for source in sorted(sources, key=lambda source: (source.name, os.fspath(source.path))):
        first = kept.setdefault((source.kind, source.sha256), source)
        if first is not source:
            walk.left_out.append((place_of(source.path), f"{COPY} {place_of(first.path)}"))
    counts = Counter(source.name.lower() for source in kept.values())  # some disks ignore case
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

    Those of URLs are files of the folder `cache`; `elsewhere` are those, and `origins` what is known of their content.
    Raises UsageError as `find_sources`.
    """

    def __init__(self, typed: Sequence[str], cache: Path = Path()) -> None:
        self.videos: dict[Path, None] = {}
        self.albums: dict[Path, dict[Path, None]] = defaultdict(dict)
        self.left_out: list[tuple[Path | str, str]] = []
        self.elsewhere: dict[Path, RemoteFile] = {}
        self.origins: dict[Path, Origin] = {}
        seen: set[str] = set()
        typed = [word.removeprefix("file://") for word in typed]
        for url in filter(is_url, typed):
            self._list(url, cache)
        here = (word for word in typed if not is_url(word))
        for path in filter(self._is_usable, chain.from_iterable(map(_expand, here))):
            if origin := origin_of(path):
                self.elsewhere.setdefault(path, _remote(origin))
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
        message = f"no video or photo in {', '.join(map(shown, typed))}"
        if not (left_out := [row for row in self.left_out if row[1] not in (OTHER_KIND, *STRANGE.values())]):
            suffixes = f"videos end in {' '.join(sorted(VIDEO_SUFFIXES))}, photos in {' '.join(sorted(PHOTO_SUFFIXES))}"
            return UsageError(message, hint=suffixes)
        path, why = left_out[0]
        more = f", and {len(left_out) - 1} more are left out" if len(left_out) > 1 else ""
        hints = {ARTIFACT: "name the videos, not the artifact", NOT_TEXT: "rename it", LONG: "rename it"}
        otherwise = "run the same command again" if is_url(str(path)) else f"chmod -R u+rX {path}"
        return UsageError(f"{message}: {path} is left out: {why}{more}", hint=hints.get(why, otherwise))

    def _list(self, url: str, cache: Path) -> None:
        """What a URL names, by the rules for what lies here."""
        files, web = list[RemoteFile](), url.startswith(WEB)
        if web and urlsplit(url).path.endswith("/"):
            raise UsageError(
                f"{shown(url)} is a folder of the web, which cannot be listed", hint="name each of its files"
            )
        with suppress(NotThereError):
            files = Store(url).files()
        ours = {file.inside.rpartition("/")[0] for file in files if PurePosixPath(file.inside).name == MARKER}
        if not files or "" in ours:
            why = "is an artifact of ctxr, not footage" if files else "names no file or folder"
            raise UsageError(f"{shown(url)} {why}", hint="name the videos, or the folder that holds them")
        self.left_out += [(f"{url.rstrip('/')}/{folder}", ARTIFACT) for folder in ours]
        for file in files:
            inside, parts = PurePosixPath(file.inside), urlsplit(file.url)
            place = PurePosixPath(unquote(parts.path) if web else file.url.partition("://")[2])
            suffix, photo = place.suffix.lower(), place.suffix.lower() in PHOTO_SUFFIXES
            if any(part.startswith(".") for part in inside.parts) or ours & {str(one) for one in inside.parents}:
                continue
            if file.inside and not photo and suffix not in VIDEO_SUFFIXES:
                self.left_out.append((file.url, STRANGE.get(suffix, OTHER_KIND)))
            elif not _is_name(place.name):
                self.left_out.append((shown(file.url), LONG if is_utf8(place.name) else NOT_TEXT))
            else:
                # photos of one folder are one album; of a web address, what follows the question mark may name the video
                group = shown(file.url).rpartition("/")[0] if photo else file.url
                folder = place.parent.name if _is_name(place.parent.name) else "photos"
                path = cache / sha256_bytes(group.encode())[:16] / folder / place.name
                self.elsewhere[path] = file
                if photo:
                    self.albums[path.parent][path] = None
                else:
                    self.videos[path] = None

    def copy(self, task: ProgressTask, progress: Progress) -> None:
        """Copy what a URL names and is not known yet; where nothing may be written, take it for something new."""
        for path, file in self.elsewhere.items():
            if (origin := origin_of(path)) and origin.sha256 and origin.stamp == file.stamp != "":
                self.origins[path] = origin
        todo = [row for row in self.elsewhere.items() if row[0] not in self.origins]
        if (size := sum(map(self.bytes, self.elsewhere))) and size > FILLED * _limit():
            problem = f"{size / 1e9:,.3f} GB of URLs do not fit into the cache, and may be copied more than once"
            progress.warn(f"{problem}: {LIMIT}={math.ceil(size / FILLED / 1e9)} holds them all")
        if todo and DRY_RUN.get():
            # without a stamp nothing tells whether a file has changed
            known = {
                path: origin for path, one in todo if not one.stamp and (origin := origin_of(path)) and origin.sha256
            }
            new = [(path, one) for path, one in todo if path not in known]
            if new:
                listed = f"{plural(len(new), 'file')} of URLs listed, and counted as new"
                progress.note(f"a dry run copies nothing: {listed}")
            unknown = {
                path: Origin(one.url, one.stamp, sha256_bytes(f"{one}".encode()), one.bytes) for path, one in new
            }
            self.origins |= known | unknown
            return
        first = os.getpid() % max(1, len(todo))  # ranks that begin at once share the work
        work = partial(_copied, stopping=(stopping := Event()))
        for (path, _), origin in parallel(work, todo[first:] + todo[:first], AT_ONCE, stop=stopping.set):
            self.origins[path] = origin
            task.advance(origin.bytes / MIB)

    def bytes(self, file: Path) -> int:
        """The size of a file, 0 where that is not known."""
        if known := self.origins.get(file) or self.elsewhere.get(file):
            return known.bytes
        try:
            return file.stat().st_size
        except OSError:
            return 0

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
        exists = path.exists() or origin_of(path) is not None
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


def _is_name(name: str) -> bool:
    """Whether a file or folder of this machine can be called so."""
    return is_utf8(name) and name not in ("", ".", "..") and not {"/", "\0"} & {*name} and len(name.encode()) < 256


class Origin(msgspec.Struct, frozen=True):
    """Where a file of the cache comes from, and what it was when it was copied; without a hash it was not there."""

    url: str
    stamp: str
    sha256: str = ""
    bytes: int = 0


def origin_of(file: Path) -> Origin | None:
    """The URL of a file, which may have left the cache; None for a file without one."""
    if file.parts[-5:-3] == (CACHE, ELSEWHERE):
        with suppress(OSError, *UNREADABLE):
            return msgspec.json.decode(_note(file).read_bytes(), type=Origin)
    return None


def place_of(file: Path) -> str | Path:
    """What a message calls a file: its URL, or its path."""
    return shown(origin.url) if (origin := origin_of(file)) else file


def fetch(file: Path) -> Path:
    """The file, copied again if it is of a URL and no longer in the cache. Raises DataError where it is gone or has changed since."""
    if origin := origin_of(file):
        if _is_whole(file, origin):
            with suppress(OSError):
                os.utime(_note(file))  # not the file, to which artifacts may link
        elif not origin.sha256 or _copied((file, _remote(origin)), wanted=origin.sha256).sha256 != origin.sha256:
            what = f"{shown(origin.url)} is gone or has changed since it was listed"
            raise DataError(what, hint="run ctxr build-sets again")
    return file


def digest_of(file: Path) -> str:
    """SHA-256 of a file; of a URL's file that left the cache, what it was. Raises OSError."""
    origin = None if file.exists() else origin_of(file)
    return origin.sha256 if origin else sha256_file(file)


def files_of(folder: Path) -> list[Path]:
    """The files in a folder, by name, with those that `fetch` copies again."""
    files = (path for path in folder.iterdir() if path.is_file())
    return sorted({*files, *(folder / note.name for note in (folder / NOTES).glob("*"))})


def _remote(origin: Origin) -> RemoteFile:
    return RemoteFile(origin.url, "", origin.bytes, origin.stamp)


def _note(file: Path) -> Path:
    return file.parent / NOTES / file.name


def _locks(stream: IO[str]) -> bool:
    try:
        flock(stream, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_whole(file: Path, origin: Origin) -> bool:
    return file.is_file() and file.stat().st_size == origin.bytes


def _copied(row: tuple[Path, RemoteFile], wanted: str = "", stopping: Event | None = None) -> Origin:
    """Copy what a URL names into the cache, unless another hash is `wanted` or another process does, and note what it is; without a hash
    it is not there."""
    file, source = row
    root, origin, lock = file.parents[2], Origin(source.url, source.stamp), file.parent / LOCKS / file.name
    with disk_errors(file):
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as stream:
            while not _locks(stream):
                if (stopping or Event()).wait(WAIT):
                    raise CtxrError("stopped")
            known = origin_of(file)
            if known and known.sha256 and known.stamp == source.stamp != "" and (not wanted or _is_whole(file, known)):
                return known
            with TemporaryDirectory(dir=root) as folder, suppress(NotThereError):
                Store(source.url, stopping).copy(half := Path(folder, "half"))
                origin = Origin(source.url, source.stamp, sha256_file(half), half.stat().st_size)
                if wanted in ("", origin.sha256):
                    half.replace(file)
            if wanted in ("", origin.sha256):
                write_bytes(_note(file), msgspec.json.encode(origin), durable=False)
                _make_room(root, origin.bytes)
    return origin


_ADDED: dict[Path, float] = {}  # bytes that this process copied into each cache since it last looked what is in it
_ROOM = Lock()


def _limit() -> float:
    """The most bytes that the cache may take."""
    try:
        return float(os.environ.get(LIMIT, "50")) * 1e9
    except ValueError as error:
        raise UsageError(f"{LIMIT}={os.environ[LIMIT]} is not a number of gigabytes", hint=f"{LIMIT}=50") from error


def _make_room(root: Path, added: int) -> None:
    """Remove the files that were used least recently where those of the cache, to which so many bytes were `added`, pass the limit."""
    limit = _limit()
    with _ROOM:
        _ADDED[root] = _ADDED.get(root, limit) + added
        if _ADDED[root] < limit / 20:  # looking takes time
            return
        _ADDED[root], left = 0, FILLED * limit
        places = []
        for path in chain(root.glob("tmp*"), root.glob(f"[0-9a-f]*/*/{NOTES}/*")):
            with suppress(FileNotFoundError):  # of a copy that ended meanwhile
                places.append((path.stat().st_mtime_ns, path))
        for used, path in sorted(places, reverse=True):
            file = path.parents[1] / path.name
            with suppress(FileNotFoundError):
                if path.parent != root:
                    left -= file.stat().st_size
                    if left < 0 and time.time_ns() - used > GRACE:
                        file.unlink()
                elif time.time_ns() - used > OLD:  # of a killed process
                    shutil.rmtree(path, ignore_errors=True)


def _hash(file: Path, task: ProgressTask, project: Path | None, walk: _SourceWalk) -> str:
    """SHA-256 of a file. Raises OSError, also for a file that is not regular: reading a pipe would wait for ever."""
    if origin := walk.origins.get(file):
        if origin.sha256:
            return origin.sha256
        raise OSError(errno.ENOENT, "it is no longer there")
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")

    def find(watch: Watch) -> str:
        watch([file])
        return sha256_file(file, lambda count: task.advance(count / MIB))

    if project is None or status.st_size < LARGE:
        return find(lambda _: None)
    return remembered(project, ["sha256", str(file.resolve())], find)


def _video(file: Path, task: ProgressTask, project: Path | None, walk: _SourceWalk) -> InputSource:
    try:
        digest, size = _hash(file, task, project, walk), walk.bytes(file)
    except OSError:
        # an unreadable file is a source that fails, with a reason, when it is decoded; wherever it lies, it is the same
        digest, size = sha256_bytes(f"{file.name} of {walk.bytes(file)} bytes".encode()), 0
    return InputSource(safe_name(file.stem), "video", file, digest, size)
