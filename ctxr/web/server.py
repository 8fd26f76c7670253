"""Answering requests until Ctrl-C, with limits for slow requests and for connections."""

import asyncio
import errno
import resource
import socket
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ctxr.errors import UsageError

STOP_SECONDS = 3  # for running requests to finish when the server stops
REQUEST_SECONDS = 20.0  # for a request to arrive whole, or its connection is closed
PAUSE_SECONDS = 0.1  # before a full server looks again whether connections were closed
LOCAL = ("127.0.0.1", "::1", "localhost")  # addresses that only this machine can reach

MOST_CONNECTIONS = 256
"""Open connections of one address: forty browsers behind a router, and a quarter of what most systems allow a server."""


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that takes connections at an address; port 0 is any free one. Raises UsageError where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # without the protocol, asyncio leaves Nagle's algorithm on, and every picture waits 40 ms for an acknowledgement
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} is in use", hint="--port 0 takes any free one") from error
        raise UsageError(f"{host}:{port} cannot be used: {error.strerror}", hint="--host 127.0.0.1") from error
    return listening


def address_of(listening: socket.socket, host: str) -> str:
    """The address at which browsers reach it; for a `host` that stands for all addresses, by the name of this machine."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return f"http://{f'[{name}]' if ':' in name else name}:{listening.getsockname()[1]}"


class Connection(H11Protocol):
    """A connection that is closed where a request does not come in time, or its address has too many open.

    Args:
        unlimited: addresses that may have any number. full: hears of one that has too many.
    """

    def __init__(self, *settings: Any, unlimited: Sequence[str], full: Callable[[str], None], **more: Any) -> None:
        super().__init__(*settings, **more)
        self._unlimited, self._full = unlimited, full

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Refuse it where its address has too many."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_SECONDS, transport.abort)
        address = (self.client or ("",))[0]
        alike = sum((getattr(other, "client", None) or ("",))[0] == address for other in self.connections)
        if alike > MOST_CONNECTIONS and address not in self._unlimited:
            self._full(address)
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, and wait for the rest of a request that is not whole."""
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._deadline.cancel()
        elif self._deadline.cancelled():
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline of the request."""
        super().connection_lost(exc)
        self._deadline.cancel()


async def take_connections(server: uvicorn.Server, listening: socket.socket, warn: Callable[[str], None]) -> None:
    """Give the server connections while they need at most three in four of its descriptors; others wait, which `warn` hears.
    asyncio would log a traceback for each connection that it has no descriptor for."""
    loop, state, config = asyncio.get_running_loop(), server.server_state, server.config
    made: dict[str, Any] = {"server_state": state, "app_state": server.lifespan.state}
    make = partial(config.http_protocol_class, config=config, **made)  # type: ignore[call-arg]
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    full = f"new connections wait, because too many are open; ulimit -n {4 * descriptors} allows more"
    while True:
        try:
            if len(state.connections) < descriptors * 3 // 4:
                visitor, _ = await loop.sock_accept(listening)
                await loop.connect_accepted_socket(make, visitor)
                continue
            warn(full)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # else a visitor who is gone already
                warn(full)
        await asyncio.sleep(PAUSE_SECONDS)


def answer_requests(
    app: ASGIApp,
    listening: socket.socket,
    stopping: Callable[[], None],
    warn: Callable[[str], None],
    behind_proxy: bool,
) -> None:
    """Answer at `listening` until Ctrl-C, which calls `stopping` first; `warn` hears once of each address with
    too many connections, and once where all together are too many.

    A proxy on this machine is believed about the addresses of visitors, and may open any number of connections.
    """
    once = cache(warn)

    def full(address: str) -> None:
        once(
            f"{address} has {MOST_CONNECTIONS} connections open and gets no more; if that is a proxy on this machine in front of "
            "ctxr, give its public address: --base-url https://..."
        )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            stopping()
            super().handle_exit(sig, frame)

        async def main_loop(self) -> None:
            taking = asyncio.create_task(take_connections(self, listening, once))
            await super().main_loop()
            taking.cancel()

    connection = partial(Connection, unlimited=LOCAL if behind_proxy else (), full=full)
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", connection),
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
        listening.setblocking(False)
        Server(config).run(sockets=[])
    except KeyboardInterrupt:  # raised again by uvicorn once everything has ended
        return
