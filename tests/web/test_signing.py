"""Signed tokens: each opens for the purpose and the pages that it was sealed for, and for no other."""

import pytest

from ctxr.web.signing import Signer


@pytest.mark.parametrize(
    ("key", "pages", "purpose"),
    [(b"other", "ours", "link"), (b"key", "theirs", "link"), (b"key", "ours", "invitation")],
)
def test_a_token_opens_for_its_own_key_pages_and_purpose_alone(key: bytes, pages: str, purpose: str) -> None:
    token = Signer(b"key", "ours").seal("link", ["a", "b"])
    assert Signer(b"key", "ours").unseal(tuple[str, str], "link", token) == ("a", "b")
    assert Signer(b"key", "ours").unseal(tuple[str], "link", token) is None
    assert Signer(key, pages).unseal(tuple[str, str], purpose, token) is None
