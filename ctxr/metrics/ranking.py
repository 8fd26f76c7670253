"""Where the right candidates stand among all: accuracy, recall@k and reciprocal rank, with ties in expectation.

A tie is broken as by a fair coin, and figures are means over all ways to break it: a scorer that gives every candidate the same
value stands at chance, not at 100 %. Nothing is sorted: counting who is above and who is level with the best right candidate is enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError
from ctxr.metrics.votes import Codes, Doubles, Flags

ALL_OF_SET = "all of a set"
"""What tables call the share of sets whose every query is right."""

F = TypeVar("F", bound=np.floating)

BLOCK = 4_000_000
"""Scores compared at a time: a gallery of thousands then needs no second table of its size."""


def untied(scores: npt.NDArray[np.floating], right: Flags, ties: str) -> npt.NDArray[np.floating]:
    """Scores [B, K] in which those that are `right` [B, K] lie a rounding step above the others that they are level with ("first"), or
    below them ("last"); unchanged for "expected". That step, of float64, reaches no other float32.

    >>> untied(np.array([[1.0, 1.0, 2.0]]), np.array([[True, False, False]]), "first").argsort().tolist()
    [[1, 0, 2]]
    """
    if ties == "expected":
        return scores
    exact = np.asarray(scores, np.float64)
    return np.nextafter(
        exact, np.inf if ties == "first" else -np.inf, out=exact.copy(), where=right & (exact > -np.inf)
    )


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Counts that give the rank of the best correct candidate of each of B queries.

    Attributes:
        above: [B] candidates with a higher score. level: [B] those with its score, itself included.
        right: [B] how many of those level with it are right too, at least 1.
        candidates: [B] how many there are. positives: [B] how many of them are right.
    """

    above: Codes
    level: Codes
    right: Codes
    candidates: Codes
    positives: Codes

    def __len__(self) -> int:
        return len(self.above)


def count_ranks(scores: npt.ArrayLike, right: Codes | Flags) -> RankCounts:
    """Compare every candidate with the best right one.

    Args:
        scores: [B, K], higher is better; -inf where there is no candidate.
        right: [B] the position of the one right candidate, or [B, K] which candidates are right.

    Raises DataError for a score that is NaN or +inf, and for a query without a right candidate.

    >>> found = count_ranks(np.array([[3.0, 1.0, 3.0], [0.0, 5.0, 9.0]]), np.array([0, 0]))
    >>> found.above.tolist(), found.level.tolist()
    ([0, 2], [2, 1])
    """
    table = np.asarray(scores)
    parts = [np.zeros((5, 0), np.int64)]
    for rows in row_blocks(len(table), table.shape[1], BLOCK):
        part, right_of = table[rows], right[rows]
        finite_or_absent = part < np.inf
        if not finite_or_absent.all():
            row, column = np.argwhere(~finite_or_absent)[0]
            raise DataError(f"query {rows.start + row}: the score of candidate {column} is {part[row, column]}")
        present = part != -np.inf
        if right_of.ndim == 1:  # half the passes over the table
            good, top = None, part[np.arange(len(part)), right_of][:, None]
            positives = (top[:, 0] != -np.inf).astype(np.int64)
        else:
            good = right_of & present
            positives = np.count_nonzero(good, axis=1)
            top = np.max(part, axis=1, keepdims=True, where=good, initial=-np.inf)
        if not positives.all():
            row = int(np.flatnonzero(positives == 0)[0])
            raise DataError(f"query {rows.start + row}: no candidate is right")
        level = part == top  # the best right candidate is present, so what is level with it or above it is present too
        matched = positives if good is None else np.count_nonzero(level & good, axis=1)
        above, level_of, candidates = (np.count_nonzero(which, axis=1) for which in (part > top, level, present))
        parts.append(np.stack([above, level_of, matched, candidates, positives]))
    return RankCounts(*np.concatenate(parts, axis=1))


def accuracy(counts: RankCounts) -> Doubles:
    """Expected top-1 accuracy [B], 0..1: with one right candidate, 1 / ties if it is among the best, else 0."""
    return cast("Doubles", np.where(counts.above == 0, counts.right / counts.level, 0.0))


def all_right(credit: Doubles, groups: Codes) -> Doubles:
    """The chance that every query of a group is right [G], 0..1, by accuracy [B] and group [B]; independent ties."""
    found = np.ones(int(groups.max(initial=-1)) + 1)
    np.multiply.at(found, groups, credit)
    return found


def recall(counts: RankCounts, k: int) -> Doubles:
    """The chance that one of the first `k` is right [B], 0..1, over all ways to break ties.

    With several right candidates one is enough, as captions are scored on COCO. 0 for `k` below 1.
    """
    missed = np.ones(len(counts))
    for draw in range(max(0, min(k, int(counts.candidates.max(initial=0))))):
        missed = np.where(counts.above + draw < k, _still_missed(counts, draw, missed), missed)
    return 1.0 - missed


def reciprocal_rank(counts: RankCounts) -> Doubles:
    """Mean of 1 / rank of the first right candidate [B], over all ways to break ties; its mean over queries is the MRR."""
    value, missed = np.zeros(len(counts)), np.ones(len(counts))
    for draw in range(int((counts.level - counts.right).max(initial=0)) + 1):
        after = _still_missed(counts, draw, missed)
        value += (missed - after) / (counts.above + draw + 1)
        missed = after
    return value


def chance(counts: RankCounts) -> Doubles:
    """Accuracy of a blind guess [B]: the share of candidates that are right."""
    return counts.positives / counts.candidates


def best(scores: npt.ArrayLike) -> Doubles:
    """How a scorer picks, [B, K]: 1 / ties at each best candidate, 0 elsewhere."""
    table = np.asarray(scores)
    level = (table != -np.inf) & (table == table.max(axis=1, keepdims=True))
    return cast("Doubles", level / level.sum(axis=1, keepdims=True))


def _still_missed(counts: RankCounts, draw: int, missed: Doubles) -> Doubles:
    """Chance that the first `draw + 1` ties are all wrong, given that of the first `draw`."""
    left = np.maximum(counts.level - draw, 1)
    return missed * np.clip(1 - counts.right / left, 0.0, 1.0)


def row_blocks(rows: int, width: int, block: int) -> Iterator[slice]:
    """Rows of a table of that width, at most `block` cells at a time and at least a row."""
    step = max(1, block // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def highest(scores: npt.NDArray[F], most: int) -> npt.NDArray[F]:
    """The `most` highest scores of each row of [b, G], ascending, [b, most]; `most` is of 1..G."""
    return np.sort(np.partition(scores, -most, axis=1)[:, -most:], axis=1)


def best_of_rows(scores: npt.NDArray[np.floating], k: int) -> Codes:
    """The k best candidates of each row of scores [b, G], best first and equal ones by number, [b, k]; k is cut to G."""
    wanted = min(k, scores.shape[1])
    best = np.empty((len(scores), wanted), np.int64)
    if not best.size:
        return best
    for row, edge, chosen in zip(scores, highest(scores, wanted)[:, 0], best, strict=True):
        above = np.flatnonzero(row > edge)
        chosen[: len(above)] = above[np.argsort(-row[above], kind="stable")]
        chosen[len(above) :] = np.flatnonzero(row == edge)[: wanted - len(above)]
    return best
