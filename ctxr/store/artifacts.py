"""Artifacts: folders that one verb wrote, `manifest.json` last; unfinished without it.

A manifest holds no time and no absolute path, so equal runs are byte-equal. `docs/format.md` is the specification.
"""

import errno
import fcntl
import importlib.metadata
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.store.atomic import DRY_RUN, HALF_WRITTEN, disk_errors, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_file, sha256_if_readable, sha256_of
from ctxr.store.kinds import REVISE_LABELS
from ctxr.store.tables import UNREADABLE, decode_other, encode_other, pretty_json
from ctxr.version import __version__

FORMAT = 1  # version of the artifact format; a reader refuses a newer one
MANIFEST = "manifest.json"
EARLIER = ".manifest.json"  # the manifest of the result that a run is replacing, until the new one is written
MARKER = ".ctxr"  # empty file that marks a folder as an artifact; it is also the lock, and is kept
RANKS = "sources/.*-of-*.rank"  # pattern of the records of ranks
CHOOSE = "--out, --name or --workdir, whichever the command has"
RESTORE = "restore it from a copy, or start over with --out ANOTHER, which leaves these rounds unchanged"
"""The hint for a changed file of the rounds, which no command can rebuild."""

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_PACKAGES = (
    "av", "lapjv", "matplotlib", "numpy", "open_clip_torch", "opencv-python", "pillow", "piq", "pytesseract", "scenedetect",
    "torch", "torchvision",
)  # fmt: skip


class FileEntry(msgspec.Struct, frozen=True):
    """A table or array of the artifact as it was when the manifest was written."""

    sha256: str
    bytes: int


class Parent(msgspec.Struct, frozen=True):
    """What an artifact was made from: an artifact (sha256 of its manifest) or a source (sha256 of its content).

    `name` is what it was called then: a renamed one is the same parent.
    """

    name: str
    kind: str
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """An artifact's kind, how it was made, and the hashes of its files; `seal` is the SHA-256 of the manifest's own file without it."""

    kind: str
    format: int
    ctxr: str
    verb: str
    config: dict[str, Any]
    parents: list[Parent]
    counts: dict[str, Any]
    models: dict[str, Any]
    packages: dict[str, str]
    files: dict[str, FileEntry]
    seal: str

    def sealed(self) -> "Manifest":
        """With the seal that belongs to it."""
        return msgspec.structs.replace(self, seal=sha256_bytes(pretty_json(msgspec.structs.replace(self, seal=""))))


@dataclass(frozen=True)
class Artifact:
    """A finished artifact: its folder, its manifest, and the SHA-256 of the manifest's file."""

    path: Path
    manifest: Manifest
    sha256: str

    def changed_files(self, under: str = "") -> list[str]:
        """Tables and arrays whose names begin with `under` that were edited, damaged or removed since the manifest was written."""
        entries = {name: entry for name, entry in self.manifest.files.items() if name.startswith(under)}
        return [name for name, entry in entries.items() if sha256_if_readable(self.path / name) != entry.sha256]

    @property
    def content(self) -> str:
        """SHA-256 over its files, whatever they were made from."""
        return sha256_of(sorted((name, entry.sha256) for name, entry in self.manifest.files.items()))

    @property
    def cure(self) -> str:
        """The hint for a changed file."""
        verb = self.manifest.verb
        return RESTORE if verb == REVISE_LABELS else f"restore it from a copy, or run ctxr {verb} again as before"

    def changed_error(self, name: str) -> DataError:
        """The error for a changed or removed file."""
        file = self.path / name
        return DataError(f"{file} was {'changed' if file.exists() else 'removed'} since it was written", hint=self.cure)

    def refuse_changed(self, under: str = "") -> None:
        """Raises DataError for the first of `changed_files`."""
        for name in self.changed_files(under)[:1]:
            raise self.changed_error(name)


def picked_with(folder: Path) -> dict[str, Any]:
    """The encoder and the selection, as in the manifest of a folder, with which its image sets were picked; nothing where ctxr did not."""
    models = open_artifact(folder).manifest.models if (folder / MANIFEST).is_file() else {}
    return {name: models[name] for name in ("encoder", "selection") if name in models}


def open_artifact(path: Path, kind: str | tuple[str, ...] = (), maker: str = "") -> Artifact:
    """The finished artifact at `path`, of any kind if none is named; `maker` is the command that makes one.

    Raises UnfinishedError without a manifest, DataError for a damaged manifest, a newer format or another kind.
    """
    file = path / MANIFEST
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        problem = "has no manifest.json: it is unfinished or not a ctxr artifact"
        hint = "run the command that makes it, again if it was interrupted"
        if not path.exists():
            problem, hint = "does not exist", f"check the path, or {hint}"
        hint = f"{hint}: {maker}" if maker else hint
        raise UnfinishedError(f"{path} {problem}", hint=merge_hint(path) or hint) from error
    try:
        loose = msgspec.json.decode(content)
        version = loose.get("format") if isinstance(loose, dict) else None
        if isinstance(version, int) and version > FORMAT:
            sentence = f"{file} has format {version}, newer than this ctxr understands ({FORMAT})"
            raise DataError(sentence, hint="install a newer ctxr")
        manifest = msgspec.json.decode(content, type=Manifest, dec_hook=decode_other)
    except UNREADABLE as error:
        if not (path / MARKER).exists():
            raise DataError(f"{file} is not a manifest of ctxr: {error}", hint="name another folder") from error
        cure = f"restore it from a copy, or move it away and run the command that made {path} again"
        raise DataError(f"{file} is damaged: {error}", hint=cure) from error
    kinds = (kind,) if isinstance(kind, str) else kind
    if kinds and manifest.kind not in kinds:
        hint = "name the right folder, or the --workdir that it is in"
        raise DataError(f"{path} holds {manifest.kind}, not {' or '.join(kinds)}", hint=hint)
    return Artifact(path, manifest, sha256_bytes(content))


def merge_hint(path: Path) -> str:
    """The hint for a folder that ranks have worked on; empty for another."""
    return f"{shlex.join(['ctxr', 'merge', str(path)])}   once all ranks are done" if any(path.glob(RANKS)) else ""


def finished(
    path: Path, kind: str, verb: str, config: Mapping[str, object], parents: Sequence[Parent]
) -> Artifact | None:
    """The finished artifact at `path` if it was made by `verb` with this config and these parents, by content; None otherwise."""
    if not (path / MANIFEST).is_file():
        return None
    artifact = open_artifact(path, kind)
    manifest = artifact.manifest
    same = manifest.verb == verb and manifest.config == json_config(config) and manifest == manifest.sealed()
    old, new = ({(parent.kind, parent.sha256) for parent in given} for given in (manifest.parents, parents))
    return artifact if same and old == new else None


def json_config(config: Mapping[str, object]) -> dict[str, object]:
    """A configuration as it reads back from JSON: tuples become lists, paths and fractions text."""
    ready = {name: str(value) if isinstance(value, Path) else value for name, value in config.items()}
    decoded: dict[str, object] = msgspec.json.decode(msgspec.json.encode(ready, enc_hook=encode_other))
    return decoded


def require_ours(path: Path, way: str = CHOOSE) -> None:
    """Raises UsageError where other files are at `path`, with the `way` to name another."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, not a folder", hint=f"choose another folder: {way}")
    with disk_errors(path):
        names = sorted(file.name for file in path.iterdir()) if path.exists() else []
        if names and MANIFEST not in names and MARKER not in names:
            hint = f"choose an empty or new folder: {way}"
            raise UsageError(f"{path} holds {names[0]!r}, which is not part of an artifact", hint=hint)


def take_manifest(path: Path) -> bytes | None:
    """Remove the manifest of an artifact that changes, and return it; None without one."""
    try:
        content = (path / MANIFEST).read_bytes()
        (path / MANIFEST).rename(path / EARLIER)
    except FileNotFoundError:  # another rank may be faster
        return None
    return content


def earlier_manifest(path: Path) -> Manifest | None:
    """The manifest of the finished result, or of the one that an interrupted run was replacing; None without either."""
    for file in (path / MANIFEST, path / EARLIER):
        with suppress(OSError, *UNREADABLE):
            return msgspec.json.decode(file.read_bytes(), type=Manifest, dec_hook=decode_other)
    return None


@contextmanager
def locked(path: Path, shared: bool = False) -> Iterator[None]:
    """Lock the folder `path`, made and marked if missing, until the block ends or the process dies.

    The lock is on the marker file. It is `shared` with the other ranks of a run; or exclusive: then partial files of killed processes
    are removed at any depth first, and the folder at the end, if the block fails and has left nothing in it.
    Raises UnfinishedError when another process holds a lock that excludes this one.
    """
    with disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        stream = (path / MARKER).open("a+")
    with stream:
        # another run that failed may have removed the marker before it was locked here
        if not take_lock(stream, shared) or not os.fstat(stream.fileno()).st_nlink:
            hint = f"wait for it, or choose another folder: {CHOOSE}"
            raise UnfinishedError(f"{path} is being written by another ctxr process", hint=hint)
        with disk_errors(path):
            for half in () if shared or DRY_RUN.get() else path.rglob(HALF_WRITTEN):  # of killed writers
                half.unlink(missing_ok=True)
        try:
            yield
        except Exception:
            with suppress(OSError):
                if not shared and [file.name for file in path.iterdir()] == [MARKER]:
                    (path / MARKER).unlink()
                    path.rmdir()
            raise


def take_lock(stream: IO[str], shared: bool = False) -> bool:
    """Lock an open file, readable and writable, until closed; False if another process holds it.

    Raises CtxrError on a file system without file locks.
    """
    with disk_errors(Path(stream.name)):
        try:
            fcntl.flock(stream, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            sentence = f"{stream.name} cannot be locked: its file system has no file locks"
            hint = f"choose a folder where flock works, such as a local disk: {CHOOSE}"
            raise CtxrError(sentence, hint=hint) from error
    return True


class Content(NamedTuple):
    """What a verb wrote into an artifact.

    Attributes:
        files: relative to its folder. counts, models: as in the manifest.
        parents: what it was made from; None where that is all of `Inputs.parents`.
    """

    files: list[str]
    counts: dict[str, Any]
    models: dict[str, Any]
    parents: Sequence[Parent] | None = None


def finish(
    path: Path,
    *,
    kind: str,
    verb: str,
    config: Mapping[str, object],
    parents: Sequence[Parent],
    content: Content,
) -> Artifact:
    """Write the manifest, last and atomically."""
    sizes = {name: (path / name).stat().st_size for name in sorted(content.files)}
    manifest = Manifest(
        kind=kind,
        format=FORMAT,
        ctxr=__version__,
        verb=verb,
        config=json_config(config),
        parents=sorted(parents, key=lambda parent: (parent.name, parent.sha256)),
        counts=dict(content.counts),
        models=dict(content.models),
        packages=package_versions(),
        files={name: FileEntry(sha256_file(path / name), size) for name, size in sizes.items()},
        seal="",
    ).sealed()
    written = pretty_json(manifest)
    (path / EARLIER).unlink(missing_ok=True)
    write_bytes(path / MANIFEST, written)
    return Artifact(path, manifest, sha256_bytes(written))


@cache
def package_versions(*names: str) -> dict[str, str]:
    """Versions of packages, by default of all that can change a result; "" if missing."""
    versions = {}
    for name in names or _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = ""
    return versions
