"""Signed tokens, whose content is not secret: each is signed for one purpose alone."""

import hashlib
import hmac
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
from itsdangerous import BadData, URLSafeSerializer, URLSafeTimedSerializer

SESSION_DAYS = 30

T = TypeVar("T", bound=tuple[str, ...])


class Signer:
    """Signs and opens tokens of the pages that `pages` names, each kind of content for one of the `purposes`."""

    def __init__(self, key: bytes, pages: str, purposes: Mapping[type, str]) -> None:
        self._key = hmac.new(key, pages.encode(), hashlib.sha256).digest()
        self._purposes = purposes

    def sign(self, content: tuple[str, ...]) -> str:
        """A token for an address or a cookie; equal content gives equal tokens, but for the purpose `session`."""
        return str(_serializer(self._key, self._purposes[type(content)]).dumps(list(content)))

    def read(self, kind: type[T], token: str) -> T | None:
        """The content; None if it was not signed here for that purpose, or a session ended (`SESSION_DAYS`)."""
        purpose = self._purposes[kind]
        age: dict[str, Any] = {"max_age": SESSION_DAYS * 24 * 60 * 60} if purpose == "session" else {}
        try:
            return msgspec.convert(_serializer(self._key, purpose).loads(token, **age), kind)
        except (BadData, msgspec.ValidationError):
            return None

    def digest(self, *parts: str) -> str:
        """64 hexadecimal digits that identify the parts and do not reveal them."""
        return hmac.new(self._key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()

    def form_token(self, nonce: str, address: str) -> str:
        """The token of a form, for its session and the one address that it posts to."""
        return self.digest("form", nonce, address)[:32]


@cache
def _serializer(key: bytes, purpose: str) -> URLSafeSerializer | URLSafeTimedSerializer:
    kind = URLSafeTimedSerializer if purpose == "session" else URLSafeSerializer
    return kind(key, salt=purpose, signer_kwargs={"digest_method": hashlib.sha256})
