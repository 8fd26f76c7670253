"""Whether picks follow the place where an image was shown, and how far from the target wrong picks of a video fall."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ctxr.metrics.positions import Confusion, PositionBias, errors_by_distance, neighbour_confusion, position_bias
from ctxr.pipelines.aggregating.ballots import RetrieverPick, of_kind
from ctxr.pipelines.result_tables import Table


@dataclass(frozen=True)
class Habit:
    """Picks on sets of one kind and size.

    Attributes:
        bias: picks by shown place against what accuracy and the places of the targets lead one to expect.
        confusion: wrong picks by their distance from the target; None where the order means nothing.
    """

    kind: str
    size: int
    bias: PositionBias
    confusion: Confusion | None

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def habits(picks: Sequence[RetrieverPick], rng: np.random.Generator) -> list[Habit]:
    """One row for each kind and size of set, over all workers."""
    rows = []
    for kind in sorted({one.kind for one in picks}, reverse=True):
        for size in sorted({len(one.unit.images) for one in of_kind(picks, kind)}):
            some = [one for one in of_kind(picks, kind) if len(one.unit.images) == size]
            shown, target = np.array([one.place for one in some]), np.array([one.target for one in some])
            ordered = all(one.unit.ordered for one in some)
            confusion = neighbour_confusion(shown, target, size) if ordered else None
            errors = errors_by_distance(confusion) if confusion else None
            rows.append(Habit(kind, size, position_bias(shown, target, size, errors, rng), confusion))
    return rows


def table(rows: Sequence[Habit]) -> Table:
    """Habits as a table for people."""
    shown = tuple(
        (
            f"{row.kind}, sets of {row.size}",
            row.bias.votes,
            row.bias.wrong,
            row.bias.p_value,
            f"{row.confusion.observed[0]} ({row.confusion.expected[0]:.1f})" if row.confusion else None,
        )
        for row in rows
    )
    note = (
        "p: how often a crowd that does not mind the place looks at least as odd; neighbours: wrong picks right beside the "
        "target, and in brackets as many as if wrong picks fell evenly"
    )
    return Table("Habits of place", ("picks on", "votes", "wrong", "p", "neighbours"), shown, note)
