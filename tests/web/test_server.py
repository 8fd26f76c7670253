"""Limits of connections: a request that does not come whole, and an address that opens too many."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import h11
import pytest
import uvicorn
from uvicorn.server import ServerState

from ctxr.web.server import LOCAL, MOST_CONNECTIONS, Connection, answer_requests


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
