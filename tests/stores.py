"""Stores elsewhere: fsspec's memory, and a server of S3 on this machine that can be told to be busy."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fsspec
import pytest
from fsspec.asyn import sync

SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


def memory(folder: Path, url: str) -> str:
    """The files of a folder in memory, below `url`, which is returned."""
    put(fsspec.filesystem("memory"), folder, url)
    return url


def put(store: Any, folder: Path, url: str) -> None:
    """Copy the files of a folder below a URL."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            store.pipe_file(f"{url.rstrip('/')}/{file.relative_to(folder).as_posix()}", file.read_bytes())


class BusyServer:
    """An application of WSGI that answers the next requests with 503, as many as `busy` says, and counts all in `requests`."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self.app, self.busy, self.requests, self.lock = app, 0, list[str](), threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self.lock:
            self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
            refused, self.busy = self.busy > 0, max(0, self.busy - 1)
        if refused:
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [SLOW_DOWN]
        return self.app(environ, start_response)


@contextmanager
def s3_server(environment: pytest.MonkeyPatch) -> Iterator[BusyServer]:
    """A server of S3 with the bucket `clips`, which processes find by their environment."""
    for package in ("s3fs", "moto"):
        pytest.importorskip(package, reason=f"{package} is not installed: make peers")
    import s3fs
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = BusyServer(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    given = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}", "AWS_ACCESS_KEY_ID": "a", "AWS_MAX_ATTEMPTS": "1"}
    given |= {"AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in given.items():
        environment.setenv(name, value)
    environment.setattr(s3fs.S3FileSystem, "retries", 2)  # ours are tested
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        with urlopen(Request(f"{given['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")):  # noqa: S310 - ours
            s3fs.S3FileSystem().mkdir("clips")
        yield application
    finally:
        for store in s3fs.S3FileSystem._cache.values():
            if (
                store._s3 is not None
            ):  # its own finaliser waits a tenth of a second, and leaves connections open on a busy machine
                sync(store.loop, store._s3creator.__aexit__, None, None, None)
        s3fs.S3FileSystem.clear_instance_cache()
        server.shutdown()
        thread.join()
        server.server_close()
