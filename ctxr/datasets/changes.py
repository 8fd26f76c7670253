"""Detects files of an artifact that changed after they were written, before anything is built on it."""

import os
from collections.abc import Iterable
from pathlib import Path
from stat import S_ISREG

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.store.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import RELEASE
from ctxr.store.paths import stays_inside
from ctxr.store.records import Facts, Image
from ctxr.store.tables import read_table
from ctxr.store.units import drop_units, read_unit, units_of


def changed(artifact: Artifact) -> tuple[list[str], list[str]]:
    """(files, units): files of the artifact, relative to it, that were edited, damaged or removed, and the units they belong to.

    Tables and arrays are compared by hash. Of pictures, which are most of the bytes, only those are read that are younger than
    the manifest; one that is missing, a link, or outside the folder counts as changed. `ctxr doctor` reads them all.
    """
    tables = artifact.changed_files()
    if tables:
        return tables, units_of(tables)
    written = (artifact.path / MANIFEST).stat().st_mtime_ns
    others = {
        path: unit
        for path, (unit, sha256) in pictures_of(artifact.path).items()
        if _is_other(artifact.path, path, sha256, written)
    }
    return list(others), sorted(set(others.values()))


def refuse_changed(artifact: Artifact) -> None:
    """Raise DataError if something in the artifact was changed, a picture too."""
    files, units = changed(artifact)
    if not files:
        return
    for unit in units:
        read_unit(artifact.path, unit)  # where a row cannot be read, its line says more
    raise artifact.changed_error(files[0])


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


def discard(artifact: Path, files: Iterable[str], units: Iterable[str], progress: Progress) -> None:
    """Remove changed files, with a warning, for their command to rebuild them."""
    for number, name in enumerate(files):
        if not number:
            progress.warn(f"{artifact / name} has changed since it was written and is rebuilt")
        file = artifact / name
        if file.parent.is_symlink():
            file.parent.unlink()
        elif file.suffix != ".jsonl":
            file.unlink(missing_ok=True)
    drop_units(artifact, units)


def pictures_of(folder: Path) -> dict[str, tuple[str, str]]:
    """(unit, sha256) of every picture of an artifact of image sets, by path."""
    pictures = {row.path: (row.source, row.sha256) for row in read_table(folder / "facts.jsonl", Facts)}
    return pictures | {row.path: (row.group, row.sha256) for row in read_table(folder / "images.jsonl", Image)}


def _is_other(folder: Path, path: str, sha256: str, written: int) -> bool:
    if not stays_inside(path):
        return True
    file = folder / path
    try:
        status = os.lstat(file)
        elsewhere = not S_ISREG(status.st_mode) or file.parent.is_symlink()
        # not the time of the inode: another artifact that links the picture changes that
        return elsewhere or (status.st_mtime_ns > written and sha256_file(file) != sha256)
    except OSError:
        return True
