"""Agreement on sets of tags: tag by tag, and on whole sets by MASI."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxr.metrics.agreement import Agreement, alpha
from ctxr.metrics.votes import Column, Doubles, factorise, gather

Tags = Collection[str]


@dataclass(frozen=True)
class TagAgreement:
    """One tag.

    Attributes:
        tag: its name. agreement: nominal alpha of given or not given. prevalence: share of all votes that give it, 0..1;
            alpha of a tag that hardly anyone gives rests on those few votes.
    """

    tag: str
    agreement: Agreement
    prevalence: float


def masi(left: Tags, right: Tags) -> float:
    """Distance of two sets, 0..1: 1 - J M, with J the share of common tags (Jaccard), and M 1 for equal sets, 2/3 if one
    holds the other, 1/3 if they overlap, 0 if not (Passonneau 2006). Two empty sets are equal.

    >>> masi({"negation"}, {"negation", "spatial"})
    0.6666666666666667
    """
    one, other = frozenset(left), frozenset(right)
    if one == other:
        return 0.0
    common = len(one & other)
    monotone = 2 / 3 if one <= other or other <= one else 1 / 3
    return 1 - common / len(one | other) * monotone


def masi_alpha(units: Column, workers: Column, tags: Sequence[Tags]) -> Agreement:
    """Krippendorff's alpha over sets of tags with MASI's distance as the difference.

    Args:
        units, workers: columns [N]. tags: [N], the set that each worker gave to the unit; empty if none fits.
    """
    codes, sets = factorise([tuple(sorted(set(each))) for each in tags])
    table = np.array([[masi(one, other) for other in sets] for one in sets]).reshape(len(sets), len(sets))
    votes = gather(units, workers, codes)

    def difference(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Doubles:
        apart: Doubles = table[left, right]
        return apart

    return alpha(votes, difference)


def tag_alphas(
    units: Column, workers: Column, tags: Sequence[Tags], names: Sequence[str] | None = None
) -> list[TagAgreement]:
    """Nominal alpha of each tag, in the order of `names`; without, of all tags that were given, by name.

    >>> (only,) = tag_alphas(["a", "a", "b", "b"], ["x", "y", "x", "y"], [["t"], ["t"], [], []])
    >>> only.tag, only.agreement.value, only.prevalence
    ('t', 1.0, 0.5)
    """
    found = sorted(set().union(*map(frozenset, tags))) if names is None else names
    rows = []
    for tag in found:
        given = np.array([tag in each for each in tags], np.int64)
        prevalence = float(given.mean()) if given.size else 0.0
        rows.append(TagAgreement(tag, alpha(gather(units, workers, given)), prevalence))
    return rows
