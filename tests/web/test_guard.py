"""Limits of any page; what a visitor of a whole site may try stands with the annotation pages."""

import pytest

from ctxr.web.guard import Buckets


def test_a_bucket_fills_again_and_remembers_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.web.guard._MOST_NAMES", 10)
    now = [0.0]
    buckets = Buckets(2, 3, lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    now[0] += 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0, 0.5]
    for number in range(100):
        buckets.take(f"name {number}")
    assert len(buckets.left) <= 11
    assert Buckets(0, 0).take("a") == 0
