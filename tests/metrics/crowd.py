"""Crowds for tests: tables of votes, and workers who err at known rates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ctxr.metrics.votes import Votes, gather


def table(rows: Sequence[Sequence[float | str | None]]) -> Votes:
    """Votes of a table worker x unit; None where a worker did not judge."""
    given = [
        (unit, worker, value) for worker, row in enumerate(rows) for unit, value in enumerate(row) if value is not None
    ]
    return gather([each[0] for each in given], [each[1] for each in given], [each[2] for each in given])


@st.composite
def tables(draw: st.DrawFn, workers: int = 5, units: int = 8, kinds: int = 4) -> list[list[float | str | None]]:
    """Tables worker x unit of numbers from 0, with gaps."""
    across, down = draw(st.integers(1, units)), draw(st.integers(1, workers))
    cell = st.one_of(st.none(), st.integers(0, kinds - 1).map(lambda code: float(code * code)))
    return draw(st.lists(st.lists(cell, min_size=across, max_size=across), min_size=down, max_size=down))


@dataclass(frozen=True)
class Picks:
    """Simulated picks of one of K candidates: columns [N], and the truth [U]."""

    units: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.values == self.truth[self.units]
        return found

    def votes(self) -> Votes:
        return gather(self.units, self.workers, self.values)


def pick(
    rng: np.random.Generator,
    units: int,
    each: int,
    accuracy: npt.NDArray[np.float64],
    kinds: int = 10,
    alike: float = 0.0,
) -> Picks:
    """Each unit goes to `each` different workers, who are right with their own accuracy; a wrong pick falls on the unit's
    confusable neighbour with probability `alike`, else evenly on the others."""
    truth = rng.integers(0, kinds, units)
    neighbour = (truth + rng.integers(1, kinds, units)) % kinds
    crowd = len(accuracy)
    workers = np.array([rng.permutation(crowd)[:each] for _ in range(units)]).reshape(-1)
    rows = np.repeat(np.arange(units), each)
    wrong = (truth[rows] + rng.integers(1, kinds, rows.size)) % kinds
    wrong = np.where(rng.random(rows.size) < alike, neighbour[rows], wrong)
    values = np.where(rng.random(rows.size) < accuracy[workers], truth[rows], wrong)
    return Picks(rows, workers, values, truth)
