"""Signed links, sessions and invitations.

Their content is not secret. Each is signed for one purpose and refused for any other.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from itsdangerous import BadData, URLSafeSerializer, URLSafeTimedSerializer

SESSION_DAYS = 30

T = TypeVar("T")


class LeaseLink(NamedTuple):
    """One unit for one worker."""

    lease: str
    worker: str


class Session(NamedTuple):
    """Who is at the other end. `worker` is empty before somebody enrolled; `nonce` is what forms are bound to; `submission` is
    what somebody from Prolific is paid for.
    """

    nonce: str
    worker: str = ""
    platform: str = "local"
    submission: str = ""


class Signer:
    """Seals and opens; a text that was not sealed here for just that purpose opens as None."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.new(key, b"ctxr crowd pages", hashlib.sha256).digest()

    def link(self, link: LeaseLink) -> str:
        """The part of an address that stands for one unit and one worker."""
        return self._sealed("link", link)

    def read_link(self, text: str) -> LeaseLink | None:
        """The link; None if it was not made here."""
        return self._opened(LeaseLink, "link", text)

    def session(self, session: Session) -> str:
        """The value of the session's cookie."""
        return self._sealed("session", session)

    def read_session(self, text: str) -> Session | None:
        """The session; None if it was not made here, or more than `SESSION_DAYS` ago."""
        return self._opened(Session, "session", text)

    def invitation(self, name: str) -> str:
        """A personal invitation for a member of a local team; always the same for the same name."""
        return self._sealed("invitation", [name])

    def read_invitation(self, text: str) -> str | None:
        """The invited name; None for an invalid invitation."""
        names = self._opened(tuple[str], "invitation", text)
        return names[0] if names else None

    def form_token(self, nonce: str, address: str) -> str:
        """What a form must bring back: bound to the session and to the one address it posts to."""
        return hmac.new(self._key, f"form\0{nonce}\0{address}".encode(), hashlib.sha256).hexdigest()[:32]

    def is_form_token(self, token: str, nonce: str, address: str) -> bool:
        """Whether the form was made here for this session and address."""
        return hmac.compare_digest(token.encode(), self.form_token(nonce, address).encode())

    def picture(self, lease: str, image: str) -> str:
        """A picture's name on the pages of one lease: it tells neither the image nor its order."""
        return hmac.new(self._key, f"picture\0{lease}\0{image}".encode(), hashlib.sha256).hexdigest()[:16]

    def _serializer(self, purpose: str) -> URLSafeSerializer | URLSafeTimedSerializer:
        kind = URLSafeTimedSerializer if purpose == "session" else URLSafeSerializer
        return kind(self._key, salt=purpose, signer_kwargs={"digest_method": hashlib.sha256})

    def _sealed(self, purpose: str, texts: Sequence[str]) -> str:
        return str(self._serializer(purpose).dumps(list(texts)))

    def _opened(self, kind: type[T], purpose: str, text: str) -> T | None:
        options: dict[str, Any] = {"max_age": SESSION_DAYS * 24 * 60 * 60} if purpose == "session" else {}
        try:
            return msgspec.convert(self._serializer(purpose).loads(text, **options), kind)
        except (BadData, msgspec.ValidationError):
            return None
