"""Limits and tokens of any page; what a visitor of a whole site may try stands with the annotation pages."""

import pytest

from ctxr.web.guard import Buckets
from ctxr.web.signing import Signer


def test_a_bucket_fills_again_and_remembers_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.web.guard._MOST_NAMES", 10)
    now = [0.0]
    buckets = Buckets(2, 3, lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    now[0] += 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0, 0.5]
    for number in range(100):
        buckets.take(f"name {number}")
    assert len(buckets._left) <= 11
    assert Buckets(0, 0).take("a") == 0


def test_a_token_opens_on_its_own_pages_for_its_own_purpose() -> None:
    signer = Signer(b"k" * 32, "search pages")
    token = signer.seal("link", ["a", "b"])
    assert signer.unseal(tuple[str, str], "link", token) == ("a", "b")
    assert signer.unseal(tuple[str, str], "invitation", token) is None
    assert signer.unseal(tuple[str], "link", token) is None
    assert Signer(b"k" * 32, "other pages").unseal(tuple[str, str], "link", token) is None
    assert Signer(b"other" * 8, "search pages").unseal(tuple[str, str], "link", token) is None
