"""Paths of sources on this machine, by content. Kept beside the artifacts, not in them: an artifact is the same wherever it was made.

Each content has a small file of its own, so concurrent runs do not overwrite each other's entries.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TypeVar, cast

from ctxr.errors import DataError
from ctxr.store.atomic import write_bytes

CACHE = ".ctxr-cache"
"""Folder beside the artifacts for what may be deleted at any time."""

NamesT = TypeVar("NamesT")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def remember_paths(artifact: Path, paths: Mapping[str, Path]) -> None:
    """Store the paths of the sources of an artifact, by sha256 of the content."""
    for digest, path in paths.items():
        resolved = Path(os.path.realpath(path))  # also of a link to itself
        if _SHA256.fullmatch(digest) and last_path(artifact, digest) != resolved:
            write_bytes(_file(artifact, digest), os.fsencode(resolved), durable=False)


def last_path(artifact: Path, sha256: str) -> Path | None:
    """The last known path of the content, or None. The file may no longer exist."""
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


def relative(folder: Path, start: Path) -> str:
    """The way from the folder `start` to `folder`, with `/`."""
    return Path(os.path.relpath(folder.resolve(), start.resolve())).as_posix()


def reached(start: Path, relative_path: str) -> Path:
    """The folder to which the path of `relative` leads, called as `start` is where that leaves no step up in its name."""
    folder = (start / relative_path).resolve()
    called = Path(os.path.normpath(start / relative_path))
    return called if ".." not in called.parts and called.resolve() == folder else folder


def portable(names: NamesT, project: Path) -> NamesT:
    """Names, by key or one alone, with each path from the root that one is or ends in as seen from the project folder, behind `./`."""
    if isinstance(names, dict):
        return cast("NamesT", {key: portable(name, project) for key, name in names.items()})
    head, colon, path = names.rpartition(":") if isinstance(names, str) else ("", "", "")
    return cast("NamesT", f"{head}{colon}./{relative(Path(path), project)}") if Path(path).is_absolute() else names


def rooted(names: NamesT, project: Path) -> NamesT:
    """What `portable` was given, where the project folder is now."""
    if isinstance(names, dict):
        return cast("NamesT", {key: rooted(name, project) for key, name in names.items()})
    head, colon, path = names.rpartition(":") if isinstance(names, str) else ("", "", "")
    return cast("NamesT", f"{head}{colon}{(project / path).resolve()}") if path.startswith("./") else names


def without_folder(name: str) -> str:
    """A name of `portable`, or one with a path from the root, with the last part of its path alone."""
    head, colon, path = name.rpartition(":")
    return f"{head}{colon}{Path(path).name}" if path.startswith("./") or Path(path).is_absolute() else name


PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""Names of files and folders that need no escape and lead nowhere else."""


def folder_name(name: str, what: str) -> str:
    """`name`, if it can be a folder's name and leads nowhere else. Raises DataError otherwise."""
    if not PLAIN_NAME.fullmatch(name) or len(name) > 200:
        raise DataError(
            f"{what} {name!r} cannot be the name of a folder",
            hint="names hold letters, digits, . _ - and do not begin with a dot",
        )
    return name


_SIGNS = frozenset("\\:\0")


def stays_inside(path: str) -> bool:
    """Whether a path in a table is relative, with `/`, and does not leave its folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and _SIGNS.isdisjoint(path)


def safe_name(text: str) -> str:
    """`text` as a name that is safe in every file system: letters, digits, `._-`; never hidden, never empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._")[:100] or "source"
