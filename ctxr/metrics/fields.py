"""What several answers to one field come to, and how far two of them are apart; an answer is a row of numbers.

A choice is 1 for each option that was chosen, else 0; a scale its number; a point x and y, and a box also width and height, 0..1; an
order the rank of each option from 0, NaN where there are fewer than elsewhere.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ctxr.metrics.votes import Doubles

Distance = Callable[[Doubles, Doubles], Doubles]
"""From rows [N, D] and [M, D] to their distances [N, M]."""


class FieldKind(NamedTuple):
    """How far answers are apart, what several [N, D] come to [D], NaN where they are tied, and the power of the distance in alpha."""

    distance: Distance
    answer: Callable[[Doubles], Doubles]
    power: int = 1


def euclidean(one: Doubles, other: Doubles) -> Doubles:
    """The distance of points, or numbers."""
    return np.sqrt(np.square(one[:, None] - other[None]).sum(axis=2))  # type: ignore[no-any-return]


def beyond_overlap(one: Doubles, other: Doubles) -> Doubles:
    """1 - intersection over union of boxes."""
    left, right = one[:, None], other[None]
    ends = np.minimum(left[..., :2] + left[..., 2:], right[..., :2] + right[..., 2:])
    common = np.maximum(0, ends - np.maximum(left[..., :2], right[..., :2])).prod(axis=2)
    areas = left[..., 2:].prod(axis=2) + right[..., 2:].prod(axis=2)
    return 1 - common / (areas - common)  # type: ignore[no-any-return]


def discordance(one: Doubles, other: Doubles) -> Doubles:
    """The share of pairs of options that stand in another order (Kendall's tau distance), of those that both rank."""
    first, second = np.triu_indices(one.shape[1], 1)
    left, right = (np.nan_to_num(np.sign(ranks[:, first] - ranks[:, second])) for ranks in (one, other))
    both = np.abs(left) @ np.abs(right).T
    return (both - left @ right.T) / (2 * np.maximum(both, 1))  # type: ignore[no-any-return]


def masi_distance(one: Doubles, other: Doubles) -> Doubles:
    """`agreement.masi` of sets; of single options 1 where they differ."""
    common, sizes = one @ other.T, (one.sum(axis=1)[:, None], other.sum(axis=1)[None])
    union = sizes[0] + sizes[1] - common
    nested = (common == sizes[0]) | (common == sizes[1])
    overlap = common / np.maximum(union, 1) * np.where(nested, 2 / 3, 1 / 3)
    return np.where(common == union, 0.0, 1 - overlap)


def _commonest(votes: Doubles) -> Doubles:
    counts = votes.sum(axis=0)
    tied = np.count_nonzero(counts == counts.max()) > 1
    return np.full(len(counts), np.nan) if tied else np.eye(len(counts))[counts.argmax()]


def _middle_box(votes: Doubles) -> Doubles:
    edges = np.median(np.concatenate([votes[:, :2], votes[:, :2] + votes[:, 2:]], axis=1), axis=0)
    return np.concatenate([edges[:2], edges[2:] - edges[:2]])


def _by_mean_rank(votes: Doubles) -> Doubles:
    means = votes.mean(axis=0)
    return np.where(np.isnan(means), np.nan, means.argsort(kind="stable").argsort(kind="stable"))


KINDS: Mapping[str, FieldKind] = {
    "choice": FieldKind(masi_distance, _commonest),
    "several": FieldKind(masi_distance, lambda votes: np.where(votes.mean(axis=0) > 0.5, 1.0, 0.0)),
    "scale": FieldKind(euclidean, lambda votes: np.median(votes, axis=0), 2),
    "point": FieldKind(euclidean, lambda votes: np.median(votes, axis=0), 2),
    "box": FieldKind(beyond_overlap, _middle_box),
    "order": FieldKind(discordance, _by_mean_rank),
}
"""Kinds of fields but texts."""
