"""Replace an artifact as a whole: the new one is written into a subfolder, then moved into place.

A killed run leaves `.making`; the next run removes it, and the files that were moved from it already. A user's own files in the
folder are never touched.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ctxr.engine.progress import Progress
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.store.artifacts import MANIFEST, MARKER, open_artifact, require_ours
from ctxr.store.atomic import disk_errors, link_or_copy
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import stays_inside

CARD = "README.md"
"""Name of the dataset card, the one file of an export that people edit."""

_MAKING = ".making"
_LEAVING = ".leaving"


def refuse_others(out: Path, kind: str, to: str = "") -> None:
    """Make the folder `out` ours, or leave it alone: raises UsageError when it holds something that is no export, or one in
    another format than `to`.
    """
    require_ours(out)
    with disk_errors(out):
        names = {path.name for path in out.iterdir()}
    if MANIFEST in names:
        manifest = open_artifact(out).manifest
        if manifest.kind != kind:
            raise UsageError(f"{out} holds {manifest.kind}, not an {kind}", hint="choose another folder with --out")
        if to and manifest.config.get("to") != to:
            raise UsageError(
                f"{out} holds an export to {manifest.config.get('to')}, not to {to}", hint="choose another --out"
            )
    elif names - {MARKER} and not names & {_MAKING, _LEAVING}:
        raise UsageError(f"{out} holds an unfinished artifact of another kind", hint="choose another folder with --out")


def keep_card(out: Path, progress: Progress) -> None:
    """Before an export is replaced: a card that was edited by hand is kept beside the new one."""
    card = out / CARD
    if not (out / MANIFEST).is_file() or not card.is_file():
        return
    entry = open_artifact(out).manifest.files.get(CARD)
    if entry is not None and sha256_file(card) != entry.sha256:
        kept = out / f"{card.stem}.edited{card.suffix}"
        link_or_copy(card, kept)
        progress.warn(f"{card} was edited: your version is kept as {kept.name}")


@contextmanager
def staged_folder(out: Path) -> Iterator[Path]:
    """An empty folder to write an artifact into, manifest last; when the block ends well, its files are moved to `out`.

    Files of the artifact that was there before go; if the block fails, it stays as it was. The caller holds the lock.
    """
    folder, leaving = out / _MAKING, out / _LEAVING
    with disk_errors(out):
        # a run that was killed while it moved its files left the list of them
        for half in (leaving, folder):
            if not (out / MANIFEST).is_file() and (half / MANIFEST).is_file():
                _remove_listed(out, half)
            shutil.rmtree(half, ignore_errors=True)
        folder.mkdir()
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    with disk_errors(out):
        if (out / MANIFEST).is_file():
            leaving.mkdir()
            (out / MANIFEST).replace(leaving / MANIFEST)
            _remove_listed(out, leaving)
        for name in [*open_artifact(folder).manifest.files, MANIFEST]:
            final = out / name
            _keep_inside(out, final)
            final.parent.mkdir(parents=True, exist_ok=True)
            # the list stays in `.making` until all is moved
            if name == MANIFEST:
                shutil.copyfile(folder / name, folder / f".{name}")
                (folder / f".{name}").replace(final)
            else:
                (folder / name).replace(final)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(leaving, ignore_errors=True)


def _remove_listed(out: Path, listing: Path) -> None:
    """Remove the files that the manifest in `listing` names from `out`, and folders that are empty then."""
    try:
        names = list(open_artifact(listing).manifest.files)
    except CtxrError:
        return  # damaged: nothing is known, nothing is removed
    folders: set[Path] = set()
    for name in names:
        if not stays_inside(name):
            raise DataError(f"{out} lists a file {name!r} that is not inside it", hint="choose another --out")
        _keep_inside(out, out / name)
        (out / name).unlink(missing_ok=True)
        folders.update(parent for parent in (out / name).parents if out in parent.parents)
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _keep_inside(out: Path, file: Path) -> None:
    """Raises UsageError where a link would lead a file out of the folder."""
    if not file.parent.resolve().is_relative_to(out.resolve()):
        raise UsageError(f"{file.parent} is a link to another folder", hint="choose an empty or new folder with --out")
