"""Limits of connections: a request that does not come whole, and an address that opens too many."""

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import h11
import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from ctxr.web.server import LOCAL, MOST_CONNECTIONS, Connection, answer_requests, listening_socket


class Timer:
    """Something that is called later, or never."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback, self.given_up = callback, False

    def cancel(self) -> None:
        self.given_up = True

    def cancelled(self) -> bool:
        return self.given_up


class Loop:
    """What a connection asks of its loop; the clock stands still until it is told to ring, and no request is answered."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, _: float, callback: Callable[[], object]) -> Timer:
        self.timers.append(Timer(callback))
        return self.timers[-1]

    def create_task(self, answer: Coroutine[Any, Any, None], **_: object) -> Future[None]:
        answer.close()
        return Future()

    def ring(self) -> None:
        for timer in self.timers:
            if not timer.given_up:
                timer.callback()
        self.timers.clear()


class Wire(asyncio.Transport):
    """The server's end of a connection from an address."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1), "sockname": ("127.0.0.1", 2)})
        self.aborted = False

    def abort(self) -> None:
        """Note that the connection was cut."""
        self.aborted = True


@pytest.fixture
def loop() -> Loop:
    return Loop()


async def silent(scope: object, receive: object, send: object) -> None:
    """An app that answers nothing."""


def connect(loop: Loop, address: str, state: ServerState, full: list[str], unlimited: Sequence[str] = ()) -> Any:
    """A connection from an address that was just made."""
    config = uvicorn.Config(silent, log_config=None, lifespan="off")
    connection = Connection(config, state, {}, loop, unlimited=unlimited, full=full.append)
    connection.connection_made(Wire(address))
    return connection


@pytest.mark.parametrize("sent", [[], [b"G"], [b"GET / HTTP/1.1\r\n", b"Host: here\r\n"], [b"POST / HTTP/1.1\r\n"]])
def test_a_connection_whose_request_does_not_come_whole_is_closed(loop: Loop, sent: list[bytes]) -> None:
    connection = connect(loop, "192.0.2.1", ServerState(), [])
    for part in sent:
        connection.data_received(part)
    assert not connection.transport.aborted
    loop.ring()
    assert connection.transport.aborted


def test_a_connection_whose_request_came_waits_for_the_answer_and_then_for_the_next_one(loop: Loop) -> None:
    connection = connect(loop, "192.0.2.1", ServerState(), [])
    connection.data_received(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n")
    assert [timer.given_up for timer in loop.timers] == [False]
    connection.data_received(b"ab")
    loop.ring()
    assert not connection.transport.aborted
    connection.conn.send(h11.Response(status_code=204, headers=[]))
    connection.conn.send(h11.EndOfMessage())
    connection.conn.start_next_cycle()
    connection.data_received(b"GET /")
    loop.ring()
    assert connection.transport.aborted


def test_an_address_gets_a_number_of_connections_and_other_addresses_still_get_theirs(loop: Loop) -> None:
    state, full = ServerState(), list[str]()
    held = [connect(loop, "192.0.2.1", state, full) for _ in range(MOST_CONNECTIONS + 2)]
    assert [one.transport.aborted for one in held] == [False] * MOST_CONNECTIONS + [True] * 2
    assert full == ["192.0.2.1"] * 2
    assert not connect(loop, "192.0.2.2", state, full).transport.aborted
    held[0].connection_lost(ConnectionResetError())
    held[-1].connection_lost(ConnectionResetError())
    held[-2].connection_lost(ConnectionResetError())
    assert not connect(loop, "192.0.2.1", state, full).transport.aborted
    proxy = [connect(loop, "127.0.0.1", state, full, LOCAL) for _ in range(MOST_CONNECTIONS + 1)]
    assert not proxy[-1].transport.aborted
    assert full == ["192.0.2.1"] * 2


def test_an_address_with_too_many_connections_is_named_once_with_what_to_do_about_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def serve(server: uvicorn.Server, sockets: object) -> None:
        full = server.config.http.keywords["full"]  # type: ignore[union-attr]
        full("127.0.0.1")
        full("127.0.0.1")

    monkeypatch.setattr(uvicorn.Server, "run", serve)
    warned: list[str] = []
    with socket.socket() as listening:
        answer_requests(silent, listening, pytest.fail, warned.append, behind_proxy=False)
    assert len(warned) == 1
    assert "127.0.0.1 has 256 connections" in warned[0]
    assert "--base-url https://" in warned[0]


def half_open(port: int, count: int) -> list[socket.socket]:
    """Connections from six addresses that send the beginning of a request and no more."""
    held = []
    for number in range(count):
        visitor = socket.socket()
        visitor.bind((f"127.0.0.{2 + number % 6}", 0))
        visitor.connect(("127.0.0.1", port))
        visitor.send(b"GET / HTTP/1.1\r\n")
        held.append(visitor)
    return held


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, 127.0.0.1 is the only address of this machine itself")
def test_a_server_with_all_its_connections_taken_says_so_once_and_goes_on_when_some_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def hello(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    servers: list[uvicorn.Server] = []
    monkeypatch.setattr("ctxr.web.server.resource.getrlimit", lambda _: (40, 40))
    monkeypatch.setattr("ctxr.web.server.REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(uvicorn.Server, "startup", started(servers, uvicorn.Server.startup))
    warned: list[str] = []
    with listening_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(
            target=answer_requests, args=(hello, listening, lambda: None, warned.append, False), daemon=True
        )
        thread.start()
        held = half_open(port, 90)
        while not servers or len(servers[0].server_state.connections) < 30:
            assert thread.is_alive()
            time.sleep(0.01)
        # those before it end one second later, thirty at a time
        with httpx.Client(timeout=20) as visitor:
            assert visitor.get(f"http://127.0.0.1:{port}/").status_code == 204
        assert len(servers[0].server_state.connections) <= 30
        servers[0].should_exit = True
        thread.join(20)
        assert not thread.is_alive()
        for one in held:
            one.close()
    (warning,) = warned
    assert "ulimit -n 160" in warning
    assert capfd.readouterr().err == ""


def started(servers: list[uvicorn.Server], startup: Any) -> Any:
    """A start that notes the server."""

    async def note(server: uvicorn.Server, sockets: Any = None) -> None:
        servers.append(server)
        await startup(server, sockets)

    return note
