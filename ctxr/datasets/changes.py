"""Detects files of an artifact that changed after they were written."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from stat import S_ISREG

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.store.artifacts import MANIFEST, Artifact, FileEntry, Parent, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import DATASET, IMAGE_SETS, RELEASE
from ctxr.store.paths import stays_inside
from ctxr.store.tables import UNREADABLE
from ctxr.store.units import SOURCES, read_unit, unit_folder


def changed(artifact: Artifact) -> dict[str, str]:
    """Files of the artifact, relative to it, that were edited, damaged or removed, each with the unit that it belongs to; "" for none.

    Tables and arrays are compared by hash. Of pictures, which are most of the bytes, only those are read that are younger than
    the manifest; one that is missing, a link, or outside the folder counts as changed. `ctxr doctor` reads them all.
    """
    if tables := artifact.changed_files():
        return {name: PurePosixPath(name).parts[1] if name.startswith(f"{SOURCES}/") else "" for name in tables}
    written = (artifact.path / MANIFEST).stat().st_mtime_ns
    differing = {}
    for row in picture_rows(artifact.path):
        file = artifact.path / row.path
        try:
            status = os.lstat(file)
            same = stays_inside(row.path) and S_ISREG(status.st_mode) and not file.parent.is_symlink()
            # not the time of the inode: another artifact that links the picture changes that
            same = same and (status.st_mtime_ns <= written or sha256_file(file) == row.sha256)
        except (OSError, ValueError):  # ValueError: no file has such a name
            same = False
        if not same:
            differing[row.path] = row.unit
    return differing


def refuse_changed(artifact: Artifact) -> None:
    """Raise DataError if something in the artifact was changed, a picture too."""
    files = changed(artifact)
    for unit in sorted({*files.values()} - {""}):
        read_unit(artifact.path, unit)  # where a row cannot be read, its line says more
    for file in files:
        raise artifact.changed_error(file)


def parent_of(dataset: Dataset, seen: str) -> Parent:
    """The dataset as a parent: its manifest where it is an artifact, else `seen`, a hash over all that is read of it.

    Raises DataError where a table was edited since: its manifest would stand for what was never built on.
    """
    if dataset.root is None or not (dataset.root / MANIFEST).is_file():
        return Parent(dataset.name, RELEASE, seen)
    artifact = open_artifact(dataset.root)
    artifact.refuse_changed()
    return Parent(dataset.name, artifact.manifest.kind, artifact.sha256)


def refuse_other(picture: Path, content: str) -> None:
    """Raise DataError where a picture has another SHA-256 than `content`; one that cannot be read is left to who reads it."""
    try:
        same = sha256_file(picture) == content
    except OSError:
        return
    if not same:
        hint = "restore it from a copy, or run the command that made its dataset again"
        raise DataError(f"{picture} was changed since it was written", hint=hint)


def contents_of(
    dataset: Dataset, files: Mapping[str, Path], passed: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """SHA-256 of each picture by image id; `passed` is called after each. Raises DataError for one that was changed: a hash that its row
    or a manifest has is verified where the file is newer than the manifest."""
    written, entries = None, dict[str, FileEntry]()
    if dataset.root is not None and (dataset.root / MANIFEST).is_file():
        written, entries = (dataset.root / MANIFEST).stat().st_mtime_ns, open_artifact(dataset.root).manifest.files
    contents = {}
    for image, file in files.items():
        row = dataset.images[image]
        digest = row.sha256 or (entries[row.path].sha256 if row.path in entries else "")
        if digest and written is not None and file.stat().st_mtime_ns > written:
            refuse_other(file, digest)
        contents[image] = digest or sha256_file(file)
        passed()
    return contents


def discard(artifact: Path, files: Mapping[str, str], progress: Progress) -> None:
    """Remove changed files and their units, with a warning, for their command to rebuild them."""
    if files:
        progress.warn(f"{artifact / next(iter(files))} has changed since it was written and is rebuilt")
    for file in (artifact / name for name in files):
        if file.parent.is_symlink():
            file.parent.unlink()
        elif file.suffix != ".jsonl":
            file.unlink(missing_ok=True)
    for unit in {*files.values()} - {""}:
        shutil.rmtree(unit_folder(artifact, unit), ignore_errors=True)


def contents(artifact: Artifact) -> dict[str, str]:
    """SHA-256 of each file of the artifact by name: those of the manifest, and the pictures that its tables name, where these are there.

    Raises DataError for what is no hash, and for a name that is not that of a file of its own in the folder.
    """
    files = {name: entry.sha256 for name, entry in artifact.manifest.files.items()}
    if artifact.manifest.kind in (IMAGE_SETS, DATASET):
        files = {row.path: row.sha256 for row in picture_rows(artifact.path)} | files
    folders = {str(above) for name in files for above in PurePosixPath(name).parents}
    taken = Counter(name.lower() for name in files)  # some file systems ignore case
    for name, digest in files.items():
        plain = stays_inside(name) and str(PurePosixPath(name)) == name and not name.startswith((".", MANIFEST))
        if not plain or name in folders or taken[name.lower()] > 1 or not re.fullmatch("[0-9a-f]{64}", digest):
            raise DataError(f"{artifact.path} lists the file {name!r} with the hash {digest!r}", hint="make it again")
    return files


class PictureRow(msgspec.Struct, frozen=True):
    """What rows of images and facts say of their picture."""

    path: str
    sha256: str
    source: str = ""
    group: str = ""

    @property
    def unit(self) -> str:
        """Name of the unit that the picture belongs to."""
        return self.source or self.group


def picture_rows(folder: Path) -> list[PictureRow]:
    """Every picture of an artifact of image sets, once. Raises DataError for a damaged table."""
    rows, decoder = dict[str, PictureRow](), msgspec.json.Decoder(PictureRow)
    for name in ("facts", "images"):
        table = folder / f"{name}.jsonl"
        try:
            rows |= {row.path: row for row in decoder.decode_lines(table.read_bytes() if table.exists() else b"")}
        except UNREADABLE as error:
            raise DataError(f"{table} is damaged: {error}") from error
    return [*rows.values()]
