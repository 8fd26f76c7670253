"""Signed tokens, whose content is not secret: each is signed for one purpose and refused for any other."""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from itsdangerous import BadData, URLSafeSerializer, URLSafeTimedSerializer

SESSION_DAYS = 30

T = TypeVar("T")


class Signer:
    """Signs and opens tokens of the pages that `pages` names."""

    def __init__(self, key: bytes, pages: str) -> None:
        self._key = hmac.new(key, pages.encode(), hashlib.sha256).digest()

    def seal(self, purpose: str, texts: Sequence[str]) -> str:
        """A token for an address or a cookie; equal texts give equal tokens, but for the purpose `session`."""
        return str(self._serializer(purpose).dumps(list(texts)))

    def unseal(self, kind: type[T], purpose: str, text: str) -> T | None:
        """The texts as a `kind` of tuple; None if they were not sealed here for that purpose, or a session ended (`SESSION_DAYS`)."""
        age: dict[str, Any] = {"max_age": SESSION_DAYS * 24 * 60 * 60} if purpose == "session" else {}
        try:
            return msgspec.convert(self._serializer(purpose).loads(text, **age), kind)
        except (BadData, msgspec.ValidationError):
            return None

    def digest(self, *parts: str) -> str:
        """64 hexadecimal digits that identify the parts and do not reveal them."""
        return hmac.new(self._key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()

    def form_token(self, nonce: str, address: str) -> str:
        """The token of a form, for its session and the one address that it posts to."""
        return self.digest("form", nonce, address)[:32]

    def is_form_token(self, token: str, nonce: str, address: str) -> bool:
        """Whether the form was made here for this session and address."""
        return hmac.compare_digest(token.encode(), self.form_token(nonce, address).encode())

    def _serializer(self, purpose: str) -> URLSafeSerializer | URLSafeTimedSerializer:
        kind = URLSafeTimedSerializer if purpose == "session" else URLSafeSerializer
        return kind(self._key, salt=purpose, signer_kwargs={"digest_method": hashlib.sha256})
