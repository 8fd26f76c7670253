"""A site behind a real socket, in a thread."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tests.annotation.web.crowd import Crowd


class Running:
    """A server that can be stopped and started again at the same address."""

    def __init__(self) -> None:
        # bound until it is used: a port that is let go in between can be another program's
        self._socket = _bound(0)
        self.port = int(self._socket.getsockname()[1])
        self.address = f"http://127.0.0.1:{self.port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, crowd: Crowd) -> None:
        settings = uvicorn.Config(crowd.app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=10)
        self._server = uvicorn.Server(settings)
        self._crowd = crowd
        listening = self._socket if self._socket.fileno() >= 0 else _bound(self.port)
        self._thread = threading.Thread(target=self._server.run, args=([listening],))
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._crowd.bell.close()
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._server = None


def _bound(port: int) -> socket.socket:
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind(("127.0.0.1", port))
    return opened


@contextmanager
def serving(crowd: Crowd) -> Iterator[Running]:
    running = Running()
    running.start(crowd)
    try:
        yield running
    finally:
        running.stop()
