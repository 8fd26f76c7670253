"""What two splits share although they must not: sources, files, texts, and pictures that look alike."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

EXAMPLES = 3
_ROWS = 2048  # of a block: 2048 x 2048 distances are 16 MB


@dataclass(frozen=True)
class Leak:
    """What two splits share.

    Attributes:
        what: kind of thing. splits: the two, in the order given.
        shared: how many different things lie in both. of: how many different things lie in the second split.
        examples: a few of the shared, in words.
        nearest: for pictures compared by look, the smallest distance between the splits; None where nothing was compared.
    """

    what: str
    splits: tuple[str, str]
    shared: int
    of: int
    examples: tuple[str, ...] = ()
    nearest: float | None = None


def shared_things(what: str, things: Iterable[tuple[str, str, str]], order: Sequence[str]) -> list[Leak]:
    """Leaks for every pair of splits that hold anything.

    Args:
        what: kind of thing, for the result.
        things: (key, split, where it was met) of every occurrence; an empty key is unknown and passed over.
        order: the splits, earliest first.

    >>> shared_things("video", [("a", "train", "s1"), ("a", "test", "s2"), ("b", "test", "s3")], ("train", "test"))[0].shared
    1
    """
    met: dict[str, dict[str, str]] = {split: {} for split in order}
    for key, split, where in things:
        if key and split in met:
            met[split].setdefault(key, where)
    leaks = []
    for one, two in combinations(order, 2):
        if met[one] and met[two]:
            both = sorted(met[one].keys() & met[two].keys())
            examples = tuple(f"{met[one][key]} ({one}) and {met[two][key]} ({two})" for key in both[:EXAMPLES])
            leaks.append(Leak(what, (one, two), len(both), len(met[two]), examples))
    return leaks


def alike(
    what: str, vectors: Floats, names: Sequence[str], splits: Sequence[str], limit: float, order: Sequence[str]
) -> list[Leak]:
    """Leaks for every pair of splits: images of the second with an image of the first at most `limit` away.

    Args:
        what: kind of comparison, for the result.
        vectors: float32 [N, D]; distance is Euclidean.
        names: [N], for examples. splits: [N].
        limit: largest distance that counts as alike.
        order: the splits, earliest first.
    """
    side = np.asarray(splits)
    leaks = []
    for one, two in combinations(order, 2):
        first, second = np.flatnonzero(side == one), np.flatnonzero(side == two)
        if not first.size or not second.size:
            continue
        distances, partner = nearest(vectors[second], vectors[first])
        near: list[int] = np.flatnonzero(distances <= limit).tolist()
        ranked = sorted(near, key=lambda row: (distances[row], names[int(second[row])]))[:EXAMPLES]
        examples = tuple(
            f"{names[int(first[partner[row]])]} ({one}) and {names[int(second[row])]} ({two}), {distances[row]:.4f} apart"
            for row in ranked
        )
        leaks.append(Leak(what, (one, two), len(near), len(second), examples, float(distances.min())))
    return leaks


def nearest(asked: Floats, pool: Floats) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Distance [N] of each row of `asked` to its nearest row of `pool`, and that row's index [N].

    Found by inner products in blocks, measured again by differences in float64, so that equal rows are at 0.
    """
    squares = (np.asarray(pool, np.float32) ** 2).sum(1)
    best = np.full(len(asked), np.inf, np.float32)
    partner = np.zeros(len(asked), np.int64)
    for top in range(0, len(asked), _ROWS):
        block = np.asarray(asked[top : top + _ROWS], np.float32)
        for left in range(0, len(pool), _ROWS):
            part = np.asarray(pool[left : left + _ROWS], np.float32)
            # the block's own squares are the same for the whole row, and do not change which is nearest
            scores = squares[left : left + _ROWS] - 2 * (block @ part.T)
            column = scores.argmin(1)
            found = scores[np.arange(len(block)), column]
            better = found < best[top : top + _ROWS]
            best[top : top + _ROWS][better] = found[better]
            partner[top : top + _ROWS][better] = left + column[better]
    differences = np.asarray(asked, np.float64) - np.asarray(pool, np.float64)[partner]
    return np.sqrt((differences**2).sum(1)), partner
