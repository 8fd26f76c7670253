"""Links and sessions as signed tokens, whose content is not secret: each is signed for one kind and refused for any other."""

import hashlib
import hmac
from typing import Any, NamedTuple, TypeVar

import msgspec
from itsdangerous import BadData, URLSafeSerializer, URLSafeTimedSerializer

SESSION_SECONDS = 30 * 24 * 60 * 60


class LeaseLink(NamedTuple):
    """The part of an address that stands for one unit and one worker."""

    lease: str
    worker: str


class Session(NamedTuple):
    """A browser's cookie: what forms are bound to, who it is (empty before somebody enrolled), and the paid `submission`."""

    nonce: str
    worker: str = ""
    platform: str = "local"
    submission: str = ""


class Invitation(NamedTuple):
    """A personal invitation for a member of a local team; its token is always the same for the same name."""

    name: str


T = TypeVar("T", LeaseLink, Session, Invitation)

_PURPOSES: dict[type, str] = {LeaseLink: "link", Session: "session", Invitation: "invitation"}


class Signer:
    """Signs what workers are given, and opens it."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.new(key, b"ctxr crowd pages", hashlib.sha256).digest()

    def sign(self, content: LeaseLink | Session | Invitation) -> str:
        """The token that stands for the content, in an address or a cookie; equal texts give equal tokens, but for a session."""
        return str(self._serializer(type(content)).dumps(list(content)))

    def read(self, kind: type[T], token: str) -> T | None:
        """The content of a token; None where it was not made here, for another purpose, or is a session that has ended."""
        age: dict[str, Any] = {"max_age": SESSION_SECONDS} if kind is Session else {}
        try:
            return msgspec.convert(self._serializer(kind).loads(token, **age), kind)
        except (BadData, msgspec.ValidationError):
            return None

    def digest(self, *parts: str) -> str:
        """32 hexadecimal digits that identify the parts and do not reveal them."""
        return hmac.new(self._key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()[:32]

    def form_token(self, nonce: str, address: str) -> str:
        """The token of a form, for its session and the one address that it posts to."""
        return self.digest("form", nonce, address)

    def _serializer(self, kind: type) -> URLSafeSerializer | URLSafeTimedSerializer:
        made = URLSafeTimedSerializer if kind is Session else URLSafeSerializer
        return made(self._key, salt=_PURPOSES[kind], signer_kwargs={"digest_method": hashlib.sha256})
