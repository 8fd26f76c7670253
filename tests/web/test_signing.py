"""Signed tokens: each opens for the purpose and the pages that it was sealed for, and for no other."""

from typing import NamedTuple

import pytest

from ctxr.web.signing import Signer


class Link(NamedTuple):
    one: str
    other: str


class Name(NamedTuple):
    name: str


@pytest.mark.parametrize(
    ("key", "pages", "purpose"),
    [(b"other", "ours", "link"), (b"key", "theirs", "link"), (b"key", "ours", "invitation")],
)
def test_a_token_opens_for_its_own_key_pages_and_purpose_alone(key: bytes, pages: str, purpose: str) -> None:
    ours = Signer(b"key", "ours", {Link: "link", Name: "link"})
    token = ours.sign(Link("a", "b"))
    assert ours.read(Link, token) == ("a", "b")
    assert ours.read(Name, token) is None
    assert Signer(key, pages, {Link: purpose}).read(Link, token) is None
