"""Facts about files, kept beside the artifacts until one of the files changes; they can be deleted at any time."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from ctxr.errors import CtxrError
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_of
from ctxr.store.paths import CACHE
from ctxr.store.tables import UNREADABLE


class FileFact(msgspec.Struct, frozen=True):
    """A fact, and size, time and number of each file or folder that it depends on, zeros for one that does not exist."""

    value: str
    files: dict[str, tuple[int, int, int]]


Watch = Callable[[Iterable[Path]], None]
"""Called with the files and folders that a fact depends on, before they are read."""


def remembered(workdir: Path, what: object, find: Callable[[Watch], str]) -> str:
    """What `find` gave for `what`, kept while the files that it watched are the same."""
    note = workdir / CACHE / "facts" / f"{sha256_of(what)}.json"
    with suppress(OSError, *UNREADABLE):
        fact = msgspec.json.decode(note.read_bytes(), type=FileFact)
        if _stamps(fact.files) == fact.files:
            return fact.value
    stamps: dict[str, tuple[int, int, int]] = {}
    # a link by its own name: it may change its target
    value = find(lambda files: stamps.update(_stamps(str(file.absolute()) for file in files)))
    if _stamps(stamps) == stamps:
        with suppress(CtxrError):  # without room or permission, it is found again next time
            write_bytes(note, msgspec.json.encode(FileFact(value, stamps)), durable=False)
    return value


def _stamps(files: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    stamps = {}
    for file in files:
        try:
            status = Path(file).stat()
        except (FileNotFoundError, NotADirectoryError):
            stamps[file] = (0, 0, 0)
        else:
            stamps[file] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return stamps
