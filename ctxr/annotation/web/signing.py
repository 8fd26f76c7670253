"""Links, sessions and invitations of workers, signed."""

from typing import NamedTuple

from ctxr.web.signing import Signer


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


class CrowdSigner(Signer):
    """Signs what workers are given. What opens as None was not made here."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key, "ctxr crowd pages")

    def link(self, link: LeaseLink) -> str:
        """The part of an address that stands for one unit and one worker."""
        return self.seal("link", link)

    def read_link(self, text: str) -> LeaseLink | None:
        """The link; None if it was not made here."""
        return self.unseal(LeaseLink, "link", text)

    def session(self, session: Session) -> str:
        """The value of the session's cookie."""
        return self.seal("session", session)

    def read_session(self, text: str) -> Session | None:
        """The session; None if it was not made here, or has ended."""
        return self.unseal(Session, "session", text)

    def invitation(self, name: str) -> str:
        """A personal invitation for a member of a local team; always the same for the same name."""
        return self.seal("invitation", [name])

    def read_invitation(self, text: str) -> str | None:
        """The invited name; None for an invalid invitation."""
        names = self.unseal(tuple[str], "invitation", text)
        return names[0] if names else None

    def picture(self, lease: str, image: str) -> str:
        """A picture's name on the pages of one lease: it tells neither the image nor its order."""
        return self.digest("picture", lease, image)[:16]
