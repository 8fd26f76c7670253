"""How well found cuts fit known ones."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CutScore:
    """Found cuts next to known ones; all are frame numbers.

    Attributes:
        hits: known hard cuts that were found. missed: those that were not.
        dissolves: how many dissolves have a found cut in their span. dissolves_missed: how many have none.
        false: found cuts that belong to nothing known.
    """

    hits: tuple[int, ...]
    missed: tuple[int, ...]
    dissolves: int
    dissolves_missed: int
    false: tuple[int, ...]

    @property
    def precision(self) -> float:
        """Share of found cuts that belong to a known cut or dissolve; 1.0 when none was found."""
        right = len(self.hits) + self.dissolves
        return right / (right + len(self.false)) if right + len(self.false) else 1.0

    @property
    def recall(self) -> float:
        """Share of known hard cuts that were found; 1.0 when there are none."""
        return len(self.hits) / (len(self.hits) + len(self.missed)) if self.hits or self.missed else 1.0


def score_cuts(
    found: Sequence[int], hard: Sequence[int], dissolves: Sequence[tuple[int, int]] = (), tolerance: int = 0
) -> CutScore:
    """Match each known hard cut with the nearest found cut at most `tolerance` frames away, each found cut at most once.

    A further found cut inside a dissolve (first and last mixed frame, both included, the frame after as well: the new
    shot's first own one) counts for it; more than one in the same dissolve are false.

    >>> score_cuts([30, 77, 90], hard=[30, 76], dissolves=[(88, 95)])
    CutScore(hits=(30,), missed=(76,), dissolves=1, dissolves_missed=0, false=(77,))
    """
    left = sorted(found)
    hits = []
    for cut in sorted(hard):
        near = [one for one in left if abs(one - cut) <= tolerance]
        if near:
            hits.append(cut)
            left.remove(min(near, key=lambda one: (abs(one - cut), one)))
    covered = 0
    for first, last in sorted(dissolves):
        inside = [one for one in left if first <= one <= last + 1]
        if inside:
            covered += 1
            left.remove(inside[0])
    missed = tuple(cut for cut in sorted(hard) if cut not in hits)
    return CutScore(tuple(hits), missed, covered, len(dissolves) - covered, tuple(left))
