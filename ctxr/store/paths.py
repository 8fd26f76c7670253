"""Paths of sources on this machine, by content; paths of folders as seen from others; and names that are safe.

Paths of sources are kept beside the artifacts, which are the same on any machine. Each content has a file of its own: concurrent
runs do not overwrite each other's.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TypeVar, cast

from ctxr.store.atomic import write_bytes

CACHE = ".ctxr-cache"
"""Folder beside the artifacts that can be deleted at any time."""

NamesT = TypeVar("NamesT")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def remember_paths(artifact: Path, paths: Mapping[str, Path]) -> None:
    """Store the paths of the sources of an artifact, by sha256 of the content."""
    for digest, path in paths.items():
        resolved = Path(os.path.realpath(path))  # also of a link to itself
        if _SHA256.fullmatch(digest) and last_path(artifact, digest) != resolved:
            write_bytes(_file(artifact, digest), os.fsencode(resolved), durable=False)


def last_path(artifact: Path, sha256: str) -> Path | None:
    """The last known path of the content, which may no longer exist, or None."""
    if not _SHA256.fullmatch(sha256):
        return None
    try:
        content = _file(artifact, sha256).read_bytes()
    except OSError:
        return None
    path = Path(os.fsdecode(content))
    return path if path.is_absolute() and b"\0" not in content else None


def _file(artifact: Path, sha256: str) -> Path:
    return artifact.resolve().parent / CACHE / "places" / sha256


def is_url(text: str) -> bool:
    """Whether a word names something elsewhere, not a path of this machine."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def relative(folder: Path, start: Path) -> str:
    """The way from the folder `start` to `folder`, with `/`."""
    return Path(os.path.relpath(folder.resolve(), start.resolve())).as_posix()


def reached(start: Path, relative_path: str) -> Path:
    """The folder to which a path from `relative` leads, absolute if it cannot be named from `start` without a step up."""
    folder = (start / relative_path).resolve()
    called = Path(os.path.normpath(start / relative_path))
    return called if ".." not in called.parts and called.resolve() == folder else folder


def portable(names: NamesT, project: Path) -> NamesT:
    """A name, or a dict of them, in which an absolute path, alone or behind a colon, becomes `./` and the way from the project."""
    if isinstance(names, dict):
        return cast("NamesT", {key: portable(name, project) for key, name in names.items()})
    head, colon, path = names.rpartition(":") if isinstance(names, str) else ("", "", "")
    return cast("NamesT", f"{head}{colon}./{relative(Path(path), project)}") if Path(path).is_absolute() else names


def rooted(names: NamesT, project: Path) -> NamesT:
    """Inverse of `portable`, for the present folder of the project."""
    if isinstance(names, dict):
        return cast("NamesT", {key: rooted(name, project) for key, name in names.items()})
    head, colon, path = names.rpartition(":") if isinstance(names, str) else ("", "", "")
    return cast("NamesT", f"{head}{colon}{(project / path).resolve()}") if path.startswith("./") else names


def without_folder(name: str) -> str:
    """A name with the last part of its path alone, where that is absolute or from `portable`."""
    head, colon, path = name.rpartition(":")
    return f"{head}{colon}{Path(path).name}" if path.startswith("./") or Path(path).is_absolute() else name


PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""Names of files and folders that need no escape and do not leave their folder."""


def stays_inside(path: str) -> bool:
    """Whether a path in a table is relative, with `/`, and does not leave its folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and not set("\\:\0") & set(path)


def safe_name(text: str) -> str:
    """`text` as a name that is safe in every file system: letters, digits, `._-`; never hidden, never empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._")[:100] or "source"
