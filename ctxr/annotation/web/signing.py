"""Links, sessions and invitations of workers, signed."""

from typing import NamedTuple, TypeVar

from ctxr.web.signing import Signer


class LeaseLink(NamedTuple):
    """The part of an address that stands for one unit and one worker."""

    lease: str
    worker: str


class Session(NamedTuple):
    """The content of a browser's cookie.

    Attributes:
        nonce: what forms are bound to. worker: empty before somebody enrolled.
        submission: what somebody from Prolific is paid for.
    """

    nonce: str
    worker: str = ""
    platform: str = "local"
    submission: str = ""


class Invitation(NamedTuple):
    """A personal invitation for a member of a local team; its token is always the same for the same name."""

    name: str


_PURPOSES: dict[type, str] = {LeaseLink: "link", Session: "session", Invitation: "invitation"}

T = TypeVar("T", LeaseLink, Session, Invitation)


class CrowdSigner(Signer):
    """Signs what workers are given."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, "ctxr crowd pages")

    def sign(self, content: LeaseLink | Session | Invitation) -> str:
        """The token that stands for the content."""
        return self.seal(_PURPOSES[type(content)], content)

    def read(self, kind: type[T], token: str) -> T | None:
        """The content of a token; None where it was not made here, for another purpose, or is a session that has ended."""
        return self.unseal(kind, _PURPOSES[kind], token)

    def picture(self, lease: str, image: str) -> str:
        """The name of a picture on the pages of one lease; it reveals neither the image nor its position."""
        return self.digest("picture", lease, image)[:16]
