"""The loop of the server: answers until it is told to stop, and then lets go of those who wait."""

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

STOP_SECONDS = 3
"""Requests that are still running get so long to end."""


class _Server(uvicorn.Server):
    """A server that wakes who waits when it is told to stop."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C, or the system asking."""
        self._stopping()
        super().handle_exit(sig, frame)


def answer_requests(app: ASGIApp, listening: socket.socket, stopping: Callable[[], None], behind_proxy: bool) -> None:
    """Answer at `listening` until Ctrl-C; `stopping` is called first then. Behind a proxy on this machine its word is
    taken for who asks."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=behind_proxy,
        forwarded_allow_ips="127.0.0.1",
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    try:
        _Server(config, stopping).run(sockets=[listening])
    except KeyboardInterrupt:  # raised again by uvicorn once everything has ended
        return
