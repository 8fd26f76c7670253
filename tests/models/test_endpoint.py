"""The endpoint: patient with a busy host, brief with a wrong one, silent about the key."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

import httpx
import pytest

from ctxr.errors import CtxrError, UsageError
from ctxr.models.endpoint import (
    LONGEST,
    MOST_BYTES,
    MOST_SAID,
    TRIES,
    Declined,
    Endpoint,
    ServerLimits,
    ServerReply,
    Unreadable,
    key_of,
    resolve_address,
)
from tests.pipelines.modelling.listening.fake_server import Answer, Behaviour, fails, says, serving

NOW = 1_700_000_000.0
KEY = "sk-Very.Secret_1"


@contextmanager
def endpoint(behave: Behaviour, timeout: float = 60.0) -> Iterator[tuple[Endpoint, list[float]]]:
    waits: list[float] = []
    with serving(behave) as server:
        one = Endpoint(resolve_address(server.url, insecure=False), KEY, timeout, waits.append, lambda: NOW)
        try:
            yield one, waits
        finally:
            one.close()


def in_turn(*answers: Answer) -> Behaviour:
    return lambda _body, number: answers[min(number, len(answers) - 1)]


def number_of(completion: dict[str, Any]) -> str:
    return str(completion["choices"][0]["message"]["content"])


def test_a_busy_host_is_asked_again_when_it_says() -> None:
    date = formatdate(NOW + 40, usegmt=True)
    far = {"Retry-After": "999999"}
    answers = (
        fails(429, **{"Retry-After": "7"}),
        fails(503, **{"Retry-After": date}),
        fails(500),
        fails(429, **far),
        fails(429, **{"Retry-After": "nan"}),
    )
    with endpoint(in_turn(*answers, says("3"))) as (one, waits):
        assert number_of(one.complete({})) == "3"
    assert waits == [7, 40, 4, LONGEST, 16]


def test_a_slow_host_is_asked_again() -> None:
    hold = threading.Event()

    def behave(_body: object, number: int) -> Answer:
        if number == 0:
            hold.wait(60)
        return says("3")

    with endpoint(behave, timeout=0.1) as (one, waits):

        def patient(seconds: float) -> None:
            waits.append(seconds)
            hold.set()
            # the second answer may take as long as a busy machine needs
            one.timeout = 60.0
            one._client.timeout = 60.0

        one.pause = patient
        assert number_of(one.complete({})) == "3"
    assert waits == [1]


def test_a_host_that_stays_broken_ends_it() -> None:
    with (
        endpoint(in_turn(fails(500, f"no room for {KEY}"))) as (one, waits),
        pytest.raises(CtxrError, match=rf"did not answer {TRIES} times, at last: 500: no room for \[key\]$"),
    ):
        one.complete({})
    assert waits == [1, 2, 4, 8, 16]


def test_an_error_is_told_by_its_content_and_a_body_that_does_not_decompress_is_asked_for_again() -> None:
    broken: Answer = (200, {}, b'{"error": {"message": "upstream is down"}}')
    with endpoint(in_turn(broken)) as (one, _), pytest.raises(CtxrError, match="upstream is down"):
        one.complete({})
    answer: Answer = (200, {}, b'{"choices": [{"message": {"content": "3"}}], "error": null}')
    with endpoint(in_turn((200, {"Content-Encoding": "gzip"}, b"no gzip"), answer)) as (one, waits):
        assert number_of(one.complete({})) == "3"
    assert waits == [1]


def test_a_reply_that_drips_is_given_up() -> None:
    with serving(in_turn(says("3"))) as server:
        server.drip = 0.05
        waits: list[float] = []
        one = Endpoint(resolve_address(server.url, insecure=False), KEY, 0.2, waits.append)
        with pytest.raises(CtxrError, match=r"no answer within 0\.2 seconds"):
            one.complete({})
        one.close()


def test_a_host_that_is_not_there_ends_it() -> None:
    with serving(in_turn(says("1"))) as server:
        place = resolve_address(server.url, insecure=False)
    waits: list[float] = []
    with pytest.raises(CtxrError, match=rf"^{place.url} cannot be reached"):
        Endpoint(place, KEY, 1.0, waits.append).complete({})
    assert waits == [1]
    for address, ends in (("http://localhost:1", "in /v1"), ("http://localhost:1/v1", "resumes")):
        one = Endpoint(resolve_address(address, insecure=False), KEY, 1.0, waits.append)
        one._post = lambda request: ServerReply(200, "Hello", 0.0)  # type: ignore[method-assign]
        with pytest.raises(Unreadable, match=f"^{address}/.*Hello") as caught:
            one.complete({})
        assert ends in (caught.value.hint or "")


def test_a_host_that_answered_is_asked_again_when_it_is_gone() -> None:
    waits: list[float] = []
    with serving(in_turn(says("1"))) as server:
        one = Endpoint(resolve_address(server.url, insecure=False), KEY, 5.0, waits.append)
        one.complete({})
    one._client.close()
    one._client = httpx.Client()
    with pytest.raises(CtxrError, match=f"did not answer {TRIES} times"):
        one.complete({})
    one.close()
    assert len(waits) == TRIES - 1


@pytest.mark.parametrize("before", range(MOST_SAID - len(KEY), MOST_SAID))
def test_a_key_where_a_complaint_is_cut_does_not_leave_its_beginning(before: int) -> None:
    one = Endpoint(resolve_address("http://127.0.0.1/v1", insecure=False), KEY, 5.0)
    for said in ({"error": {"message": "a" * before + KEY}}, "a" * before + KEY):
        assert set(one._detail(said)) <= {"a", *"[key]"}
    one.close()


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"object": "list"}', b'{"error": null}', b"\xff\xfe", b"[" * 10_000]
)
def test_what_is_no_completion_is_asked_again_and_then_told_apart(content: bytes) -> None:
    with endpoint(in_turn((200, {}, content))) as (one, waits), pytest.raises(Unreadable, match="not a completion"):
        one.complete({})
    assert len(waits) == TRIES - 1


@pytest.mark.parametrize("page", [b"<html>Log in", b"\n<!DOCTYPE html><title>Log in</title>"])
def test_a_page_is_no_answer_and_not_asked_for_again(page: bytes) -> None:
    with endpoint(in_turn(says("1"), (200, {}, page))) as (one, waits):
        one.complete({})
        with pytest.raises(CtxrError, match="Log in") as caught:
            one.complete({})
        assert not isinstance(caught.value, Unreadable)
        assert (waits, caught.value.exit_code) == ([], 1)


def test_a_reply_without_end_is_cut_off() -> None:
    with (
        endpoint(in_turn((200, {}, b" " * (MOST_BYTES + 9)))) as (one, waits),
        pytest.raises(Unreadable, match="more than 1048576 bytes"),
    ):
        one.complete({})
    assert waits == []


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422])
def test_a_refusal_is_not_asked_again_and_does_not_repeat_the_key(status: int) -> None:
    with (
        endpoint(in_turn(fails(status, f"wrong key {KEY}", Location="http://127.0.0.1:9/"))) as (one, waits),
        pytest.raises(Declined, match=rf"refused with {status}: wrong key \[key\]$"),
    ):
        one.complete({})
    assert waits == []


def test_a_completion_that_repeats_the_key_loses_it() -> None:
    with endpoint(in_turn(says(f"3 {KEY}"))) as (one, _):
        assert KEY not in str(one.complete({}))
    assert KEY not in repr(one)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://example.org/v1", "in the clear"),
        ("http://127.0.0.1.example.org/v1", "in the clear"),
        ("ftp://localhost/v1", "address of http"),
        ("localhost:8000", "localhost:8000 is .*http"),
        ("https://", "address of http"),
        ("https://exa mple.org", "address of http"),
        ("https://example.org/\udcff", "address of http"),
        ("https://me:pass@example.org/v1", "holds a password"),
        ("https://example.org/v1?key=abc", "or a query"),
        ("https://example.org:port/v1", "not an address"),
        ("https://[::1/v1", "not an address"),
    ],
)
def test_addresses_that_would_give_something_away_are_refused(address: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        resolve_address(address, insecure=False)
    assert "pass" not in caught.value.message.replace("password", "")
    assert "abc" not in caught.value.message


def test_an_address_is_completed() -> None:
    assert resolve_address("https://example.org/v1/", insecure=False).url == "https://example.org/v1/chat/completions"
    assert resolve_address("http://[::1]:8000/v1/chat/completions", insecure=False).local
    assert not resolve_address("http://example.org/v1", insecure=True).local


def test_a_key_is_needed_elsewhere_and_must_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = resolve_address("http://localhost/v1", False), resolve_address("https://example.org/v1", False)
    monkeypatch.delenv("CTXR_API_KEY", raising=False)
    assert key_of("CTXR_API_KEY", here) == ""
    with pytest.raises(CtxrError, match="CTXR_API_KEY is not"):
        key_of("CTXR_API_KEY", there)
    monkeypatch.setenv("CTXR_API_KEY", "se\ncret")
    with pytest.raises(CtxrError, match="signs that no") as caught:
        key_of("CTXR_API_KEY", there)
    assert "cret" not in caught.value.message
    monkeypatch.setenv("CTXR_API_KEY", f"{KEY}\n")
    assert key_of("CTXR_API_KEY", there) == KEY


def test_options_that_a_host_does_not_know_are_left_out_one_by_one() -> None:
    first = ServerLimits().after("Unsupported parameter: 'max_tokens'")
    assert first == ServerLimits(limit="max_completion_tokens")
    second = ServerLimits(limit="max_completion_tokens").after("'temperature' does not support 0")
    assert second == ServerLimits(limit="max_completion_tokens", temperature=False)
    assert ServerLimits().after("what is this?") == ServerLimits(structured=False)
    assert ServerLimits(structured=False).after("what is this?") is None
