"""Atomic writes: a reader sees the old file or the new one, never a partial one."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ctxr.errors import CtxrError

DRY_RUN = ContextVar("dry_run", default=False)
"""Whether nothing may be written; what is kept for speed alone is then found again next time."""

HALF_WRITTEN = ".*.[0-9]*-[0-9a-f]*.part"
"""Pattern of partial files: those being written, and those of killed processes."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn disk errors (full, read-only, no permission) into one sentence with a hint."""
    try:
        yield
    except OSError as error:
        sentence, hint = f"{path} cannot be written: {error.strerror}", "choose another folder"
        if error.errno in _FULL:
            sentence = f"the disk is full: {path} could not be written"
            hint = "free some space and run the same command again; finished sources are kept"
        elif error.errno in {errno.EACCES, errno.EPERM}:
            sentence, hint = f"no permission to write {path}", "make the folder writable, or choose another one"
        elif error.errno == errno.EROFS:
            sentence = f"{path} is on a read-only file system"
        elif error.errno in {errno.ENOTDIR, errno.EEXIST}:
            sentence = f"{path} cannot be made: a file stands in its way"
        raise CtxrError(sentence, hint=hint) from error


def write_bytes(path: Path, content: bytes, durable: bool = True) -> None:
    """Replace `path` by `content` in one step; with `durable`, on the medium before this returns.

    Raises CtxrError when the disk is full or the folder not writable; the old file then stays.
    """
    if DRY_RUN.get() and not durable:
        return
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        passing = _passing(path)
        try:
            with passing.open("xb") as stream:
                stream.write(content)
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            passing.replace(path)
        except OSError:
            passing.unlink(missing_ok=True)
            raise


def replace_folder(folder: Path, final: Path) -> None:
    """Put the finished `folder` in the place of `final`, which may exist."""
    with disk_errors(final):
        old = final.with_name(f".{final.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        final.parent.mkdir(parents=True, exist_ok=True)
        if final.exists():
            final.replace(old)
        folder.replace(final)
        shutil.rmtree(old, ignore_errors=True)


def link_or_copy(original: Path, copy: Path) -> None:
    """Make `copy` a hard link to `original`, symlinks resolved, or a copy where there are no links; replaced in one step."""
    with disk_errors(copy):
        if copy.exists() and copy.samefile(original):
            return
        copy.parent.mkdir(parents=True, exist_ok=True)
        passing, whole = _passing(copy), original.resolve()
        try:
            try:
                os.link(whole, passing)
            except OSError:
                shutil.copyfile(whole, passing)
            passing.replace(copy)
        finally:
            passing.unlink(missing_ok=True)


def _passing(path: Path) -> Path:
    """A partial file (`HALF_WRITTEN`) beside `path` that no other writer uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
