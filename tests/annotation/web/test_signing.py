"""Signed tokens: each opens with its own key and for its own purpose, and for no other."""

from ctxr.annotation.web.signing import Invitation, LeaseLink, Session, Signer


def test_a_token_opens_for_its_own_key_and_purpose_alone() -> None:
    signer = Signer(b"key")
    token = signer.sign(LeaseLink("a", "b"))
    assert signer.read(LeaseLink, token) == ("a", "b")
    assert Signer(b"other").read(LeaseLink, token) is None
    assert signer.read(Session, token) is None
    assert signer.read(Invitation, token) is None
