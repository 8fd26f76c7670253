"""In which order the pictures of a unit are shown: seeded, the same on every machine, recorded with each answer."""

import hashlib
import hmac
from collections.abc import Sequence


def shown_order(images: Sequence[str], ordered: bool, unit: str, slot: int, seed: int) -> tuple[str, ...]:
    """The images of a unit as the worker in `slot` sees them; of an ordered set, as they are.

    Each image gets the HMAC of unit, slot and its id under the seed, and they are sorted by it: a permutation that depends
    on no library's random numbers and on no hash that changes between runs.
    """
    if ordered:
        return tuple(images)
    return tuple(sorted(images, key=lambda image: digest(seed, unit, str(slot), image)))


def digest(seed: int, *words: str) -> bytes:
    """32 bytes that look like chance and depend on nothing but the seed and the words."""
    return hmac.new(f"ctxr-{seed}".encode(), "\0".join(words).encode(), hashlib.sha256).digest()


def share(seed: int, *words: str) -> float:
    """A number in 0..1, uniform over words: what falls below .1 is a seeded tenth.

    >>> share(0, "unit") == share(0, "unit"), 0 <= share(1, "unit") < 1
    (True, True)
    """
    return int.from_bytes(digest(seed, *words)[:8]) / 2**64
