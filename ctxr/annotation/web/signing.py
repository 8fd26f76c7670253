"""Signed links, sessions and invitations.

Their content is not secret. Each is signed for one purpose and refused for any other.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from itsdangerous import BadData, URLSafeSerializer, URLSafeTimedSerializer

SESSION_DAYS = 30
_DAY = 24 * 60 * 60


@dataclass(frozen=True)
class LeaseLink:
    """One unit for one worker."""

    lease: str
    worker: str


@dataclass(frozen=True)
class Session:
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
        return str(self._plain("link").dumps([link.lease, link.worker]))

    def read_link(self, text: str) -> LeaseLink | None:
        """The link; None if it was not made here."""
        parts = _texts(2, self._plain("link").loads, text)
        return LeaseLink(*parts) if parts else None

    def session(self, session: Session) -> str:
        """The value of the session's cookie."""
        return str(self._timed("session").dumps(list(astuple(session))))

    def read_session(self, text: str) -> Session | None:
        """The session; None if it was not made here, or more than `SESSION_DAYS` ago."""
        parts = _texts(4, self._timed("session").loads, text, max_age=SESSION_DAYS * _DAY)
        return Session(*parts) if parts else None

    def invitation(self, name: str) -> str:
        """A personal invitation for a member of a local team; always the same for the same name."""
        return str(self._plain("invitation").dumps([name]))

    def read_invitation(self, text: str) -> str | None:
        """The invited name; None for an invalid invitation."""
        parts = _texts(1, self._plain("invitation").loads, text)
        return parts[0] if parts else None

    def form_token(self, nonce: str, address: str) -> str:
        """What a form must bring back: bound to the session and to the one address it posts to."""
        return hmac.new(self._key, f"form\0{nonce}\0{address}".encode(), hashlib.sha256).hexdigest()[:32]

    def is_form_token(self, token: str, nonce: str, address: str) -> bool:
        """Whether the form was made here for this session and address."""
        return hmac.compare_digest(token.encode(), self.form_token(nonce, address).encode())

    def picture(self, lease: str, image: str) -> str:
        """A picture's name on the pages of one lease: it tells neither the image nor its order."""
        return hmac.new(self._key, f"picture\0{lease}\0{image}".encode(), hashlib.sha256).hexdigest()[:16]

    def _plain(self, purpose: str) -> URLSafeSerializer:
        return URLSafeSerializer(self._key, salt=purpose, signer_kwargs=_SHA256)

    def _timed(self, purpose: str) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self._key, salt=purpose, signer_kwargs=_SHA256)


_SHA256 = {"digest_method": hashlib.sha256}


def _texts(count: int, loads: Callable[..., Any], *args: Any, **options: Any) -> list[str] | None:
    """A signed list of `count` texts; None for anything else."""
    try:
        parts = loads(*args, **options)
    except BadData:
        return None
    texts = isinstance(parts, list) and len(parts) == count and all(isinstance(part, str) for part in parts)
    return parts if texts else None
