"""Files elsewhere, by URL, through fsspec, which is imported when a URL is first used."""

import errno
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ctxr.errors import CtxrError, DataError, UsageError, first_line
from ctxr.store.atomic import disk_errors, write_bytes

T = TypeVar("T")

_PACKAGES = {
    "s3": "s3fs", "gs": "gcsfs", "hf": "huggingface_hub", "https": "aiohttp", "http": "aiohttp", "file": "fsspec", "memory": "fsspec"
}  # fmt: skip
"""What reads each kind of URL."""

WEB = ("https", "http")
READ_ONLY = (*WEB, "hf")
OBJECTS = "files"  # folder of an artifact elsewhere with its files, by SHA-256
AT_ONCE = 8  # files that are copied at the same time
_KEYS = {
    "s3": "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket FSSPEC_S3_ANON=true",
    "gs": "gcloud auth application-default login; for a public bucket FSSPEC_GS_TOKEN=anon",
    "hf": "hf auth login, or set HF_TOKEN",
}
"""How each store learns who asks."""

_STAMPS = (
    "ETag", "etag", "md5Hash", "generation", "blob_id", "Content-MD5", "LastModified", "Last-Modified", "updated", "mtime", "created"
)  # fmt: skip
"""What stores call that which changes with the content of a file."""

SILENCE = 60.0  # seconds without a byte from a server of the web, after which it is asked again
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between tries where a store is busy
_BUSY = {errno.EBUSY, errno.EAGAIN, errno.EIO, getattr(errno, "EREMOTEIO", errno.EIO), 408, 429, 500, 502, 503, 504}
_OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class NotThereError(DataError):
    """No file has this URL."""


def shown(url: str) -> str:
    """A URL for messages: what follows the question mark of a web address may be a secret."""
    return url.partition("?")[0] if url.lower().startswith(WEB) else url


@dataclass(frozen=True)
class RemoteFile:
    """A file elsewhere: URL, path below the URL asked about, size or 0, and what changes with its content, or ""."""

    url: str
    inside: str
    bytes: int
    stamp: str


class Store:
    """What a URL names: a file, or everything below it.

    Where a store is busy, its methods ask again, with longer and longer pauses. They raise NotThereError for what is not there, and
    CtxrError, one sentence with a hint, for anything else.
    """

    def __init__(self, url: str, stopping: threading.Event | None = None) -> None:
        """Raises UsageError for an unknown kind of URL, and for a package that is not installed. Once `stopping` is set, copies end."""
        self.stopping = stopping or threading.Event()
        self.url, self.scheme = url, url.partition("://")[0].lower()
        if self.scheme not in _PACKAGES:
            known = " ".join(f"{name}://" for name in _PACKAGES if name != "memory")
            raise UsageError(f"{shown(url)}: no {self.scheme}:// address can be read", hint=f"one of {known}")
        try:
            kind = import_module("fsspec").get_filesystem_class(self.scheme)
        except ImportError as error:
            package = _PACKAGES[self.scheme]
            what = f"{self.scheme}:// needs the package {package}, which is not installed"
            raise UsageError(what, hint=f"pip install {package}") from error
        options: dict[str, Any] = {"auto_mkdir": True} if self.scheme == "file" else {}
        if self.scheme in WEB:  # aiohttp would end any download after five minutes
            waits = import_module("aiohttp").ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)
            options["client_kwargs"] = {"timeout": waits}
        self.fs: Any = self._call(lambda: kind(**options))
        self.path: str = kind._strip_protocol(url)

    def files(self) -> list[RemoteFile]:
        """The file itself, or the files below it; those that a pattern means, and those below the folders that it means."""
        if self.scheme in WEB:
            return [_described(self.url, "", self._call(lambda: self.fs.info(self.path)))]

        def find() -> Iterator[RemoteFile]:
            self.fs.invalidate_cache()
            roots, typed = [self.path], {*self.path.split("/")}
            if has_magic(self.path) and not self.fs.exists(self.path):
                # as on this machine, a pattern means no hidden files
                roots = [
                    one for one in self.fs.glob(self.path) if "." not in {p[:1] for p in {*one.split("/")} - typed}
                ]
            for root in roots:
                for name, info in self.fs.find(root, detail=True).items():
                    if info.get("type") != "directory" and not name.endswith("/"):
                        yield _described(self.fs.unstrip_protocol(name), name.removeprefix(root).lstrip("/"), info)

        return self._call(lambda: [*find()])

    def read(self, name: str) -> bytes:
        """The content of a file below the URL."""
        content: bytes = self._call(lambda: self.fs.cat_file(self._below(name)))
        return content

    def copy(self, target: Path, name: str = "") -> None:
        """Copy the file, or one below the URL, to this machine, where `target` may be left half written."""

        def look(*_: object) -> None:
            if self.stopping.is_set():
                raise CtxrError("stopped")

        callback = import_module("fsspec.callbacks").Callback(hooks={"": look})
        with disk_errors(target):
            self._call(lambda: self.fs.get_file(self._below(name), str(target), callback=callback))

    def send(self, file: Path, name: str) -> None:
        """Copy a file of this machine to a name below the URL."""
        target = self._below(name)
        with self._writing(target):
            self._call(lambda: self.fs.put_file(str(file), target))

    def write(self, name: str, content: bytes) -> None:
        """Write a small file below the URL in one step."""
        if self.scheme == "file":
            write_bytes(Path(self._below(name)), content)
        else:
            with self._writing(self._below(name)):
                self._call(lambda: self.fs.pipe_file(self._below(name), content))

    @contextmanager
    def _writing(self, target: str) -> Iterator[None]:
        """Raises CtxrError where a file cannot be written; stores say then that it is not there."""
        try:
            with disk_errors(Path(target)) if self.scheme == "file" else nullcontext():
                yield
        except NotThereError as error:
            why = "there is no such bucket or folder, and none can be made"
            raise CtxrError(f"{shown(self.url)} cannot be written: {why}", "make it, or check the address") from error

    def _below(self, name: str) -> str:
        # what follows the question mark of a web address may say who asks, for every file below it
        place, mark, query = self.path.partition("?" if self.scheme in WEB else "\0")
        return f"{place.rstrip('/')}/{name}{mark}{query}" if name else self.path

    def _call(self, what: Callable[[], T]) -> T:
        """What `what` returns, or raises, as the class says; errors of this machine's disk as they are."""
        pauses = iter(PAUSES)
        while True:
            try:
                return what()
            except Exception as error:
                local = isinstance(error, OSError) and (error.errno in _OF_DISKS or (error.errno and error.filename))
                if isinstance(error, CtxrError) or (local and not isinstance(error, FileNotFoundError)):
                    raise
                pause = next(pauses, None) if _codes(error) & _BUSY else None
                if pause is None:
                    raise self._told(error) from error
                time.sleep(pause)

    def _told(self, error: Exception) -> CtxrError:
        url, codes = shown(self.url), _codes(error)
        why = re.sub(r"\?[^\s'\"]+", "?***", first_line(error if _broken(error) else _causes(error)[-1]))  # as `shown`
        if codes & _BUSY:
            return CtxrError(
                f"{url}: the store is busy or does not answer: {why}",
                "run the same command again later: what was copied is kept",
            )
        denied = codes & {401, 403} or isinstance(error, PermissionError) or "Credential" in type(error).__name__
        # fsspec says of every address of the web that fails that it is not there
        if isinstance(error, FileNotFoundError) and not denied and (self.scheme not in WEB or codes <= {404}):
            return NotThereError(f"{url} is not there", "check the address")
        hint = _KEYS.get(self.scheme, "check who may read it") if denied else "check the address"
        return CtxrError(f"{url} cannot be used: {why}", hint)


def _described(url: str, inside: str, info: dict[str, Any]) -> RemoteFile:
    size, stamps = info.get("size") or 0, [f"{name} {info[name]}" for name in _STAMPS if info.get(name)]
    return RemoteFile(url, inside, size, " ".join([str(size), *stamps]) if stamps else "")


def _causes(error: BaseException) -> list[BaseException]:
    """The error and its causes."""
    return [error, *(_causes(error.__cause__) if error.__cause__ else ())]


def _codes(error: BaseException) -> set[int]:
    """What tells errors apart: numbers of the system, and of HTTP; a request without an answer counts as busy."""
    causes = _causes(error)
    places = [*causes, *(getattr(one, "response", None) for one in causes)]
    codes = {getattr(one, "errno", None) for one in causes}
    # the first that is there: aiohttp warns of the last
    codes |= {
        next((getattr(one, name) for name in ("status", "status_code", "code") if hasattr(one, name)), None)
        for one in places
    }
    silent = any(isinstance(one, TimeoutError | ConnectionError) or _broken(one) for one in causes)
    return {code for code in codes if isinstance(code, int)} | ({errno.EBUSY} if silent else set())


def _broken(error: BaseException) -> bool:
    """Whether a connection ended before its file did, as aiohttp tells it."""
    return type(error).__name__ == "ClientPayloadError"
