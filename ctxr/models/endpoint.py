"""A client for an OpenAI-compatible endpoint: retries, limits, cost. The key is not stored."""

import ipaddress
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ctxr.errors import CtxrError, UsageError

PATH = "/chat/completions"

TRIES = 6

LONGEST = 300.0  # seconds that a host may make us wait between two tries
MOST_BYTES = 1 << 20  # of a reply: a number needs a hundred
MOST_SAID = 300  # characters of a complaint in our error

BUSY = frozenset({408, 425, 429})
SERVER_ERROR = 500
NOT_ALLOWED = frozenset({401, 403, 404, 405})
# words by which hosts say that they refuse the content
FILTERED = ("content_filter", "content_policy", "content management policy", "safety")

AGAIN = "run the same command again: it resumes where it stopped"


class Declined(CtxrError):
    """The host refuses to answer the request; `filtered`: because of the content."""

    def __init__(self, status: int, detail: str, hint: str) -> None:
        super().__init__(f"the endpoint refused with {status}: {detail}", hint)
        self.status, self.detail = status, detail
        self.filtered = any(word in detail.lower() for word in FILTERED)


class Unreadable(CtxrError):
    """The host answered, even when asked again, with something that is not a completion."""


@dataclass(frozen=True)
class EndpointAddress:
    """Where requests go. `url`: of chat completions. `local`: whether it is this machine."""

    url: str
    local: bool


@dataclass(frozen=True)
class ServerLimits:
    """Options that a host takes. `logprobs`: of how many tokens it gives probabilities, or 0."""

    structured: bool = True
    limit: str = "max_tokens"
    temperature: bool = True
    logprobs: int = 0

    def after(self, complaint: str) -> "ServerLimits | None":
        """Another way to ask after a complaint; None if nothing is left to try."""
        text = complaint.lower()
        if "max_tokens" in text and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if "temperature" in text and self.temperature:
            return replace(self, temperature=False)
        if self.logprobs and ("logprobs" in text or not self.structured):
            return replace(self, logprobs=5 if self.logprobs > 5 else 0)
        return replace(self, structured=False) if self.structured else None


def resolve_address(endpoint: str, insecure: bool, option: str = "--endpoint ") -> EndpointAddress:
    """The address of an endpoint such as http://localhost:8000/v1, which is typed after `option`.

    Raises UsageError for an invalid address, for one with a password or a key, and for http to another machine.
    """
    typed, example = option.rstrip(" :"), f"{option}http://localhost:8000/v1"
    plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
    # what may hold a password or a key is not repeated
    shown = f"{option}{endpoint}" if plain and not set("@?#") & set(endpoint) else typed
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"{shown} is not an address", hint=example) from error
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise UsageError(f"{shown} is not an address of http or https", hint=example)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"{typed} holds a password or a query, which would be written down",
            hint="leave it out: the key is read from the environment",
        )
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost" or host.endswith(".localhost")
    if parts.scheme == "http" and not local and not insecure:
        raise UsageError(
            f"{option}{endpoint} would send key and pictures in the clear", hint="use https, or --insecure"
        )
    base = endpoint.rstrip("/")
    return EndpointAddress(base if base.endswith(PATH) else base + PATH, local)


def key_of(variable: str, address: EndpointAddress) -> str:
    """The key in a variable; "" for a local endpoint. Raises CtxrError for no or an invalid key."""
    key = os.environ.get(variable, "").strip()
    if not key and not address.local:
        raise CtxrError(f"there is no key for the endpoint: {variable} is not set", hint=f"export {variable}=…")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise CtxrError(f"the key in {variable} holds signs that no key has", hint=f"export {variable}=…")
    return key


class ServerReply(NamedTuple):
    """A reply: status, body as JSON or else as text, and the seconds that it asks us to wait."""

    status: int
    content: object
    pause: float


@dataclass
class Endpoint:
    """A host of chat completions, for several threads. `pause` waits between tries, each of `timeout` seconds."""

    address: EndpointAddress
    key: str = field(repr=False)
    timeout: float
    pause: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        import httpx

        self._reached = False
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        # a proxy of the environment would see requests to this machine
        self._client = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(self.timeout, connect=min(self.timeout, 10)),
            trust_env=not self.address.local,
            limits=httpx.Limits(max_connections=None),
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def complete(self, body: Mapping[str, object]) -> dict[str, Any]:
        """The completion of a request, which is repeated while the host is busy, broken or slow.

        Raises Declined for a request that it will not answer, Unreadable for replies that are not completions, CtxrError for
        a host that cannot be reached, does not recover, or sends a page of HTML.
        """
        import httpx

        request = json.dumps(body).encode()
        trouble, answered = "", False
        for number in range(TRIES):
            wait = 2.0**number
            try:
                status, content, pause = self._post(request)
            except httpx.TimeoutException:
                trouble, answered = f"no answer within {self.timeout:g} seconds", False
            except httpx.RequestError as error:  # no connection, or a body that does not decompress
                trouble, answered = self.clean(str(error)) or type(error).__name__, False
                if number and not self._reached and isinstance(error, httpx.ConnectError):
                    hint = f"is a server running there? {AGAIN}"
                    raise CtxrError(f"{self.address.url} cannot be reached: {trouble}", hint=hint) from error
            else:
                self._reached = True
                failed = isinstance(content, dict) and bool(content.get("error"))
                if status == httpx.codes.OK and isinstance(content, dict) and "choices" in content and not failed:
                    return {self.clean(name): self._cleaned(item) for name, item in content.items()}
                detail = self._detail(content)
                answered = status == httpx.codes.OK and not failed
                trouble = f"what is not a completion: {detail}" if answered else f"{status}: {detail}"
                if status != httpx.codes.OK and status not in BUSY and status < SERVER_ERROR:
                    hint = (
                        "check --model and the address (…/v1)"
                        if status in NOT_ALLOWED
                        else f"see what it says; {AGAIN}"
                    )
                    key_hint = "check the key, and that --key-from names its variable"
                    raise Declined(status, detail, key_hint if status in (401, 403) else hint)
                wait = max(wait, pause)
            if number < TRIES - 1:
                self.pause(wait)
        if answered:
            hint = AGAIN if "/v1/" in self.address.url else "should the address end in /v1?"
            raise Unreadable(f"{self.address.url} answered {TRIES} times with {trouble}", hint=hint)
        raise CtxrError(f"{self.address.url} did not answer {TRIES} times, at last: {trouble}", hint=AGAIN)

    def clean(self, text: str) -> str:
        """The text without the key: hosts repeat it when they refuse it."""
        return text.replace(self.key, "[key]") if self.key else text

    def _detail(self, content: object) -> str:
        """The beginning of a host's error message, on one line; cut after the key was removed."""
        error = (content.get("error") or content) if isinstance(content, dict) else content
        parts = [error.get("code"), error.get("message")] if isinstance(error, dict) else [error]
        complaint = " ".join(str(part) for part in parts if part)
        return " ".join(self.clean(complaint).split())[:MOST_SAID] or "nothing"

    def _cleaned(self, value: object) -> object:
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {self.clean(str(name)): self._cleaned(item) for name, item in value.items()}
        return [self._cleaned(item) for item in value] if isinstance(value, list) else value

    def _post(self, request: bytes) -> ServerReply:
        """One try. Raises Unreadable for a body that is too long, CtxrError for a page, httpx.ReadTimeout for one that takes too long."""
        import httpx

        end = time.monotonic() + self.timeout
        body = bytearray()
        with self._client.stream("POST", self.address.url, content=request) as response:
            for part in response.iter_bytes():
                body += part
                if len(body) >= MOST_BYTES:
                    raise Unreadable(f"the endpoint answered with more than {MOST_BYTES} bytes")
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the reply does not end")
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            content = body.decode(errors="replace")
            if response.status_code == httpx.codes.OK and content.lstrip().startswith("<"):
                problem = f"{self.address.url} answered with a page, not a completion: {self._detail(content)}"
                raise CtxrError(problem, hint="check the address (…/v1), and whether it asks for a login") from None
        header = response.headers.get("retry-after", "")
        try:
            pause = float(header)
        except ValueError:
            try:
                pause = parsedate_to_datetime(header).timestamp() - self.now()
            except (ValueError, TypeError, OverflowError):
                pause = 0.0
        return ServerReply(response.status_code, content, min(LONGEST, pause) if math.isfinite(pause) else 0.0)
