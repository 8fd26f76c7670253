"""When a unit has votes enough: adaptive k of n (ImageCoDe, section 3.3: 1 of 1, and 2 of 3)."""

from typing import Literal

from ctxr.annotation.records import Unit

Verdict = Literal["open", "accepted", "dropped"]


def verdict(right: int, wrong: int, needed: int, most: int) -> Verdict:
    """What votes say so far: decided as soon as the votes to come cannot change it.

    >>> [verdict(right, wrong, 2, 3) for right, wrong in ((1, 1), (2, 0), (0, 2))]
    ['open', 'accepted', 'dropped']
    """
    if right >= needed:
        return "accepted"
    return "dropped" if most - wrong < needed else "open"


def wanted(unit: Unit, right: int, wrong: int, unknown: int = 0) -> int:
    """How many answers a unit wants in all, given those it has: never more than `unit.most`.

    With a known truth it wants just enough more to be accepted, while that is possible; without one, or with `full`, all.
    """
    if unit.full or not unit.truth:
        return unit.most
    votes = right + wrong + unknown
    if verdict(right, wrong, unit.needed, unit.most) != "open":
        return votes
    return min(unit.most, votes + unit.needed - right)
