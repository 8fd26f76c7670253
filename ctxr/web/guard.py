"""Protection of a server: security headers, limits of rate for each address, small bodies."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 64 * 1024  # of a body; the longest form of ours has a few thousand
MOST_FIELDS = 200  # of a form
_MOST_NAMES = 20_000  # of a limit of rate, so that memory stays bounded

# own resources only, nothing inline, no frames
POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

_STEADY = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
    (b"strict-transport-security", b"max-age=31536000"),
]
"""Headers of a response, unless it has its own; the last one with https alone."""


class TooLarge(Exception):
    """A body of more bytes than are read."""


class RateLimited(Exception):
    """Too many requests; its argument: seconds until the next is accepted."""


def from_elsewhere(request: Request) -> bool:
    """Whether a page of another site made the browser send it."""
    return request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


async def read_body(request: Request, most: int) -> bytearray:
    """The body. Raises TooLarge for more than `most` bytes, once so many were read."""
    if int(request.headers.get("content-length") or 0) > most:
        raise TooLarge
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise TooLarge
    return body


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a posted form in order; none where the body is no form. Raises TooLarge."""
    body = await read_body(request, MOST_BYTES)
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        return {}


@dataclass
class Buckets:
    """A limit of rate: each name has a bucket of `burst` tokens, into which `rate` tokens flow a second."""

    rate: float
    burst: float
    clock: Callable[[], float] = monotonic
    left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, name: str, cost: float = 1.0) -> float:
        """Take `cost` tokens: 0.0 if there were enough, else the seconds until there are."""
        if self.rate <= 0:
            return 0.0
        now = self.clock()
        left, at = self.left.get(name, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.rate)
        if left < cost:
            self.left[name] = (left, now)
            return (cost - left) / self.rate
        if len(self.left) >= _MOST_NAMES and name not in self.left:
            # forget names whose bucket is full again, or all names if none is
            kept = {key: (had, at) for key, (had, at) in self.left.items() if had + (now - at) * self.rate < self.burst}
            self.left = kept if len(kept) < _MOST_NAMES else {}
        self.left[name] = (left - cost, now)
        return 0.0


@dataclass(frozen=True, eq=False)
class Guard:
    """The outermost layer: limits addresses, and adds the security headers to all responses, errors included."""

    app: ASGIApp
    addresses: Buckets
    busy: Callable[[float], ASGIApp]
    https: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                steady = _STEADY[: None if self.https else -1]
                message["headers"] += [header for header in steady if header[0] not in own]
            await send(message)

        wait = self.addresses.take((scope.get("client") or ("",))[0])
        await (self.busy(wait) if wait else self.app)(scope, receive, send_with_headers)
