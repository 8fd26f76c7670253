"""Ids of what answers make: the same answer makes the same rows, whenever and however often it is imported."""

import hashlib


def made_id(prefix: str, *parts: str) -> str:
    """An id from what it is made of.

    >>> made_id("q", "unit", "worker") == made_id("q", "unit", "worker")
    True
    """
    return f"{prefix}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


def query_of(unit: str, worker: str) -> str:
    """The query that a worker's description in a unit makes."""
    return made_id("q", unit, worker)
