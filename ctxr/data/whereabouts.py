"""Where sources lie on this machine, by content. Kept beside the artifacts, not in them: an artifact is the same wherever it was made.

One small file per content, so that runs at the same time lose nothing of one another.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ctxr.data.atomic import write_bytes

CACHE = ".ctxr-cache"
"""Folder beside the artifacts for what may be deleted at any time."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def remember_places(artifact: Path, places: Mapping[str, Path]) -> None:
    """Note where the sources of an artifact lie: path by sha256 of the content."""
    for digest, path in places.items():
        place = path.resolve()
        if _SHA256.fullmatch(digest) and place_of(artifact, digest) != place:
            write_bytes(_file(artifact, digest), os.fsencode(place), durable=False)


def place_of(artifact: Path, sha256: str) -> Path | None:
    """Where the content was last seen; None if that is not known. It may have gone since."""
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
